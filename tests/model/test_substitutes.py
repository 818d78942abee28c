"""Substitutes of kernels give the same as the kernels, to the bit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream.model.kernels import samples, substitutes

pytestmark = pytest.mark.jit

ALL = 1 << 60
drawn = given(
    seed=st.integers(0, 1 << 30),
    n_samples=st.integers(0, 150),
    n_channels=st.integers(1, 40),
    dtype=st.sampled_from([np.float32, np.float64]),
    has_bad=st.booleans(),
)


def draw_samples(
    rng: np.random.Generator, shape: tuple[int, int], dtype: Any, has_bad: bool
) -> NDArray[Any]:
    """Return samples of very different size, some of them zero, infinite or NaN."""
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-20, 20, shape)).astype(dtype)
    if has_bad:
        x[rng.random(shape) < 0.05] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0])
    return x


def load(kernel: Any) -> Any:
    return kernel.load()


def assert_same_bits(found: NDArray[Any], expected: NDArray[Any]) -> None:
    np.testing.assert_array_equal(found, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


@settings(max_examples=60, deadline=None)
@drawn
def test_unmix(seed: int, n_samples: int, n_channels: int, dtype: Any, has_bad: bool) -> None:
    rng = np.random.default_rng(seed)
    x = draw_samples(rng, (n_samples, n_channels), dtype, has_bad)
    n_sources, start = (int(n) for n in rng.integers(1, 40, 2))
    weights = rng.standard_normal((int(rng.integers(1, 4)), n_channels, n_sources))
    offset = rng.standard_normal(n_sources)
    found, expected = (np.empty((n_samples, n_sources), dtype) for _ in range(2))
    assert substitutes.unmix(ALL, x, weights, offset, start, found)
    load(samples.unmix)(x, weights, offset, start, expected)
    assert_same_bits(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_channels", "n_sources"), [(3, 24), (25, 25), (40, 31), (33, 33), (7, 64)])
def test_unmix_many_sources_in_blocks_of_any_length(n_channels: int, n_sources: int, dtype: Any) -> None:
    """Sums of wide blocks are held in registers; those of few samples are not, and must be the same."""
    rng = np.random.default_rng(n_sources)
    x = draw_samples(rng, (133, n_channels), dtype, False)
    x[100, 1], x[101, 2], x[102, 0] = np.nan, np.inf, -np.inf
    weights = rng.standard_normal((1, n_channels, n_sources))
    offset = rng.standard_normal(n_sources)
    expected = np.empty((len(x), n_sources), dtype)
    assert substitutes.unmix(ALL, x, weights, offset, 0, expected)
    for length in (1, 15, 16, 17, 34, 133):
        found = np.full_like(expected, 7.0)
        for start in range(0, len(x), length):
            part = slice(start, start + length)
            load(samples.unmix)(x[part], weights, offset, start, found[part])
        assert_same_bits(found, expected)


@settings(max_examples=60, deadline=None)
@drawn
def test_unmix_complement(seed: int, n_samples: int, n_channels: int, dtype: Any, has_bad: bool) -> None:
    rng = np.random.default_rng(seed)
    x = draw_samples(rng, (n_samples, n_channels), dtype, has_bad)
    for in_order in (True, False):
        cut = np.arange(n_channels) if in_order else rng.permutation(n_channels)
        found, expected = np.empty_like(x), np.empty_like(x)
        assert substitutes.unmix_complement(ALL, x, cut, in_order, 0.3, found)
        load(samples.unmix_complement)(x, cut, in_order, 0.3, expected)
        assert_same_bits(found, expected)


@settings(max_examples=60, deadline=None)
@drawn
def test_survey(seed: int, n_samples: int, n_channels: int, dtype: Any, has_bad: bool) -> None:
    rng = np.random.default_rng(seed)
    found, expected = (
        (np.full(n_channels, np.inf, dtype), np.full(n_channels, -np.inf, dtype), np.ones(n_channels))
        for _ in range(2)
    )
    for _ in range(2):
        x = draw_samples(rng, (n_samples, n_channels), dtype, has_bad)
        assert substitutes.survey(ALL, x, *found)
        load(samples.survey)(x, *expected)
        for of_substitute, of_kernel in zip(found, expected, strict=True):
            np.testing.assert_array_equal(of_substitute, of_kernel)


def test_more_than_is_affordable_is_not_begun() -> None:
    x, out = np.ones((10, 4)), np.zeros((10, 4))
    bounds = np.zeros(4), np.zeros(4), np.zeros(4)
    assert not substitutes.unmix(159, x, np.ones((1, 4, 4)), np.zeros(4), 0, out)
    assert not substitutes.unmix_complement(159, x, np.arange(4), True, 1.0, out)
    assert not substitutes.survey(319, x, *bounds)
    assert not out.any()
    assert not np.any(bounds)
