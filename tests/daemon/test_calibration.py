"""A daemon that takes its model from a file separates as `batch` does."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igbss_stream import Subscriber
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.daemon import Daemon
from igbss_stream.daemon.stream_settings import StreamSettings
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.preparation.settings import Preparation
from tests.calibrations import FILE, N_SAMPLES, NAMES, RATE, X, configure, read
from tests.commands import Command, Spawn
from tests.daemons import DaemonProcess, free_port
from tests.recordings import write_recording
from tests.waiting import DEADLINE, until

pytestmark = pytest.mark.jit  # learns structures

CLEANED = ("--exclude-like", "EOG:0.8")


class Live:
    """A daemon between a sender and two subscribers, all at sockets."""

    def __init__(self, spawn: Spawn, folder: Path, **options: str) -> None:
        self._spawn, self._folder, self._options = spawn, folder, options
        self._ends = ExitStack()
        self.sender = self._ends.enter_context(ZmqPublisher("tcp://127.0.0.1:*"))

    def __enter__(self) -> "Live":
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.close()

    def start(self, kinds: Sequence[str] = ("sources", "cleaned")) -> DaemonProcess:
        self._ports, health = [free_port() for _ in kinds], free_port()
        sinks = [
            f"{{kind: zmq, address: 'tcp://127.0.0.1:{port}', publish: {kind}}}"
            for port, kind in zip(self._ports, kinds, strict=True)
        ]
        config = configure(
            self._folder,
            source=f"{{kind: zmq, address: '{self.sender.address}'}}",
            sinks=sinks,
            end=f"health: {{port: {health}}}\n",
            **self._options,
        )
        self.daemon = DaemonProcess(self._spawn("run", config), health)
        self.daemon.wait_for_line("running")
        until(lambda: self.sender.subscriptions == 1, self.sender.serve)
        return self.daemon

    def send(self, x: Any, channels: Sequence[str], unit: str | None = "uV") -> None:
        self.sender.start(Stream("s", RATE, tuple(channels), unit))
        for start in range(0, N_SAMPLES, 70):
            self.sender.publish(Chunk(np.ascontiguousarray(x[start : start + 70]), start))

    def exchange(self, x: Any, channels: Sequence[str]) -> list[tuple[Any, Stream]]:
        """Send samples; return what each sink publishes, and its description."""
        subscribers = [
            self._ends.enter_context(Subscriber(f"tcp://127.0.0.1:{port}", "s", timeout=DEADLINE))
            for port in self._ports
        ]
        until(lambda: self.daemon.count("subscriptions") >= len(subscribers), self.sender.serve)
        self.send(x, channels)
        return [(collect(subscriber), subscriber.stream) for subscriber in subscribers]


def find_lines(daemon: DaemonProcess, words: str) -> list[str]:
    return [line["message"] for line in daemon.lines if words in line["message"]]


def collect(subscriber: Subscriber) -> Any:
    items: list[Chunk | Gap] = []
    for item in subscriber:
        items.append(item)
        if item.stop == N_SAMPLES:
            break
    assert all(isinstance(item, Chunk) for item in items), items
    return np.concatenate([item.data for item in items if isinstance(item, Chunk)])


@pytest.fixture
def go_live(spawn: Spawn, tmp_path: Path) -> Iterator[Callable[..., Live]]:
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(Live(spawn, tmp_path, **options))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1)], ids=["same", "permuted"])
@pytest.mark.parametrize("extra", [False, True], ids=["only", "extra"])
def test_live_equals_batch(
    calibrate: Callable[..., Path],
    go_live: Callable[..., Live],
    order: tuple[int, ...],
    extra: bool,
) -> None:
    """Order, signs, scale and what is removed are those of the output, from the first sample on."""
    want_sources, want_cleaned, excluded = read(calibrate(*CLEANED), "sources", "cleaned", "excluded")
    x, names = X[:, order], [NAMES[i] for i in order]
    if extra:
        x, names = np.insert(x, 1, np.arange(N_SAMPLES), axis=1), [names[0], "TRIG", *names[1:]]
    live = go_live()
    daemon = live.start()
    (sources, described), (cleaned, described_cleaned) = live.exchange(x, names)
    (line,) = find_lines(daemon, "starting with the model")
    assert f"without source-{excluded[0]['source']} (EOG" in line
    assert line.endswith("it stays as it is")
    if extra:
        daemon.wait_for_line("that are not in the model of")
        assert find_lines(daemon, "are left out: TRIG")
    assert bool(find_lines(daemon, "are left out")) == extra
    daemon.end(2)
    np.testing.assert_array_equal(sources, want_sources)
    np.testing.assert_array_equal(cleaned, want_cleaned)
    assert described.channels == tuple(f"source-{i}" for i in range(4))
    assert (described_cleaned.channels, described_cleaned.unit) == (NAMES, "uV")


def test_the_example_runs(calibrate: Callable[..., Path], spawn: Spawn, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "configs" / "calibrated.yaml").read_text()
    calibrate(*CLEANED).rename(tmp_path / "calibrated.h5")
    for port in ("5555", "5560", "5561"):
        assert text.count(f"tcp://127.0.0.1:{port}") == 1
        text = text.replace(f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{free_port()}")
    path = tmp_path / "run.yaml"
    path.write_text(f"{text}log: {{format: json}}\n")
    daemon = DaemonProcess(spawn("run", path))
    daemon.wait_for_line("running")
    assert find_lines(daemon, "calibrated.h5', without source-")
    daemon.end(2)


@pytest.mark.parametrize(
    ("channels", "unit", "words"),
    [
        (("EOG", "Fz", "C3", "Pz"), "uV", "the stream lacks channels of the model of '.*': Cz. It has"),
        (NAMES, "mV", "the stream is in mV, but the model of '.*' was learned in uV; send"),
        (("EOG", "Fz", "Fz", "Cz", "Pz"), "uV", "several channels are called Fz, so they cannot be"),
    ],
    ids=["missing", "unit", "repeated"],
)
def test_a_stream_that_does_not_match_is_refused(
    calibrate: Callable[..., Path],
    go_live: Callable[..., Live],
    channels: tuple[str, ...],
    unit: str,
    words: str,
) -> None:
    calibrate()
    live = go_live()
    daemon = live.start(["sources"])
    live.send(np.resize(X, (N_SAMPLES, len(channels))), channels, unit)
    message = daemon.wait_for_line("the feed is refused")["message"]
    assert re.search(words, message), message
    daemon.end(2)


def run_here(path: Path) -> list[str]:
    """Run a configuration in this process until its recording ends; return its log."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("igbss_stream")
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.INFO)
    try:
        Daemon(load(path), path).run()
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    return lines


