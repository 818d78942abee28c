"""Test the survey against NumPy, and its errors."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream.errors import InputError
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.scale import ScaleEstimate
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.statistics import Survey, survey_array

Samples = NDArray[Any]


def names(x: Samples) -> list[str]:
    return [f"c{i}" for i in range(x.shape[1])]


def in_blocks(x: Samples, cuts: list[int], **options: Any) -> Survey:
    survey = Survey(names(x), x.dtype, len(x), **options)
    for part in np.split(x, sorted(cuts)):
        survey.update(np.ascontiguousarray(part))
    return survey


@given(
    st.integers(1, 60),
    st.integers(0, 2**32 - 1),
    st.sampled_from([np.float32, np.float64]),
    st.lists(st.integers(0, 200), max_size=5),
)
def test_survey_equals_numpy_for_any_blocks(
    n_channels: int, seed: int, dtype: type, cuts: list[int]
) -> None:
    x: Samples = np.random.default_rng(seed).normal(100.0, 3.0, (200, n_channels)).astype(dtype)
    survey = in_blocks(x, cuts, keep_rows=True)
    np.testing.assert_array_equal(survey.low, x.min(axis=0))
    np.testing.assert_array_equal(survey.high, x.max(axis=0))
    np.testing.assert_allclose(survey.mean, x.mean(axis=0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_array_equal(survey.median, np.median(x.astype(np.float64), axis=0))
    assert survey.n_seen == 200
    survey.check()


@given(st.lists(st.integers(0, 400), max_size=5), st.lists(st.integers(0, 400), max_size=8, unique=True))
def test_nothing_is_learned_from_excluded_rows(cuts: list[int], edges: list[int]) -> None:
    edges = sorted(edges)
    spans = list(zip(edges[::2], edges[1::2], strict=False))
    x: Samples = np.random.default_rng(0).normal(100.0, 3.0, (400, 3))
    kept = np.ones(400, bool)
    for start, stop in spans:
        x[start:stop] *= np.array([-50.0, 50.0, 1.0])
        kept[start:stop] = False
    if kept.sum() < 2:
        return
    options: dict[str, Any] = {"keep_rows": True, "keep_excerpt": True, "covariance": True}
    survey = in_blocks(x, cuts, excluded=spans, breaks=[100], **options)
    joints = [int(kept[:row].sum()) for row in (100, *(stop for _, stop in spans))]
    alone = in_blocks(x[kept], [], breaks=joints, **options)
    for name in ("median", "excerpt", "excerpt_breaks", "n_seen", "rank", "flat"):
        np.testing.assert_array_equal(getattr(survey, name), getattr(alone, name))
    np.testing.assert_allclose(survey.mean, alone.mean, rtol=1e-12)
    # the unit of the covariance is near the size of the samples, so relations are compared
    scaled, scaled_alone = (one.covariance / one.covariance[0, 0] for one in (survey, alone))
    np.testing.assert_allclose(scaled, scaled_alone, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(survey.high, x.max(axis=0))  # a model is applied to all samples


def test_excluded_rows_are_checked_too() -> None:
    x = np.random.default_rng(0).normal(size=(400, 3))
    x[150, 1] = np.nan
    with pytest.raises(InputError, match=r"c1 has 1, from sample 150 \(nan\)"):
        in_blocks(x, [100, 160], excluded=[(100, 200)]).check()
    x[:, 1] = 1.0
    x[150, 1] = 7.0
    survey = in_blocks(x, [100, 160], excluded=[(100, 200)])
    assert survey.flat == [1]
    with pytest.raises(InputError, match="1 of 3 channels are flat"):
        survey.check()
    with pytest.raises(InputError, match=r"at least 2 samples\. Got 0"):
        in_blocks(x, [], excluded=[(0, 400)]).check()


def test_kept_rows_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("igbss_stream.separation.scale._MAX_NUMBERS", 90)
    x = np.random.default_rng(0).normal(size=(200, 3))
    for cuts in ([], [1, 8, 50, 51, 199]):
        estimate = ScaleEstimate(200, 3)
        for part in np.split(x, cuts):
            estimate.update(part)
        np.testing.assert_array_equal(estimate.rows, x[::7])


def test_spread_is_robust_and_in_the_unit_of_the_samples() -> None:
    x = np.random.default_rng(0).normal(50.0, 2.0, (4000, 5))
    x[7, 3] = 7e5
    assert survey_array(x, names(x), keep_rows=True).spread == pytest.approx(2.0, rel=0.05)
    assert survey_array(x * 1e-19, names(x), keep_rows=True).spread == pytest.approx(2e-19, rel=0.05)


def test_spread_of_mostly_constant_channels() -> None:
    x = np.zeros((100, 2))
    x[::10] = [5.0, 3.0]
    assert survey_array(x, names(x), keep_rows=True).spread == pytest.approx(x.std(axis=0).mean())
    rare = np.zeros((100, 2))
    rare[55] = 1.0
    thin = Survey(["a", "b"], rare.dtype, 10**8, keep_rows=True)
    thin.update(rare)
    assert thin.spread == 1.0


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_bad_samples_are_counted_and_located(block: int) -> None:
    x = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
    x[17, 2] = np.nan
    x[18, 2] = np.inf
    x[250, 4] = -np.inf
    survey = in_blocks(x, list(range(block, 300, block)))
    assert survey.n_bad == 3
    message = (
        "3 samples are NaN or infinite: c2 has 2, from sample 17 (nan); c4 has 1, from sample 250 (-inf)."
    )
    with pytest.raises(InputError, match=re.escape(message)):
        survey.check()


def test_many_bad_channels_are_summarised() -> None:
    x = np.full((4, 7), np.nan)
    with pytest.raises(InputError, match=r"28 samples.*; 3 more channels"):
        survey_array(x, names(x)).check()


@pytest.mark.jit  # Python warns of the overflow that compiled code goes on with
def test_overflowing_sums_are_not_bad_samples() -> None:
    x = np.array([[1e308, 1.0], [1e308, 2.0], [-1e308, 3.0]])
    survey = survey_array(x, names(x))
    assert survey.n_bad == 0
    with pytest.raises(InputError, match="sums could overflow float64"):
        survey.check()


def test_flat_channels_are_named_at_any_offset() -> None:
    x = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    x[:, 1] = 4200.0
    x[:, 3] = np.float32(4200.0) + np.float32(0.0005) * (np.arange(50) % 2)  # one rounding error
    survey = survey_array(x, names(x))
    assert survey.flat == [1, 3]
    with pytest.raises(
        InputError, match=r"2 of 4 channels are flat \(constant\): c1, c3\. Leave them out by"
    ):
        survey.check(remedy=" by hand")


def test_small_signals_on_large_offsets_are_not_flat() -> None:
    x = 1e-19 * np.random.default_rng(0).normal(size=(50, 2))
    assert survey_array(x, names(x)).flat == []
    y = (4200 + np.random.default_rng(0).normal(0, 10, (50, 2))).astype(np.float32)
    assert survey_array(y, names(y)).flat == []


def test_one_sample_is_too_few() -> None:
    with pytest.raises(InputError, match=r"at least 2 samples. Got 1 sample\(s\)"):
        survey_array(np.ones((1, 2)), ["a", "b"]).check()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 4200.0])
@pytest.mark.parametrize("unit", [1.0, 1e-19])
def test_rank(dtype: type, offset: float, unit: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0.0, 10.0, (500, 6))
    cleaned = x @ rng.normal(size=(6, 4)) @ rng.normal(size=(4, 6))
    referenced = x - x.mean(axis=1, keepdims=True)
    flat = x.copy()
    flat[:, 2] = 0.0
    twin = x.copy()
    twin[:, 5] = 3.0 * twin[:, 0]
    for y, rank in (x, 6), (referenced, 5), (cleaned, 4), (flat, 5), (twin, 5):
        y = np.ascontiguousarray(((y + offset) * unit).astype(dtype))
        assert survey_array(y, names(y), covariance=True).rank == rank


def test_rank_needs_the_covariance() -> None:
    with pytest.raises(RuntimeError, match="without covariance"):
        _ = survey_array(np.ones((3, 2)), ["a", "b"]).rank


def test_rank_if_the_first_samples_are_constant() -> None:
    """The unit of the sums of products is chosen from the first samples that move."""
    x = 1e-200 * np.random.default_rng(0).normal(size=(60, 4))
    x[:20] = x[0]
    assert in_blocks(x, [10, 20, 30], covariance=True).rank == 4


def test_rank_if_the_samples_grow_beyond_the_squares_of_their_first_unit() -> None:
    """As the tail of a filter does, which begins near 1e-300."""
    x = np.random.default_rng(0).normal(size=(60, 4))
    x[:20] *= 1e-280
    for cuts in ([20, 40], [5, 10, 30]):
        assert in_blocks(x, cuts, covariance=True).rank == 4


def test_an_offset_of_one_channel_does_not_lower_the_rank_of_the_others() -> None:
    """float32 rounds by 1 at 1e7: that channel is coarse, the others are not."""
    rng = np.random.default_rng(0)
    x = rng.normal(0.0, 10.0, (2000, 6)) @ rng.normal(size=(6, 6))
    x[:, 1] += 1e7
    y = x.astype(np.float32)
    assert survey_array(y, names(y), covariance=True).rank == 6
    x[:, 2] = x[:, 3]
    y = x.astype(np.float32)
    assert survey_array(y, names(y), covariance=True).rank == 5


def test_a_first_sample_far_from_the_others_does_not_add_to_the_rank() -> None:
    x = np.random.default_rng(0).normal(size=(3000, 6))
    x -= x.mean(axis=1, keepdims=True)
    x[0] = 7e5
    assert survey_array(x, names(x), covariance=True).rank == 6  # the sample is a separate direction
    x[0] -= x[0].mean() + 7e5 * np.array([-5, 1, 1, 1, 1, 1])
    assert survey_array(x, names(x), covariance=True).rank == 5


@given(st.lists(st.integers(0, 5000), max_size=5), st.integers(1, 5))
def test_enough_rank_needs_the_first_samples_alone(cuts: list[int], wanted: int) -> None:
    x = np.random.default_rng(0).normal(size=(5000, 5))
    x[:, 4] = x[:, 3]
    survey = in_blocks(x, cuts, covariance=True, enough_rank=wanted)
    assert survey.rank == (wanted if wanted <= 4 else 4)


def test_enough_rank_saves_the_products_of_later_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    summed: list[int] = []

    def sum_products(x: Samples, origin: Samples, unit: float) -> Samples:
        summed.append(len(x))
        return np.asarray((x - origin).T @ (x - origin) / unit**2)

    monkeypatch.setattr("igbss_stream.separation.covariance._sum_products", sum_products)
    x = np.random.default_rng(0).normal(size=(100_000, 3))
    survey = in_blocks(x, [50_000], covariance=True, enough_rank=3)
    assert survey.rank == 3
    assert summed == [1024]
    with pytest.raises(RuntimeError, match="without covariance"):
        _ = survey.covariance
    summed.clear()
    x[:2000] = 0.0  # the recording begins before the amplifier does
    assert in_blocks(x, [50_000], covariance=True, enough_rank=3).rank == 3
    assert sum(summed) == 100_000


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("keeps_products", [False, True])
def test_the_rank_is_that_of_the_excerpt(
    monkeypatch: pytest.MonkeyPatch, dtype: type, keeps_products: bool
) -> None:
    """Sources that a structure is learned for have to be in the samples that it is learned from."""
    monkeypatch.setattr("igbss_stream.separation.excerpt._MAX_NUMBERS", 1600 * 4)
    x: Samples = (np.random.default_rng(0).normal(size=(20_000, 4)) + 50.0).astype(dtype)
    x[:, 3] = x[:, 2]
    outside = slice(1000, 2000)  # between the segments, which are 200 rows long and 2,829 apart
    x[outside, 3] = x[outside, 1]
    options: dict[str, Any] = {"keep_excerpt": True, "covariance": keeps_products}
    assert np.linalg.matrix_rank(np.cov(in_blocks(x, [1500], **options).excerpt.T)) == 3
    assert in_blocks(x, [1500], **options).rank == 3
    assert in_blocks(x, [1500], covariance=True).rank == 4


def test_an_excerpt_saves_the_products_of_other_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("igbss_stream.separation.excerpt._MAX_NUMBERS", 1600 * 4)
    x: Samples = np.random.default_rng(0).normal(size=(20_000, 4))
    survey = SeparationPlan(ModelSettings(), 4).make_survey(names(x), x.dtype, len(x))
    survey.update(x)
    with pytest.raises(RuntimeError, match="without covariance"):
        _ = survey.covariance
    assert survey.rank == 4


def test_spans_that_are_too_small_or_too_different() -> None:
    x = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(InputError, match=r"c\d spans only .*e-305, too little for the digits of float64"):
        survey_array(x * 1e-305, names(x)).check()
    y = x * [1.0, 1e-140, 1e40]
    with pytest.raises(InputError, match=r"c2 spans .*e\+40 and c1 only .*e-140. Give the channels units"):
        survey_array(y, names(y)).check()
    for scale in 1e-290, 1e-200, 1e200, 1e300:
        survey_array(x * scale, names(x)).check()


def test_a_channel_within_the_rounding_of_its_offset_is_told_apart_from_a_constant_one() -> None:
    x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    x[:, 1] = 1e7 + np.arange(50) % 3
    message = "c1 is near 1e+07, where float32 rounds by 1: if it is not constant, subtract this offset"
    with pytest.raises(InputError, match=re.escape(message)):
        survey_array(x, names(x)).check()


@pytest.mark.parametrize(("dtype", "largest"), [(np.float32, 1e35), (np.float64, 5e307)])
def test_samples_whose_sums_could_overflow(dtype: type, largest: float) -> None:
    x: Samples = np.random.default_rng(0).normal(size=(20, 3))
    x = (x / np.abs(x).max() * largest).astype(dtype)
    with pytest.raises(InputError, match=r"samples reach .* Convert them to a larger unit"):
        survey_array(x, names(x)).check()


def test_nan_are_not_to_be_cut_out_where_too_few_samples_would_be_left() -> None:
    x = np.random.default_rng(9).normal(size=(30, 10))
    x[:5, 3] = np.nan
    with pytest.raises(InputError, match=r"5 samples are NaN.* Interpolate them or cut them out first\.$"):
        survey_array(x, [f"c{i}" for i in range(10)]).check()
    x[:21, 4] = np.inf
    with pytest.raises(
        InputError, match=r"leave out the channels .* samples, 9 of 30 are left for 10 channels"
    ):
        survey_array(x, [f"c{i}" for i in range(10)]).check()
