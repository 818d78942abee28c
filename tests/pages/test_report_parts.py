"""Compare the statistics and drawings of a report with straightforward computations."""

import base64
import io
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy import signal, stats

from igbss_stream.pages.markup import escape, format_decimal, format_duration, format_number, format_percent
from igbss_stream.pages.plotting.columns import Overview
from igbss_stream.pages.plotting.png import encode_data_url
from igbss_stream.pages.plotting.scales import choose_unit
from igbss_stream.pages.plotting.spectrum import SpectrumAverager
from igbss_stream.pages.plotting.svg import draw_band, draw_path, find_ticks
from igbss_stream.pages.report.moments import CrossMoments, Moments

CUTS = st.lists(st.integers(1, 400), min_size=1, max_size=9)


def blocks(x: np.ndarray, cuts: list[int]) -> list[np.ndarray]:
    """Cut samples into blocks of these lengths, the last one taking the rest."""
    return [block for block in np.split(x, np.cumsum(cuts)) if len(block)]


@given(CUTS, st.sampled_from([0.0, 1e6]))
def test_moments_are_those_of_all_samples(cuts: list[int], offset: float) -> None:
    rng = np.random.default_rng(sum(cuts))
    x = rng.laplace(size=(1500, 3)) * [1.0, 1e-6, 50.0] + offset * np.array([1.0, 0.0, 1.0])
    y = rng.normal(size=(1500, 2)) + x[:, :2] * [1.0, 1e6]
    moments, others, shared = Moments(3), Moments(2), CrossMoments(3, 2)
    for a, b in zip(blocks(x, cuts), blocks(y, cuts), strict=True):
        moments.update(a)
        others.update(b)
        shared.update(a, b)
    np.testing.assert_allclose(moments.mean, x.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(moments.variance, x.var(axis=0), rtol=1e-7)
    np.testing.assert_allclose(moments.kurtosis, stats.kurtosis(x), rtol=1e-6)
    wanted = np.corrcoef(x.T, y.T)[:3, 3:]
    np.testing.assert_allclose(
        shared.compute_correlation(moments.variance, others.variance), wanted, atol=1e-7
    )


def test_what_does_not_move_has_no_kurtosis_and_no_correlation() -> None:
    moments, shared = Moments(1), CrossMoments(1, 1)
    moments.update(np.ones((9, 1)))
    shared.update(np.ones((9, 1)), np.arange(9.0)[:, None])
    assert np.isnan(moments.kurtosis).all()
    assert shared.compute_correlation(moments.variance, np.ones(1)).tolist() == [[0.0]]


@given(CUTS)
def test_spectra_do_not_depend_on_how_samples_are_cut(cuts: list[int]) -> None:
    x = np.random.default_rng(0).normal(size=(1500, 2)).cumsum(axis=0)
    growing = SpectrumAverager(2, 64.0)
    for block in blocks(x[:900], cuts):
        growing.update(block)
    growing.end_run()
    for block in blocks(x[900:], cuts):
        growing.update(block)
    assert growing.n_segments == 13 + 8
    parts = [signal.welch(part, 64.0, nperseg=128, detrend="linear", axis=0) for part in (x[:900], x[900:])]
    frequency, density = growing.finish()
    np.testing.assert_allclose(frequency, parts[0][0][1:])
    np.testing.assert_allclose(density, ((13 * parts[0][1] + 8 * parts[1][1]) / 21)[1:], rtol=1e-9)


def test_too_few_samples_have_no_spectrum() -> None:
    growing = SpectrumAverager(2, 100.0)
    growing.update(np.zeros((199, 2)))
    assert [part.size for part in growing.finish()] == [0, 0]


@given(CUTS, st.integers(1, 90), st.integers(0, 300))
def test_columns_hold_the_least_and_the_largest(cuts: list[int], n_columns: int, missing: int) -> None:
    x = np.random.default_rng(1).normal(size=(700, 2))
    seen = Overview(2, 700 + missing, n_columns)
    at = 0
    for block in blocks(x, cuts):
        seen.update(at + (missing if at else 0), block)
        at += len(block)
    first = len(blocks(x, cuts)[0])
    padded = np.concatenate([x[:first], np.full((missing, 2), np.nan), x[first:]])
    if first == 700:
        padded = np.concatenate([x, np.full((missing, 2), np.nan)])
    assert len(seen.low) <= n_columns
    for c in range(len(seen.low)):
        there = padded[c * seen.width : (c + 1) * seen.width]
        there = there[np.isfinite(there[:, 0])]
        for found, wanted in ((seen.low, np.min), (seen.high, np.max)):
            if len(there):
                assert found[c].tolist() == wanted(there, axis=0).tolist()
            else:
                assert np.isnan(found[c]).all()


def test_pictures_are_read_by_another_program() -> None:
    pixels = np.array([[0, 1, 2], [2, 255, 0]], np.uint8)
    address = encode_data_url(pixels, ["#ff0000", "#00ff00", "#0000ff"])
    with Image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))) as image:
        rows = np.asarray(image.convert("RGBA"))
    assert rows[:, :, :3][0].tolist() == [[255, 0, 0], [0, 255, 0], [0, 0, 255]]
    assert rows[1, :, 3].tolist() == [255, 0, 255]


