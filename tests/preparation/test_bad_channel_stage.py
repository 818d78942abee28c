"""A channel that goes bad in a stream is replaced by what the others predict, and returns."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.bad_channels.splines import SphericalSplines
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import ParameterError
from igbss_stream.files.open import open_recording
from igbss_stream.playback.simulate import Simulation
from igbss_stream.preparation.bad_channels.cells import CellJudge, Evidence
from igbss_stream.preparation.bad_channels.predictor import ChannelPredictor
from igbss_stream.preparation.bad_channels.settings import BadChannelSettings
from igbss_stream.preparation.bad_channels.stage import BadChannelStage
from igbss_stream.preparation.repair.stage import RepairStage
from tests.realdata import DATA, needs_data

Array = NDArray[np.float64]

RATE = 250.0
SIMULATION = Simulation(19, RATE, seed=9311, montage="10-20")
STREAM = SIMULATION.stream("eeg")
BAD = [STREAM.channels.index(name) for name in ("Cz", "F4", "P7")]
START, STOP = 7500, 12_500  # while channels are bad: 20 s


@cache
def record() -> NDArray[np.float32]:
    return SIMULATION.block(0, 17_500)


def spoil(dead: float) -> NDArray[np.float32]:
    """Return samples with one dead channel, and two that swing eight times as far and are cut off."""
    x = record().copy()
    x[START:STOP, BAD[0]] = dead
    for channel, sign in zip(BAD[1:], (1, -1), strict=True):
        size = x[:START, channel].std()
        x[START:STOP, channel] = np.clip(
            8 * x[START:STOP, channel] + 12 * sign * size, -10 * size, 10 * size
        )
    return x


def run(
    x: NDArray[np.float32], block: int = 500, settings: BadChannelSettings | None = None
) -> tuple[NDArray[np.float32], BadChannelStage]:
    stage = BadChannelStage(STREAM, settings)
    items = [stage.push(Chunk(x[at : at + block], at)) for at in range(0, len(x), block)]
    return np.concatenate([item.data for item in items if isinstance(item, Chunk)]), stage


@pytest.mark.parametrize("dead", [np.nan, 0.0, 37.5])
def test_predicted_channels_are_the_best_linear_ones(dead: float) -> None:
    """The reference regresses present samples of the whole recording, which the stage does not know."""
    out, stage = run(spoil(dead))
    x = record().astype(np.float64)
    good = np.setdiff1d(np.arange(19), BAD)
    weights = np.linalg.lstsq(x[:, good] - x[:, good].mean(axis=0), x[:, BAD] - x[:, BAD].mean(axis=0))[0]
    best = (x[:, good] - x[:, good].mean(axis=0)) @ weights + x[:, BAD].mean(axis=0)
    during = slice(START + 20, STOP)
    error, least = (((y[during] - x[during][:, BAD]) ** 2).mean(axis=0) for y in (out[:, BAD], best))
    assert (error < least).all()  # earlier samples of the others help
    assert not np.isnan(out).any()
    assert np.array_equal(out[:, good], record()[:, good])
    assert (stage.counts.left_out, stage.counts.returned, stage.bad) == (3, 3, ())


def test_events_name_the_channel_the_fault_and_the_sample() -> None:
    _, stage = run(spoil(np.nan))
    events = stage.pop_events()
    kinds = {event.channel: event.kind for event in events if event.kind != "good"}
    assert kinds["Cz"] == "missing"
    assert set(kinds) == {"Cz", "F4", "P7"}
    assert all(START <= event.index < START + 0.5 * RATE for event in events if event.kind != "good")
    assert all(STOP < event.index <= STOP + 4 * RATE for event in events if event.kind == "good")
    assert str(events[0]).startswith(
        f"{events[0].channel} is {events[0].kind} from sample {events[0].index}"
    )
    assert stage.pop_events() == []


def test_chunks_do_not_matter() -> None:
    x = spoil(0.0)
    expected, stage = run(x)
    events = stage.pop_events()
    for block in (41, 4096):
        out, other = run(x, block)
        assert np.array_equal(out, expected)
        assert (other.pop_events(), other.counts) == (events, stage.counts)
    assert np.array_equal(run(x[:9000], 2)[0], expected[:9000])


@cache
def make_fast_record() -> NDArray[np.float32]:
    """Return 18 s of eight channels at 500 Hz, with leaps, missing samples and a stuck channel."""
    rng = np.random.default_rng(9314)
    x = rng.laplace(size=(9000, 4)).cumsum(axis=0) @ rng.standard_normal((4, 8))
    x += 0.5 * rng.standard_normal(x.shape) + 1e4
    x[5660, 2] += 200.0
    x[5550:5565, 5] -= 300.0
    x[5750:5754, 1] = np.nan
    x[6005:6200, 3] = x[6005, 3]
    return x.astype(np.float32)


def run_fast(block: int) -> tuple[NDArray[np.float32], BadChannelStage]:
    stage = BadChannelStage(Stream("s", 500.0, tuple("abcdefgh"), "uV"))
    x, out = make_fast_record(), []
    for at in range(0, len(x), block):
        item = stage.push(Chunk(x[at : at + block], at))
        assert isinstance(item, Chunk)
        out.append(item.data)
    return np.concatenate(out), stage


@pytest.mark.parametrize("block", [1, 20, 200])
def test_blocks_do_not_matter_where_cells_have_more_samples_than_are_used(block: int) -> None:
    expected, stage = run_fast(1000)
    events = stage.pop_events()
    assert {event.kind for event in events} == {"flat", "unlike", "good"}
    assert not np.array_equal(expected[5660], make_fast_record()[5660])  # a leap
    assert np.isfinite(expected).all()
    out, other = run_fast(block)
    assert np.array_equal(out, expected)
    assert (other.pop_events(), other.counts, other.spans) == (events, stage.counts, stage.spans)
    learned, as_well = stage.get_memory(), other.get_memory()
    assert learned is not None
    assert as_well is not None
    assert np.array_equal(learned.covariance, as_well.covariance)
    assert learned.table.tobytes() == as_well.table.tobytes()


def test_cells_that_are_not_judged_in_full_are_those_without_deviations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decisions = []
    must_be_alike = CellJudge._must_be_alike

    def decide(judge: CellJudge, evidence: Evidence) -> bool:
        decisions.append(must_be_alike(judge, evidence))
        return False

    expected, stage = run_fast(200)
    with monkeypatch.context() as patch:
        patch.setattr(CellJudge, "_must_be_alike", decide)
        out, other = run_fast(200)
    assert np.array_equal(out, expected)
    assert other.pop_events() == stage.pop_events()
    assert True in decisions
    assert False in decisions[8:]


def test_a_channel_that_is_dead_from_the_start_is_interpolated_on_the_head() -> None:
    x = record().copy()
    dead, others = BAD[0], np.setdiff1d(np.arange(19), BAD[0])
    x[:, dead] = 0.0
    out, _ = run(x)
    splines = SphericalSplines(STREAM.channels).compute_weights(np.array([dead]), others)[:, 0]
    expected = (x[:, others] @ splines)[10_000:]
    assert np.corrcoef(out[10_000:, dead], expected)[0, 1] > 0.999
    mean = x[10_000:, others].mean(axis=1)
    truth = record()[10_000:, dead]
    by_splines, by_mean = (((y - y.mean() - truth + truth.mean()) ** 2).mean() for y in (expected, mean))
    assert by_splines < 0.5 * by_mean


def test_bad_channels_are_interpolated_where_that_is_asked_for() -> None:
    """By the weights of the splines, around the usual level of each channel."""
    out, stage = run(spoil(np.nan), settings=BadChannelSettings(action="interpolate"))
    good = np.setdiff1d(np.arange(19), BAD)
    splines = SphericalSplines(STREAM.channels).compute_weights(np.array(BAD), good)
    during = slice(START + 300, STOP - 300)
    y, expected = out[during][:, BAD], record()[during][:, good] @ splines
    np.testing.assert_allclose(y - y.mean(axis=0), expected - expected.mean(axis=0), atol=2.0)
    assert stage.counts.left_out == 3
    names = tuple(f"e{i}" for i in range(19))
    with pytest.raises(
        ParameterError, match=r"0 of 19 channels have names of the 10-20 system\. Set bad_ch"
    ):
        BadChannelStage(
            replace(STREAM, channels=names, positions=None), BadChannelSettings(action="interpolate")
        )


@pytest.mark.parametrize("every", [1, 3])
def test_it_does_not_matter_when_cells_are_judged(every: int) -> None:
    """Settling while no sample waits, now and then or never, gives the same bits, events and counts."""
    x = spoil(37.5)
    expected, stage = run(x)
    other, out = BadChannelStage(STREAM), []
    for number, at in enumerate(range(0, len(x), 25)):
        out.append(other.push(Chunk(x[at : at + 25], at)))
        if number % every == 0:
            other.settle()
    assert np.array_equal(np.concatenate([item.data for item in out if isinstance(item, Chunk)]), expected)
    assert (other.pop_events(), other.counts) == (stage.pop_events(), stage.counts)
    assert other.spans == stage.spans


def test_a_channel_that_others_do_not_explain_may_do_as_it_likes() -> None:
    """Sensors of different things: what is new in one of them is no fault."""
    rng = np.random.default_rng(9313)
    x = record().copy()
    x[:, 6] = rng.standard_normal(len(x))  # a sensor of another kind
    x[9000:9500, 6] += 100.0
    x[10_000:12_000, 6] *= 40.0
    x[13_000:14_000, 6] = x[13_000, 6]
    out, stage = run(x)
    assert np.array_equal(out, x)
    assert stage.counts.left_out == 0


def test_a_good_stream_is_passed_on_itself() -> None:
    stage = BadChannelStage(STREAM)
    for at in range(0, 10_000, 500):
        chunk = Chunk(record()[at : at + 500], at)
        assert stage.push(chunk) is chunk
    assert stage.counts.values == 0


def test_single_missing_values_are_replaced_and_no_channel_is_left_out() -> None:
    x = record().copy()
    x[8000, 3] = np.nan
    x[8100:8103, 5] = np.inf
    out, stage = run(x)
    assert np.isfinite(out).all()
    assert abs(out[8000, 3] - record()[8000, 3]) < record()[:, 3].std()
    assert (stage.counts.left_out, stage.counts.values) == (0, 4)


def test_a_channel_that_is_dead_from_the_start_does_not_stay_missing() -> None:
    x = record().copy()
    x[:, 2] = np.nan
    out, stage = run(x)
    assert np.isfinite(out[1000:]).all()
    assert out[1000:, 2].std() > 0  # a constant channel cannot be separated
    assert stage.bad == (STREAM.channels[2],)


def test_a_channel_with_noise_is_left_out_while_it_is_noisy() -> None:
    x = record().copy()
    rng = np.random.default_rng(9312)
    x[START:STOP, 4] += 5 * x[:, 4].std() * rng.standard_normal(STOP - START)
    _, stage = run(x)
    events = stage.pop_events()
    assert [(event.channel, event.kind) for event in events] == [
        (STREAM.channels[4], "unlike"),
        (STREAM.channels[4], "good"),
    ]
    assert START < events[0].index <= START + 3 * RATE


def test_what_happens_to_all_channels_is_no_fault_of_one() -> None:
    x = record().copy()
    x[8000:8500] = x[8000]  # the device stands still
    x[10_000:11_000] *= 30.0
    out, stage = run(x)
    assert np.array_equal(out, x)
    assert stage.counts.left_out == 0


def test_reporting_and_off() -> None:
    x = spoil(0.0)
    out, stage = run(x, settings=BadChannelSettings(action="report"))
    assert np.array_equal(out, x)
    assert stage.counts.left_out == 3
    out, stage = run(x, settings=BadChannelSettings(action="off"))
    assert np.array_equal(out, x)
    assert stage.counts.left_out == 0


def test_a_gap_keeps_what_is_known_and_a_restart_forgets_it() -> None:
    stage = BadChannelStage(STREAM)
    x = spoil(np.nan)
    stage.push(Chunk(x[:8000], 0))
    assert stage.bad
    gap = Gap(8000, 100, "lost")
    assert stage.push(gap) is gap
    out = stage.push(Chunk(x[8100:9000], 8100))
    assert isinstance(out, Chunk)
    assert np.isfinite(out.data).all()
    stage.push(Gap(9000, 0, "restart"))
    assert stage.bad == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [("action", "leave"), ("flat", 0.0), ("unlike", 1.0), ("recover", np.inf), ("fade", -1)],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: object) -> None:
    with pytest.raises(ParameterError, match=rf"^{name} must be"):
        BadChannelSettings(**{name: value})  # type: ignore[arg-type]  # that is the point


@needs_data
@pytest.mark.parametrize(
    ("path", "block"),
    [
        ("eeg/eeglab_data.set", 100),
        ("eeg/test.edf", 100),
        ("hdf5/openbci8_250hz.h5", 100),
        ("eeg/test.bdf", 100),
    ],
)
def test_recorded_streams_are_not_touched(path: str, block: int) -> None:
    with open_recording(DATA / path) as recording:
        stage = BadChannelStage(
            Stream("s", float(recording.rate or 1.0), recording.channels, recording.unit, recording.dtype)
        )
        for start, x in recording.read_blocks(block):
            stage.push(Chunk(x.copy(), start))
    assert (stage.counts.left_out, stage.counts.values) == (0, 0)


@pytest.mark.parametrize("dead", [np.nan, 0.0])
def test_sources_of_the_other_channels_hold_and_no_sample_is_in_a_gap(dead: float) -> None:
    """The sources are estimated with the true mixing and covariance, from all channels and from those left.

    What the present samples of the channels that are left show of a source is the reference.
    """
    x, truth = record().astype(np.float64), SIMULATION.sources(0, len(record()))
    left = np.setdiff1d(np.arange(19), BAD)
    covariance, cross = np.cov(x.T), SIMULATION.mixing(0) * truth.var(axis=0)
    unmixing = np.linalg.solve(covariance, cross)
    of_left = np.linalg.solve(covariance[np.ix_(left, left)], cross[left])
    stage, repair = BadChannelStage(STREAM), RepairStage(STREAM)
    spoilt, out = spoil(dead), []
    for at in range(0, len(x), 50):
        out += repair.push(stage.push(Chunk(spoilt[at : at + 50], at)))
    assert not [item for item in out if isinstance(item, Gap)]
    held = np.concatenate([item.data for item in out if isinstance(item, Chunk)])

    def correlate(y: Array, weights: Array) -> Array:
        sources = (y[START:STOP] - y[START:STOP].mean(axis=0)) @ weights
        pairs = zip(sources.T, truth[START:STOP].T, strict=True)
        return np.array([np.corrcoef(found, true)[0, 1] for found, true in pairs])

    before, after = correlate(x, unmixing), correlate(held.astype(np.float64), unmixing)
    best = correlate(x[:, left], of_left)
    undisturbed, found, bound = (10 * np.log10(r**2 / (1 - r**2)) for r in (before, after, best))
    assert (before * after > 0).all()  # no sign flips, of no source
    assert (bound - found).max() < 0.1
    assert (undisturbed - found < 1.0).sum() > (undisturbed - bound < 1.0).sum()
    assert (undisturbed - found)[undisturbed - bound < 1.0].max() < 1.0


@pytest.mark.parametrize("n", [250, 1000])
def test_what_is_learned_is_the_covariance_of_a_signal(n: int) -> None:
    """Channels and their past have no negative variance, even where a signal grows and decays."""
    rng = np.random.default_rng(9315)
    size = 0.9 ** np.minimum(np.arange(n) % 125, 60)
    x = size[:, None] * rng.standard_normal((n // 125, 2)).repeat(125, axis=0) @ rng.standard_normal((2, 5))
    predictor = ChannelPredictor(5).learn(x, x.mean(axis=0), np.zeros(5, bool))
    lags = range(predictor.n_lags)
    system = np.block(
        [[predictor.lagged[k - i] if k >= i else predictor.lagged[i - k].T for k in lags] for i in lags]
    )
    values = np.linalg.eigvalsh(system)
    assert values[0] > -1e-10 * values[-1]
