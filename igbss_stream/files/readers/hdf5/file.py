"""What every reader of HDF5 needs: opening a file, and asking an object what it is.

Whatever h5py raises becomes an `IgbssError` that names the thing and the remedy.
"""

import errno
import math
import os
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from igbss_stream._util.compression import register_plugins
from igbss_stream._util.dtypes import get_working_dtype, make_dtype_error
from igbss_stream.errors import IgbssError, InputError, RecordingError
from igbss_stream.files.messages import check_counts, one_line

# What h5py raises when a file, a link, a type or an attribute is broken; it depends on the version.
LIBRARY_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError)

NO_HDF5 = "is not an HDF5 file"
# What HDF5 says when it cannot open a file, and what that means to the user.
_OPEN_ERRORS = {
    "unable to lock file": "is locked by a program that writes it; wait until that has finished, or, "
    "if the disk cannot lock files, set HDF5_USE_FILE_LOCKING=FALSE",
    "file signature not found": f"{NO_HDF5}; convert it first, or give another file",
    "truncated file": "is truncated; copy or record it again",
    "already open for write": "was not closed properly; if no program writes it any more, repair a "
    "copy of it with 'h5clear -s'",
}


def open_file(path: Path) -> Any:
    """Open an HDF5 file for reading."""
    if os.path.isdir(path):
        raise RecordingError(f"{str(path)!r} is a directory; give the path of a file")
    if not os.path.exists(path):
        raise RecordingError(f"{str(path)!r} does not exist; check the path")
    if not os.path.isfile(path):
        # Opening a pipe would wait for ever.
        raise RecordingError(f"{str(path)!r} is not a regular file; copy its content into one")
    try:
        return h5py.File(path, "r")
    except LIBRARY_ERRORS as error:
        raise RecordingError(f"{str(path)!r} {_open_reason(error)}") from error


@contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Turn what h5py raises for a damaged file into a `RecordingError`."""
    try:
        yield
    except IgbssError:
        raise
    except LIBRARY_ERRORS as error:
        raise RecordingError(
            f"{str(path)!r} is damaged: {one_line(error)}; copy or record it again"
        ) from error


def _open_reason(error: Exception) -> str:
    """Say in the user's words why a file cannot be opened."""
    if getattr(error, "errno", None) in (errno.EACCES, errno.EPERM):
        return "may not be read; ask its owner for the permission"
    for text, reason in _OPEN_ERRORS.items():
        if text in str(error):
            return reason
    return f"was not closed properly or is damaged: {one_line(error)}; copy or record it again"


def naming(name: str, path: Path) -> str:
    """Name a dataset in a message."""
    return f"dataset {name!r} of {str(path)!r}"


def checked(handle: Any, axis: int, what: str) -> tuple[tuple[int, int], np.dtype[Any]]:
    """Return (samples, channels) and the type of the blocks, if samples can be separated."""
    dtype = checked_type(handle, what)
    shape = _checked_shape(handle.shape, axis, what)
    check_filters(handle, what)
    return shape, dtype


def checked_type(handle: Any, what: str) -> np.dtype[Any]:
    """Return the type of the blocks of a dataset, if it holds numbers."""
    special = special_type(handle)
    if special is not None:
        raise make_dtype_error(what, special)
    return get_working_dtype(handle.dtype, what)


def check_filters(handle: Any, what: str) -> None:
    """Refuse a dataset whose chunks cannot be decompressed here."""
    for name, code in filters(handle):
        if not h5py.h5z.filter_avail(code) and not (register_plugins() and h5py.h5z.filter_avail(code)):
            raise RecordingError(
                f"{what} needs the HDF5 filter {name!r} (number {code}), which is not installed; "
                "install hdf5plugin (pip install 'igbss-stream[compression]'), or rewrite the file with "
                "'h5repack -f GZIP=4' where it is"
            )