def points_of(drawn: str) -> list[list[list[int]]]:
    """Follow the relative steps of a path."""
    parts = []
    for x, y, steps in re.findall(r"M(-?\d+) (-?\d+)l([-\d ]+)", drawn):
        numbers = np.array(steps.split(), int).reshape(-1, 2)
        parts.append(np.cumsum([[int(x), int(y)], *numbers.tolist()], axis=0).tolist())
    return parts


def test_lines_break_where_something_is_missing() -> None:
    x, y = np.arange(7.0), np.array([1.0, 2.0, np.nan, 5.0, 5.0, -9.0, np.nan])
    assert points_of(draw_path(x, y)) == [[[0, 1], [1, 2]], [[3, 5], [4, 5], [5, -9]]]
    assert draw_path(x, np.full(7, np.nan)) == ""
    area = draw_band(np.array([0.0, 1.0]), np.array([3.0, 4.0]), np.array([1.0, 0.0]))
    assert points_of(area) == [[[0, 1], [1, 0], [1, 4], [0, 3]]]
    assert 'class="band area"' in area
    assert 'class="band"' in draw_band(x, y, y)


def test_numbers_and_texts_as_they_are_read() -> None:
    assert [format_number(v) for v in (0.0, 1234567.0, 12345.0, -0.25, 5.6e-19, float("nan"))] == [
        "0", "1.23e6", "12345", "\N{MINUS SIGN}0.25", "5.6e\N{MINUS SIGN}19", "\N{EN DASH}",
    ]  # fmt: skip
    assert [format_percent(v) for v in (1.0, 0.2345, 0.07, 0.005, 0.000123)] == [
        "100 %",
        "23.4 %",
        "7.0 %",
        "0.50 %",
        "0.012 %",
    ]
    assert [format_decimal(v) for v in (171.234, -0.0223, -0.0001, 4567.0, float("nan"))] == [
        "171.23", "\N{MINUS SIGN}0.02", "0.00", "4567", "\N{EN DASH}",
    ]  # fmt: skip
    assert [format_duration(v) for v in (1.5, 238.3, 7322.0)] == ["1.5 s", "3 min 58 s", "2 h 02 min 02 s"]
    assert escape("<a href='x'>&\x00") == r"&lt;a href=&#x27;x&#x27;&gt;&amp;\x00"
    assert len(escape("x" * 1000)) == 300


@pytest.mark.parametrize(
    ("unit", "size", "shown", "read"),
    [
        ("V", 1.8e-5, "µV", 18.0),
        ("V", 0.05, "mV", 50.0),
        ("V", 2.0, "V", 2.0),
        ("V", 0.0, "V", 0.0),
        ("V", 4.7e-7, "µV", 0.47),
        ("T", 3e-14, "fT", 30.0),
        ("T", 1e-20, "fT", 1e-5),
        ("uV", 1e-3, "µV", 1e-3),
        ("strain", 1e-19, "strain", 1e-19),
        (None, 1e-9, "", 1e-9),
    ],
)
def test_volts_and_teslas_are_read_with_a_prefix(
    unit: str | None, size: float, shown: str, read: float
) -> None:
    found = choose_unit(unit, size)
    assert found.unit == shown
    assert size * found.factor == pytest.approx(read)


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3e-19, 5e-19), (2.5, 2.6), (-1e9, 3e9), (-19.0, 19.9)])
def test_ticks_are_round_and_inside(low: float, high: float, n: int) -> None:
    found = find_ticks(low, high, n)
    assert 2 <= len(found) <= 6
    assert all(low - 1e-9 * (high - low) <= tick <= high + 1e-9 * (high - low) for tick in found)
    steps = np.diff(found)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-9)
    assert find_ticks(1.0, 1.0, 5) == find_ticks(0.0, float("nan"), 5) == []
