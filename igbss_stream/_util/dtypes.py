"""The two types in which samples are processed, and what becomes of every other type and layout."""

from typing import Any

import numpy as np
import numpy.typing as npt

from igbss_stream.errors import InputError


def working_dtype(dtype: npt.DTypeLike, what: str = "x") -> np.dtype[Any]:
    """Return the type in which samples of a given type are processed.

    It holds every value of the given type exactly, but for integers of 64 bits beyond 2**53.

    Parameters
    ----------
    dtype : dtype
        The type of the samples, of either byte order.
    what : str, default="x"
        What has this type, for the message.

    Returns
    -------
    dtype
        Native float32 for float16, float32 and integers of 8 and 16 bits, native float64 for float64
        and integers of 32 and 64 bits.

    Raises
    ------
    InputError
        If samples cannot have this type, e.g. bool, complex, text or records.
    """
    given = np.dtype(dtype)
    if given.kind in "iu":
        return np.dtype(np.float32 if given.itemsize <= 2 else np.float64)
    if given.kind == "f" and given.itemsize <= 8:
        return np.dtype(np.float32 if given.itemsize <= 4 else np.float64)
    raise unsupported_dtype(what, str(given))


def unsupported_dtype(what: str, dtype: str) -> InputError:
    """Return the error for samples of a type that is not supported.

    Parameters
    ----------
    what : str
        What has this type.
    dtype : str
        Name of the type.

    Returns
    -------
    InputError
        To be raised.
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
        If it has another number of axes or holds something other than real numbers.
    """
    array = np.asarray(x)
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{what} must hold real numbers. Got objects that are not.") from None
    dtype = working_dtype(array.dtype, what)
    if array.ndim != 2:
        raise InputError(
            f"{what} must have the shape (samples, channels). Got shape {array.shape} instead"
            f"{': a single channel has nothing to be separated from' if array.ndim == 1 else ''}."
        )
    return np.ascontiguousarray(array, dtype=dtype)