@pytest.mark.parametrize(
    "options",
    [(), ("--reference", "average"), ("--reference", "Pz"), ("--transform", "min-max")],
    ids=["plain", "average", "named", "min-max"],
)
def test_preparation_and_transform_are_taken_over(
    calibrate: Callable[..., Path], tmp_path: Path, options: tuple[str, ...]
) -> None:
    """A new reference works sample by sample, so that live and batch are equal."""
    (want,) = read(calibrate(*options), "sources")
    lines = run_here(configure(tmp_path, source=FILE))
    (got,) = read(tmp_path / "out" / "live.h5", "data")
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 * np.abs(want).max())
    assert any("samples are prepared as those of" in line for line in lines) == ("--reference" in options)


def test_filters_are_taken_over_or_their_difference_is_stated(
    igbss: Command, calibrate: Callable[..., Path], tmp_path: Path
) -> None:
    calibrate("--highpass", "2", "--notch", "20", "--resample", "50")
    path = configure(tmp_path, source=FILE)
    settings = StreamSettings.create(load(path).streams[0])
    assert settings.preparation == Preparation(highpass=2.0, notch=(20.0,), resample=50.0)
    assert igbss("check", path).stderr == ""
    path = configure(tmp_path, source=FILE, more="    prepare: {highpass: 2, notch: [20]}")
    words = "prepare differs from that of the samples of '.*': resample null instead of 50.0; leave"
    result = igbss("check", path)
    assert result.exit_code == 0
    assert re.search(rf"streams\[0\]\.model\.from: {words}", result.stderr), result.stderr
    lines = run_here(path)
    assert any(re.search(words, line) for line in lines)
    assert any("was learned at 50 Hz, and samples are separated at 100 Hz" in line for line in lines)


