"""Compare what a page shows of samples with straightforward computations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import signal

from igbss_stream.pages.plotting.scales import round_up
from igbss_stream.pages.plotting.scalp import find_montage, interpolate_weights
from igbss_stream.pages.plotting.spectrum import compute_spectrum
from igbss_stream.pages.view.page import ScrollPosition
from igbss_stream.pages.view.traces import (
    Ring,
    choose_spacing,
    compute_medians,
    compute_width,
    reduce_to_columns,
)

pytest.importorskip("bokeh")

Pieces = list[tuple[int, int]]  # samples that are skipped, samples that come


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 60)), min_size=1, max_size=8), st.integers(1, 7)
)
def test_ring_and_columns_are_those_of_the_whole_stream(pieces: Pieces, width: int) -> None:
    rng, ring = np.random.default_rng(0), Ring(2, 64)
    whole, start = np.empty((0, 2), np.float32), 5
    for skipped, n in pieces:
        x = rng.normal(size=(n, 2)).astype(np.float32)
        whole = np.concatenate([whole, np.full((skipped if len(whole) else 0, 2), np.nan, np.float32), x])
        ring.write(start + len(whole) - n, x)
    held = whole.copy()
    held[: max(0, len(whole) - 64)] = np.nan
    first, stop = (start + max(0, len(whole) - 64)) // width, (start + len(whole)) // width
    padded: NDArray[np.float32] = np.full((start + len(whole) + width, 2), np.nan, np.float32)
    padded[start : start + len(whole)] = held
    seen = reduce_to_columns(ring, width, first, stop)
    for c in range(first, stop):
        for trace in range(2):
            there = [v for v in padded[c * width : (c + 1) * width, trace] if v == v]
            got = seen.low[c - first, trace], seen.high[c - first, trace]
            if there:
                assert got == (min(there), max(there))
            else:
                assert np.isnan(got).all()


def test_columns_do_not_depend_on_when_they_are_looked_at() -> None:
    x, ring = np.random.default_rng(1).normal(size=(100, 3)).astype(np.float32), Ring(3, 100)
    early = []
    for at in range(0, 100, 10):
        ring.write(at, x[at : at + 10])
        early.append(reduce_to_columns(ring, 4, at // 4, (at + 10) // 4))
    late = reduce_to_columns(ring, 4, 0, 25)
    np.testing.assert_array_equal(np.concatenate([seen.low for seen in early]), late.low)
    np.testing.assert_array_equal(np.concatenate([seen.high for seen in early]), late.high)


def test_a_stream_that_begins_anew_begins_an_empty_ring() -> None:
    ring = Ring(1, 10)
    assert ring.start is None
    assert np.isnan(ring.read(0, 3)).all()
    ring.skip(3)
    ring.write(50, np.ones((5, 1)))
    ring.write(2, np.full((3, 1), 2.0))
    assert ring.stop == 5
    np.testing.assert_array_equal(ring.read(0, 7)[:, 0], [np.nan, np.nan, 2, 2, 2, np.nan, np.nan])
    ring.skip(1_000_000)
    assert np.isnan(ring.read(1_000_000, 1_000_005)).all()


def test_scales_are_round_and_keep_rows_apart() -> None:
    for value, wanted in (
        (1.0, 1.0),
        (1.01, 2.0),
        (0.3, 0.5),
        (7e-19, 1e-18),
        (4999.0, 5000.0),
        (51.0, 100.0),
    ):
        assert round_up(value) == wanted
    x = np.random.default_rng(0).normal(size=(2000, 6)).astype(np.float32)
    assert choose_spacing(x) == 10.0
    assert choose_spacing(1e-19 * x) == pytest.approx(1e-18)
    assert (
        choose_spacing(np.full((10, 2), np.nan, np.float32))
        == choose_spacing(np.ones((10, 2), np.float32))
        == 1.0
    )
    x[:100] = np.nan
    np.testing.assert_allclose(compute_medians(x + 7), np.median(x[100:] + 7, axis=0), rtol=1e-6)
    assert compute_medians(x[:100]).tolist() == [0.0] * 6
    assert (compute_width(10, 1000, 500), compute_width(1, 250, 600)) == (20, 1)


def test_the_head_glides_over_messages_and_never_passes_the_last_sample() -> None:
    head, seen = ScrollPosition(), []
    for k in range(200):  # 20 frames a second; a message of 0.1 s every other frame, at 250 Hz
        stop = 25 * (k // 2 + 1)
        seen.append(head.advance(stop, 250.0, k / 20))
        assert seen[-1] <= stop
    steps = np.diff(seen)[20:]
    assert steps.min() >= 11
    assert steps.max() <= 14
    assert head.advance(1_000_000, 250.0, 10.0) == 1_000_000  # a jump is followed at once
    assert head.advance(10, 250.0, 10.1) == 10


def test_spectrum_is_that_of_what_lies_between_gaps() -> None:
    x = np.random.default_rng(0).normal(size=4000)
    frequency, density = compute_spectrum(x, 250.0)
    theirs = signal.welch(x, 250.0, nperseg=500, detrend="linear")
    np.testing.assert_allclose(frequency, theirs[0][1:])
    np.testing.assert_allclose(density, theirs[1][1:])
    x[1500:1600] = np.nan
    parts = [signal.welch(part, 250.0, nperseg=500, detrend="linear")[1] for part in (x[:1500], x[1600:])]
    np.testing.assert_allclose(compute_spectrum(x, 250.0)[1], ((15 * parts[0] + 24 * parts[1]) / 39)[1:])
    assert len(compute_spectrum(x[1400:1700], 250.0)[0]) == 0


def test_a_map_has_the_weights_at_the_electrodes() -> None:
    names = ["Fp1", "Fp2", "C3", "C4", "EOG", "O1", "O2", "T3", "T7"]
    placed = find_montage(names)
    assert placed.source == "names of the 10-20 system"
    assert [names[i] for i in placed.channels] == [
        "Fp1",
        "Fp2",
        "C3",
        "C4",
        "O1",
        "O2",
        "T3",
    ]  # T7 is where T3 is
    weights = np.arange(9.0)
    size = 401
    drawn = interpolate_weights(placed, weights, size)
    pixel = np.rint((placed.positions / 1.1 + 1) / 2 * (size - 1)).astype(int)
    np.testing.assert_allclose(drawn[pixel[:, 1], pixel[:, 0]], weights[placed.channels], atol=0.1)
    assert np.isnan(drawn[0, 0])
    assert np.isfinite(drawn[size // 2, size // 2])
    few = find_montage(["Fp1", "Fp2", "E1", "E2", "E3", "Cz", "Oz", "x", "y"])
    assert not few.has_map
    assert few.reason == "no positions are known, and 4 of 9 channels have names of the 10-20 system"
    line = find_montage(["Fz", "Cz", "Pz", "Oz"])
    assert not line.has_map
    assert line.reason == "names of the 10-20 system: all places are on a line"
