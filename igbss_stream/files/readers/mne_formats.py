"""The formats that MNE reads here: how to recognize them, and what MNE needs for them."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from igbss_stream._util.memory import check_memory
from igbss_stream._util.optional import require
from igbss_stream.files.readers.fif_tags import check_tags
from igbss_stream.files.readers.matlab5 import check_matlab_file

_BRAINVISION = (b"brain vision data exchange header", b"brainvision data exchange header")
_CURRY_HEADERS = (".dap", ".rs3", ".cef", ".ceo", ".dpa", ".dpo")
_COPIES = 4  # of a file of Curry, in memory


@dataclass(frozen=True)
class MneFormat:
    """A format that MNE reads.

    Parameters
    ----------
    endings : tuple of str
        Of the names of files that MNE reads; empty for any.
    reader : str
        Function of `mne.io`.
    keywords : dict
        Of this function.
    libraries : tuple of str
        Modules that MNE imports for this format, from the extra `eeg`.
    check : callable, optional
        Refuses damaged files from which MNE may not return, or that are too large; called before MNE.
    block : int
        Samples that MNE only reads from a multiple of this number on.
    guesses_types : bool
        Whether MNE guesses the types of channels, and their units from these, by parts of their names. The
        samples are volts then.
    """

    endings: tuple[str, ...] = ()
    reader: str = "read_raw"
    keywords: dict[str, Any] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    check: Callable[[Path], None] | None = None
    block: int = 1
    guesses_types: bool = False


def _check_size(path: Path) -> None:
    """Refuse a recording of Curry that is too large for memory, which its reader loads as a whole."""
    beside = (path, path.with_suffix(""), path.with_suffix(".dat"), path.with_suffix(".cdt"))
    size = max((each.stat().st_size for each in beside if each.is_file()), default=0)
    check_memory(
        _COPIES * size, f"{str(path)!r} must be read at once, which", "export it from Curry as EDF or BDF"
    )


def _silence_mffpy(path: Path) -> None:
    """Keep the reader of EGI from printing and logging: results are written to standard output."""
    logging.getLogger("XMLType").setLevel(logging.WARNING)
    reader = require("mffpy.reader", "eeg", f"{str(path)!r} is EGI MFF, read by MNE with mffpy")
    reader.print = lambda *texts: None


FORMATS = {
    "EDF": MneFormat((".edf",)),
    "BDF": MneFormat((".bdf",)),
    "BrainVision": MneFormat((".vhdr", ".ahdr")),
    "FIF": MneFormat((".fif",), check=check_tags),
    "EEGLAB set": MneFormat((".set",), check=check_matlab_file),
    "EGI MFF": MneFormat(
        (".mff",), "read_raw_egi", {"events_as_annotations": True}, ("mffpy", "defusedxml"), _silence_mffpy
    ),
    "Curry": MneFormat((), "read_raw_curry", libraries=("curryreader",), check=_check_size),
    "nedf": MneFormat((), "read_raw_nedf", libraries=("defusedxml",), block=5),
    "Nihon Kohden": MneFormat((), "read_raw_nihon", guesses_types=True),
}


def is_recording_folder(path: Path) -> bool:
    """Return whether a folder is a single recording: those of EGI (.mff) are."""
    return path.suffix.lower() == ".mff" and path.is_dir()


def detect_mne_format(path: Path, head: bytes) -> tuple[str, str] | None:
    """Return the name of a format that MNE reads, and how it was detected; None for other formats.

    Parameters
    ----------
    path : Path
    head : bytes
        Start of the file; empty for a folder.
    """
    suffix = path.suffix.lower()
    if is_recording_folder(path):
        return "EGI MFF", "it is a folder and its name ends in .mff"
    if head[:8] == b"\xffBIOSEMI":
        return "BDF", "it begins with BIOSEMI"
    if head[:8] == b"0       " and len(head) >= 256:
        return "EDF", "it begins with version 0 of EDF"
    if head[:80].lower().lstrip(b"\xef\xbb\xbf").startswith(_BRAINVISION):
        return "BrainVision", "its first line says so"
    if head[:4] == b"\0\0\0\x64":
        return "FIF", "it begins with the tag of a FIF file"
    if head[:6] == b"MATLAB" and suffix == ".set":
        return "EEGLAB set", "it is a MATLAB file before version 7.3 and its name ends in .set"
    if head[:4] in (b"EEG-", b"QI-4", b"DAE-") and head[0x81:0x85] in (b"EEG-", b"QI-4", b"DAE-"):
        return "Nihon Kohden", "it begins with the name of a device"
    if suffix == ".nedf" and head.lstrip().startswith(b"<"):
        return "nedf", "its name ends in .nedf"
    if suffix == ".cdt" or suffix in _CURRY_HEADERS or (suffix == ".dat" and _has_curry_header(path)):
        return "Curry", f"its name ends in {suffix}"
    return None


def _has_curry_header(path: Path) -> bool:
    return path.with_suffix(".dap").is_file()
