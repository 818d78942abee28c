"""The preparation of a stream does not depend on the chunks; every index is accounted for."""

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import signal

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.cli.demo import draw_mixing
from igbss_stream.errors import IgbssWarning, InputError, ParameterError
from igbss_stream.preparation.filters import design_filters
from igbss_stream.preparation.online import OnlinePreparation
from igbss_stream.preparation.resampling import get_polyphase_filter
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.streaming.model_updates import LearningSchedule
from igbss_stream.streaming.pipeline import LearningPlan, Pipeline
from tests.prepared import Array, drifting

Item = Chunk | Gap

RATE = 250.0
STREAM = Stream("s", RATE, ("a", "b", "c"), "uV", np.dtype("f8"), 1e9, 3)
KINDS: dict[str, dict[str, Any]] = {
    "reference": {"reference": "average"},
    "one channel": {"reference": ("b",), "highpass": 1.0},
    "filters": {"highpass": 1.0, "lowpass": 40.0, "notch": (50.0, 100.0)},
    "slower": {"resample": 100.0},
    "faster": {"resample": 600.0, "lowpass": 30.0},
    "all": {"highpass": 1.0, "notch": (50.0,), "resample": 62.5, "reference": "average"},
}


def run(preparation: Preparation, items: Sequence[Item], stream: Stream = STREAM) -> list[Item]:
    stage = OnlinePreparation(stream, preparation)
    return [done for item in items for done in stage.push(item)] + stage.flush()


def cut(items: Sequence[Item], at: Sequence[int]) -> Iterator[Item]:
    """Cut chunks at some indices; a repeated index gives an empty chunk."""
    for item in items:
        if isinstance(item, Gap):
            yield item
            continue
        edges = [item.start, *sorted(i for i in at if item.start <= i <= item.stop), item.stop]
        for first, stop in itertools.pairwise(edges):
            yield Chunk(item.data[first - item.start : stop - item.start], first)


def joined(
    items: Sequence[Item], start: int
) -> tuple[Array, NDArray[np.int64], list[tuple[int, int, str]]]:
    """Return samples, the index of each, and the gaps; assert that indices are consecutive from `start`."""
    for item in items:
        assert item.start == start
        start = item.stop
    chunks = [item for item in items if isinstance(item, Chunk)]
    gaps = [(item.start, item.n_samples, item.reason) for item in items if isinstance(item, Gap)]
    index = np.concatenate([np.arange(chunk.start, chunk.stop) for chunk in chunks])
    return np.concatenate([chunk.data for chunk in chunks]), index, gaps


def feed(dtype: str = "f8") -> list[Item]:
    """Return items with a gap, a restart and rows of NaN, whose start is on no new grid."""
    x = drifting(900).astype(dtype)
    x[[500, 501], :] = np.nan
    first, second, third = x[:301], x[301:640], x[640:]
    return [
        Chunk(first, 13),
        Gap(314, 57, "lost"),
        Chunk(second, 371),
        Gap(710, 0, "restart"),
        Chunk(third, 710),
    ]


