"""`replay`, `simulate` and `listen` over real sockets."""

import json
import os
import pty
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream._util.signals import StopSignal
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.feeds.model_facts import LearningFacts
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.files.open import open_recording
from igbss_stream.files.writers.stream_recording import RecordingSink
from igbss_stream.playback.pacing import Item
from igbss_stream.playback.publishing import publish as publish_feed
from igbss_stream.playback.simulate import Simulation, simulate_stream
from igbss_stream.subscriber import Subscriber
from tests.commands import Command, Refusal, Spawn, assert_says, read_terminal
from tests.feeds.test_zmq import joined
from tests.recordings import NAMES, RATE, noise, write_recording
from tests.waiting import DEADLINE, until

STREAM = Stream("eeg", 250.0, ("a", "b", "c", "d"), "uV", np.dtype(np.float64), 1.7e9)
INTERRUPTED = 128 + signal.SIGINT


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/s"


@pytest.fixture
def aside() -> Iterator[Callable[..., "Future[Any]"]]:
    """Run a function beside the test, which runs the command."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit


def received(
    address: str, enough: Callable[[list[Item]], bool] = lambda items: False
) -> tuple[Stream, list[Item]]:
    """Return a stream and its items, up to its end or what is enough."""
    items: list[Item] = []
    with Subscriber(address, timeout=DEADLINE) as subscriber:
        for item in subscriber:
            items.append(item)
            if enough(items):
                break
        return subscriber.stream, items


def samples(items: list[Item]) -> NDArray[Any]:
    return np.concatenate([item.data for item in items if isinstance(item, Chunk)])


def test_a_replay_arrives_to_the_bit(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str, tmp_path: Path
) -> None:
    x = noise(5003)
    path = write_recording(tmp_path / "rest.h5", x, rate=RATE, unit="uV", channels=NAMES)
    got = aside(received, address)
    result = igbss("replay", path, "--to", address, "--speed", 0, "--wait", "--block", 1)
    assert result.exit_code == 0, result.output
    assert_says(result.output, f"'rest' at {address}: 4 channels, 250 Hz", "done: 5003 samples")
    stream, items = got.result(DEADLINE)
    assert stream == Stream("rest", RATE, NAMES, "uV", np.dtype(np.float64))
    assert all(isinstance(item, Chunk) for item in items)
    assert [item.start for item in items] == list(range(5003))
    assert samples(items).tobytes() == x.tobytes()


def test_a_replay_in_real_time_keeps_time(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str, tmp_path: Path
) -> None:
    path = write_recording(tmp_path / "in.h5", noise(150).astype(np.int16), rate=RATE)
    got, began = aside(received, address), time.time()
    result = igbss("replay", path, "--to", address, "--name", "eeg", "--wait", "--block", "0.5s")
    assert result.exit_code == 0, result.output
    ended = time.time()
    stream, items = got.result(DEADLINE)
    assert (stream.name, stream.dtype, stream.unit) == ("eeg", np.float32, None)
    assert [item.stop for item in items] == [125, 150]
    last = stream.time_of(150)
    assert last is not None
    assert began + 0.6 <= last <= ended
    seconds = re.search(r"150 samples in (\S+) s", result.output)
    assert seconds is not None
    assert float(seconds[1]) >= 0.6


def test_a_feed_waits_for_a_subscriber_that_cannot_keep_up() -> None:
    x = np.zeros((100, 256))
    stream = Stream("eeg", 250.0, tuple(map(str, range(256))), dtype=np.dtype(np.float64))
    got: list[Item] = []
    with (
        ZmqPublisher("*", high_water_mark=5) as sink,
        Subscriber(sink.address, high_water_mark=5) as subscriber,
    ):
        joined(sink)
        sink.start(stream)
        retries = 0

        def retry() -> bool:
            nonlocal retries
            retries += 1
            got.extend(subscriber.receive(0.01))
            return True

        for number in range(300):  # 60 MB, more than sockets hold
            sink.publish(Chunk(x, 100 * number), retry)
        closing = threading.Thread(target=sink.close, args=(DEADLINE, retry))
        closing.start()
        until(lambda: subscriber.ended, lambda: got.extend(subscriber.receive(0.05)))
        closing.join(DEADLINE)
        assert retries > 0
        assert sink.overflows == 0
        got += subscriber.receive(0)
    assert [item.start for item in got] == list(range(0, 30_000, 100))
    assert all(isinstance(item, Chunk) for item in got)


def test_subscribers_that_fall_behind_are_told_of(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str, tmp_path: Path
) -> None:
    path = write_recording(tmp_path / "in.h5", noise(20_000, 64), rate=RATE)
    replayed = threading.Event()

    def sleepy() -> list[Item]:
        with Subscriber(address, high_water_mark=1, timeout=2 * DEADLINE) as subscriber:
            items = [next(iter(subscriber))]
            assert replayed.wait(DEADLINE)
            return items

    got = aside(sleepy)
    result = igbss("replay", path, "--to", address, "--wait", "--speed", 1e9, "--block", 5)
    replayed.set()
    assert got.result(DEADLINE)[0].start == 0
    assert result.exit_code == 0
    assert_says(
        result.output,
        "Warning: subscribers fell behind and missed messages (1 x)",
        "lower --speed",
        "done: 20000",
    )


def test_progress_is_told_up_to_the_end(address: str) -> None:
    reported: list[tuple[str, int, int | None]] = []
    feed = simulate_stream(Simulation(2), "head", "50", speed=1e6, n_samples=120)
    with StopSignal() as stop, ZmqPublisher(address) as sink:
        done = publish_feed(feed, sink, stop, progress=lambda *what: reported.append(what))
    assert reported == [("publishing", n, 120) for n in (50, 100, 120)]
    assert (done.n_samples, done.overflows) == (120, 0)


def test_a_replay_in_json_tells_what_the_other_end_counts(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str, tmp_path: Path
) -> None:
    """Gaps of the file among it, with --quiet as without; the place goes to standard error."""
    path = write_recording(tmp_path / "in.h5", noise(100), rate=RATE, unit="uV")
    with h5py.File(path, "a") as file:
        gap = np.dtype([("row", "i8"), ("start", "i8"), ("n_samples", "i8"), ("reason", "S16")])
        file["gaps"] = np.array([(60, 60, 10, b"lost")], gap)
    for quiet in ((), ("--quiet",)):
        got = aside(received, address)
        result = igbss("replay", path, "--to", address, "--speed", 0, "--wait", "--json", *quiet)
        assert result.exit_code == 0, result.output
        stream, items = got.result(DEADLINE)
        gaps = [item for item in items if isinstance(item, Gap)]
        assert len(gaps) == 1
        reported = json.loads(result.stdout)
        seconds, rate = reported.pop("seconds"), reported.pop("rate")
        assert rate == pytest.approx(100 / seconds)
        assert reported == {
            "stream": stream.name, "address": address, "n_channels": stream.n_channels, "unit": stream.unit,
            "nominal_rate": stream.rate, "samples": len(samples(items)), "gaps": len(gaps),
            "samples_lost": gaps[0].n_samples, "events": 0, "overflows": 0, "interrupted": False,
        }  # fmt: skip
        where = f"'in' at {address}: 4 channels, 250 Hz\n"
        assert result.stderr == ("" if quiet else where)


def test_a_simulation_that_is_interrupted_ends_with_json(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str
) -> None:
    got = aside(interrupt_after, address, 100)
    result = igbss("simulate", "--channels", 2, "--to", address, "--speed", 5, "--wait", "--json")
    assert result.exit_code == INTERRUPTED
    _, items = got.result(DEADLINE)
    reported = json.loads(result.stdout)
    assert (reported["interrupted"], reported["samples"]) == (True, len(samples(items)))


def interrupt_after(address: str, n_samples: int) -> tuple[Stream, list[Item]]:
    """Interrupt this process once samples come, and read on to the end."""
    sent = False

    def enough(items: list[Item]) -> bool:
        nonlocal sent
        if not sent and items[-1].stop >= n_samples:
            os.kill(os.getpid(), signal.SIGINT)
            sent = True
        return False

    return received(address, enough)


def test_a_loop_goes_on_until_it_is_interrupted(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str, recording: Path
) -> None:
    got = aside(interrupt_after, address, 200)
    result = igbss("replay", recording, "--to", address, "--loop", "--wait", "--speed", 20, "--block", 7)
    assert result.exit_code == INTERRUPTED
    assert_says(result.output, "interrupted: ", " samples in ")
    _, items = got.result(DEADLINE)  # the end was announced
    x = samples(items)
    assert x.tobytes() == np.tile(noise(), (len(x) // 60 + 1, 1))[: len(x)].tobytes()
    assert items[-1].stop == len(x) >= 200
    assert [item for item in items if isinstance(item, Gap)][:3] == [
        Gap(60 * i, 0, "loop") for i in (1, 2, 3)
    ]


@pytest.mark.parametrize(("signals", "words"), [(1, "interrupted: 0 samples"), (2, "Interrupted; ")])
def test_an_interrupt_while_nobody_is_there(
    igbss: Command, recording: Path, monkeypatch: pytest.MonkeyPatch, signals: int, words: str
) -> None:
    serve, left = ZmqPublisher.serve, signals

    def interrupted(sink: ZmqPublisher) -> None:
        nonlocal left
        serve(sink)
        if left:
            left -= 1
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(ZmqPublisher, "serve", interrupted)
    result = igbss("replay", recording, "--to", "*", "--wait")
    assert result.exit_code == INTERRUPTED
    assert_says(result.output, words)


def test_a_simulation_arrives_to_the_bit_with_its_truth(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str, tmp_path: Path
) -> None:
    got, truth = aside(received, address), tmp_path / "truth.h5"
    result = igbss(
        "simulate", "--to", address, "--channels", 9, "--rate", 500, "--seed", 4, "--drift", 0.05, "--duration",
        3, "--truth", truth, "--speed", 0, "--wait", "--block", 37, "--quiet",
    )  # fmt: skip
    assert (result.exit_code, result.output) == (0, "")
    stream, items = got.result(DEADLINE)
    simulation = Simulation(9, 500.0, 4, 0.05)
    assert stream == simulation.stream("simulation")
    assert samples(items).tobytes() == simulation.block(0, 1500).tobytes()
    with h5py.File(truth) as file:
        assert file["sources"][()].tobytes() == simulation.sources(0, 1500).tobytes()


def publish(address: str, items: list[Item]) -> None:
    with ZmqPublisher(address) as sink:
        joined(sink)
        sink.start(STREAM)
        for item in items:
            sink.publish(item)


ITEMS: list[Item] = [
    Chunk(noise(60), 0, 1), Gap(60, 4, "lost"), Gap(64, 6, "lost"), Chunk(noise(40, seed=1), 70, 2),
]  # fmt: skip


def test_listening_in_json(igbss: Command, aside: Callable[..., "Future[Any]"], address: str) -> None:
    published = aside(publish, address, ITEMS)
    result = igbss("listen", address, "--json")
    published.result(DEADLINE)
    assert result.exit_code == 0, result.output
    last = json.loads(result.output.splitlines()[-1])
    assert last["ended"] is True
    assert (last["stream"], last["unit"], last["nominal_rate"]) == ("eeg", "uV", 250.0)
    assert (last["index"], last["samples"], last["model"]) == (110, 100, 2)
    assert (last["gaps"], last["samples_lost"], last["drops"], last["restarts"]) == (1, 10, 0, 0)
    age = time.time() - 1.7e9 - 109 / 250
    assert age - 2 * DEADLINE < last["delay"] <= age


def test_listening_to_a_feed_as_it_comes(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str, recording: Path
) -> None:
    def feed() -> None:
        rng, began = np.random.default_rng(0), time.monotonic()
        with ZmqPublisher(address) as sink:
            joined(sink)
            sink.start(STREAM)
            for i in range(150):  # 3 s
                sink.publish(Chunk(rng.normal(0, [1, 2, 3, 4], (5, 4)), 5 * i))
                time.sleep(max(0.0, began + 0.02 * (i + 1) - time.monotonic()))

    published = aside(feed)
    result = igbss("listen", address, "--json", "--seconds", 2.3)
    published.result(DEADLINE)
    assert result.exit_code == 0
    reports = [json.loads(text) for text in result.output.splitlines()]
    assert len(reports) >= 2  # one a second, where the machine keeps up
    assert [report["ended"] for report in reports] == [False] * len(reports)
    assert reports[-1]["rate"] == pytest.approx(250, rel=0.5)
    filled = [before for before in reports[1:] if None not in before["rms"].values()]
    assert list(filled[0]["rms"].values()) == pytest.approx([1, 2, 3, 4], rel=0.5)
    assert reports[-1]["seconds"] >= 2.3


def test_listening_in_lines(igbss: Command, aside: Callable[..., "Future[Any]"], address: str) -> None:
    published = aside(publish, address, ITEMS)
    result = igbss("listen", address)
    published.result(DEADLINE)
    assert_says(result.output.splitlines()[-1], "stream eeg", "gaps 1 (10 samples)", "rms a ", "ended yes")


def test_listening_to_another_stream_hears_nothing(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str
) -> None:
    joined_by, over = threading.Event(), threading.Event()

    def feed() -> None:
        with ZmqPublisher(address) as sink:
            sink.start(STREAM)
            while not over.wait(0.01):
                sink.publish(ITEMS[0])
                sink.serve()
                if sink.subscriptions:
                    joined_by.set()

    def listen() -> None:
        results.append(igbss("listen", address, "--topic", "meg", "--seconds", 0.5, "--quiet"))

    results: list[Any] = []
    published = aside(feed)
    try:
        until(joined_by.is_set, listen)
    finally:
        over.set()
    published.result(DEADLINE)
    for result in results:
        assert result.exit_code == 2
        assert_says(result.output, "nothing came from", "for 0.5 s", "that it publishes 'meg'")


def test_listening_to_nobody_tells_what_may_be_wrong(
    igbss: Command, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, and goes on: the publisher may come yet."""
    monkeypatch.setattr("igbss_stream.playback.listen._HINT", 0.2)
    result = igbss("listen", address, "--seconds", 1)
    assert result.exit_code == 2
    warning, error = result.stderr.splitlines()
    assert_says(
        warning, "Warning: nothing came from", address, "for 0.2 s", "check that the publisher runs"
    )
    assert_says(error, "Error: nothing came from", "for 1 s")


