"""The recording of an unattended daemon: reboots, other senders, moved files, full disks, new files."""

import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Stream
from tests import published
from tests.commands import Spawn
from tests.daemon.test_daemon import RATE, STREAM, SYSTEMATIC, Running, connect
from tests.files.test_stream_recording import read
from tests.recordings import write_recording
from tests.waiting import DEADLINE, until

pytestmark = pytest.mark.jit  # the process compiles or loads its kernels; coverage does not see it

Start = Callable[..., Running]


@pytest.fixture
def start(spawn: Spawn, tmp_path: Path) -> Iterator[Start]:
    """Start a daemon that records to `out.h5` with the default settings."""
    with ExitStack() as ends:
        sinks = "      - {kind: hdf5, path: out.h5, flush: 0.1}\n"
        yield partial(Running, spawn, tmp_path, ends, SYSTEMATIC, sinks=sinks)


def draw(n_samples: int, n_channels: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n_samples, n_channels)).astype(np.float32)


def count_rows(path: Path) -> int:
    return len(read(path)[0]) if path.exists() else 0


def has_rows(path: Path, n_rows: int) -> bool:
    return count_rows(path) == n_rows


def send(running: Running, stream: Stream, x: np.ndarray) -> None:
    """Send samples from index 0, and wait until they are processed."""
    sender, _ = connect(running, stream)
    sender.publish(Chunk(x, 0))
    until(lambda: running.count("recorded") == len(x), describe=lambda: running.get("metrics"))


def test_a_reboot_continues_the_recording_and_another_device_begins_the_next(
    start: Start, tmp_path: Path
) -> None:
    """Every start has the same configuration; the process dies as in a power failure."""
    path, more = tmp_path / "out.h5", tmp_path / "out-2.h5"
    wide = Stream("s", RATE, ("a", "b", "c", "d"), "uV")
    runs = [(STREAM, draw(100, 3, 1)), (STREAM, draw(120, 3, 2)), (wide, draw(140, 4, 3))]
    runs.append((wide, draw(160, 4, 4)))
    for number, (stream, x) in enumerate(runs):
        running = start()
        send(running, stream, x)
        file, n_rows = (path, (100, 220)) if number < 2 else (more, (140, 300))
        until(partial(has_rows, file, n_rows[number % 2]))
        if number == 2:
            line = running.wait_for_line("the recording continues in")
            assert line["level"] == "warning"
            assert "the stream has 4 channels instead of 3" in line["message"]
        running.process.send_signal(signal.SIGKILL)
        running.process.communicate()
        running.sender.close()  # type: ignore[union-attr]
    for file, (first, second) in ((path, runs[:2]), (more, runs[2:])):
        data, _, gaps, _ = read(file)
        want = [published.separate(x).sources for _, x in (first, second)]
        np.testing.assert_array_equal(data, np.concatenate(want))
        assert [(row, reason) for row, _, _, reason in gaps] == [(len(want[0]), b"restart")]
    assert not (tmp_path / "out-3.h5").exists()


def test_a_full_disk_stops_the_recording_only_until_there_is_space(start: Start, tmp_path: Path) -> None:
    """The other sink goes on, `unrecorded` counts, the gap is declared, and the end is in order."""
    running, path = start(), tmp_path / "out.h5"
    sender, subscriber = connect(running, STREAM)
    x = draw(5000, 3, 5)
    pieces = iter(range(0, len(x), 100))

    def send_piece() -> int:
        at = next(pieces)
        sender.publish(Chunk(x[at : at + 100], at))
        got = 0
        while got < 100:
            got += sum(len(item.data) for item in subscriber.receive(DEADLINE) if isinstance(item, Chunk))
        return at + 100

    def set_limit(n_bytes: int) -> None:
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (n_bytes, resource.RLIM_INFINITY))

    send_piece()
    until(lambda: count_rows(path) == 100)
    with h5py.File(path) as file:
        set_limit(file["data"].id.get_offset() + 100 * 12 + 1000)
    while running.count("unrecorded") < 500:
        stop = send_piece()
    n_kept = running.count("recorded")
    assert n_kept + running.count("unrecorded") == stop
    assert "the file has reached the limit" in running.wait_for_line("cannot be written")["message"]
    set_limit(resource.RLIM_INFINITY)
    stop = send_piece()
    until(lambda: count_rows(path) == n_kept + 100)
    set_limit(100)  # full again as the daemon ends
    send_piece()
    running.end(signal.SIGTERM)
    data, index, gaps, _ = read(path)
    assert gaps == [(n_kept, n_kept, stop - 100 - n_kept, b"unrecorded")]
    np.testing.assert_array_equal(index, [*range(n_kept), *range(stop - 100, stop)])
    np.testing.assert_array_equal(data, published.separate(x).sources[index])


