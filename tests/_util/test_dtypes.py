"""Conversion to samples: what it keeps, and what it refuses to lose."""

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from igbss_stream._util.dtypes import as_samples
from igbss_stream.errors import InputError

X = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    "x",
    [
        X.tolist(),
        X.astype(">f4"),
        X.astype(np.uint8),
        X.astype(object),
        [[Fraction(int(value)) for value in row] for row in X],
        pd.DataFrame(X),
        pd.DataFrame(X).convert_dtypes(),
        np.ma.masked_array(X, mask=False),
        np.asfortranarray(X),
    ],
    ids=lambda x: type(x).__name__,
)
def test_arrays_of_all_kinds_are_converted(x: Any) -> None:
    samples = as_samples(x)
    np.testing.assert_array_equal(samples, X)
    assert type(samples) is np.ndarray
    assert samples.flags.c_contiguous
    assert samples.dtype in (np.float32, np.float64)


@pytest.mark.parametrize("wrap", [lambda x: x, list, tuple], ids=["array", "list of rows", "tuple of rows"])
def test_masked_samples_are_refused(wrap: Any) -> None:
    masked = np.ma.masked_array(X, mask=X == 3.0)
    with pytest.raises(InputError, match=r"x has 1 masked sample.*Cut out the rows that have one"):
        as_samples(wrap(masked))
    np.testing.assert_array_equal(
        as_samples(masked[~np.ma.getmaskarray(masked).any(axis=1)].data), X[[0, 2]]
    )


@pytest.mark.parametrize(
    "x",
    [
        [[1.0, 2.0], [3.0]],
        [[1.0, "a"]],
        [[10**400, 1]],
        pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [1, 2]}),
        object(),
    ],
    ids=["ragged", "text", "too large", "NA of pandas", "no array"],
)
def test_what_is_no_array_of_numbers_is_refused(x: Any) -> None:
    with pytest.raises(InputError, match="real numbers"):
        as_samples(x)


@given(
    st.lists(
        st.one_of(
            st.integers(-(2**63), 2**63 - 1),
            st.integers(-(2**10), 2**10 - 1).map(lambda n: n * 2**53),
            st.integers(-(2**53), 2**53),
        ),
        min_size=2,
        max_size=6,
    ).filter(lambda values: len(values) % 2 == 0)
)
def test_integers_are_exact_or_refused(values: list[int]) -> None:
    x = np.array(values, np.int64).reshape(-1, 2)
    inexact = [value for value in values if int(float(value)) != value]
    if inexact:
        with pytest.raises(
            InputError, match=rf"beyond 2\*\*53 .* such as {inexact[0]}\. Subtract an offset"
        ):
            as_samples(x)
    else:
        assert [int(value) for value in as_samples(x).ravel()] == values


@pytest.mark.parametrize(("value", "fits"), [(2**64 - 1, False), (2**64 - 2**11, True), (2**63, True)])
def test_unsigned_integers_are_exact_or_refused(value: int, fits: bool) -> None:
    x = np.array([[value, 0]], np.uint64)
    if fits:
        assert as_samples(x)[0, 0] == value
    else:
        with pytest.raises(InputError, match="float64 cannot represent"):
            as_samples(x)