def test_listening_records_what_comes(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str, tmp_path: Path
) -> None:
    published = aside(publish, address, ITEMS)
    result = igbss("listen", address, "--record", tmp_path / "out.h5", "--quiet")
    published.result(DEADLINE)
    assert (result.exit_code, result.output) == (0, "")
    with open_recording(tmp_path / "out.h5") as recording:
        assert (recording.rate, recording.unit, recording.channels) == (250.0, "uV", STREAM.channels)
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["data"][()].tobytes() == samples(ITEMS).tobytes()
        assert file["gaps"][()].tolist() == [(60, 60, 10, b"lost")]
        assert file["models"][()].tolist() == [(0, 0, 1), (60, 70, 2)]
        assert file.attrs["stream"] == "eeg"


def test_listening_records_how_models_were_learned(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str, tmp_path: Path
) -> None:
    def feed() -> None:
        with ZmqPublisher(address) as sink:
            joined(sink)
            sink.start(STREAM)
            for version in 1, 2:
                reliability = (10.0 * version, 2.0, 3.0, -4.0)
                sink.publish_model(None, LearningFacts(version=version, view=0.1, reliability=reliability))
                sink.publish(Chunk(noise(60), 60 * version, version))
                time.sleep(
                    0.5
                )  # so that the description of one model does not arrive with that of the next

    published = aside(feed)
    result = igbss("listen", address, "--record", tmp_path / "out.h5", "--quiet")
    published.result(DEADLINE)
    assert (result.exit_code, result.output) == (0, "")
    with h5py.File(tmp_path / "out.h5") as file:
        rows = file["learning"][()]
    assert rows[["row", "version", "view"]].tolist() == [(0, 1, 0.1), (60, 2, 0.1)]
    assert rows["reliability"].tolist() == [[10, 2, 3, -4], [20, 2, 3, -4]]
    said = igbss("inspect", tmp_path / "out.h5").output
    assert "learned from: view 0.1, model 2\nreliability: a 20 dB, b 2 dB, c 3 dB, d -4 dB\n" in said


