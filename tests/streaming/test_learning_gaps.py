"""Learning from several runs of samples, each with its own level."""

import itertools
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from igbss_stream.batch.separate import separate_recording
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.files.open import open_recording
from igbss_stream.files.writers.recording_layout import GAP
from igbss_stream.model.structure import learn_structure, subtract_run_means
from igbss_stream.separation.api import separate
from igbss_stream.separation.metrics import sir
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.statistics import Survey
from igbss_stream.streaming.model_updates import LearningSchedule
from igbss_stream.streaming.pipeline import Item, LearningPlan, Pipeline
from tests.recordings import read_output, write_recording
from tests.streaming.test_pipeline import Immediate, cut

Array = NDArray[np.float64]

BREAKS = [400, 1000, 1500]


def sources(n_samples: int = 2400) -> Array:
    """Return slow, fast and white sources."""
    noise = np.random.default_rng(0).laplace(size=(n_samples, 3))
    for t, pole in itertools.product(range(1, n_samples), range(2)):
        noise[t, pole] += (0.95, -0.6)[pole] * noise[t - 1, pole]
    return np.asarray(noise / noise.std(axis=0))


MIXING = np.random.default_rng(1).uniform(-1.0, 1.0, (3, 3)) + np.eye(3)


@pytest.fixture(scope="module")
def x() -> Array:
    """Return channels whose offsets change at each break by several standard deviations."""
    channels = sources() @ MIXING.T
    levels = np.random.default_rng(2).normal(scale=5.0, size=(4, 3))
    return channels + levels[np.searchsorted(BREAKS, np.arange(len(channels)), side="right")]


def level(x: Array, breaks: list[int]) -> Array:
    """Return concatenated runs with their means subtracted, by NumPy alone."""
    return np.concatenate([run - run.mean(axis=0) for run in np.split(x, breaks)])


def compute_worst_sir(unmixing: Array) -> float:
    """Return the signal-to-interference ratio of the worst source in dB."""
    truth = sources()
    return float(sir(truth @ (unmixing @ MIXING).T, truth).min())


def test_levels_are_those_of_each_run(x: Array) -> None:
    channels = np.ascontiguousarray(x.T)
    subtract_run_means(channels, BREAKS)
    np.testing.assert_allclose(channels.T, level(x, BREAKS), atol=1e-12)


@pytest.mark.parametrize(
    ("breaks", "levels"),
    [
        ([12, 18, 590], [12, 18, 590]),
        (list(range(6, 600, 6)), list(range(24, 600, 24))),  # merged until they are long enough
        (list(range(290, 600, 2)), list(range(290, 600, 20))),  # short runs are the majority ...
        (list(range(310, 600, 2)), list(range(310, 600, 2))),  # ... or not
    ],
)
def test_short_runs_share_a_level_if_they_are_the_majority(
    x: Array, breaks: list[int], levels: list[int]
) -> None:
    channels = np.ascontiguousarray(x[:600].T)
    subtract_run_means(channels, breaks)
    np.testing.assert_allclose(channels.T, level(x[:600], levels), atol=1e-12)


@pytest.mark.jit
def test_offsets_that_change_across_gaps_are_no_sources(x: Array) -> None:
    learned = learn_structure(x, 3, None, BREAKS)
    assert compute_worst_sir(learned.unmixing) > 30.0
    assert compute_worst_sir(learn_structure(x, 3).unmixing) < 20.0
    np.testing.assert_allclose(learned.mean, x.mean(axis=0), rtol=1e-12)
    reached = level(x, BREAKS) @ learned.unmixing.T
    np.testing.assert_allclose(reached.std(axis=0), 1.0, rtol=1e-9)


@pytest.mark.jit
def test_levels_stay_if_a_direction_has_no_other_variance(x: Array) -> None:
    resting = level(x, BREAKS)
    resting[:, 2] = np.repeat([3e4, -1e4, 0.1, 7.0], np.diff([0, *BREAKS, len(x)]))
    copied = level(x, BREAKS)
    copied[:, 2] = copied[:, 0] - copied[:, 1] + resting[:, 2]
    for channels in resting, copied:
        with_breaks, without = learn_structure(channels, 3, None, BREAKS), learn_structure(channels, 3)
        np.testing.assert_array_equal(with_breaks.unmixing, without.unmixing)


