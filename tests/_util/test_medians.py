"""Medians are those of NumPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from igbss_stream._util.medians import compute_medians


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=st.integers(0, 2**32 - 1), n_series=st.integers(0, 4), n_samples=st.integers(1, 60))
def test_medians_are_those_of_numpy(seed: int, n_series: int, n_samples: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((n_series, n_samples)) < 0.5, rng.normal(size=(n_series, n_samples)), 3.0)
    x = (x * 10.0 ** rng.integers(-20, 20)).astype(dtype)
    before = x.copy()
    found = compute_medians(x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.median(x, axis=1))
    np.testing.assert_array_equal(x, before)