def test_a_recording_that_exists_is_kept_unless_told_otherwise(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str, tmp_path: Path
) -> None:
    path = tmp_path / "out.h5"
    write_recording(path, noise())
    older = path.read_bytes()
    for existing, code in (("refuse", 2), ("overwrite", 0)):
        published = aside(publish, address, ITEMS)
        result = igbss("listen", address, "--record", path, "--if-exists", existing, "--quiet")
        published.result(DEADLINE)
        assert result.exit_code == code, result.output
        assert (path.read_bytes() == older) == (code == 2)
    with open_recording(path) as recording:
        assert recording.n_samples == 100


@pytest.mark.parametrize("options", [(), ("--rotate", "1d")], ids=["one file", "rotation"])
def test_listening_ends_on_a_full_disk_and_keeps_what_it_wrote(
    spawn: Spawn, address: str, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """A command in the foreground does not go on with a hole, as the daemon does: it ends, and says why."""
    with RecordingSink(tmp_path / "size.h5") as empty:
        empty.start(STREAM)
    size = (tmp_path / "size.h5").stat().st_size + 100_000
    (tmp_path / "size.h5").unlink()
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    listen = spawn("listen", address, "--record", tmp_path / "out.h5", "--quiet", *options, before=limit)
    x = noise(20_000)
    with ZmqPublisher(address) as sink:
        joined(sink)
        sink.start(STREAM)
        for start in range(0, len(x), 50):
            if listen.poll() is not None:
                break
            sink.publish(Chunk(x[start : start + 50], start))
            time.sleep(0.002)
        code, out, err = finish(listen)
    assert (code, out) == (2, "")
    said = err.splitlines()[-1]
    assert_says(said, "Error: ", "out", "cannot be written", "another disk", "can be read")
    assert "Traceback" not in err
    (path,) = tmp_path.glob("out*.h5")
    with h5py.File(path) as file:
        data = file["data"][()]
    assert len(data) > 1000
    assert len(data) >= int(said.rpartition("(")[2].split()[0])
    assert data.tobytes() == x[: len(data)].tobytes()


OTHERS = {
    "rate": (replace(STREAM, rate=500.0), 4, "rate 500.0 instead of 250.0"),
    "unit": (replace(STREAM, unit="V"), 4, "unit 'V' instead of 'uV'"),
    "channels": (replace(STREAM, channels=("x", "y")), 2, "2 channels instead of 4"),
    "dtype": (replace(STREAM, dtype=np.dtype(np.float32)), 4, "dtype 'float32' instead of 'float64'"),
}


@pytest.mark.parametrize(("other", "n_channels", "difference"), OTHERS.values(), ids=OTHERS)
def test_another_description_begins_a_new_file(
    igbss: Command,
    aside: Callable[..., "Future[Any]"],
    address: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    other: Stream,
    n_channels: int,
    difference: str,
) -> None:
    """A device that restarts: the same publisher, another run, indices from 0, the clock of the new run."""
    other = replace(other, t0=1.8e9)
    x = noise(80, n_channels, seed=9100).astype(other.dtype)

    def feed() -> None:
        with ZmqPublisher(address) as sink:
            joined(sink)
            sink.start(STREAM)
            for item in ITEMS:
                sink.publish(item)
            sink.start(other)
            sink.publish(Chunk(x[:50], 0, 1))
            sink.publish(Chunk(x[50:], 50, 1))

    published = aside(feed)
    result = igbss("listen", address, "--record", tmp_path / "out.h5")
    published.result(DEADLINE)
    assert result.exit_code == 0, result.output
    (said,) = (record.getMessage() for record in caplog.records)
    files = [f"'{tmp_path / name}'" for name in ("out.h5", "out-2.h5")]
    closed = f"{files[0]} is closed, and the recording continues in {files[1]}"
    assert said == f"{closed}: the stream has {difference}"
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["data"][()].tobytes() == samples(ITEMS).tobytes()
        assert file["data"].attrs["rate"] == 250.0
    with h5py.File(tmp_path / "out-2.h5") as file:
        attrs = file["data"].attrs
        assert file["data"][()].tobytes() == x.tobytes()
        assert (attrs["rate"], attrs["unit"]) == (other.rate, other.unit)
        assert tuple(attrs["channels"]) == other.channels
        first = file["models"][0]["start"]
        assert attrs["t0"] + first / attrs["rate"] == pytest.approx(1.8e9, abs=1e-6)
        assert file["gaps"][()].tolist() == [(0, first, 0, b"restart")]


def test_another_description_is_said_in_one_line(spawn: Spawn, address: str, tmp_path: Path) -> None:
    listen = spawn("listen", address, "--record", tmp_path / "out.h5", "--json")
    with ZmqPublisher(address) as sink:
        joined(sink)
        for stream in (STREAM, replace(STREAM, rate=500.0)):
            sink.start(stream)
            sink.publish(ITEMS[0])
    code, out, err = finish(listen)
    assert (code, json.loads(out.splitlines()[-1])["samples"]) == (0, 120)
    (line,) = err.splitlines()
    assert_says(line, "out.h5' is closed", "out-2.h5'", "the stream has rate 500.0 instead of 250.0")


def test_listening_records_to_a_file_for_each_limit(
    igbss: Command, refused: Refusal, aside: Callable[..., "Future[Any]"], address: str, tmp_path: Path
) -> None:
    published = aside(publish, address, ITEMS)
    (tmp_path / "out.h5").write_text("precious")
    result = igbss("listen", address, "--record", tmp_path / "out.h5", "--rotate", "1d, 2kB", "--quiet")
    published.result(DEADLINE)
    assert (result.exit_code, result.output) == (0, "")
    files = sorted(tmp_path.glob("out-*.h5"))
    parts = []
    for path in files:
        with h5py.File(path) as file:
            parts.append(file["data"][()])
    assert len(files) > 1
    assert np.concatenate(parts).tobytes() == samples(ITEMS).tobytes()
    assert (tmp_path / "out.h5").read_text() == "precious"
    assert_says(
        refused("listen", "5560", "--record", tmp_path / "x.h5", "--rotate", "often"), "a rotation must be"
    )
    assert_says(refused("listen", "5560", "--rotate", "1h"), "--rotate needs --record")


def test_the_old_name_of_the_option_is_refused_with_the_new_one(igbss: Command, tmp_path: Path) -> None:
    result = igbss("listen", "5560", "--record", tmp_path / "out.h5", "--existing", "append")
    assert result.exit_code == 2
    assert "--existing was renamed; pass --if-exists instead." in result.stderr
    assert "--existing" not in igbss("listen", "--help").stdout


def test_an_interrupt_ends_listening_with_a_last_report(
    igbss: Command, aside: Callable[..., "Future[Any]"], address: str
) -> None:
    def feed() -> None:
        with ZmqPublisher(address) as sink:
            joined(sink)
            sink.start(STREAM)
            sink.publish(ITEMS[0])
            until(lambda: sink.sent, sink.serve)
            time.sleep(0.3)  # what was sent should have come, though the test holds if it has not
            os.kill(os.getpid(), signal.SIGINT)
            until(lambda: sink.subscriptions == 0, sink.serve)

    published = aside(feed)
    result = igbss("listen", address, "--json")
    published.result(DEADLINE)
    assert result.exit_code == INTERRUPTED
    assert json.loads(result.output.splitlines()[-1])["ended"] is False


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--to", "nowhere"), ["address must be tcp://HOST:PORT"]),
        (("--to", "*", "--block", "0"), ["--block must be", "'0'"]),
        (("--to", "*", "--speed", "-1"), ["speed must be", "-1"]),
        (("--to", "*", "--dataset", "/eeg"), ["no dataset '/eeg'"]),
        (("--to", "*", "--rate", "0"), ["rate must be"]),
        (("--to", "*", "--rate", "0", "--json"), ["rate must be"]),
    ],
)
def test_replays_that_cannot_be(
    refused: Refusal, recording: Path, options: tuple[str, ...], words: list[str]
) -> None:
    assert_says(refused("replay", recording, *options), *words)