def test_a_followed_model_is_the_first_and_its_state_is_the_next(
    igbss: Command, calibrate: Callable[..., Path], tmp_path: Path
) -> None:
    (want,) = read(calibrate(*CLEANED), "sources")
    more = "    learning: {first: 10, window: 10, every: null, ahead: 0, fade: 0}"
    options: dict[str, Any] = {"source": FILE, "more": more, "end": "state: {path: state}"}
    path = configure(tmp_path, "from: sources.h5, follow: true", **options)
    lines = run_here(path)
    assert any("later models follow it" in line for line in lines)
    assert any("model 2 from sample 1000" in line for line in lines)
    (got,) = read(tmp_path / "out" / "live.h5", "data")
    assert len(got) == N_SAMPLES
    np.testing.assert_allclose(got[:1000], want[:1000], rtol=0, atol=1e-6 * np.abs(want).max())
    for i in range(4):  # the later model has the same order and signs
        assert np.corrcoef(got[1000:, i], want[1000:, i])[0, 1] > 0.99
    (unmixing,) = read(tmp_path / "state" / "s.h5", "unmixing")
    assert "overrides model.from; remove it to start from" in igbss("check", path).stderr
    lines = run_here(path)
    assert any("continuing with model 2" in line for line in lines)
    assert not any("starting with the model" in line for line in lines)
    assert any("model 3 from sample" in line for line in lines)
    # the state is itself a file to start from; a fixed model neither reads nor writes a state
    (tmp_path / "state" / "s.h5").rename(tmp_path / "sources.h5")
    (tmp_path / "out" / "live.h5").unlink()
    run_here(configure(tmp_path, source=FILE, end="state: {path: state}"))
    (fixed,) = read(tmp_path / "out" / "live.h5", "data")
    later = read(tmp_path / "sources.h5", "unmixing", "mean")
    np.testing.assert_allclose(fixed, (X - later[1]) @ later[0].T, rtol=0, atol=1e-4)
    assert unmixing.shape == later[0].shape
    assert not (tmp_path / "state" / "s.h5").exists()


def test_each_run_of_a_sender_starts_with_the_model_of_the_file(
    calibrate: Callable[..., Path], tmp_path: Path
) -> None:
    """A driver that restarts begins at index 0; its sources are separated from the first sample again."""
    (want,) = read(calibrate(), "unmixing")
    path = configure(tmp_path, source="{kind: file, path: in.h5, speed: 0, block: 1}")
    daemon = Daemon(load(path), path)
    (runner,) = daemon.runners
    models = []
    for _ in range(3):
        runner.step(0.0)
        models.append(runner.model)
        runner.source.run += 1
    for model in models:
        assert model is not None
        assert (model.version, model.since) == (1, 0)
        np.testing.assert_array_equal(model.separator.stage.unmixing[0], want)
    assert runner.samples_in == runner.samples_out == 300
    runner.finish()


def test_a_stream_without_a_unit_is_accepted_and_the_log_says_so(
    calibrate: Callable[..., Path], tmp_path: Path
) -> None:
    (want,) = read(calibrate(), "sources")
    write_recording(tmp_path / "in.h5", X, rate=RATE, channels=NAMES)
    lines = run_here(configure(tmp_path, source=FILE))
    assert any("the stream has no unit; its samples are taken to be in uV" in line for line in lines)
    np.testing.assert_array_equal(read(tmp_path / "out" / "live.h5", "data")[0], want)


def test_a_model_file_of_several_recordings(
    igbss: Command, calibrate: Callable[..., Path], tmp_path: Path
) -> None:
    calibrate()
    (tmp_path / "in").mkdir()
    for i in range(2):
        part = X[i * 1000 : (i + 1) * 1000]
        write_recording(tmp_path / "in" / f"{i}.h5", part, rate=RATE, unit="uV", channels=NAMES)
    options = ("--structure", "learned", "--model-per", "all")
    assert igbss("batch", tmp_path / "in", "-o", f"{tmp_path}/many/", *options).exit_code == 0
    run_here(configure(tmp_path, "from: many/model-all.h5", source=FILE))
    (got,) = read(tmp_path / "out" / "live.h5", "data")
    want = [read(path, "sources")[0] for path in sorted((tmp_path / "many").glob("[01]*.h5"))]
    np.testing.assert_allclose(got, np.concatenate(want), rtol=0, atol=1e-6 * np.abs(got).max())


def test_sources_to_remove_are_those_of_the_configuration_if_it_names_any(
    calibrate: Callable[..., Path], tmp_path: Path
) -> None:
    mixing, sources = read(calibrate(*CLEANED), "mixing", "sources")
    sink = "{kind: hdf5, path: out/live.h5, publish: cleaned}"
    run_here(configure(tmp_path, source=FILE, sinks=[sink], more="    clean: {exclude: [2]}"))
    (got,) = read(tmp_path / "out" / "live.h5", "data")
    np.testing.assert_allclose(got, X - np.outer(sources[:, 2], mixing[:, 2]), rtol=0, atol=1e-3)