def assert_cuts_have_no_effect(kind: str, dtype: str, at: Sequence[int]) -> None:
    preparation, items = Preparation(**KINDS[kind]), feed(dtype)
    stream = Stream("s", RATE, STREAM.channels, dtype=np.dtype(dtype))
    up, down = preparation.compute_ratio(RATE)
    want, where, gaps = joined(run(preparation, items, stream), -(-13 * up // down))
    got, index, others = joined(run(preparation, [*cut(items, at)], stream), -(-13 * up // down))
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(index, where)
    assert others == gaps
    assert got.dtype == np.dtype(dtype)


@settings(max_examples=30)
@given(
    st.sampled_from([*KINDS]), st.sampled_from(["f4", "f8"]), st.lists(st.integers(13, 970), max_size=60)
)
def test_cuts_have_no_effect(kind: str, dtype: str, at: list[int]) -> None:
    assert_cuts_have_no_effect(kind, dtype, at)


@pytest.mark.parametrize("kind", KINDS)
def test_single_samples_have_no_effect(kind: str) -> None:
    assert_cuts_have_no_effect(kind, "f4", range(13, 971))


class TestAgainstScipy:
    @pytest.mark.parametrize("kind", ["filters", "one channel"])
    def test_filters_run_forward_from_their_steady_state(self, kind: str) -> None:
        preparation = Preparation(**KINDS[kind])
        data, _, _ = joined(run(preparation, feed()), 13)
        x = drifting(900)
        if kind == "one channel":
            x = x[:, [0, 2]] - x[:, [1]]
        sos, at = design_filters(preparation, RATE), 0
        for part in (x[:301], x[301:500], x[502:640], x[640:]):
            begin = signal.sosfilt_zi(sos)[:, :, None] * part[0]
            want, _ = signal.sosfilt(sos, part, axis=0, zi=begin)
            at += 2 if at == 500 else 0  # NaN
            np.testing.assert_allclose(data[at : at + len(part)], want, rtol=1e-12, atol=1e-9)
            at += len(part)
        assert np.flatnonzero(np.isnan(data[:, 0])).tolist() == [500, 501]

    @pytest.mark.parametrize(("rate", "up", "down"), [(100.0, 2, 5), (62.5, 1, 4), (600.0, 12, 5)])
    def test_another_rate(self, rate: float, up: int, down: int) -> None:
        x = drifting(700)
        (*items,) = cut([Chunk(x, 0)], [100, 101, 400])
        data, index, _ = joined(run(Preparation(resample=rate), items), 0)
        taps = get_polyphase_filter(up, down).taps / up
        want = signal.resample_poly(x, up, down, axis=0, window=taps, padtype="edge")
        np.testing.assert_allclose(data, want, rtol=1e-12)
        assert index.tolist() == list(range(len(want)))


class TestAccounts:
    @given(
        st.sampled_from([100.0, 62.5, 600.0, 250.0]),
        st.integers(0, 10**12),
        st.lists(st.tuples(st.integers(0, 60), st.booleans()), min_size=1, max_size=12),
    )
    def test_every_index_is_in_one_chunk_or_gap(
        self, rate: float, start: int, lengths: list[tuple[int, bool]]
    ) -> None:
        up, down = Preparation(resample=rate).compute_ratio(RATE)
        items: list[Item] = []
        at = start
        for n, is_gap in lengths:
            items.append(Gap(at, n, "lost") if is_gap else Chunk(drifting(n), at))
            at += n
        out = run(Preparation(resample=rate), items)
        reached = -(-start * up // down)
        for item in out:
            assert item.start == reached
            reached = item.stop
        assert reached == -(-at * up // down)
        assert sum(isinstance(item, Gap) for item in out) == sum(is_gap for _, is_gap in lengths)

    def test_time_follows_the_index(self) -> None:
        """A sample keeps its time; t0 is the time of index 0, which is on both grids."""
        stage = OnlinePreparation(STREAM, Preparation(resample=100.0))
        assert stage.output_stream.t0 == STREAM.t0
        assert stage.output_stream.time_of(400) == STREAM.time_of(1000) == 1e9 + 4

    @pytest.mark.parametrize(("rate", "delay"), [(100.0, 26), (62.5, 26), (600.0, 62)])
    def test_delay_is_as_stated(self, rate: float, delay: int) -> None:
        """Sample by sample, the largest delay of a new sample is the stated one."""
        stage = OnlinePreparation(STREAM, Preparation(resample=rate))
        up, down = Preparation(resample=rate).compute_ratio(RATE)
        assert stage.compute_delay(0) == delay
        assert stage.output_stream.delay == delay + -(-3 * up // down)
        late = []
        for chunk in cut([Chunk(drifting(600), 0)], range(1, 600)):
            newest = (chunk.stop - 1) * up // down
            late += [newest - i for done in stage.push(chunk) for i in range(done.start, done.stop)]
        assert max(late) == delay

    def test_output_stream_describes_the_output(self) -> None:
        out = OnlinePreparation(STREAM, Preparation(resample=100.0, reference=("b",))).output_stream
        assert (out.name, out.rate, out.channels, out.unit) == ("s", 100.0, ("a", "c"), "uV")

    def test_without_steps_nothing_is_copied(self) -> None:
        stage, items = OnlinePreparation(STREAM, Preparation()), feed()
        assert [done for item in items for done in stage.push(item)] == items
        assert stage.output_stream == STREAM

    def test_invalid_arguments_are_rejected(self) -> None:
        stage = OnlinePreparation(STREAM, Preparation(highpass=1.0))
        stage.push(Chunk(drifting(5), 0))
        with pytest.raises(InputError, match="6 came after 5"):
            stage.push(Gap(6, 1, "lost"))
        with pytest.raises(InputError, match=r"has 3 channels\. Got a chunk of 2"):
            stage.push(Chunk(drifting(5, 2), 5))
        with pytest.raises(ParameterError, match="lowpass must be below 125 Hz"):
            OnlinePreparation(STREAM, Preparation(lowpass=130.0))


@pytest.mark.jit
def test_a_model_is_learned_from_average_referenced_channels() -> None:
    """Their rank is one less; that number of sources is learned, with a warning, and reconstructs them."""
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(3000, 4)) @ draw_mixing(0, 4, 4).T
    stream = Stream("s", RATE, ("a", "b", "c", "d"), "uV", np.dtype("f8"))
    stage = OnlinePreparation(stream, Preparation(reference="average"))
    (prepared,) = stage.push(Chunk(x, 0))
    with ThreadPoolExecutor(1) as executor:
        pipeline = Pipeline(
            stage.output_stream,
            ModelSettings(),
            learning=LearningPlan(LearningSchedule(1000, 1000), executor),
        )
        with pytest.warns(IgbssWarning, match="have rank 3"):
            out = pipeline.push(prepared)
    chunk = out[-1]
    assert isinstance(chunk, Chunk)
    assert chunk.data.shape[1] == 3
    assert pipeline.model is not None
    learned = pipeline.model.separator.stage
    assert learned.mean is not None
    back = chunk.data @ learned.mixing[0].T + learned.mean
    np.testing.assert_allclose(
        back, (x - x.mean(axis=1, keepdims=True))[chunk.start : chunk.stop], atol=1e-9
    )