def test_a_replay_without_rate_is_refused(refused: Refusal, tmp_path: Path) -> None:
    path = write_recording(tmp_path / "in.h5", noise())
    assert_says(refused("replay", path, "--to", "*"), "has no sampling rate", "--rate")


def test_an_address_in_use_is_told(refused: Refusal, recording: Path) -> None:
    with ZmqPublisher("*") as sink:
        assert_says(refused("replay", recording, "--to", sink.address), sink.address, "in use")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("simulate", "--to", "*", "--rate", 80), ["rate of a simulation must be above 100 Hz"]),
        (("simulate", "--to", "*", "--duration", 0), ["--duration must be"]),
        (("simulate", "--to", "*", "--duration", "inf"), ["--duration must be"]),
        (("simulate", "--to", "*", "--truth", "truth.h5"), ["--truth needs --duration"]),
        (("listen", "nowhere"), ["address must be tcp://HOST:PORT"]),
        (("listen", "5556", "--seconds", 0), ["--seconds must be a time above 0"]),
    ],
)
def test_other_options_that_cannot_be(
    refused: Refusal, arguments: tuple[object, ...], words: list[str]
) -> None:
    assert_says(refused(*arguments), *words)


def finish(process: Any) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=DEADLINE)
    return process.returncode, out, err


