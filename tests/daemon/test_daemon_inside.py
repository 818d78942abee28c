"""The daemon in this process, where its state can be inspected."""

import json
import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon import logs, state
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.daemon import Daemon
from igbss_stream.daemon.health import HealthServer, get_status
from igbss_stream.daemon.stream_counts import collect_counts
from igbss_stream.errors import ConfigError, FeedError, IgbssError, RecordingError, StateError
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.preparation.settings import Preparation
from tests import published
from tests.recordings import write_recording
from tests.waiting import DEADLINE, until

SAMPLES = np.random.default_rng(0).laplace(size=(600, 3)).astype(np.float32)

Written = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Write a configuration of streams, each (name, source, sinks, more)."""

    def write(*streams: tuple[str, str, str, str], more: str = "") -> Path:
        text = "streams:\n"
        for name, source, sinks, model in streams:
            text += f"  - name: {name}\n    source: {source}\n    model: {model}\n    sinks: [{sinks}]\n"
        path = tmp_path / "run.yaml"
        path.write_text(f"{text}{more}\n")
        return path

    return write


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Leave logging and warnings as they were."""
    root, own = logging.getLogger(), logging.getLogger("igbss_stream")
    handlers, level = root.handlers[:], own.level
    yield
    root.handlers[:] = handlers
    own.setLevel(level)
    logging.captureWarnings(False)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return write_recording(tmp_path / "in.h5", SAMPLES, rate=300.0)


def recorded(path: Path) -> np.ndarray:
    with h5py.File(path) as file:
        return np.asarray(file["data"])


def test_recordings_are_processed_to_their_end(written: Written, recording: Path, tmp_path: Path) -> None:
    out = [tmp_path / f"out{i}.h5" for i in range(2)]
    sinks = [f"{{kind: hdf5, path: {path}}}" for path in out]
    source = f"{{kind: file, path: {recording}, speed: 0}}"
    path = written(
        (
            "one",
            source,
            f"{sinks[0]}, {{kind: zmq, address: 'tcp://127.0.0.1:*'}}",
            "{structure: systematic}",
        ),
        (
            "two",
            f"{{kind: file, path: {recording}, speed: 20}}",
            sinks[1],
            "{structure: random, random_state: 1}",
        ),
        more=f"state: {{path: {tmp_path / 'state'}, every: 0.1}}\nhealth: {{port: 0}}",
    )
    logs.configure("info", "text")
    daemon = Daemon(load(path), path)
    daemon.run()
    for file, structure in zip(out, ("systematic", "random"), strict=True):
        want = published.separate(SAMPLES, structure=structure, random_state=1).sources
        np.testing.assert_array_equal(recorded(file), want)
    assert [runner.status for runner in daemon.runners] == ["ended", "ended"]
    assert daemon.runners[0].samples_out == 600
    settings = load(path).streams[0].model.as_settings()
    model = state.load(tmp_path / "state" / "one.h5", settings, Preparation())
    assert model is not None
    np.testing.assert_array_equal(model.separator.separate_samples(SAMPLES), recorded(out[0]))


def test_files_of_any_kind_and_their_gaps(written: Written, tmp_path: Path) -> None:
    x, index = SAMPLES, np.arange(600) + 50 * (np.arange(600) >= 200)
    with h5py.File(tmp_path / "in.nwb", "w") as file:
        file.attrs["nwb_version"] = "2.7.0"
        series = file.create_group("acquisition/ephys")
        series.attrs["neurodata_type"] = "ElectricalSeries"
        series["data"], series["timestamps"] = x, index / 300
    np.savetxt(tmp_path / "in.csv", x, delimiter=",", header="a,b,c", comments="")
    sink = "{{kind: hdf5, path: {}}}"
    path = written(
        (
            "nwb",
            f"{{kind: file, path: {tmp_path / 'in.nwb'}, speed: 0}}",
            sink.format(tmp_path / "nwb.h5"),
            "{structure: systematic}",
        ),
        (
            "csv",
            f"{{kind: file, path: {tmp_path / 'in.csv'}, speed: 0, rate: 300, channels: [c, 0-1], factor: 2}}",
            sink.format(tmp_path / "csv.h5"),
            "{structure: systematic}",
        ),
    )
    daemon = Daemon(load(path), path)
    daemon.run()
    np.testing.assert_array_equal(recorded(tmp_path / "nwb.h5"), published.separate(x).sources)
    with h5py.File(tmp_path / "nwb.h5") as file:
        assert file["gaps"][:].tolist() == [(200, 200, 50, b"missing")]
    assert [daemon.runners[0].samples_out, daemon.runners[0].samples_gap] == [600, 50]
    read = np.loadtxt(tmp_path / "in.csv", delimiter=",", skiprows=1)[:, [2, 0, 1]] * 2
    np.testing.assert_array_equal(recorded(tmp_path / "csv.h5"), published.separate(read).sources)


