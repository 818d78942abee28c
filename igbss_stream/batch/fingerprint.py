"""What an output depends on, as JSON: `--resume` compares it with what an earlier run left there.

A file is known by its name, its size and when it was changed, not by its folder: recordings and outputs
may be moved together. Arrays are told by a digest.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.version import __version__
from igbss_stream.errors import RecordingError
from igbss_stream.separation.transform import Transform

# A file that describes samples, and the endings of those beside it that hold them.
_BESIDE = {".vhdr": (".eeg", ".dat", ".vmrk"), ".set": (".fdt",)}
_TOLD = 3  # differences that a message lists

Fingerprint = dict[str, Any]


def fingerprint(**depends: Any) -> Fingerprint:
    """Return what an output depends on, and the version that makes it.

    Parameters
    ----------
    **depends
        Recordings as `of_file` tells them, settings and options.

    Returns
    -------
    dict
        As JSON gives it back.
    """
    made: Fingerprint = described({**depends, "version": __version__})
    return made


def of_file(path: Path) -> Fingerprint:
    """Return what a recording is known by, with the files beside it that hold its samples.

    Parameters
    ----------
    path : Path

    Returns
    -------
    dict

    Raises
    ------
    RecordingError
        If it is not there.
    """
    beside = [path.with_suffix(ending) for ending in _BESIDE.get(path.suffix.lower(), ())]
    try:
        return _stat(path) | {"beside": [_stat(other) for other in beside if other.is_file()]}
    except OSError as error:
        raise RecordingError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def _stat(path: Path) -> Fingerprint:
    found = os.stat(path)
    name = os.fsencode(path.name).decode(errors="replace")
    return {"name": name, "size": found.st_size, "mtime_ns": found.st_mtime_ns}


def described(value: Any) -> Any:
    """Return anything that settings hold as JSON gives it back.

    Parameters
    ----------
    value : object
        Numbers, text, paths, arrays, lists, dicts, frozen dataclasses.

    Returns
    -------
    object
    """
    if isinstance(value, dict):
        return {str(key): described(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        name = {"name": value.name} if isinstance(value, Transform) else {}
        return name | {field.name: described(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "sha256": digest(value)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [described(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def digest(*values: Any) -> str:
    """Return one digest of arrays and of what JSON can hold.

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
            total.update(json.dumps(described(value), sort_keys=True).encode())
    return total.hexdigest()


def differences(before: Fingerprint, now: Fingerprint) -> str:
    """Say what differs between two fingerprints; empty if nothing does.

    Parameters
    ----------
    before, now : dict

    Returns
    -------
    str
    """
    old, new = dict(_leaves(before)), dict(_leaves(now))
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    told = [f"{key} was {_shown(old.get(key))}, is {_shown(new.get(key))}" for key in keys[:_TOLD]]
    return "; ".join([*told, *([f"and {len(keys) - _TOLD} more"] if len(keys) > _TOLD else [])])


def _leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{at}.{key}" if at else key)
    else:
        yield at, value


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