@pytest.mark.parametrize("cuts", [[], [1, 399, 400, 1999], [700]])
def test_breaks_are_found_again_in_the_excerpt(cuts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    breaks = [0, 3, 3, 250, 251, 400, 1001, 1500, 1999]
    run = np.searchsorted(breaks, np.arange(2000), side="right").astype(float)
    x = np.column_stack(
        [run, np.arange(2000.0)]
    )  # the second column shows where a segment of the excerpt begins
    for most in 1 << 21, 1600, 160:
        monkeypatch.setattr("igbss_stream.separation.excerpt._MAX_NUMBERS", most)
        survey = Survey(["a", "b"], x.dtype, len(x), keep_excerpt=True, breaks=breaks)
        for part in np.split(x, cuts):
            survey.update(part)
        steps = np.diff(survey.excerpt, axis=0)
        assert survey.excerpt_breaks == (np.flatnonzero((steps != [0.0, 1.0]).any(axis=1)) + 1).tolist()
        assert len(survey.excerpt) == min(2000, most // 2)


@pytest.mark.jit
def test_levels_that_change_between_segments_are_no_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("igbss_stream.separation.excerpt._MAX_NUMBERS", 3 * 1600)
    starts = np.linspace(0, 2400 - 200, 8).astype(int)
    levels = np.random.default_rng(3).normal(scale=3.0, size=(8, 3))
    run = np.searchsorted(starts[1:] - 50, np.arange(2400), side="right")
    drifting = sources() @ MIXING.T + levels[run]
    segments = np.concatenate([drifting[start : start + 200] for start in starts])
    found = separate(drifting)
    naive = learn_structure(level(segments, list(range(200, 1600, 200))), 3)
    np.testing.assert_allclose(found.mixing, naive.mixing, rtol=1e-6, atol=1e-9)
    assert (
        compute_worst_sir(found.unmixing) > compute_worst_sir(learn_structure(segments, 3).unmixing) + 6.0
    )


def items(x: NDArray[np.float32], at: list[int]) -> list[Item]:
    """Return the samples as a stream: with a gap, a restart, and a row that is not finite."""
    runs = np.split(x, BREAKS)
    bad = np.full((1, 3), np.nan, np.float32)
    return [
        Chunk(runs[0], 0), Gap(400, 30, "lost"), Gap(430, 20, "lost"),
        *cut(runs[1], at, 450), Gap(1050, 0, "restart"),
        *cut(np.concatenate([runs[2], bad, runs[3]]), at, 1050),
    ]  # fmt: skip


@pytest.mark.jit
def test_a_model_of_a_stream_is_learned_from_its_runs(x: Array) -> None:
    stream, learned = Stream("s", 100.0, ("a", "b", "c")), []
    for at in [], [1, 100, 499, 500, 502]:
        learning = LearningPlan(LearningSchedule(first=2400, window=2400), Immediate())
        pipeline = Pipeline(stream, ModelSettings(), learning=learning)
        for item in items(x.astype(np.float32), at):
            pipeline.push(item)
        assert pipeline.model is not None
        learned.append(pipeline.model.separator.stage.mixing[0])
    np.testing.assert_array_equal(learned[0], learned[1])
    # up to index 2400, which is row 2349: 50 samples were lost and one was not finite
    naive = learn_structure(level(x.astype(np.float32)[:2349].astype(np.float64), BREAKS), 3)
    np.testing.assert_allclose(learned[0], naive.mixing, rtol=1e-6, atol=1e-9)


def test_an_outage_of_many_gaps_uses_no_memory(x: Array) -> None:
    learning = LearningPlan(LearningSchedule(first=2400, window=2400), Immediate())
    pipeline = Pipeline(Stream("s", 100.0, ("a", "b", "c")), ModelSettings(), learning=learning)
    pipeline.push(Chunk(x[:10], 0))
    for start in range(10, 1000):
        pipeline.push(Gap(start, 1, "disconnected"))
    assert pipeline.learner is not None
    assert len(pipeline.learner._buffer) == 2


@pytest.mark.jit
def test_a_model_of_a_recording_is_learned_from_its_runs(x: Array, tmp_path: Path) -> None:
    path = write_recording(tmp_path / "in.h5", x, rate=100.0)
    with h5py.File(path, "r+") as file:
        gaps: list[Any] = [(row, row + 50 * i, 50 * i, b"lost") for i, row in enumerate(BREAKS)]
        file["gaps"] = np.array(gaps, GAP)
    with open_recording(path) as recording:
        separate_recording(recording, tmp_path / "out.h5", BatchSettings(model=ModelSettings()))
    found = read_output(tmp_path / "out.h5")
    naive = learn_structure(level(x, BREAKS), 3)
    np.testing.assert_allclose(found.mixing, naive.mixing, rtol=1e-6, atol=1e-9)


def resonances(seed: int, n_samples: int) -> Array:
    """Return six sources with a peak in the spectrum each, three of them slow as well."""
    noise = np.random.default_rng(seed).laplace(size=(n_samples + 2000, 6))
    for k, radius in enumerate((0.99, 0.97, 0.95, 0.9, 0.97, 0.8)):
        pole = radius * np.exp(1j * np.pi * (0.02 + 0.11 * k))
        slow = [0.99] if k % 2 == 0 else []
        noise[:, k] = lfilter([1.0], np.poly([pole, pole.conj(), *slow]).real, noise[:, k])
    return np.asarray(noise[2000:] / noise[2000:].std(axis=0))


def interrupted(seed: int, n_gaps: int, missing: int, jump: float, noise: float) -> tuple[Any, ...]:
    """Return 10,000 samples of six channels, the true mixing, and random positions of gaps."""
    rng = np.random.default_rng(seed)
    truth, mixing = resonances(seed, 10_000 + n_gaps * missing), rng.normal(size=(6, 6))
    breaks = np.sort(1 + rng.choice(9_999, n_gaps, replace=False)).tolist()
    run = np.searchsorted(breaks, np.arange(10_000), side="right")
    x = truth[np.arange(10_000) + run * missing] @ mixing.T
    size = x.std(axis=0)
    levels = jump * size * rng.normal(size=(n_gaps + 1, 6))
    return x + levels[run] + noise * size.mean() * rng.normal(size=x.shape), mixing, breaks


CASES = [
    (0, 0, 0.0), (10, 2000, 0.0), (100, 2000, 0.0), (300, 5, 0.0),
    (1, 2000, 1.0), (10, 2000, 1.0), (10, 2000, 10.0), (100, 2000, 10.0),
]  # fmt: skip


@pytest.mark.slow
def test_effect_of_gaps_on_separation() -> None:
    """Print the table of docs/structure.md; its last but one column ignores the gaps."""
    for noise in 0.0, 0.03:
        for n_gaps, missing, jump in CASES:
            reached = []
            for seed in range(3):
                x, mixing, breaks = interrupted(seed, n_gaps, missing, jump, noise)
                gains = [
                    learn_structure(x, 6, None, given).unmixing @ mixing for given in ((), tuple(breaks))
                ]
                reached.append([separation(gain) for gain in gains])
            without, with_breaks = np.mean(reached, axis=0)
            print(
                f"noise {noise:4} gaps {n_gaps:3} x {missing:4} jump {jump:4}: {without:5.1f} {with_breaks:5.1f}"
            )
            assert with_breaks > without - 6.0
            if n_gaps and jump:
                assert with_breaks > without + 2.0


def separation(gain: Array) -> float:
    """Return the ratio of the strongest true source to the others in dB, averaged over the sources."""
    power = gain**2
    most = power.max(axis=1)
    return float(np.mean(10.0 * np.log10(most / (power.sum(axis=1) - most))))