def _checked_shape(shape: tuple[int, ...] | None, axis: int, what: str) -> tuple[int, int]:
    """Return (samples, channels) of a dataset whose axes are not known for sure."""
    if shape is None or len(shape) == 0:
        raise InputError(f"{what} holds no series of samples; choose another dataset")
    if len(shape) > 2:
        raise InputError(f"{what} has {len(shape)} axes, shape {shape}; store it as (samples, channels)")
    n_samples, n_channels = (shape[axis], shape[1 - axis]) if len(shape) == 2 else (shape[0], 1)
    check_counts(n_samples, n_channels, what)
    if n_channels > n_samples:
        raise InputError(
            f"{what} has more channels ({n_channels}) than samples ({n_samples}); pass "
            f"--axis {1 - axis} if its axes are swapped"
        )
    return n_samples, n_channels


def special_type(handle: Any) -> str | None:
    """Name a type that NumPy has no name for, or that only looks like a number; else None."""
    try:
        dtype = handle.dtype
    except LIBRARY_ERRORS:
        return "unknown to NumPy"
    if isinstance(handle.id.get_type(), h5py.h5t.TypeBitfieldID):
        return "bit field"
    if h5py.check_string_dtype(dtype) is not None:
        return "text"
    if h5py.check_ref_dtype(dtype) is not None:
        return "object reference"
    if h5py.check_vlen_dtype(dtype) is not None:
        return "arrays of variable length"
    if h5py.check_enum_dtype(dtype) is not None:
        return "enumeration"
    if dtype.names is not None:
        return textwrap.shorten(f"compound ({', '.join(dtype.names)})", 60, placeholder=" ...)")
    return None


def filters(handle: Any) -> list[tuple[str, int]]:
    """Return the name and the number of each filter that the chunks went through."""
    plist = handle.id.get_create_plist()
    found = [plist.get_filter(i) for i in range(plist.get_nfilters())]
    return [(name.decode("utf-8", "replace") or "unknown", code) for code, _, _, name in found]


def foreign_filters(handle: Any) -> list[str]:
    """Return the names and numbers of the filters that neither HDF5 nor h5py brings along."""
    own = h5py.h5z.FILTER_RESERVED
    return [f"{name} ({n})" for name, n in filters(handle) if n >= own and n != h5py.h5z.FILTER_LZF]


def attribute(handle: Any, name: str) -> Any:
    """Return an attribute, an array of one as its element; None if it cannot be had."""
    try:
        value = handle.attrs[name]
    except LIBRARY_ERRORS:
        return None
    if isinstance(value, h5py.Empty):
        return None
    return value.item(0) if isinstance(value, np.ndarray) and value.size == 1 else value


def stated_rate(handle: Any, what: str) -> float | None:
    """Return the sampling rate in Hz that a dataset states, if any."""
    value = attribute(handle, "rate")
    if value is None:
        return None
    rate = positive(value)
    if rate is None:
        shown = textwrap.shorten(str(value), 40)
        raise RecordingError(
            f"{what} states the rate {shown!r}, which is not a positive number of Hz; pass --rate"
        )
    return rate


def positive(value: Any) -> float | None:
    """Return a value as a positive finite float; None if it is none."""
    if not isinstance(value, int | float | np.integer | np.floating | str | bytes):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0 < number < math.inf else None


def stated_unit(handle: Any) -> str | None:
    """Return the unit of the numbers as they are stored, if known."""
    # NWB states the unit after scaling; the numbers as stored are in another one.
    for name, neutral in (("conversion", 1), ("offset", 0)):
        value = attribute(handle, name)
        if value is not None and not np.all(np.asarray(value) == neutral):
            return None
    return text(attribute(handle, "unit"))


def stated_channels(handle: Any) -> tuple[str, ...]:
    """Return the names in the attribute ``channels``, empty ones included."""
    value = attribute(handle, "channels")
    if not isinstance(value, np.ndarray) or value.ndim != 1:
        return ()
    return tuple(text(v if isinstance(v, str | bytes) else str(v)) or "" for v in value)


def text(value: Any) -> str | None:
    """Return text that can be printed and stored as UTF-8; None if there is none."""
    if isinstance(value, str):
        # h5py hides bytes that are not UTF-8 in the text as lone surrogates.
        value = value.encode("utf-8", "surrogateescape")
    if not isinstance(value, bytes):
        return None
    return value.decode("utf-8", "replace").replace("\0", "").strip() or None
