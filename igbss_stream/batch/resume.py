"""Skip what an earlier run completed: compare outputs by a fingerprint of everything they depend on.

The fingerprint is stored in the output as JSON. It identifies a file by its name, size and modification
time, not by its folder, so recordings and outputs may be moved together. Arrays enter as digests.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.version import __version__
from igbss_stream.errors import RecordingError
from igbss_stream.files.results.output import OutputFacts, read_output_facts
from igbss_stream.files.writers.locking import get_partial_path, remove_leftover
from igbss_stream.separation.transform import Transform

# Files that describe samples, and the extensions of the files beside them that contain the samples.
_BESIDE = {
    ".vhdr": (".eeg", ".dat", ".vmrk"),
    ".set": (".fdt",),
    ".hea": (".dat", ".atr"),
    ".lay": (".dat",),
    ".dap": (".dat", ".rs3", ".cef"),
    ".cdt": (".cdt.dpa", ".cdt.dpo", ".cdt.cef"),
    ".eeg": (".21E", ".LOG", ".PNT"),
}
_LISTED = 3  # differences listed in a message

Fingerprint = dict[str, Any]


def make_fingerprint(**depends: Any) -> Fingerprint:
    """Return the fingerprint of everything an output depends on, including the version.

    Parameters
    ----------
    **depends
        Fingerprints of recordings, settings and options.

    Returns
    -------
    dict
        In the types of JSON.
    """
    made: Fingerprint = to_plain({**depends, "version": __version__})
    return made


def fingerprint_file(path: Path, more: Sequence[Path] = ()) -> Fingerprint:
    """Return the fingerprint of a recording and of the files that contain its samples and positions.

    Parameters
    ----------
    path : Path
    more : sequence of Path
        Files besides those that contain the samples.

    Returns
    -------
    dict

    Raises
    ------
    RecordingError
        If the file cannot be read.
    """
    beside = [path.with_suffix(ending) for ending in _BESIDE.get(path.suffix.lower(), ())]
    beside += sorted(path.iterdir()) if path.is_dir() else []
    beside += more
    try:
        return _stat(path) | {"beside": [_stat(other) for other in beside if other.is_file()]}
    except OSError as error:
        raise RecordingError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def _stat(path: Path) -> Fingerprint:
    found = os.stat(path)
    name = os.fsencode(path.name).decode(errors="replace")
    return {"name": name, "size": found.st_size, "mtime_ns": found.st_mtime_ns}


def to_plain(value: Any) -> Any:
    """Convert any value of settings to the types of JSON.

    Parameters
    ----------
    value : object
        Numbers, text, paths, arrays, lists, dicts or frozen dataclasses.

    Returns
    -------
    object
    """
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        name = {"name": value.name} if isinstance(value, Transform) else {}
        return name | {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "sha256": digest(value)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def digest(*values: Any) -> str:
    """Return one SHA-256 digest of arrays and JSON values.

    Parameters
    ----------
    *values : ndarray or object

    Returns
    -------
    str
    """
    total = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            total.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
        else:
            total.update(json.dumps(to_plain(value), sort_keys=True).encode())
    return total.hexdigest()


def describe_differences(before: Fingerprint, now: Fingerprint) -> str:
    """Describe the differences of two fingerprints; empty if they are equal.

    Parameters
    ----------
    before, now : dict

    Returns
    -------
    str
    """
    old, new = dict(_iterate_leaves(before)), dict(_iterate_leaves(now))
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    listed = [
        f"{key} was {_abbreviate(old.get(key))}, is {_abbreviate(new.get(key))}" for key in keys[:_LISTED]
    ]
    return "; ".join([*listed, *([f"and {len(keys) - _LISTED} more"] if len(keys) > _LISTED else [])])


def _iterate_leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _iterate_leaves(item, f"{at}.{key}" if at else key)
    else:
        yield at, value


def _abbreviate(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def find_earlier_output(output: Path, now: Fingerprint, *, overwrite: bool) -> OutputFacts | None:
    """Return the facts of an existing output if its fingerprint matches.

    Parameters
    ----------
    output : Path
    now : dict
        Fingerprint of the output to write.
    overwrite : bool
        Whether an output with another fingerprint may be replaced.

    Returns
    -------
    OutputFacts or None
        None if the output is to be replaced.

    Raises
    ------
    RecordingError
        If the fingerprint differs and `overwrite` is false.
    """
    try:
        earlier = read_output_facts(output)
        differs = "it does not state what it was made from"
        if earlier.job is not None:
            differs = describe_differences(earlier.job, now)
    except RecordingError as error:
        differs = str(error)
    if not differs:
        remove_leftover(get_partial_path(output))
        return earlier
    if overwrite:
        return None
    raise RecordingError(
        f"'{output}' exists and differs from what would be written now: {differs}; pass --overwrite to "
        "replace it, or choose another output"
    )


def make_folder(output: Path) -> None:
    """Create the folder of an output if it is missing.

    Parameters
    ----------
    output : Path

    Raises
    ------
    RecordingError
        If it cannot be created.
    """
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordingError(
            f"'{output}' cannot be written: its folder cannot be created ({error.strerror}); choose "
            "another output"
        ) from error
