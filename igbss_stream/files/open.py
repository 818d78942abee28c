"""Detect the format of a recording by its content, and open it."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import h5py

from igbss_stream.errors import RecordingError
from igbss_stream.files.first_look import look_at_first_samples
from igbss_stream.files.montage import locate_recording
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.hdf5.reader import open_hdf5
from igbss_stream.files.recording import Recording

_N_HEAD = 4096  # bytes at the start of a file that identify its format
_MINISEED = re.compile(rb"\d{6}[DRQM][ \0]")
_HDF5_ENDINGS = (".h5", ".hdf5", ".hdf", ".nwb", ".snirf")
ENDINGS = (*_HDF5_ENDINGS, ".edf", ".bdf", ".vhdr", ".fif", ".set", ".xdf", ".mseed", ".hea", ".tdms")
"""Suffixes of recordings, for which a folder is searched."""

# Files that cannot be read, by their first bytes, and what to do instead.
_CONVERTED = "is {}; convert it: mne.io.read_raw(name, preload=True).save('x_raw.fif')"
_REFUSED_HEADS = (
    (b"GDF ", _CONVERTED.format("GDF")),
    (b"[FileInfo]", _CONVERTED.format("a header of Persyst (.lay)")),
    (b"\x1f\x8b", "is compressed; unpack it first (gunzip)"),
    (b"II*\0", "is an image, not a recording; store its channels as /data in HDF5"),
    (b"MM\0*", "is an image, not a recording; store its channels as /data in HDF5"),
    (
        b"Brain Vision Data Exchange Marker",
        "contains the markers of a recording; pass the .vhdr file next to it",
    ),
)
# The same by suffix.
_REFUSED_ENDINGS = {
    ".cnt": _CONVERTED.format("CNT of Neuroscan or ANT"),
    ".cdt": _CONVERTED.format("a recording of Curry"),
    ".nedf": _CONVERTED.format("nedf of Neuroelectrics"),
    ".eeg": f"has samples of a .vhdr, which should be passed, or {_CONVERTED.format('of Nihon Kohden')}",
    ".sac": "is SAC, which has one channel; merge the channels into miniSEED with ObsPy",
    ".fdt": "contains the samples of an EEGLAB set without their header; pass the .set file next to it",
    ".locs": "contains electrode positions, no samples; pass the recording",
}


def open_with_options(path: str | os.PathLike[str], options: ReadOptions) -> Recording:
    """Open a recording in a file of any format.

    Parameters
    ----------
    path : str or path
    options : ReadOptions

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
        look_at_first_samples(recording)
        locate_recording(recording, options.montage)
    except BaseException:
        recording.close()
        raise
    return recording


def _open(path: Path, options: ReadOptions) -> Recording:
    if is_hdf5(path):
        return open_hdf5(path, options)
    try:
        with open(path, "rb") as file:
            head = file.read(_N_HEAD)
    except OSError as error:
        raise RecordingError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    kind = _detect_mne_format(path, head)
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
        if head.startswith(start):
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
    if head.startswith(b"TDSm"):
        from igbss_stream.files.readers.waveforms import open_tdms

        return open_tdms
    if _MINISEED.match(head):
        from igbss_stream.files.readers.waveforms import open_miniseed

        return open_miniseed
    if suffix == ".hea":
        from igbss_stream.files.readers.waveforms import open_wfdb

        return open_wfdb
    return None


def is_hdf5(path: Path) -> bool:
    """Return whether to open a file as HDF5. Also True for a missing file: its reader reports it."""
    return not path.is_file() or path.suffix.lower() in _HDF5_ENDINGS or bool(h5py.is_hdf5(path))


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


def _detect_mne_format(path: Path, head: bytes) -> tuple[str, str] | None:
    """Return the name of a format that MNE reads, and the reason; None for other formats."""
    if head[:8] == b"\xffBIOSEMI":
        return "BDF", "it begins with BIOSEMI"
    if head[:8] == b"0       " and len(head) >= 256:
        return "EDF", "it begins with version 0 of EDF"
    if (
        head[:80]
        .lower()
        .lstrip(b"\xef\xbb\xbf")
        .startswith((b"brain vision data exchange header", b"brainvision data exchange header"))
    ):
        return "BrainVision", "its first line says so"
    if head[:4] == b"\0\0\0\x64":
        return "FIF", "it begins with the tag of a FIF file"
    if head[:6] == b"MATLAB" and path.suffix.lower() == ".set":
        return "EEGLAB set", "it is a MATLAB file before version 7.3 and its name ends in .set"
    return None
