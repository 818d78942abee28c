"""Detect the format of a recording by its content, and open it."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import h5py
import numpy as np

from igbss_stream.errors import RecordingError
from igbss_stream.files.first_look import look_at_first_samples
from igbss_stream.files.montage import locate_recording
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.binary.egi import is_egi, open_egi
from igbss_stream.files.readers.hdf5.reader import open_hdf5
from igbss_stream.files.readers.mne_formats import detect_mne_format, is_recording_folder
from igbss_stream.files.readers.seismic import is_sac, open_sac
from igbss_stream.files.recording import Recording

_N_HEAD = 4096  # bytes at the start of a file that identify its format
_MINISEED = re.compile(rb"\d{6}[DRQM][ \0]")
_HDF5_ENDINGS = (".h5", ".hdf5", ".hdf", ".nwb", ".snirf")
ENDINGS = (
    *_HDF5_ENDINGS,
    *(".edf", ".bdf", ".gdf", ".vhdr", ".fif", ".set", ".xdf", ".cnt", ".cdt", ".dap", ".lay", ".nedf"),
    *(".mff", ".raw", ".mseed", ".hea", ".tdms"),
)
"""Suffixes of recordings, for which a folder is searched."""

_ANT = (
    "is CNT of ANT, whose library may crash on damaged files; convert it: pip install mne antio, then "
    "mne.io.read_raw_ant(name, preload=True).save('x_raw.fif')"
)
# Files that cannot be read, by their first bytes, and what to do instead.
_REFUSED_HEADS = (
    (re.compile(rb"(?s)RIFF.{4}CNT |RF64.{8}CNT "), _ANT),
    (re.compile(rb"\x1f\x8b"), "is compressed; unpack it first (gunzip)"),
    (re.compile(rb"II\*\0|MM\0\*"), "is an image, not a recording; store its channels as /data in HDF5"),
    (
        re.compile(rb"Brain Vision Data Exchange Marker"),
        "contains the markers of a recording; pass the .vhdr file next to it",
    ),
)
# The same by suffix.
_REFUSED_ENDINGS = {
    ".cnt": "is neither CNT of Neuroscan, version 3, nor of ANT; convert it to EDF where it was recorded",
    ".eeg": "contains the samples of a BrainVision recording; pass the .vhdr file next to it",
    ".fdt": "contains the samples of an EEGLAB set without their header; pass the .set file next to it",
    ".locs": "contains electrode positions, no samples; pass the recording",
}


@np.errstate(over="ignore", invalid="ignore")  # a file may state any number, and what follows is checked
def open_with_options(
    path: str | os.PathLike[str], options: ReadOptions, *, only_first: bool = False
) -> Recording:
    """Open a recording in a file of any format.

    Parameters
    ----------
    path : str or path
    options : ReadOptions
    only_first : bool, default=False
        Whether to leave the channel of a counter unread, which shows what is missing.

    Returns
    -------
    Recording

    Raises
    ------
    IgbssError
        If the file cannot be read, lacks required information, or cannot be separated.
    """
    recording = _open(Path(path), options)
    try:
        recording.is_selection = options.channels is not None
        recording.missing = options.missing
        look_at_first_samples(recording, only_first=only_first)
        locate_recording(recording, options.montage)
    except BaseException:
        recording.close()
        raise
    return recording


def _open(path: Path, options: ReadOptions) -> Recording:
    if is_hdf5(path):
        return open_hdf5(path, options)
    head = b"" if is_recording_folder(path) else _read_head(path)
    kind = detect_mne_format(path, head)
    if kind is not None:
        from igbss_stream.files.readers.mne import open_with_mne

        return open_with_mne(path, options, *kind)
    if head.startswith(b"XDF:"):
        from igbss_stream.files.readers.xdf import open_xdf

        return open_xdf(path, options)
    opener = _find_opener(path, head)
    if opener is not None:
        return opener(path, options)
    for start, reason in _REFUSED_HEADS:
        if start.match(head):
            raise RecordingError(f"{str(path)!r} {reason}")
    if path.suffix.lower() in _REFUSED_ENDINGS:
        raise RecordingError(f"{str(path)!r} {_REFUSED_ENDINGS[path.suffix.lower()]}")
    from igbss_stream.files.readers.text.lines import detect_encoding

    if detect_encoding(head) is None:
        raise RecordingError(
            f"{str(path)!r} has an unknown format; pass the header file (.vhdr, .set) if there is one, or "
            "convert it first (see docs/reading.md)"
        )
    from igbss_stream.files.readers.text.reader import open_text

    return open_text(path, options)


def _read_head(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_N_HEAD)
    except OSError as error:
        raise RecordingError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def _find_opener(path: Path, head: bytes) -> Callable[[Path, ReadOptions], Recording] | None:
    """Return the reader of a format that is read as an array; None for other formats."""
    suffix = path.suffix.lower()
    if head.startswith(b"\x93NUMPY"):
        from igbss_stream.files.readers.arrays import open_npy

        return open_npy
    if head[:4] in (b"RIFF", b"RIFX", b"RF64") and head[8:12] == b"WAVE":
        from igbss_stream.files.readers.arrays import open_wav

        return open_wav
    if head[:6] == b"MATLAB" or suffix == ".mat":
        from igbss_stream.files.readers.arrays import open_matlab

        return open_matlab
    if head.startswith(b"Version 3"):
        from igbss_stream.files.readers.binary.neuroscan import open_cnt

        return open_cnt
    if is_egi(head):
        return open_egi
    if head[:64].lstrip().lower().startswith(b"[fileinfo]"):
        from igbss_stream.files.readers.binary.persyst import open_persyst

        return open_persyst
    if head.startswith(b"GDF "):
        from igbss_stream.files.readers.binary.gdf import open_gdf

        return open_gdf
    if head.startswith(b"TDSm"):
        from igbss_stream.files.readers.waveforms import open_tdms

        return open_tdms
    if _MINISEED.match(head):
        from igbss_stream.files.readers.seismic import open_miniseed

        return open_miniseed
    if is_sac(head, path.stat().st_size):
        return open_sac
    if suffix == ".hea":
        from igbss_stream.files.readers.waveforms import open_wfdb

        return open_wfdb
    return None


def is_named_as_recording(path: Path) -> bool:
    """Return whether a folder search includes a file, by its suffix; .raw must be of EGI, or unreadable."""
    suffix = path.suffix.lower()
    if suffix != ".raw":
        return suffix in ENDINGS
    try:
        return is_egi(_read_head(path))
    except RecordingError:
        return True


def is_hdf5(path: Path) -> bool:
    """Return whether to open a file as HDF5. Also True for a missing file: its reader reports it."""
    if is_recording_folder(path):
        return False
    return not os.path.isfile(path) or path.suffix.lower() in _HDF5_ENDINGS or bool(h5py.is_hdf5(path))


def open_recording(
    path: str | os.PathLike[str],
    dataset: str | None = None,
    axis: int | None = None,
    rate: float | None = None,
    *,
    channels: Sequence[str] | str | None = None,
    factor: float | None = None,
    unit: str | None = None,
    events: Sequence[str] | str | None = None,
    montage: str | None = None,
    missing: float | None = None,
) -> Recording:
    """Open a recording in a file of any format.

    Parameters
    ----------
    path : str or path
    dataset, axis, rate, channels, factor, unit, events, montage, missing
        See `ReadOptions`.

    Returns
    -------
    Recording
    """
    options = ReadOptions(dataset, axis, rate, channels, factor, unit, events, montage, missing)
    return open_with_options(path, options)
