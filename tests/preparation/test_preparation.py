"""Recordings are prepared as by SciPy on whole arrays, with the same bits for all block sizes."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from igbss_stream.errors import InputError, ParameterError
from igbss_stream.files.gaps import get_gap_rows, make_gaps
from igbss_stream.preparation import offline as preparing
from igbss_stream.preparation.filters import compute_padding, compute_settling_time, design_filters
from igbss_stream.preparation.offline import PreparedRecording
from igbss_stream.preparation.resampling import PolyphaseFilter, Resampler, get_polyphase_filter
from igbss_stream.preparation.settings import Preparation
from tests.prepared import Array, ArrayRecording, drifting, whole

RATE = 250.0
FILTERS: dict[str, dict[str, Any]] = {
    "band and mains": {"highpass": 1.0, "lowpass": 40.0, "notch": (50.0, 100.0)},
    "highpass": {"highpass": 2.0, "filter_order": 2},
    "lowpass of an offset": {"lowpass": 5.0, "filter_order": 1},
    "steep": {"highpass": 3.0, "lowpass": 90.0, "filter_order": 8},
    "notch": {"notch": (50.0,), "notch_width": 0.5},
}


def filter_by_scipy(x: Array, preparation: Preparation, rate: float = RATE) -> Array:
    """Return the output of sosfiltfilt for a whole array, with a separate filter design."""
    sos = []
    for kind in ("highpass", "lowpass"):
        if getattr(preparation, kind) is not None:
            edge = getattr(preparation, kind) / (rate / 2)
            sos.append(signal.butter(preparation.filter_order, edge, kind, output="sos"))
    for frequency in preparation.notch:
        q = frequency / preparation.notch_width
        sos.append(signal.tf2sos(*signal.iirnotch(frequency / (rate / 2), q)))
    cascade = np.concatenate(sos)
    reach = 3 * (2 * len(cascade) + 1 - min((cascade[:, 2] == 0).sum(), (cascade[:, 5] == 0).sum()))
    done = signal.sosfiltfilt(cascade, x, axis=0, padlen=min(reach, len(x) - 1))
    return np.asarray(done)


def resample_by_scipy(x: Array, up: int, down: int) -> Array:
    taps = get_polyphase_filter(up, down).taps
    return np.asarray(signal.resample_poly(x, up, down, axis=0, window=taps / up, padtype="edge"))


def assert_close(got: Any, want: Array) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * float(np.abs(want).max()))


class TestFilters:
    @pytest.mark.parametrize("kind", FILTERS)
    def test_zero_phase_is_that_of_scipy(self, kind: str) -> None:
        preparation, x = Preparation(**FILTERS[kind]), drifting(20_000)
        got = whole(PreparedRecording(ArrayRecording(x), preparation))
        assert_close(got, filter_by_scipy(x, preparation))
        assert len(x) > 2 * compute_settling_time(
            design_filters(preparation, RATE), 10**6
        )  # otherwise no block needs the look-ahead

    @pytest.mark.parametrize("n_samples", [2, 3, 20, 39, 40, 41])
    def test_runs_shorter_than_their_padding(self, n_samples: int) -> None:
        preparation, x = Preparation(**FILTERS["band and mains"]), drifting(n_samples)
        assert compute_padding(design_filters(preparation, RATE)) == 39
        got = whole(PreparedRecording(ArrayRecording(x), preparation))
        assert_close(got, filter_by_scipy(x, preparation))

    def test_gains_are_as_documented(self) -> None:
        """-3 dB per pass at the edges of bands and notches, zero at the mains frequency."""
        sos = design_filters(Preparation(highpass=1.0, lowpass=40.0, notch=(50.0,), notch_width=4.0), RATE)
        _, at_edges = signal.sosfreqz(sos[:4], [1.0, 40.0], fs=RATE)
        np.testing.assert_allclose(20 * np.log10(np.abs(at_edges)), -3.01, atol=0.01)
        _, at_notch = signal.sosfreqz(sos[4:], [48.0, 50.0, 52.0], fs=RATE)
        np.testing.assert_allclose(np.abs(at_notch), [np.sqrt(0.5), 0.0, np.sqrt(0.5)], atol=0.01)

    def test_the_initial_state_has_no_effect_after_the_settling_time(self) -> None:
        """No initial state matters after the settling time; after half of it, it does."""
        sos = design_filters(Preparation(highpass=1.0, lowpass=40.0, notch=(50.0,)), RATE)
        n, rng = compute_settling_time(sos, 10**6), np.random.default_rng(0)
        later = rng.uniform(-1, 1, n + 2000)
        begun = [rng.uniform(-1, 1, 5000), np.ones(5000), np.sign(np.sin(np.arange(5000) / 40))]
        ends = [signal.sosfilt(sos, np.concatenate([x, later]))[-2000:] for x in begun]
        assert max(np.abs(one - ends[0]).max() for one in ends[1:]) <= 1e-12
        half = [signal.sosfilt(sos, np.concatenate([x, later]))[5000 + n // 2] for x in begun]
        assert np.ptp(half) > 1e-9

    def test_filters_too_slow_for_memory_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preparing, "LOOK_AHEAD_BYTES", 8 * 3 * 1000)
        source = ArrayRecording(drifting(100))
        with pytest.raises(ParameterError, match=r"and 1000 fit into memory: raise highpass"):
            PreparedRecording(source, Preparation(highpass=1.0))
        assert len(whole(PreparedRecording(source, Preparation(highpass=10.0)))) == 100
        with pytest.raises(ParameterError, match="samples to settle"):
            compute_settling_time(design_filters(Preparation(highpass=0.003), RATE), 10**6)

    def test_float32_is_rounded_once_at_the_end(self) -> None:
        preparation, x = Preparation(highpass=1.0), drifting(3000).astype(np.float32)
        got = whole(PreparedRecording(ArrayRecording(x), preparation))
        assert got.dtype == np.float32
        want = filter_by_scipy(x.astype(np.float64), preparation)
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9 * np.abs(want).max())


class TestResampling:
    @pytest.mark.parametrize(("up", "down"), [(1, 2), (2, 5), (125, 128), (5, 2), (3, 1), (1, 40)])
    def test_it_is_that_of_scipy(self, up: int, down: int) -> None:
        x = drifting(1003)
        prepared = PreparedRecording(ArrayRecording(x), Preparation(resample=RATE * up / down))
        assert prepared.rate == RATE * up / down
        assert prepared.n_samples == -(-len(x) * up // down)
        assert_close(whole(prepared), resample_by_scipy(x, up, down))

    @pytest.mark.parametrize(("up", "down"), [(1, 4), (125, 128), (5, 2)])
    def test_pass_band_and_stop_band(self, up: int, down: int) -> None:
        """Flat up to 0.8 of half the lower rate, 80 dB down from half of it; constants are preserved."""
        fir = PolyphaseFilter(up, down)
        w, gain = signal.freqz(fir.taps / up, worN=1 << 15)
        lower = np.pi / max(up, down)
        assert np.abs(np.abs(gain[w < 0.8 * lower]) - 1).max() < 2e-4
        assert 20 * np.log10(np.abs(gain[w > lower]).max()) < -79
        resampler = Resampler(fir, 0, 2)
        constant = resampler.push(np.full((500, 2), 4200.0))
        np.testing.assert_allclose(constant, 4200.0, rtol=1e-13)
        assert len(constant) > 0

    def test_rates_that_are_not_in_a_ratio_are_refused(self) -> None:
        with pytest.raises(
            ParameterError, match=r"1000\.012 Hz\. Got 250 Hz .* possible rate is 250\.003 Hz"
        ):
            Preparation(resample=250.0).compute_ratio(1000.012)
        with pytest.raises(ParameterError, match="within a factor of 1000 of the rate, 30000 Hz"):
            Preparation(resample=1.0).compute_ratio(30_000.0)
        with pytest.raises(ParameterError, match="within a factor of 1000"):
            Preparation(resample=1e7).compute_ratio(100.0)
        for rate, wanted, ratio in (
            (44_100, 48_000, (160, 147)),
            (1000 / 3, 100, (3, 10)),
            (5, 5000, (1000, 1)),
        ):
            assert Preparation(resample=float(wanted)).compute_ratio(float(rate)) == ratio


class TestBreaks:
    def test_each_run_is_prepared_independently(self) -> None:
        x, preparation = drifting(5000), Preparation(highpass=2.0, notch=(50.0,))
        prepared = PreparedRecording(ArrayRecording(x, gaps=[(1200, 30), (1300, 0)]), preparation)
        parts = [filter_by_scipy(part, preparation) for part in np.split(x, [1200, 1300])]
        assert_close(whole(prepared), np.concatenate(parts))
        assert prepared.gaps == make_gaps([(1200, 30, "missing"), (1300, 0, "missing")])

    @given(
        st.sampled_from([(2, 5), (1, 4), (5, 2), (1, 1)]),
        st.lists(st.tuples(st.integers(0, 200), st.integers(0, 40)), max_size=5),
    )
    def test_positions_on_the_new_grid(self, ratio: tuple[int, int], gaps: list[tuple[int, int]]) -> None:
        """New samples are at the grid positions within the runs; each is counted once."""
        up, down = ratio
        places = sorted(gaps)
        source = ArrayRecording(drifting(200), gaps=places)
        prepared = PreparedRecording(source, Preparation(resample=RATE * up / down))
        missing = np.cumsum([0, *(n for _, n in places)])
        rows = np.split(np.arange(200), [row for row, _ in places])
        index = [set((part + before).tolist()) for part, before in zip(rows, missing, strict=True)]
        want = []
        for run in index:
            first, stop = (min(run), max(run) + 1) if run else (0, 0)
            want.append(sum(first * up <= m * down < stop * up for m in range(1000)))
        assert prepared.n_samples == sum(want)
        assert get_gap_rows(prepared.gaps) == np.cumsum(want)[:-1].tolist()
        assert prepared.n_samples + sum(gap.n_samples for gap in prepared.gaps) == -(
            -(200 + int(missing[-1])) * up // down
        )
        assert len(whole(prepared, 7)) == prepared.n_samples

    def test_a_run_that_begins_off_the_grid_is_resampled_on_it(self) -> None:
        """A sine keeps its phase across a gap."""
        index = np.concatenate([np.arange(1000), np.arange(1003, 2500)])
        wave = np.sin(2 * np.pi * 3.0 * index / RATE)
        source = ArrayRecording(np.column_stack([wave, -wave]), gaps=[(1000, 3)])
        prepared = PreparedRecording(source, Preparation(resample=100.0))
        (gap,) = prepared.gaps
        assert (gap.start, gap.n_samples) == (400, 2)
        new = np.concatenate([np.arange(400), np.arange(402, 1000)])
        within = np.abs(new - 401) > 30  # away from the repeated samples at the ends
        got = whole(prepared)[:, 0]
        np.testing.assert_allclose(
            got[within][30:-30], np.sin(6 * np.pi * new / 100)[within][30:-30], atol=2e-3
        )


class TestReference:
    def test_average(self) -> None:
        x = drifting(500)
        prepared = PreparedRecording(ArrayRecording(x), Preparation(reference="average"))
        got = whole(prepared)
        np.testing.assert_allclose(got, x - x.mean(axis=1, keepdims=True), rtol=1e-9, atol=1e-9)
        assert np.linalg.matrix_rank(got - got.mean(axis=0)) == 2

    def test_named_channels_and_a_single_one(self) -> None:
        x = drifting(500)
        got = whole(PreparedRecording(ArrayRecording(x), Preparation(reference=("c0", "c2"))))
        np.testing.assert_allclose(got, x - (x[:, [0]] + x[:, [2]]) / 2, rtol=1e-9)
        single = PreparedRecording(ArrayRecording(x), Preparation(reference=("c1",)))
        assert single.channels == ("c0", "c2")
        assert single.bad == ("c0",)
        np.testing.assert_allclose(whole(single), x[:, [0, 2]] - x[:, [1]], rtol=1e-9)

    def test_excluded_channels_are_not_in_the_reference(self) -> None:
        x = drifting(500, 4)
        x[:, 1] = 7.0
        prepared = PreparedRecording(ArrayRecording(x), Preparation(reference="average"), [1])
        rest = x[:, [0, 2, 3]]
        np.testing.assert_allclose(whole(prepared), rest - rest.mean(axis=1, keepdims=True), rtol=1e-9)
        with pytest.raises(ParameterError, match="names c1, which is flat or bad, and excluded"):
            PreparedRecording(ArrayRecording(x), Preparation(reference=("c1", "c2")), [1])

    def test_unknown_names_are_rejected(self) -> None:
        source = ArrayRecording(drifting(10))
        with pytest.raises(ParameterError, match="names A1, which is no channel of these: c0, c1, c2"):
            PreparedRecording(source, Preparation(reference=("A1",)))
        with pytest.raises(ParameterError, match="leaves 1 of 2 channels"):
            PreparedRecording(ArrayRecording(drifting(10, 2)), Preparation(reference=("c0",)))


ALL = Preparation(highpass=2.0, lowpass=40.0, notch=(50.0,), resample=100.0, reference="average")


@settings(max_examples=10)
@given(block=st.integers(1, 4000), read=st.integers(500, 1 << 18))
def test_the_output_does_not_depend_on_the_blocks(block: int, read: int) -> None:
    """Neither the requested blocks nor those that are read change a bit."""
    x = drifting(11_000)
    once = whole(PreparedRecording(ArrayRecording(x, gaps=[(9000, 5)]), ALL))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "_BLOCK_BYTES", read)
        again = whole(PreparedRecording(ArrayRecording(x, gaps=[(9000, 5)]), ALL), max(block, 50))
    np.testing.assert_array_equal(once, again)


def test_all_together_in_the_order_of_the_documentation() -> None:
    x = drifting(9000)
    prepared = PreparedRecording(ArrayRecording(x), ALL)
    referenced = x - x.mean(axis=1, keepdims=True)
    assert_close(whole(prepared), resample_by_scipy(filter_by_scipy(referenced, ALL), 2, 5))
    assert (prepared.unit, prepared.dataset, prepared.notes) == ("uV", "/x", ("so",))


@pytest.mark.jit  # otherwise the survey takes minutes
def test_memory_does_not_grow_with_the_recording() -> None:
    x, peaks = drifting(5000, 8), []
    for repeats in (30, 120):
        prepared = PreparedRecording(ArrayRecording(x, repeats=repeats), Preparation(highpass=2.0))
        tracemalloc.start()
        assert sum(len(block) for _, block in prepared.read_blocks(1000)) == 5000 * repeats
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] < 8 * 8 * 5000 * 60, peaks


class TestBadSamples:
    def test_the_positions_of_samples_that_are_not_finite_are_reported(self) -> None:
        x = drifting(5000)
        x[300, 1], x[4000, 1] = np.nan, np.inf
        prepared = PreparedRecording(ArrayRecording(x), ALL)
        with pytest.raises(InputError, match=r"2 samples are NaN or infinite: c1 has 2, from sample 300"):
            whole(prepared)

    @pytest.mark.parametrize("preparation", [ALL, Preparation(reference="average")])
    def test_a_flat_channel_is_reported_before_it_affects_the_others(
        self, preparation: Preparation
    ) -> None:
        x = drifting(5000)
        x[:, 2] = 3.0
        prepared = PreparedRecording(ArrayRecording(x), preparation, remedy=" with --drop-flat")
        with pytest.raises(InputError, match=r"flat \(constant\): c2\. Leave them out with --drop-flat"):
            whole(prepared)

    def test_a_recording_without_a_rate(self) -> None:
        source = ArrayRecording(drifting(100), rate=None)
        for preparation in (Preparation(notch=(50.0,)), Preparation(resample=100.0)):
            with pytest.raises(ParameterError, match="pass --rate"):
                PreparedRecording(source, preparation)
        assert PreparedRecording(source, Preparation(reference="average")).rate is None


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"highpass": 0.0}, r"highpass must be a finite number of Hz above 0\. Got 0\.0"),
    ({"lowpass": float("nan")}, "lowpass must be a finite number"),
    ({"resample": -1.0}, "resample must be a finite number"),
    ({"notch": (50.0, -50.0)}, r"notch\[1\] must be a finite number"),
    ({"notch": (0.5,)}, r"notch\[0\] must be above half the notch_width, 1 Hz"),
    ({"filter_order": 0}, "filter_order must be a whole number from 1 to 16"),
    ({"filter_order": 2.5}, "filter_order must be a whole number"),
    ({"highpass": 40.0, "lowpass": 1.0}, "highpass must be below lowpass, 1 Hz. Got 40 Hz"),
    ({"reference": "mean"}, "reference must be 'average' or names of channels"),
    ({"reference": ()}, "reference names no channel"),
]


@pytest.mark.parametrize(("values", "message"), MISTAKES)
def test_invalid_settings_are_rejected(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Preparation(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lowpass": 125.0}, r"lowpass must be below 125 Hz, half the rate\. Got 125 Hz"),
        ({"highpass": 200.0}, "highpass must be below 125 Hz"),
        ({"highpass": 0.002}, r"highpass must be at least 0\.0025 Hz at a rate of 250 Hz"),
        ({"notch": (50.0,), "notch_width": 1e-4}, r"notch_width must be at least 0\.0025 Hz"),
        (
            {"notch": (60.0, 124.5)},
            r"notch\[1\] with half the notch_width must be below 125 Hz.* Got 125\.5 Hz",
        ),
    ],
)
def test_frequencies_that_the_rate_does_not_allow(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Preparation(**values).check(RATE)
