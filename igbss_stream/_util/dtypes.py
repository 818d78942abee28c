"""Convert samples to the dtypes of the package, float32 and float64."""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from igbss_stream.errors import InputError


def get_working_dtype(dtype: npt.DTypeLike, what: str = "x") -> np.dtype[Any]:
    """Return the dtype in which samples are processed.

    It represents every value of the given dtype exactly, except for 64-bit integers beyond 2**53.

    Parameters
    ----------
    dtype : dtype
        Dtype of the samples, of either byte order.
    what : str, default="x"
        Name of the samples, for the error message.

    Returns
    -------
    dtype
        Native float32 for float16, float32 and integers of 8 and 16 bits; native float64 for float64
        and integers of 32 and 64 bits.

    Raises
    ------
    InputError
        If the dtype is not supported, e.g. bool, complex, text or a structured dtype.
    """
    given = np.dtype(dtype)
    if given.kind in "iu":
        return np.dtype(np.float32 if given.itemsize <= 2 else np.float64)
    if given.kind == "f" and given.itemsize <= 8:
        return np.dtype(np.float32 if given.itemsize <= 4 else np.float64)
    raise make_dtype_error(what, str(given))


def make_dtype_error(what: str, dtype: str) -> InputError:
    """Return the error for samples of an unsupported dtype.

    Parameters
    ----------
    what : str
        Name of the samples.
    dtype : str
        Name of the dtype.

    Returns
    -------
    InputError
        For the caller to raise.
    """
    return InputError(
        f"{what} has dtype {dtype}; separation needs real numbers: store the samples as a plain "
        "array of integers, float32 or float64"
    )


def as_samples(x: npt.ArrayLike, what: str = "x") -> npt.NDArray[Any]:
    """Return an array as (samples, channels), C-ordered, native float32 or float64.

    Raises
    ------
    InputError
        If the array is not two-dimensional, has masked samples, or contains something other than real
        numbers that float64 represents.
    """
    refuse_losses(x, what)
    array = _as_array(x, what)
    dtype = get_working_dtype(array.dtype, what)
    if array.ndim != 2:
        raise InputError(
            f"{what} must have the shape (samples, channels). Got shape {array.shape} instead"
            f"{': a single channel cannot be separated' if array.ndim == 1 else ''}."
        )
    return np.ascontiguousarray(array, dtype=dtype)


def refuse_losses(x: Any, what: str = "x") -> None:
    """Refuse arrays that lose something in the conversion to float64.

    Parameters
    ----------
    x : object
        A masked array with nothing masked passes, and so does what is no array.
    what : str
        Name of the samples.

    Raises
    ------
    InputError
        If a sample is masked, or integers have more digits than float64.
    """
    _refuse_masked(x, what)
    if not (isinstance(x, list | tuple) or hasattr(x, "__array__")):
        return
    try:
        array = np.asarray(x)
    except ValueError:
        return  # no array, which is for others to report
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        _refuse_inexact(array, what)


def _refuse_masked(x: Any, what: str) -> None:
    """Refuse masked samples, whose mask NumPy would drop without a word."""
    if "numpy.ma" not in sys.modules:
        return  # nothing is masked, and importing it takes longer than separating a small array
    rows = [x] if isinstance(x, np.ndarray) else x if isinstance(x, list | tuple) else []
    n_masked = sum(int(np.ma.getmaskarray(row).sum()) for row in rows if np.ma.isMaskedArray(row))
    if n_masked:
        raise InputError(
            f"{what} has {n_masked} masked sample(s), which cannot be separated. Cut out the rows that "
            f"have one, {what}[~np.ma.getmaskarray({what}).any(axis=1)].data, or interpolate them."
        )


def _as_array(x: Any, what: str) -> npt.NDArray[Any]:
    """Return an array of any shape; that of Python objects in float64."""
    try:
        array = np.asarray(x)
        return array if array.dtype.kind != "O" else array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{what} must be an array of real numbers. Got rows of different lengths, or objects that "
            "cannot be converted to float64."
        ) from None


def _refuse_inexact(array: npt.NDArray[Any], what: str) -> None:
    """Refuse integers that float64 does not represent: it holds 53 binary digits."""
    n_surplus = np.frexp(array.astype(np.float64))[1] - 53  # digits too many, from the last on
    last_digits = np.left_shift(1, np.maximum(n_surplus, 0), dtype=np.int64) - 1
    inexact = (array & last_digits.astype(array.dtype)) != 0
    if inexact.any():
        first = array[tuple(np.argwhere(inexact)[0])]
        raise InputError(
            f"{what} has integers beyond 2**53 that float64 cannot represent, such as {first}. Subtract an "
            f"offset first, for example {what} - {what}[0]."
        )
