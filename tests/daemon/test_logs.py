"""A log record is one line, with its time, whatever its message contains."""

import json
import logging
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from igbss_stream._util.version import __version__
from igbss_stream.chunk import Chunk, Stream
from igbss_stream.daemon import logs
from igbss_stream.errors import IgbssWarning
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from tests.commands import Spawn
from tests.daemon.test_daemon import Running, connect
from tests.daemons import DaemonProcess, free_port
from tests.waiting import until

HOSTILE = "Fz\x1b]0;title\x07\n2026-11-29 ERROR forged\r\x9b2J\u202e\udcff"
ESCAPED = r"Fz\x1b]0;title\x07\n2026-11-29 ERROR forged\r\x9b2J\u202e\udcff"

Lines = Callable[[], list[str]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[Lines]:
    """Return the lines that were logged; leave logging as it was."""
    root, own = logging.getLogger(), logging.getLogger("igbss_stream")
    handlers, level, show = root.handlers[:], own.level, warnings.showwarning
    yield lambda: capsys.readouterr().err.splitlines()
    root.handlers[:] = handlers
    own.setLevel(level)
    warnings.showwarning = show


def log(text: str, *arguments: object, fault: bool = False) -> None:
    logger = logging.getLogger("igbss_stream.test")
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logger.warning(text, *arguments, exc_info=fault)


def test_names_cannot_forge_lines_or_control_the_terminal(lines: Lines) -> None:
    logs.configure("info", "text")
    log("channel %s is flat", HOSTILE)
    (line,) = lines()
    assert line.endswith(f" WARNING channel {ESCAPED} is flat")
    assert line.isprintable()


def test_a_traceback_has_its_lines_and_nothing_else(lines: Lines) -> None:
    logs.configure("info", "text")
    log("failed", fault=True)
    first, second, *more = lines()
    assert first.endswith(" WARNING failed")
    assert second == "Traceback (most recent call last):"
    assert more[-1] == r"2026-11-29 ERROR forged\r\x9b2J\u202e\udcff"  # an exception may have several lines
    assert more[-2] == r"ValueError: Fz\x1b]0;title\x07"
    assert all(line.isprintable() for line in more)


@pytest.mark.parametrize("fault", [False, True])
def test_json_has_one_object_a_line(lines: Lines, fault: bool) -> None:
    logs.configure("info", "json")
    log("channel %s is flat", HOSTILE, fault=fault)
    (line,) = lines()
    assert line.isprintable()
    assert json.loads(line)["message"] == f"channel {HOSTILE} is flat"
    assert ("trace" in json.loads(line)) == fault


def test_times_of_text_are_iso_8601_with_the_zone(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.configure("info", "text")
    before = time.time()
    zones = {"UTC0": "+00:00", "ACST-9:30": "+09:30"}
    with monkeypatch.context() as patched:
        for zone in zones:
            patched.setenv("TZ", zone)
            time.tzset()
            log("now")
    time.tzset()
    for line, offset in zip(lines(), zones.values(), strict=True):
        written = line.split()[0]
        assert written[10] == "T"
        assert written.endswith(offset)
        assert abs(datetime.fromisoformat(written).timestamp() - before) < 5


def test_warnings_are_records_of_one_line(lines: Lines) -> None:
    logs.configure("info", "text")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = logs._log_warning
        warnings.warn(HOSTILE, IgbssWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    own, other = lines()
    assert own.endswith(f" WARNING {ESCAPED}")
    assert f"{Path(__file__).name}:" in other
    assert other.endswith(": DeprecationWarning: old")


@pytest.mark.jit  # a separate process
def test_a_daemon_logs_its_version_and_its_counts(spawn: Spawn, tmp_path: Path) -> None:
    with ExitStack() as ends:
        running = Running(spawn, tmp_path, ends, "    model: {structure: systematic}")
        running.lines.clear()
        sender, _ = connect(running, Stream("s", 500.0, ("a", "b", "c"), "uV"))
        x = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
        sender.publish(Chunk(x, 0))
        sender.publish(Chunk(x, 150))
        until(lambda: running.state()["samples_out"] == 200)
        running.process.send_signal(signal.SIGTERM)
        line = running.wait_for_line("samples in")
        assert (
            line["message"] == "stream s: 200 samples in, 200 out, 50 in gaps; model 1; 0 failures of sinks"
        )
        assert running.process.wait() == 0


@pytest.mark.jit  # a separate process
def test_a_daemon_escapes_the_names_of_a_sender(spawn: Spawn, tmp_path: Path) -> None:
    name = HOSTILE.removesuffix("\udcff")  # which no message can contain
    health, config = free_port(), tmp_path / "run.yaml"
    with ZmqPublisher("tcp://127.0.0.1:*") as sender:
        config.write_text(
            f"streams:\n"
            f"  - name: s\n"
            f"    source: {{kind: zmq, address: '{sender.address}'}}\n"
            f"    sinks: [{{kind: zmq, address: 'tcp://127.0.0.1:*'}}]\n"
            f"    model: {{structure: systematic}}\n"
            f"    repair: {{flat_after: 0.1}}\n"
            f"health: {{port: {health}}}\n"
            f"log: {{format: text}}\n"
        )
        daemon = DaemonProcess(spawn("run", config), health)
        sender.start(Stream("s", 500.0, (name, "b", "c"), "uV"))
        until(lambda: sender.subscriptions == 1, sender.serve)
        x = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
        x[:, 0] = 1
        sender.publish(Chunk(x, 0))
        until(lambda: daemon.state()["samples_out"] == 500)
        daemon.process.send_signal(signal.SIGTERM)
        _, errors = daemon.process.communicate()
    lines = errors.splitlines()
    assert f" igbss_stream {__version__}, Python " in lines[0]
    (line,) = [line for line in lines if " is flat from sample" in line]
    assert ESCAPED.removesuffix(r"\udcff") in line
    assert all(line.isprintable() for line in lines)
