"""Convert samples to the dtypes of the package, float32 and float64."""

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
        If the array is not two-dimensional, or contains something other than real numbers.
    """
    array = np.asarray(x)
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"{what} must contain real numbers. Got objects that cannot be converted to float64."
            ) from None
    dtype = get_working_dtype(array.dtype, what)
    if array.ndim != 2:
        raise InputError(
            f"{what} must have the shape (samples, channels). Got shape {array.shape} instead"
            f"{': a single channel cannot be separated' if array.ndim == 1 else ''}."
        )
    return np.ascontiguousarray(array, dtype=dtype)