def test_a_file_that_is_moved_away_is_followed_by_another(start: Start, tmp_path: Path) -> None:
    running, path = start(), tmp_path / "out.h5"
    sender, _ = connect(running, STREAM)
    x = draw(2000, 3, 6)
    sender.publish(Chunk(x[:100], 0))
    until(lambda: count_rows(path) == 100)
    path.rename(tmp_path / "moved.h5")
    running.wait_for_line("it was deleted or renamed")  # also without samples
    sender.publish(Chunk(x[100:150], 100))
    until(lambda: count_rows(path) == 50)
    running.end(signal.SIGTERM)
    assert read(tmp_path / "moved.h5")[1].tolist() == [*range(100)]
    assert read(path)[1].tolist() == [*range(100, 150)]
    want = published.separate(x[:150]).sources
    found = [read(file)[0] for file in (tmp_path / "moved.h5", path)]
    np.testing.assert_array_equal(np.concatenate(found), want)


def test_a_rotated_recording_has_every_sample(spawn: Spawn, tmp_path: Path) -> None:
    x = draw(200_000, 3, 7)
    write_recording(tmp_path / "in.h5", x, rate=RATE)
    config = tmp_path / "run.yaml"
    (tmp_path / "out").mkdir()
    config.write_text(
        "streams:\n"
        "  - name: s\n"
        "    source: {kind: file, path: in.h5, speed: 0, block: 1}\n"
        f"{SYSTEMATIC}\n"
        "    sinks:\n"
        "      - {kind: hdf5, path: out/s.h5, rotate: 500kB}\n"
        "      - {kind: hdf5, path: whole.h5, if_exists: number}\n"
        "log: {format: json}\n"
    )
    (tmp_path / "whole.h5").write_text("precious")
    process = spawn("run", config)
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, errors
    assert (tmp_path / "whole.h5").read_text() == "precious"
    names = sorted(os.listdir(tmp_path / "out"))
    assert len(names) == 5
    parts = [read(tmp_path / "out" / name) for name in names]
    data, index, _, _ = read(tmp_path / "whole-2.h5")
    assert index.tolist() == [*range(200_000)]
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), index)
    np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), data)
    np.testing.assert_array_equal(data, published.separate(x).sources)
    lines = [json.loads(line)["message"] for line in errors.splitlines() if line.startswith("{")]
    assert [line for line in lines if line.startswith("recording s to") and "out/" in line] == [
        f"recording s to '{tmp_path / 'out' / name}'" for name in names
    ]
    with h5py.File(tmp_path / "out" / names[3]) as file:
        assert file.attrs["stream"] == "s"
        assert list(file["data"].attrs["channels"]) == ["source-0", "source-1", "source-2"]


def test_a_device_that_restarts_with_another_montage(start: Start, tmp_path: Path) -> None:
    """The stream begins anew, and so does the recording."""
    running, other = start(), Stream("s", 250.0, ("a", "b", "c", "d"), "V")
    x, y = draw(100, 3, 12), draw(200, 4, 13)
    send(running, STREAM, x)
    sender = running.sender
    assert sender is not None
    sender.start(other)
    for at in range(0, 200, 50):
        sender.publish(Chunk(y[at : at + 50], at))
    until(partial(has_rows, tmp_path / "out-2.h5", 200))
    line = running.wait_for_line("is closed")["message"]
    assert line.endswith("the stream has rate 250.0 instead of 500.0")
    running.end(signal.SIGTERM)
    for name, rate, unit, samples in (("out.h5", 500.0, "uV", x), ("out-2.h5", 250.0, "V", y)):
        np.testing.assert_array_equal(read(tmp_path / name)[0], published.separate(samples).sources)
        with h5py.File(tmp_path / name) as file:
            assert (file["data"].attrs["rate"], file["data"].attrs["unit"]) == (rate, unit)


def test_a_publisher_that_is_described_anew_is_recorded_to_another_file(tmp_path: Path) -> None:
    """The sink of the daemon, given two descriptions."""
    from igbss_stream.daemon.config.sinks import Hdf5Output
    from igbss_stream.daemon.connectors import open_sink

    sink = open_sink(Hdf5Output(path=tmp_path / "out.h5"))
    for rate, x in ((500.0, draw(50, 3, 8)), (250.0, draw(60, 3, 9)), (250.0, draw(70, 3, 10))):
        sink.start(Stream("s", rate, ("a", "b", "c"), "uV"))
        sink.publish(Chunk(x, 0, 1))
    assert sink.get_counts() == {"recorded": 180, "unrecorded": 0, "events_unrecorded": 0}
    sink.close()
    with h5py.File(tmp_path / "out.h5") as first, h5py.File(tmp_path / "out-2.h5") as second:
        assert [(len(f["data"]), f["data"].attrs["rate"]) for f in (first, second)] == [
            (50, 500),
            (130, 250),
        ]
        assert second["gaps"][:].tolist() == [(60, 60, 0, b"restart")]