def test_an_error_about_a_file_names_the_key(written: Written, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1,2\n3,5\n")
    sink = f"{{kind: hdf5, path: {tmp_path / 'out.h5'}}}"
    path = written(("s", f"{{kind: file, path: {tmp_path / 'in.csv'}}}", sink, "{structure: systematic}"))
    with pytest.raises(RecordingError, match=r"pass source\.rate"):
        Daemon(load(path), path)


def test_a_file_with_several_signals_asks_for_the_key_of_one(written: Written, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["first"], file["second"] = SAMPLES, SAMPLES
    sink = f"{{kind: hdf5, path: {tmp_path / 'out.h5'}}}"
    path = written(("s", f"{{kind: file, path: {tmp_path / 'in.h5'}}}", sink, "{structure: systematic}"))
    with pytest.raises(RecordingError, match=r"source\.dataset .*first.*second"):
        Daemon(load(path), path)


@pytest.fixture
def running() -> Iterator[Callable[[Daemon], None]]:
    """Run daemons in threads, and stop them at the end."""
    started: list[tuple[Daemon, threading.Thread]] = []

    def run(daemon: Daemon) -> None:
        thread = threading.Thread(target=daemon.run)
        thread.start()
        started.append((daemon, thread))

    yield run
    for daemon, thread in started:
        daemon.stop()
        thread.join(DEADLINE)
        assert not thread.is_alive()


def has_subscribers(sink: ZmqPublisher) -> bool:
    return sink.subscriptions > 0


def test_sockets_are_described_repaired_and_monitored(
    written: Written, running: Callable[[Daemon], None], tmp_path: Path
) -> None:
    with ZmqPublisher("tcp://127.0.0.1:*") as good, ZmqPublisher("tcp://127.0.0.1:*") as wrong:
        path = written(
            ("good", f"{{kind: zmq, address: '{good.address}', silence: 0.3, channels: [x, y, z]}}",
             f"{{kind: hdf5, path: {tmp_path / 'out.h5'}}}", "{structure: systematic}"),
            ("wrong", f"{{kind: zmq, address: '{wrong.address}', rate: 500}}",
             "{kind: zmq, address: 'tcp://127.0.0.1:*'}", "{structure: systematic}"),
            more="health: {port: 0}",
        )  # fmt: skip
        logs.configure("info", "json")
        daemon = Daemon(load(path), path)
        running(daemon)
        first, second = daemon.runners
        for sink in (good, wrong):
            sink.start(Stream("s", 300.0, ("a", "b", "c"), "uV"))
            until(partial(has_subscribers, sink), sink.serve)
            sink.publish(Chunk(SAMPLES[:100], 0))
            sink.publish(Gap(100, 20, "lost"))
            sink.publish(Chunk(SAMPLES[120:], 120))
        until(lambda: (first.samples_in, first.samples_out, first.samples_gap) == (580, 580, 20))
        until(lambda: collect_counts(second)["rejected_description"] > 0, wrong.serve)
        assert second.samples_in == 0
        until(lambda: first.status == "silent")
        port = daemon._health.port if daemon._health else 0
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=DEADLINE)
        with caught.value as answer:
            assert json.loads(answer.read())["streams"]["good"]["status"] == "silent"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE) as answer:
            assert b'igbss_samples_total{fate="gap",stream="good"} 20.0' in answer.read()
        good.publish(Chunk(SAMPLES, 600))
        until(lambda: not first.is_silent)
        path.write_text("nonsense")
        daemon.reload()
        until(lambda: not daemon._signals.reload_requested)


def test_errors_on_opening(written: Written, recording: Path, tmp_path: Path) -> None:
    source = f"{{kind: file, path: {recording}}}"
    path = written(
        (
            "s",
            source,
            f"{{kind: hdf5, path: {recording.parent / 'old.h5'}, if_exists: refuse}}",
            "{structure: systematic}",
        )
    )
    (recording.parent / "old.h5").write_bytes(b"")
    with pytest.raises(RecordingError, match="already exists; choose another output, or if_exists"):
        Daemon(load(path), path)
    with pytest.raises(FeedError, match="health cannot be served"):
        HealthServer("256.0.0.1", 0, [])
    damaged = tmp_path / "s.h5"
    damaged.write_bytes(b"no state")
    with pytest.raises(StateError, match="cannot be read"):
        state.load(damaged, load(path).streams[0].model.as_settings(), Preparation())
    assert issubclass(StateError, IgbssError)


def test_a_stream_that_does_not_match_the_settings_leaves_the_others_alone(
    written: Written, running: Callable[[Daemon], None]
) -> None:
    with ZmqPublisher("tcp://127.0.0.1:*") as good, ZmqPublisher("tcp://127.0.0.1:*") as slow:
        address = "{{kind: zmq, address: '{}'}}"
        sink = "{kind: zmq, address: 'tcp://127.0.0.1:*'}"
        repair = "{structure: systematic}\n    repair: {gap: hold, max_fill: 0.2}"
        path = written(
            ("good", address.format(good.address), sink, repair),
            ("slow", address.format(slow.address), sink, repair),
        )
        daemon = Daemon(load(path), path)
        running(daemon)
        first, second = daemon.runners
        for sender, rate in (slow, 1.0), (good, 300.0):
            sender.start(Stream("s", rate, ("a", "b", "c"), "uV"))
            until(partial(has_subscribers, sender), sender.serve)
            sender.publish(Chunk(SAMPLES[:100], 0))
        until(lambda: first.samples_out == 100)
        until(lambda: second.is_refused)
        slow.publish(Chunk(SAMPLES[100:200], 100))
        until(lambda: second.source.get_counts()["samples_in"] == 200)
        good.publish(Chunk(SAMPLES[100:200], 100))
        until(lambda: first.samples_out == 200)
        until(lambda: (first.status, second.status) == ("ok", "refused"))
        assert collect_counts(second)["rejected_description"] == 1
        assert get_status(daemon.runners)["status"] == "degraded"
    config = path.read_text().replace(f"{slow.address}'", f"{slow.address}', rate: 1")
    path.write_text(config)
    with pytest.raises(
        ConfigError, match=r"streams\[1\].repair.max_fill must be at least 1 sample, 1 s at 1 Hz"
    ):
        load(path)
    path.write_text(
        config.replace("max_fill: 0.2", "max_fill: 2")
        .replace("{structure: systematic}", "{}")
        .replace("sinks:", "learning: {first: 1}\n    sinks:")
    )
    with pytest.raises(ConfigError, match=r"streams\[1\].learning.first must be at least 2 samples"):
        load(path)
