"""The pipeline: its output does not depend on the chunks, and every index is accounted for."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from threading import Event, Timer
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.cli.demo import draw_mixing
from igbss_stream.errors import InputError, ParameterError
from igbss_stream.separation.api import separate
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.streaming.model_updates import LearningSchedule
from igbss_stream.streaming.pipeline import Item, LearningPlan, Pipeline
from igbss_stream.streaming.separators import FitCounts
from igbss_stream.streaming.stream_model import StreamModel
from igbss_stream.streaming.windowing import OverlapAdd, WindowSplitter
from tests.published import model_settings

Samples = NDArray[Any]

STREAM = Stream("s", 100.0, ("a", "b", "c"), "uV")
SCHEDULE = LearningSchedule(first=150, window=200, every=120, ahead=40, fade=30)


class Immediate(Executor):
    """Run each task immediately, in the calling thread."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.fixture(scope="module")
def x() -> Samples:
    rng = np.random.default_rng(3)
    truth = rng.laplace(size=(600, 3))
    return np.asarray(truth @ draw_mixing(0).T + [4200.0, 0.0, -10.0], dtype=np.float32)


def cut(x: Samples, at: Sequence[int], start: int = 0) -> Iterator[Chunk]:
    for first, stop in zip([0, *sorted(at)], [*sorted(at), len(x)], strict=True):
        yield Chunk(x[first:stop], start + first)


def run(pipeline: Pipeline, items: Iterator[Item] | Sequence[Item]) -> list[Item]:
    return [done for item in items for done in pipeline.push(item)] + pipeline.flush()


def joined(items: Sequence[Item]) -> tuple[Samples, list[int], list[tuple[int, int, str]]]:
    """Return all samples, the model version of each, and the gaps; assert that indices are consecutive."""
    at = items[0].start
    for item in items:
        assert item.start == at
        at = item.stop
    chunks = [item for item in items if isinstance(item, Chunk)]
    gaps = [(item.start, item.n_samples, item.reason) for item in items if isinstance(item, Gap)]
    data = np.concatenate([chunk.data for chunk in chunks]) if chunks else np.empty((0, 3))
    return data, [chunk.model_version for chunk in chunks for _ in chunk.data], gaps


def learning(executor: Executor | None = None, **changes: Any) -> LearningPlan:
    schedule = LearningSchedule(**(vars(SCHEDULE) | changes))
    return LearningPlan(schedule, executor or Immediate())


