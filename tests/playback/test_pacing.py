"""When items are let go, and how a recording becomes items."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.errors import ParameterError
from igbss_stream.events import Events
from igbss_stream.files.gaps import make_gaps
from igbss_stream.playback.pacing import SYSTEM_CLOCK, Item, pace, parse_length
from igbss_stream.playback.replay import read_chunks, read_paced, replay
from igbss_stream.positions import Positions
from tests.recordings import noise


@dataclass
class FakeClock:
    """Sleeps at once, and each time a little longer than it was asked to."""

    late: float = 0.0
    time: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds + self.late


@dataclass
class Memory:
    """A recording in memory that, as one in a file does, gives all blocks in the same place."""

    x: NDArray[np.float64]
    rate: float | None = 100.0
    unit: str | None = "uV"
    gaps: tuple[Gap, ...] = ()

    events: Events = field(default_factory=Events)
    positions: Positions | None = None

    @property
    def n_samples(self) -> int:
        return len(self.x)

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.x.shape[1])))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.x.dtype

    def read_blocks(self, n: int) -> Iterator[tuple[int, NDArray[Any]]]:
        place = np.empty((n, self.x.shape[1]))
        for start in range(0, len(self.x), n):
            block = self.x[start : start + n]
            place[: len(block)] = block
            yield start, place[: len(block)]
            place[:] = np.nan


def samples(items: list[Item]) -> NDArray[Any]:
    return np.concatenate([item.data for item in items if isinstance(item, Chunk)])


@given(
    block=st.integers(1, 40),
    speed=st.sampled_from([0.25, 1.0, 3.0]),
    late=st.floats(0.0, 0.004),
)
def test_no_lateness_adds_up(block: int, speed: float, late: float) -> None:
    clock = FakeClock(late)
    for item in read_paced(Memory(noise(97)), block, speed=speed, clock=clock):
        due = 1000.0 + item.stop / 100.0 / speed
        assert -1e-9 <= clock.time - due <= late + 1e-9


def test_what_is_overdue_leaves_at_once_and_then_the_schedule_holds_again() -> None:
    clock = FakeClock()
    times = []
    for item in read_paced(Memory(noise(60)), 10, clock=clock):
        if item.start == 10:
            clock.time += 0.25  # the machine slept
        times.append(round(clock.time - 1000.0, 6))
    assert times == [0.1, 0.45, 0.45, 0.45, 0.5, 0.6]


def test_speed_zero_never_waits() -> None:
    clock = FakeClock()
    assert len(list(read_paced(Memory(noise(60)), 7, speed=0.0, clock=clock))) == 9
    assert clock.slept == []


def test_the_clock_starts_with_the_first_index() -> None:
    clock = FakeClock()
    list(pace([Chunk(noise(10), 5000)], 100.0, clock=clock))
    assert clock.slept == [pytest.approx(0.1)]


def test_the_clock_of_the_machine_waits() -> None:
    began = SYSTEM_CLOCK.now()
    assert len(list(read_paced(Memory(noise(6)), 3, clock=SYSTEM_CLOCK))) == 2
    assert SYSTEM_CLOCK.now() - began >= 0.06


@pytest.mark.parametrize("speed", [-1.0, float("nan"), float("inf")])
def test_impossible_speeds_are_refused(speed: float) -> None:
    with pytest.raises(ParameterError, match="speed must be a finite number >= 0"):
        read_paced(Memory(noise()), 5, speed=speed)
    with pytest.raises(ParameterError, match="speed must be a finite number >= 0"):
        replay(Memory(noise()), "eeg", "5", speed=speed, loop=False)


@given(block=st.integers(1, 70))
def test_chunks_hold_every_sample_once_in_memory_of_their_own(block: int) -> None:
    x = noise(60)
    items = list(read_chunks(Memory(x), block))
    assert samples(items).tobytes() == x.tobytes()
    assert [item.start for item in items] == list(range(0, 60, block))


def test_a_loop_goes_on_counting_and_says_where_it_begins_again() -> None:
    x = noise(7)
    items = list(itertools.islice(read_chunks(Memory(x), 4, loop=True), 8))
    assert [(item.start, item.stop) for item in items] == [
        (0, 4), (4, 7), (7, 7), (7, 11), (11, 14), (14, 14), (14, 18), (18, 21),
    ]  # fmt: skip
    assert items[2] == Gap(7, 0, "loop")
    assert samples(items).tobytes() == np.concatenate([x, x, x]).tobytes()


GAPS = make_gaps([(5, 3, "missing"), (5, 0, "boundary"), (12, 0, "boundary"), (20, 40, "missing")])


@given(block=st.integers(1, 30))
def test_what_a_file_says_is_missing_is_a_gap_and_indices_go_on(block: int) -> None:
    x = noise(25)
    items = list(read_chunks(Memory(x, gaps=GAPS), block))
    assert samples(items).tobytes() == x.tobytes()
    assert [item for item in items if isinstance(item, Gap)] == [
        Gap(5, 3, "missing"), Gap(8, 0, "boundary"), Gap(15, 0, "boundary"), Gap(23, 40, "missing"),
    ]  # fmt: skip
    index = np.arange(25) + 3 * (np.arange(25) >= 5) + 40 * (np.arange(25) >= 20)
    found = [np.arange(item.start, item.stop) for item in items if isinstance(item, Chunk)]
    np.testing.assert_array_equal(np.concatenate(found), index)
    assert all(len(item.data) for item in items if isinstance(item, Chunk))
    assert all(one.stop == other.start for one, other in itertools.pairwise(items))


def test_a_loop_counts_what_is_missing_and_a_gap_takes_its_time() -> None:
    clock, memory = FakeClock(), Memory(noise(10), gaps=make_gaps([(4, 6, "missing")]))
    items = list(itertools.islice(read_paced(memory, 10, loop=True, clock=clock), 7))
    assert [(item.start, item.stop) for item in items] == [
        (0, 4), (4, 10), (10, 16), (16, 16), (16, 20), (20, 26), (26, 32),
    ]  # fmt: skip
    assert clock.time == pytest.approx(1000.32)


def test_a_recording_without_rate_has_no_pace() -> None:
    with pytest.raises(ParameterError, match="pass --rate"):
        read_paced(Memory(noise(), rate=None), 5)


def test_a_feed_is_described_by_its_recording() -> None:
    feed = replay(Memory(noise(60)), "eeg", "50ms", speed=0.0, loop=False)
    assert (feed.stream.name, feed.stream.rate, feed.stream.unit) == ("eeg", 100.0, "uV")
    assert feed.stream.channels == ("0", "1", "2", "3")
    assert feed.stream.dtype == np.float64
    assert feed.n_samples == 60
    assert [item.start for item in feed.items(FakeClock())] == list(range(0, 60, 5))
    assert replay(Memory(noise()), "eeg", "5", speed=1.0, loop=True).n_samples is None


@pytest.mark.parametrize(
    ("text", "n"),
    [("25", 25), ("25.0", 25), ("0.1s", 25), (" 100 ms ", 25), (".5s", 125), ("1s", 250), ("3ms", 1)],
)
def test_lengths_are_samples_or_times(text: str, n: int) -> None:
    assert parse_length(text, 250.0) == n


@pytest.mark.parametrize("text", ["", "0", "-3", "2.5", "0s", "1ms", "1 min", "s", "nan", "1e3", "0x10"])
def test_other_lengths_are_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="--block must be"):
        parse_length(text, 250.0)