def test_processes_end_cleanly_when_interrupted(spawn: Spawn, recording: Path) -> None:
    replay = spawn("replay", recording, "--to", "*", "--loop", "--speed", 10)
    assert replay.stdout is not None
    said = re.search(r" at (tcp://\S+):", replay.stdout.readline())
    assert said is not None
    listen = spawn("listen", said[1], "--json")
    assert listen.stdout is not None
    reports = map(json.loads, listen.stdout)  # a line a second
    until(lambda: next(reports)["stream"] == "in")
    listen.send_signal(signal.SIGINT)
    code, out, err = finish(listen)
    assert (code, err) == (INTERRUPTED, "")
    assert json.loads(out.splitlines()[-1])["samples"] > 0
    replay.send_signal(signal.SIGTERM)
    code, out, err = finish(replay)
    assert (code, err) == (128 + signal.SIGTERM, "")
    assert_says(out, "interrupted: ")


TERMINAL = {"TERM": "xterm", "COLUMNS": "160", "LINES": "40"}


def test_terminals_show_a_table_and_progress(spawn: Spawn, recording: Path, address: str) -> None:
    ours, theirs = pty.openpty()
    listen = spawn("listen", address, stdout=theirs, env=TERMINAL)
    os.close(theirs)
    watched, seen = pty.openpty()
    replay = spawn("replay", recording, "--to", address, "--wait", "--speed", 1, stderr=seen, env=TERMINAL)
    os.close(seen)
    assert_says(read_terminal(watched), "waiting for a subscriber", "publishing")
    assert replay.wait(DEADLINE) == 0
    assert_says(read_terminal(ours), "stream in", "index 60", "source", "rms uV", *NAMES, "ended yes")
    assert listen.wait(DEADLINE) == 0
