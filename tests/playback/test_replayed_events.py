"""Events of a recording arrive with its samples, over real sockets, gaps and a restart."""

import json
import threading
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.events import Event, Events
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.files.event_table import make_event_table
from igbss_stream.files.open import open_recording
from igbss_stream.playback.event_feed import EventFeed
from igbss_stream.playback.replay import describe_stream, feed_events, read_chunks
from igbss_stream.subscriber import Subscriber
from tests.commands import Command
from tests.feeds.test_zmq import joined
from tests.playback.test_playback_commands import address, aside  # noqa: F401 # fixtures
from tests.recordings import write_recording
from tests.waiting import DEADLINE

RATE = 500.0
N_EVENTS, N_SAMPLES = 1000, 40_000
GAP = Gap(20_000, 3_000, "lost")


def write_marked(path: Path) -> Events:
    """Write a recording with a pulse at each event, of the height of its number, and a gap."""
    rng = np.random.default_rng(90_001)
    index = np.sort(rng.choice(N_SAMPLES // 8, N_EVENTS, replace=False)) * 8 + 3.0
    index[index >= GAP.start] += GAP.n_samples
    rows = np.where(index < GAP.start, index, index - GAP.n_samples).astype(int)
    x = rng.normal(0.0, 0.01, (N_SAMPLES, 2))
    x[rows, 0] = np.arange(1, N_EVENTS + 1)
    events = Events(
        index + rng.uniform(-0.49, 0.49, N_EVENTS), [str(n) for n in range(1, N_EVENTS + 1)], None, "marks"
    )
    write_recording(path, x, rate=RATE, unit="uV")
    with h5py.File(path, "a") as file:
        gap = np.dtype([("row", "i8"), ("start", "i8"), ("n_samples", "i8"), ("reason", "S16")])
        file["gaps"] = np.array([(GAP.start, GAP.start, GAP.n_samples, b"lost")], gap)
        file["events"] = make_event_table(events, [GAP], RATE)
    return events


def find_pulses(chunks: list[Chunk]) -> dict[str, list[int]]:
    """Return the indices of the pulses of each height."""
    found: dict[str, list[int]] = {}
    for chunk in chunks:
        x: NDArray[Any] = chunk.data[:, 0]
        for row in np.flatnonzero(x > 0.5).tolist():
            found.setdefault(str(round(float(x[row]))), []).append(chunk.start + row)
    return found


def test_events_arrive_with_their_samples_over_a_gap_and_a_restart(
    igbss: Command,
    address: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    write_marked(tmp_path / "in.h5")
    chunks: list[Chunk] = []
    got: list[Event] = []
    lost: list[int] = []
    early: list[Event] = []

    def read() -> None:
        with Subscriber(address, timeout=DEADLINE) as subscriber:
            for run in range(2):
                while not subscriber.ended:
                    items = subscriber.receive(0.1)
                    chunks.extend(item for item in items if isinstance(item, Chunk))
                    events = list(subscriber.pop_events())
                    stop = items[-1].stop if items else np.inf
                    early.extend(one for one in events if one.index >= stop + 0.5)
                    got.extend(events)
                if run == 0:
                    subscriber._ended = False  # stay for the next publisher at the same address
            lost.append(subscriber.events_lost)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(2):
        result = igbss("replay", tmp_path / "in.h5", "--to", address, "--speed", 0, "--wait", "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["events"] == N_EVENTS
    reader.join(DEADLINE)
    assert not reader.is_alive()
    assert (len(got), lost, early) == (2 * N_EVENTS, [0], [])
    pulses = find_pulses(chunks)
    assert len(pulses) == N_EVENTS
    for n, event in enumerate(got):
        where = pulses[event.label][n // N_EVENTS]
        assert abs(event.index - where) < 0.5
        assert event.source == "marks"


def test_listen_reports_events(igbss: Command, address: str, aside: Any, tmp_path: Path) -> None:  # noqa: F811
    write_marked(tmp_path / "in.h5")

    def play() -> None:
        with open_recording(tmp_path / "in.h5") as recording, ZmqPublisher(address) as sink:
            joined(sink)
            sink.start(describe_stream(recording, "eeg"))
            events = feed_events(recording)
            for item in read_chunks(recording, 500):
                sink.publish(item)
                sink.publish_events(events.take(item.stop))

    played = aside(play)
    result = igbss("listen", address, "--json", "--seconds", 20)
    played.result(DEADLINE)
    assert result.exit_code == 0, result.output
    reports = [json.loads(line) for line in result.output.splitlines() if line.startswith("{")]
    assert (reports[-1]["events"], reports[-1]["events_lost"]) == (N_EVENTS, 0)
    assert reports[-1]["new_events"][-1]["label"] == str(N_EVENTS)


@pytest.mark.parametrize("block", [1, 7, 10, 35])
def test_a_loop_repeats_the_events(block: int) -> None:
    feed = EventFeed(Events([-0.4, 3.5, 9.4], ["a", "b", "c"]), 10)
    taken = [one for stop in range(block, 41, block) for one in feed.take(stop)]
    expected = [pass_ * 10 + at for pass_ in range(4) for at in (-0.4, 3.5, 9.4)]
    n = sum(at < 40 // block * block - 0.5 for at in expected)
    assert [one.index for one in taken] == pytest.approx(expected[:n])
    assert [one.label for one in taken] == (["a", "b", "c"] * 4)[:n]
