"""Open a recording in a file of any format, told by its content."""

import os
from collections.abc import Sequence
from pathlib import Path

import h5py

from igbss_stream.errors import RecordingError
from igbss_stream.files.read_options import Wanted
from igbss_stream.files.readers.hdf5.reader import open_wanted
from igbss_stream.files.recording import Recording

_HEAD = 4096  # bytes that a format is told by
_ENDINGS_OF_HDF5 = (".h5", ".hdf5", ".hdf", ".nwb", ".snirf")
ENDINGS = (*_ENDINGS_OF_HDF5, ".edf", ".bdf", ".vhdr", ".fif", ".set", ".xdf")
"""Of names that tell a recording: what a folder is searched for."""

# What is no recording that can be read, by its first bytes, and what to do instead.
_OTHERS = (
    (b"\x1f\x8b", "is compressed; unpack it first (gunzip)"),
    (b"II*\0", "is an image, not a recording; store its channels as /data in HDF5"),
    (b"MM\0*", "is an image, not a recording; store its channels as /data in HDF5"),
    (b"Brain Vision Data Exchange Marker", "holds the marks of a recording; give the .vhdr beside it"),
)
# The same by the ending of the name.
_ENDINGS = {
    ".fdt": "holds the samples of an EEGLAB set without their description; give the .set beside it",
    ".mseed": "is miniSEED, which is not read; load it with obspy and store it as /data in HDF5",
    ".hea": "is a head of WFDB, which is not read; write the record as EDF (mit2edf) or HDF5",
    ".mat": "is of MATLAB before 7.3; save it again with save(..., '-v7.3')",
    ".locs": "holds places of electrodes, no samples; give the recording",
}


def open_file_of_any_kind(path: str | os.PathLike[str], wanted: Wanted) -> Recording:
    """Open a recording in a file of any format.

    Parameters
    ----------
    path : str or path
    wanted : Wanted

    Returns
    -------
    Recording

    Raises
    ------
    IgbssError
        If the file cannot be read, does not tell what must be known, or cannot be separated.
    """
    path = Path(path)
    if is_hdf5(path):
        return open_wanted(path, wanted)  # which also says what is wrong with what is no file
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise RecordingError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    kind = _kind_for_mne(path, head)
    if kind is not None:
        from igbss_stream.files.readers.mne import open_with_mne

        return open_with_mne(path, wanted, *kind)
    if head.startswith(b"XDF:"):
        from igbss_stream.files.readers.xdf import open_xdf

        return open_xdf(path, wanted)
    for start, reason in _OTHERS:
        if head.startswith(start):
            raise RecordingError(f"{str(path)!r} {reason}")
    if path.suffix.lower() in _ENDINGS:
        raise RecordingError(f"{str(path)!r} {_ENDINGS[path.suffix.lower()]}")
    if not head or b"\0" in head or not _is_text(head):
        raise RecordingError(
            f"{str(path)!r} is of no format that is read; give the file that describes it (.vhdr, .set) or "
            "convert it first: see docs/reading.md"
        )
    from igbss_stream.files.readers.text import open_text

    return open_text(path, wanted)


def is_hdf5(path: Path) -> bool:
    """Return whether a file is taken as HDF5; also where there is none, to say so."""
    return not path.is_file() or path.suffix.lower() in _ENDINGS_OF_HDF5 or bool(h5py.is_hdf5(path))


def open_recording(
    path: str | os.PathLike[str],
    dataset: str | None = None,
    axis: int | None = None,
    rate: float | None = None,
    *,
    channels: Sequence[str] | str | None = None,
    factor: float | None = None,
    unit: str | None = None,
) -> Recording:
    """Open a recording in a file of any format; see `Wanted` for the options.

    Parameters
    ----------
    path : str or path
    dataset, axis, rate, channels, factor, unit
        See `Wanted`.

    Returns
    -------
    Recording
    """
    return open_file_of_any_kind(path, Wanted(dataset, axis, rate, channels, factor, unit))


def _kind_for_mne(path: Path, head: bytes) -> tuple[str, str] | None:
    """Return the name of a format that MNE reads, and what it was told by."""
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
        return "EEGLAB set", "it is of MATLAB before 7.3 and called .set"
    return None


def _is_text(head: bytes) -> bool:
    try:
        head[:-4].decode("utf-8")  # the end may be half a character
    except UnicodeDecodeError:
        return False
    return True