class TestSampleSeparator:
    @given(st.lists(st.integers(0, 600), max_size=12))
    def test_a_given_model_separates_as_separate_does(self, at: list[int]) -> None:
        x = np.random.default_rng(0).normal(size=(600, 3)).astype(np.float32)
        data, models, gaps = joined(run(Pipeline(STREAM, model_settings()), cut(x, at)))
        np.testing.assert_array_equal(data, separate(x, structure="systematic").sources)
        assert (set(models), gaps) == ({1}, [])

    @pytest.mark.jit
    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(at=st.lists(st.integers(0, 600), max_size=40))
    def test_learned_models_do_not_depend_on_the_cuts(self, x: Samples, at: list[int]) -> None:
        whole = run(Pipeline(STREAM, ModelSettings(), learning=learning()), [Chunk(x, 0)])
        parts = run(Pipeline(STREAM, ModelSettings(), learning=learning()), cut(x, at))
        (data, models, gaps), (want, versions, _) = joined(parts), joined(whole)
        np.testing.assert_array_equal(data, want)
        assert models == versions
        assert sum(n_samples for _, n_samples, _ in gaps) == 190
        assert {reason for *_, reason in gaps} == {"learning"}
        assert [versions.index(version) + 190 for version in (1, 2, 3, 4)] == [190, 310, 430, 550]

    def test_models_are_faded_and_keep_order_sign_and_scale(self, x: Samples) -> None:
        pipeline = Pipeline(STREAM, ModelSettings(), learning=learning())
        data, _, _ = joined(run(pipeline, [Chunk(x, 0)]))
        first = Pipeline(STREAM, ModelSettings(), learning=learning(every=None))
        second = Pipeline(STREAM, ModelSettings(), learning=learning(fade=0))
        (old, _, _), (new, _, _) = joined(run(first, [Chunk(x, 0)])), joined(run(second, [Chunk(x, 0)]))
        np.testing.assert_array_equal(data[:120], old[:120])
        share = (np.arange(30)[:, None] + 1) / 31
        want = old[120:150] + share * (new[120:150].astype(np.float64) - old[120:150])
        np.testing.assert_array_equal(data[120:150], want.astype(np.float32))
        np.testing.assert_array_equal(data[150:240], new[150:240])
        assert np.abs(new[120:240] - old[120:240]).max() < old.std()
        assert pipeline.model is not None
        assert (pipeline.model.version, pipeline.model.since, pipeline.model.learned_from) == (
            4,
            550,
            (310, 510),
        )

    def test_a_model_knows_how_long_it_was_learned(
        self, x: Samples, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = iter([100.0, 102.5, 200.0, 207.0])
        monkeypatch.setattr("igbss_stream.streaming.model_updates.perf_counter", lambda: next(clock))
        pipeline = Pipeline(STREAM, ModelSettings(), learning=learning())
        seconds = []
        for chunk in cut(x[:320], [180, 200]):
            pipeline.push(chunk)
            seconds.append(pipeline.model.seconds if pipeline.model else None)
        assert seconds == [None, 2.5, 7.0]

    def test_a_thread_gives_the_same(self, x: Samples) -> None:
        with ThreadPoolExecutor(1) as executor:
            threaded = run(
                Pipeline(STREAM, ModelSettings(), learning=learning(executor, every=None)),
                cut(x, [50, 300]),
            )
        direct = run(Pipeline(STREAM, ModelSettings(), learning=learning(every=None)), [Chunk(x, 0)])
        np.testing.assert_array_equal(joined(threaded)[0], joined(direct)[0])

    def test_gaps_pass_and_indices_go_on(self, x: Samples) -> None:
        items: list[Item] = [Chunk(x[:230], 50), Gap(280, 70, "lost"), *cut(x[230:], [40], 350)]
        pipeline = Pipeline(STREAM, ModelSettings(), learning=learning(every=None))
        data, _, gaps = joined(run(pipeline, items))
        assert len(data) == 600 - 190
        assert (280, 70, "lost") in gaps

    def test_the_previous_model_stays_if_learning_fails(self, x: Samples) -> None:
        flat = x.copy()
        flat[290:, 1] = 7.0
        pipeline = Pipeline(STREAM, ModelSettings(), learning=learning(window=100))
        data, models, _ = joined(run(pipeline, [Chunk(flat, 0)]))
        assert pipeline.learner is not None
        counts = pipeline.learner.counts
        assert (counts.learned, counts.failed) == (2, 2)
        assert "1 of 3 channels are flat (constant): b" in pipeline.learner.failure
        assert models[-1] == 2
        assert np.isfinite(data).all()

    def test_a_late_model_becomes_active_when_it_is_ready(self, x: Samples) -> None:
        class Held(Immediate):
            def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
                self.work: Callable[[], Any] = lambda: fn(*args, **kwargs)
                self.future = Future[Any]()
                return self.future

        held = Held()
        live = LearningPlan(LearningSchedule(150, 200, 120, 40, 30), held, wait=False)
        pipeline = Pipeline(STREAM, ModelSettings(), learning=live)
        out = [done for item in cut(x[:250], [100, 200]) for done in pipeline.push(item)]
        assert all(isinstance(item, Gap) for item in out)
        held.future.set_result(held.work())
        (done,) = pipeline.push(Chunk(x[250:260], 250))
        assert isinstance(done, Chunk)
        assert (done.start, done.model_version) == (250, 1)
        assert pipeline.learner is not None
        assert pipeline.learner.counts.late == 1

    def test_rows_of_nan_are_not_learned_from_and_stay_nan(self, x: Samples) -> None:
        holed = x.copy()
        holed[20:30] = np.nan
        holed[400:410] = np.nan
        data, _, _ = joined(run(Pipeline(STREAM, ModelSettings(), learning=learning()), [Chunk(holed, 0)]))
        bad = ~np.isfinite(data).all(axis=1)
        assert np.flatnonzero(bad).tolist() == list(range(400 - 190, 410 - 190))

    @given(st.lists(st.integers(0, 200), max_size=6))
    def test_samples_without_a_logarithm_are_gaps(self, at: list[int]) -> None:
        """They do not end the stream, and only they become gaps, whatever the chunks."""
        x = np.random.default_rng(0).uniform(1.0, 2.0, (200, 3)).astype(np.float32)
        x[[60, 61, 150], 1] = 0.0
        once = LearningPlan(LearningSchedule(first=50, window=50), Immediate())
        for items in (cut(x, at), [Chunk(x, 0)]):
            data, _, gaps = joined(
                run(Pipeline(STREAM, model_settings(transform="sum"), learning=once), items)
            )
            outside = {i for start, n, reason in gaps if reason == "range" for i in range(start, start + n)}
            assert outside == {60, 61, 150}
            assert np.isfinite(data).all()
            assert len(data) == 150 - 3

    def test_stop_ends_the_wait_for_a_model(self, x: Samples) -> None:
        class Never(Executor):
            def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
                return Future()

        stop = Event()
        Timer(0.1, stop.set).start()
        pipeline = Pipeline(STREAM, ModelSettings(), learning=LearningPlan(SCHEDULE, Never(), stop=stop))
        out = pipeline.push(Chunk(x, 0))
        assert {item.reason for item in out if isinstance(item, Gap)} == {"learning"}

    def test_a_numerical_failure_is_counted(self, x: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
        def singular(self: SeparationPlan, survey: Any, *, remedy: str = "") -> None:
            raise np.linalg.LinAlgError("Singular matrix")

        monkeypatch.setattr(SeparationPlan, "prepare", singular)
        pipeline = Pipeline(STREAM, ModelSettings(), learning=learning(every=None))
        pipeline.push(Chunk(x, 0))
        assert pipeline.learner is not None
        assert (pipeline.learner.counts.failed, pipeline.model) == (1, None)
        assert "Singular matrix" in pipeline.learner.failure

    def test_output_stream_describes_the_sources(self) -> None:
        out = Pipeline(STREAM, ModelSettings(n_sources=2), learning=learning()).output_stream
        assert (out.channels, out.unit, out.delay) == (("source-0", "source-1"), None, 0)
        out = Pipeline(STREAM, ModelSettings(scaling="back-projected"), learning=learning()).output_stream
        assert (len(out.channels), out.unit) == (3, "uV")

    def test_invalid_arguments_are_rejected(self, x: Samples) -> None:
        with pytest.raises(ParameterError, match="needs a schedule"):
            Pipeline(STREAM, ModelSettings())
        with pytest.raises(ParameterError, match="give the length and hop"):
            Pipeline(STREAM, model_settings(solver="joint"), learning=learning())
        with pytest.raises(ParameterError, match="at most every = 10 samples"):
            LearningSchedule(10, 10, 10, ahead=11)
        with pytest.raises(ParameterError, match="first must be at least 2 samples"):
            LearningSchedule(1, 10)
        pipeline = Pipeline(STREAM, model_settings())
        pipeline.push(Chunk(x[:5], 0))
        with pytest.raises(InputError, match="6 came after 5"):
            pipeline.push(Chunk(x[:5], 6))
        with pytest.raises(InputError, match=r"has 3 channels\. Got a chunk of 2"):
            pipeline.push(Chunk(x[:5, :2], 5))


class TestWindowSeparator:
    @given(
        st.integers(1, 40),
        st.integers(1, 40),
        st.integers(1, 150),
        st.lists(st.integers(0, 150), max_size=5),
    )
    def test_windows_of_a_signal_reconstruct_it(
        self, length: int, hop: int, n_samples: int, at: list[int]
    ) -> None:
        if hop > length:
            with pytest.raises(ParameterError, match="hop must be between 1 and"):
                WindowSplitter(length, hop)
            return
        x = np.random.default_rng(0).normal(size=(n_samples, 2))
        windows, joined_up, out = WindowSplitter(length, hop), OverlapAdd(), []
        for chunk in cut(x, [min(cut_at, n_samples) for cut_at in at], 7):
            for window in windows.push(chunk):
                assert len(window.data) == length
                out += joined_up.push(window, window.start + hop)
        for window in windows.flush():
            out += joined_up.push(window, window.stop)
        out += joined_up.flush()
        data, _, _ = joined(out)
        assert out[0].start == 7
        np.testing.assert_allclose(data, x, rtol=1e-9, atol=1e-12)

    @settings(max_examples=10, deadline=None)
    @given(st.lists(st.integers(0, 200), max_size=8))
    def test_fits_do_not_depend_on_the_cuts(self, at: list[int]) -> None:
        x = np.random.default_rng(1).normal(5.0, 1.0, (200, 3)).astype(np.float32)
        made = [
            joined(
                run(
                    Pipeline(
                        STREAM,
                        model_settings(latent_mass=1e-2),
                        window=(40, 15),
                        learning=LearningPlan(LearningSchedule(first=50, window=50), Immediate()),
                    ),
                    items,
                )
            )
            for items in ([Chunk(x, 0)], cut(x, at))
        ]
        np.testing.assert_array_equal(made[0][0], made[1][0])
        assert len(made[0][0]) == 150

    @pytest.mark.jit
    def test_a_fit_starts_from_the_one_before(self) -> None:
        """Windows of a run need fewer iterations than the same windows each on its own; sources are the same."""
        settings, length, hop = model_settings(latent_mass=1e-2), 100, 10
        x = np.random.default_rng(1).normal(5.0, 1.0, (400, 3))
        separator = SeparationPlan(settings, 3).prepare_for(x, ["a", "b", "c"])

        def separated(start: int, stop: int) -> tuple[Samples, FitCounts]:
            """Return the sources of a run of samples, and what its windows took."""
            pipeline = Pipeline(STREAM, settings, window=(length, hop), model=StreamModel(1, separator, 0))
            data, _, _ = joined(run(pipeline, [Chunk(x[start:stop], start)]))
            separates: Any = pipeline.stream_separator
            counts: FitCounts = separates.counts
            return data, counts

        sources, counts = separated(0, len(x))
        starts = range(0, len(x) - length + 1, hop)
        alone = [separated(start, start + length) for start in starts]
        assert counts.fits == len(starts)
        assert all(each.fits == 1 for _, each in alone)
        assert counts.unconverged == sum(each.unconverged for _, each in alone) == 0
        assert counts.iterations / counts.fits < np.mean([each.iterations for _, each in alone]) - 0.5
        low, high = np.full_like(sources, np.inf), np.full_like(sources, -np.inf)
        for start, (data, _) in zip(starts, alone, strict=True):
            span = slice(start, start + length)
            low[span], high[span] = np.minimum(low[span], data), np.maximum(high[span], data)
        margin = 1e-7 * np.abs(sources).max()  # a sample is a mean of the windows around it
        assert np.all(low - margin <= sources)
        assert np.all(sources <= high + margin)

    def test_a_window_that_cannot_be_fitted_gets_least_squares(self) -> None:
        x = np.random.default_rng(1).normal(5.0, 1.0, (100, 3))
        separator = SeparationPlan(model_settings(solver="joint"), 3).prepare_for(x, ["a", "b", "c"])
        wild = x.copy()
        wild[50] *= 1e4
        pipeline = Pipeline(
            STREAM, model_settings(solver="joint"), window=(20, 20), model=StreamModel(1, separator, 0)
        )
        data, _, _ = joined(run(pipeline, [Chunk(wild, 0)]))
        windowed: Any = pipeline.stream_separator
        assert windowed.counts.refused == 1
        np.testing.assert_allclose(data[40:60], separator.stage.unmix(wild[40:60]), rtol=1e-9)

    def test_a_cyclic_structure_is_refused(self) -> None:
        x = np.random.default_rng(1).normal(5.0, 1.0, (100, 3))
        changing = model_settings(structure="cyclic", n_sources=2)
        separator = SeparationPlan(changing, 3).prepare_for(x, ["a", "b", "c"])
        with pytest.raises(ParameterError, match="changes from sample to sample"):
            Pipeline(STREAM, changing, window=(20, 10), model=StreamModel(1, separator, 0))


@pytest.mark.parametrize("transform", ["sum", "min-max"])
def test_samples_below_those_of_the_model_are_a_gap(transform: str) -> None:
    x = np.random.default_rng(0).uniform(1.0, 2.0, (1000, 2)).astype(np.float32)
    x[800, 1] = -100.0
    with ThreadPoolExecutor(1) as executor:
        pipeline = Pipeline(
            Stream("s", 100.0, ("a", "b")),
            ModelSettings(transform=transform, structure="systematic"),
            window=(100, 50),
            learning=LearningPlan(LearningSchedule(500, 500), executor),
        )
        out = [
            item
            for start in range(0, 1000, 100)
            for item in pipeline.push(Chunk(x[start : start + 100], start))
        ]
    gaps = [(gap.start, gap.n_samples) for gap in out if isinstance(gap, Gap) and gap.reason == "range"]
    assert gaps == [(800, 1)]
    assert sum(len(item.data) for item in out if isinstance(item, Chunk)) == 499


def test_a_long_gap_takes_no_work_of_the_schedule() -> None:
    x = np.random.default_rng(0).normal(size=(600, 2)).astype(np.float32)
    with ThreadPoolExecutor(1) as executor:
        pipeline = Pipeline(
            Stream("s", 100.0, ("a", "b")),
            ModelSettings(),
            learning=LearningPlan(LearningSchedule(200, 200, every=100), executor),
        )
        later = 2**50
        out = [*pipeline.push(Chunk(x, 0)), *pipeline.push(Gap(600, later - 600, "lost"))]
        out += pipeline.push(Chunk(x, later))
    assert pipeline.learner is not None
    assert pipeline.learner.counts.skipped > 2**40
    assert pipeline.learner.counts.failed == 0
    assert out[-1].stop == later + 600
