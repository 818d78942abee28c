"""Order and sign are preserved from model to model: on a looped recording, and with a drifting mixing."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.playback.simulate import Simulation
from igbss_stream.separation.api import separate
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.stages import LinearStage, Stage
from igbss_stream.streaming.model_updates import LearningSchedule
from igbss_stream.streaming.pipeline import LearningPlan, Pipeline
from igbss_stream.streaming.stream_model import StreamModel
from tests.realdata import DATA, needs_data
from tests.streaming.test_pipeline import Immediate

pytestmark = [
    pytest.mark.jit,  # each model takes a few seconds
    pytest.mark.filterwarnings("ignore::igbss_stream.errors.IgbssWarning"),  # of doubtful sources
]

Array = NDArray[np.float64]
Block = Callable[[int, int], NDArray[np.float32]]

RATE = 250.0
FRAME = 50  # samples over which a drifting mixing counts as constant
NAMED = 5  # distinct sources; the others are alike, with pink spectra


def iterate_models(
    stream: Stream, block: Block, n_samples: int, schedule: LearningSchedule, n_sources: int | None = None
) -> Iterator[StreamModel]:
    """Yield every model that becomes active while a pipeline processes samples."""
    pipeline = Pipeline(
        stream, ModelSettings(n_sources=n_sources), learning=LearningPlan(schedule, Immediate())
    )
    last = None
    for start in range(0, n_samples, 64):
        pipeline.push(Chunk(block(start, min(64, n_samples - start)), start))
        if pipeline.model is not last:
            assert pipeline.model is not None
            last = pipeline.model
            yield last
    assert pipeline.learner is not None
    assert pipeline.learner.counts.failed == 0, pipeline.learner.failure


def count_flips_and_swaps(before: StreamModel, after: StreamModel, block: Block) -> tuple[int, int]:
    """Count sources that changed sign, or that correlate more with another previous source than their own.

    Both models separate the samples that the later one was learned from.
    """
    start = max(0, after.learned_from[0])
    x = block(start, after.learned_from[1] - start)
    old, new = (model.separator.separate_samples(x).astype(np.float64) for model in (before, after))
    n_sources = old.shape[1]
    correlations = np.corrcoef(new.T, old.T)[:n_sources, n_sources:]
    own = np.diag(correlations)
    most_like = np.abs(correlations).argmax(axis=1)
    return int(np.sum(own < 0)), int(np.sum(most_like != np.arange(n_sources)))


def assert_order_holds(models: Iterator[StreamModel], block: Block) -> StreamModel:
    """Assert that no source changes sign or place; return the last model."""
    before = next(models)
    for after in models:
        assert count_flips_and_swaps(before, after, block) == (0, 0), (after.version, after.learned_from)
        before = after
    return before


def looped(channels: slice) -> tuple[Stream, Block]:
    """Return a looped recording of 238 s at 128 Hz."""
    with h5py.File(DATA / "hdf5" / "eeg32_128hz.h5") as file:
        x = np.asarray(file["data"], np.float32)[:, channels]
    stream = Stream("eeg", 128.0, tuple(f"E{i}" for i in range(x.shape[1])), "uV")
    return stream, lambda start, n: np.take(x, np.arange(start, start + n), axis=0, mode="wrap")


def test_a_change_of_order_or_sign_is_detected() -> None:
    """Check that `count_flips_and_swaps` counts them."""
    simulation = Simulation(4, RATE)
    (model,) = iterate_models(simulation.stream("s"), simulation.block, 3000, LearningSchedule(2500, 2500))
    stage = model.separator.stage
    assert isinstance(stage, LinearStage)
    for order, signs, found in (
        ([0, 1, 2, 3], [1, -1, 1, -1], (2, 0)),
        ([1, 0, 2, 3], [1, 1, 1, 1], None),
    ):
        turned = LinearStage(
            np.ascontiguousarray(stage.mixing[:, :, order] * np.array(signs)),
            np.ascontiguousarray(stage.unmixing[:, order] * np.array(signs)[:, None]),
            stage.mean,
        )
        separator = replace(model.separator, stage=turned)
        other = StreamModel(2, separator, 3000, model.learned_from)
        flips, swaps = count_flips_and_swaps(model, other, simulation.block)
        assert (flips, swaps) == found if found else swaps == 2


@pytest.mark.parametrize(("n_channels", "drift", "seed"), [(6, 0.05, 0), (5, 0.1, 3)])
def test_order_and_sign_hold_on_a_simulated_head_that_drifts(
    n_channels: int, drift: float, seed: int
) -> None:
    """Six models in 70 s. Learned from scratch each time, these sources change place and sign."""
    simulation = Simulation(n_channels, RATE, seed, drift)
    stream, block = simulation.stream("s"), simulation.block
    schedule = LearningSchedule.from_seconds(RATE, first=10, window=20, every=10, ahead=2, fade=0.5)
    last = assert_order_holds(iterate_models(stream, block, round(70 * RATE), schedule), block)
    assert last.version == 6


@needs_data
def test_order_and_sign_hold_on_eight_electrodes_for_minutes() -> None:
    stream, block = looped(slice(None, None, 4))
    schedule = LearningSchedule.from_seconds(stream.rate, first=10, window=30, every=30, ahead=2, fade=0.5)
    last = assert_order_holds(iterate_models(stream, block, 240 * 128, schedule), block)
    assert last.version == 8


@needs_data
@pytest.mark.slow
def test_order_and_sign_hold_for_an_hour() -> None:
    """32 electrodes, fifteen loops; learning takes about a quarter of an hour."""
    stream, block = looped(slice(None))
    schedule = LearningSchedule.from_seconds(stream.rate, first=10, window=60, every=30, ahead=2, fade=0.5)
    last = assert_order_holds(iterate_models(stream, block, 3600 * 128, schedule), block)
    assert last.version == 120


def interference(stage: Stage, simulation: Simulation, start: int, n_samples: int) -> Array:
    """Return the signal-to-interference ratio of each true source in dB, from the true mixing over time."""
    truth = simulation.sources(start, n_samples)
    power = np.zeros((stage.n_sources, truth.shape[1]))
    for at in range(0, n_samples, FRAME):
        gains = stage.unmixing[0] @ simulation.mixing(start + at)
        power += gains**2 * np.sum(truth[at : at + FRAME] ** 2, axis=0)
    share = power / power.sum(axis=1, keepdims=True)
    rows, columns = linear_sum_assignment(share, maximize=True)
    best = share[rows, columns][np.argsort(columns)]
    return np.asarray(10 * np.log10(best / (1 - best)))


def test_interference_is_that_of_known_gains() -> None:
    simulation = Simulation(4, RATE)
    truth, mixing = simulation.sources(0, 5000), simulation.mixing(0)
    leak = np.eye(4) + 0.01 * np.roll(np.eye(4), 1, axis=1)  # each contains some of the next
    stage = LinearStage(mixing[None], (leak[::-1] @ np.linalg.inv(mixing))[None])
    size = np.mean(truth**2, axis=0)
    want = 10 * np.log10(size / (1e-4 * np.roll(size, -1)))
    np.testing.assert_allclose(interference(stage, simulation, 0, 5000), want, rtol=1e-6)


@pytest.mark.slow
def test_a_drifting_mixing_is_followed_as_well_as_it_is_learned_from_scratch() -> None:
    """Compare one minute after the first model, over ten seconds of the active model, with five heads."""
    followed: list[Array] = []
    from_scratch: list[Array] = []
    schedule = LearningSchedule.from_seconds(RATE, first=10, window=20, every=10, ahead=2, fade=0.5)
    for seed in range(5):
        simulation = Simulation(16, RATE, seed, drift=0.05)
        stream, block = simulation.stream("s"), simulation.block
        last = assert_order_holds(
            iterate_models(stream, block, round(73 * RATE), schedule, n_sources=13), block
        )
        first, stop = last.learned_from
        assert stop == 70 * RATE
        fresh = separate(block(first, stop - first), n_sources=13)
        for found, stage in (followed, last.separator.stage), (from_scratch, fresh.stage):
            found.append(interference(stage, simulation, last.since, round(10 * RATE)))
    for name, part in ("all", slice(None)), ("named", slice(NAMED)):  # for docs/live.md; -s shows them
        sir = [[found[part].mean() for found in kind] for kind in (followed, from_scratch)]
        print(f"{name:6} SIR in dB, followed {np.round(sir[0], 1)} from scratch {np.round(sir[1], 1)}")
        print(f"{name:6} mean, followed {np.mean(sir[0]):.2f} from scratch {np.mean(sir[1]):.2f}")
        assert np.mean(sir[0]) > np.mean(sir[1]) - 1.5
        assert np.mean(sir[0]) > (1.0 if name == "all" else 8.0)
