"""Kill the writer of a recording: any reader finds the flushed samples without repair."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream.chunk import Gap
from igbss_stream.files.writers.stream_recording import RecordingSink
from tests.files.test_stream_recording import ROOT, STREAM, chunk, read


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a recording that does not exist yet."""
    return tmp_path / "live.h5"


def a_session(path: Path, after_write: Any) -> None:
    """Write all kinds of items; yield the smallest and largest number of readable samples after each step."""
    with RecordingSink(path, flush_every=1000, if_exists="append") as sink:
        sink.start(STREAM)
        before = sink.n_samples
        after_write(before, before)
        for start in range(0, 3000, 700):
            sink.write(chunk(start, 600, start // 1400))
            after_write(before, sink.n_samples)
            sink.write(Gap(start + 600, 60, "lost"))
            sink.flush()
            before = sink.n_samples
            after_write(before, before)
            sink.write(Gap(start + 660, 40, "lost"))
            after_write(before, before)


def test_at_every_point_between_and_within_writes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each write, and after half of each write above a page, the file has the committed samples."""
    write, seen = os.pwrite, []
    committed = 0

    def look() -> None:
        if path.exists():
            with h5py.File(path, locking=False) as file:
                data, gaps = file["data"][:, 0], file["gaps"][:]
                assert len(file["models"][:]) >= (len(data) > 0)
            assert len(data) == len(gaps) * 600
            assert len(data) in (committed, committed + 600)
            assert all(gaps["n_samples"][:-1] == 100)
            assert set(gaps["n_samples"][-1:]) <= {60, 100}
            np.testing.assert_array_equal(data % 700, np.tile(np.arange(600), len(gaps)))
            seen.append(len(data))

    def torn(descriptor: int, data: memoryview, place: int) -> int:
        for size in range(0, len(data), 512 if place else 4096):
            write(descriptor, data[:size], place)
            look()
        done = write(descriptor, data, place)
        look()
        return done

    def remember(at_least: int, at_most: int) -> None:
        nonlocal committed
        committed = at_least
        look()

    monkeypatch.setattr(os, "pwrite", torn)
    a_session(path, remember)
    assert sorted(set(seen)) == list(range(0, 3001, 600))
    assert len(seen) > 60


WRITER = """
    import sys, time
    import numpy as np
    from igbss_stream.chunk import Chunk, Gap, Stream
    from igbss_stream.files.writers.stream_recording import RecordingSink

    path, first, flush_every = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    stream = Stream("s", 1000.0, ("a", "b"), "uV", np.dtype("f4"))
    sink = RecordingSink(path, flush_every=flush_every, if_exists="append")
    sink.start(stream)
    start = first
    print("go", flush=True)
    while True:
        n = 1 + start % 97
        before = time.monotonic()
        index = np.arange(start, start + n, dtype="f4")
        sink.write(Chunk(np.column_stack([index, -index]), start, start // 5000))
        start += n
        print(before, time.monotonic(), start, flush=True)
        if start % 10 == 0:
            sink.write(Gap(start, 5, "lost"))
            start += 5
        time.sleep(0.0005 * (start % 3))
"""


def record_and_kill(path: Path, first: int, flush_every: float, seconds: float) -> tuple[int, int]:
    """Return the index after the last sample, and that after the last one which must be in the file."""
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), path, str(first), str(flush_every)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert writer.stdout is not None
    with writer, writer.stdout as lines_of_writer:
        assert lines_of_writer.readline() == "go\n"
        written = [lines_of_writer.readline()]
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            written.append(lines_of_writer.readline())
        writer.kill()
        written += [line for line in lines_of_writer if line.endswith("\n")]
    assert writer.wait() == -signal.SIGKILL
    lines = [tuple(map(float, line.split())) for line in written]
    kept = [stop for _, after, stop in lines if after <= lines[-1][0] - flush_every]
    return int(lines[-1][2]), int(kept[-1]) if kept else first


def kill_again_and_again(path: Path, times: int) -> None:
    """Kill a writer, open the file, and let the next writer continue it."""
    chance = random.Random(times)
    first = n_runs = n_items = 0
    for _ in range(times):
        flush_every = chance.choice([0.0, 0.01, 0.05])
        last, kept = record_and_kill(path, first, flush_every, chance.uniform(0, 0.3))
        data, index, gaps, models = read(path)
        np.testing.assert_array_equal(data[:, 1], -data[:, 0])
        np.testing.assert_array_equal(data[:, 0], index)
        assert all(data[row, 0] == start for row, start, _ in models)
        stops = [int(data[-1, 0]) + 1] * (len(data) > 0) + [start + n for _, start, n, _ in gaps[-1:]]
        assert kept <= max(stops, default=first) <= last + 200  # written but not reported
        n_runs += len(data) + len(gaps) > n_items
        assert [reason for *_, reason in gaps].count(b"restart") == max(0, n_runs - 1)
        first, n_items = max(stops, default=first), len(data) + len(gaps)


def test_killed_three_times(path: Path) -> None:
    kill_again_and_again(path, 3)


@pytest.mark.slow
def test_killed_forty_times(path: Path) -> None:
    kill_again_and_again(path, 40)
