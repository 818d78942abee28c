"""Open HDF5 files, check datasets and read attributes.

Exceptions of h5py become an `IgbssError` that names the object and the remedy.
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
from igbss_stream.files.checksum import verify_checksum
from igbss_stream.files.messages import as_one_line, check_counts
from igbss_stream.files.readers.hdf5.heaps import check_heaps
from igbss_stream.files.readers.hdf5.links import check_links, check_parts

# Exceptions of h5py for a damaged file, link, type or attribute; they depend on its version.
LIBRARY_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError)

_NOT_HDF5 = "file signature not found"
# Messages of HDF5 for a file that cannot be opened, and how to put them to the user.
_OPEN_ERRORS = {
    "unable to lock file": "is locked by a program that writes to it; wait until it has finished, or "
    "set HDF5_USE_FILE_LOCKING=FALSE if the disk cannot lock files",
    _NOT_HDF5: "is not an HDF5 file; convert it first, or pass another file",
    "truncated file": "is truncated; copy or record it again",
    "already open for write": "was not closed properly; if no program is writing to it, repair a "
    "copy of it with 'h5clear -s'",
}


class NotHdf5Error(RecordingError):
    """A file is not an HDF5 file."""


class SwappedAxesError(InputError):
    """A dataset has more channels than samples; its axes may be swapped."""


def open_file(path: Path) -> Any:
    """Open an HDF5 file for reading.

    Raises
    ------
    NotHdf5Error
        If it is a file of another format.
    RecordingError
        If it cannot be opened.
    InputError
        If it has links to files outside its folder.
    """
    if os.path.isdir(path):
        raise RecordingError(f"{str(path)!r} is a directory; pass the path of a file")
    if not os.path.exists(path):
        raise RecordingError(f"{str(path)!r} does not exist; check the path")
    if not os.path.isfile(path):
        # Opening a pipe would block.
        raise RecordingError(f"{str(path)!r} is not a regular file; copy its content to one")
    verify_checksum(path)
    check_heaps(path)
    try:
        file = h5py.File(path, "r")
    except LIBRARY_ERRORS as error:
        kind = NotHdf5Error if _NOT_HDF5 in str(error) else RecordingError
        raise kind(f"{str(path)!r} {_explain_open_error(error)}") from error
    try:
        with report_damage(path):
            check_links(file, path)
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def report_damage(path: Path) -> Iterator[None]:
    """Convert exceptions of h5py, and of converting what it read, to a `RecordingError`."""
    try:
        yield
    except IgbssError:
        raise
    except (*LIBRARY_ERRORS, ArithmeticError, AttributeError) as error:
        raise RecordingError(
            f"{str(path)!r} is damaged: {as_one_line(error)}; copy or record it again"
        ) from error


def _explain_open_error(error: Exception) -> str:
    """Return why a file cannot be opened, and what to do."""
    if getattr(error, "errno", None) in (errno.EACCES, errno.EPERM):
        return "cannot be read: permission denied; ask its owner for permission"
    for text, reason in _OPEN_ERRORS.items():
        if text in str(error):
            return reason
    return f"was not closed properly or is damaged: {as_one_line(error)}; copy or record it again"


def name_dataset(name: str, path: Path) -> str:
    """Return the name of a dataset for messages."""
    return f"dataset {name!r} of {str(path)!r}"


def check_dataset(handle: Any, axis: int | None, what: str) -> tuple[tuple[int, int], np.dtype[Any]]:
    """Check that a dataset can be separated; return (samples, channels) and the dtype of the blocks.

    If the axis of samples is None, it is the first one, unless that is the shorter one.
    """
    dtype = get_block_dtype(handle, what)
    shape = _check_shape(handle.shape, axis, what)
    check_parts(handle, what)
    check_filters(handle, what)
    return shape, dtype


def get_block_dtype(handle: Any, what: str) -> np.dtype[Any]:
    """Check that a dataset contains real numbers; return the dtype of the blocks."""
    special = find_special_type(handle)
    if special is not None:
        raise make_dtype_error(what, special)
    return get_working_dtype(handle.dtype, what)


def check_filters(handle: Any, what: str) -> None:
    """Check that the filters of a dataset are installed."""
    for name, code in list_filters(handle):
        if not h5py.h5z.filter_avail(code) and not (register_plugins() and h5py.h5z.filter_avail(code)):
            raise RecordingError(
                f"{what} needs the HDF5 filter {name!r} (number {code}), which is not installed; "
                "install hdf5plugin (pip install 'igbss-stream[compression]'), or rewrite the file with "
                "'h5repack -f GZIP=4' on a computer where it is"
            )


def _check_shape(shape: tuple[int, ...] | None, axis: int | None, what: str) -> tuple[int, int]:
    """Check the shape of a dataset; return (samples, channels)."""
    if shape is None or len(shape) == 0:
        raise InputError(f"{what} contains no time series; choose another dataset")
    if len(shape) > 2:
        raise InputError(f"{what} has {len(shape)} axes (shape {shape}); store it as (samples, channels)")
    at = axis or 0
    n_samples, n_channels = (shape[at], shape[1 - at]) if len(shape) == 2 else (shape[0], 1)
    check_counts(n_samples, n_channels, what)
    if axis is None and n_channels > n_samples:
        raise SwappedAxesError(
            f"{what} has more channels ({n_channels}) than samples ({n_samples}); pass --axis 1 if its "
            "axes are swapped, or --axis 0 if they are not"
        )
    return n_samples, n_channels


def find_special_type(handle: Any) -> str | None:
    """Return the name of a type that is not a plain number; None for plain numbers."""
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


def list_filters(handle: Any) -> list[tuple[str, int]]:
    """Return name and number of each filter of a dataset."""
    plist = handle.id.get_create_plist()
    found = [plist.get_filter(i) for i in range(plist.get_nfilters())]
    return [(name.decode("utf-8", "replace") or "unknown", code) for code, _, _, name in found]


def list_foreign_filters(handle: Any) -> list[str]:
    """Return names and numbers of the filters that are part of neither HDF5 nor h5py."""
    own = h5py.h5z.FILTER_RESERVED
    return [f"{name} ({n})" for name, n in list_filters(handle) if n >= own and n != h5py.h5z.FILTER_LZF]


def read_attribute(handle: Any, name: str) -> Any:
    """Return an attribute (the element of an array of size 1); None if it is missing or unreadable."""
    try:
        value = handle.attrs[name]
    except LIBRARY_ERRORS:
        return None
    if isinstance(value, h5py.Empty):
        return None
    return value.item(0) if isinstance(value, np.ndarray) and value.size == 1 else value


def read_rate(handle: Any, what: str) -> float | None:
    """Return the attribute ``rate`` of a dataset in Hz; None if there is none."""
    value = read_attribute(handle, "rate")
    if value is None:
        return None
    rate = as_positive(value)
    if rate is None:
        shown = textwrap.shorten(str(value), 40)
        raise RecordingError(
            f"{what} has the rate {shown!r}, which is not a positive number of Hz; pass --rate"
        )
    return rate


def read_start(handle: Any) -> float | None:
    """Return the attribute ``t0`` of a dataset, the Unix time of index 0 in seconds; None without one."""
    value = read_attribute(handle, "t0")
    if not isinstance(value, int | float | np.integer | np.floating) or not math.isfinite(value):
        return None
    return float(value)


def as_positive(value: Any) -> float | None:
    """Return a value as a positive finite float; None if it is not one."""
    if not isinstance(value, int | float | np.integer | np.floating | str | bytes):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0 < number < math.inf else None


def read_unit(handle: Any) -> str | None:
    """Return the unit of the stored numbers; None if it is not known."""
    # NWB states the unit after scaling; the stored numbers have another one.
    for name, neutral in (("conversion", 1), ("offset", 0)):
        value = read_attribute(handle, name)
        if value is not None and not np.all(np.asarray(value) == neutral):
            return None
    return decode_text(read_attribute(handle, "unit"))


def read_channel_names(handle: Any) -> tuple[str, ...]:
    """Return the names in the attribute ``channels``, including empty ones."""
    value = read_attribute(handle, "channels")
    if not isinstance(value, np.ndarray) or value.ndim != 1:
        return ()
    return tuple(decode_text(v if isinstance(v, str | bytes) else str(v)) or "" for v in value)


def decode_text(value: Any) -> str | None:
    """Return a value as text that can be printed and stored as UTF-8; None if it is empty or not text."""
    if isinstance(value, str):
        # h5py decodes bytes that are not UTF-8 as lone surrogates.
        value = value.encode("utf-8", "surrogateescape")
    if not isinstance(value, bytes):
        return None
    return value.decode("utf-8", "replace").replace("\0", "").strip() or None
