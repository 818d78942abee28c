"""Signals of a daemon: during its imports, they end it in order, or reload it afterwards; pipes are refused."""

import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from igbss_stream._util.signals import DaemonSignals
from tests.commands import Spawn
from tests.daemons import DaemonProcess, free_port
from tests.recordings import RATE, write_recording
from tests.waiting import DEADLINE

PAUSE = 0.5  # seconds

# Announces that a module is about to be imported, and waits there; signals do not end the sleep.
PAUSE_AT = f"""
import sys, time
class Pause:
    def find_spec(self, name, path=None, target=None):
        if name == {{!r}}:
            sys.meta_path.remove(self)
            print("importing", flush=True)
            time.sleep({PAUSE})
sys.meta_path.insert(0, Pause())
"""
STAGES = ("igbss_stream.daemon.daemon", "zmq", "igbss_stream.streaming.pipeline")


def write_config(folder: Path) -> Path:
    x = np.random.default_rng(3).laplace(size=(2000, 3)).astype(np.float32)
    recording = write_recording(folder / "in.h5", x, rate=RATE)
    path = folder / "run.yaml"
    path.write_text(
        "streams:\n"
        "  - name: s\n"
        f"    source: {{kind: file, path: {recording}, loop: true}}\n"
        "    model: {structure: systematic}\n"
        "    sinks:\n"
        "      - {kind: hdf5, path: out.h5, if_exists: append}\n"
        f"      - {{kind: zmq, address: 'tcp://127.0.0.1:{free_port()}'}}\n"
        "log: {format: json}\n"
    )
    return path


def start(spawn: Spawn, path: Path, module: str) -> "subprocess.Popen[str]":
    """Start a daemon, and return while it is importing a module."""
    process = spawn("run", path, before=PAUSE_AT.format(module))
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("module", STAGES)
def test_a_stop_during_the_imports_ends_in_order(
    spawn: Spawn, tmp_path: Path, module: str, number: signal.Signals
) -> None:
    process = start(spawn, write_config(tmp_path), module)
    process.send_signal(number)
    _, log = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, log
    assert "stopped before any stream was opened" in log
    assert "Traceback" not in log
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.h5", "run.yaml"]


def test_a_reload_during_the_imports_is_remembered(spawn: Spawn, tmp_path: Path) -> None:
    process = start(spawn, write_config(tmp_path), STAGES[0])
    process.send_signal(signal.SIGHUP)
    daemon = DaemonProcess(process)
    daemon.wait_for_line("running 1 stream")
    daemon.wait_for_line("the configuration has not changed")
    process.terminate()
    assert process.wait(DEADLINE) == 0


def test_a_mistake_is_reported_after_a_stop(spawn: Spawn, tmp_path: Path) -> None:
    process = start(spawn, tmp_path / "missing.yaml", STAGES[0])
    process.terminate()
    _, log = process.communicate(timeout=DEADLINE)
    assert process.returncode == 2
    assert "missing.yaml does not exist" in log


def test_each_request_to_reload_is_taken_once() -> None:
    signals = DaemonSignals()
    assert not signals.take_reload()
    signals.reload()
    signals.reload()
    assert signals.take_reload()
    assert not signals.take_reload()
    assert not signals.stopping.is_set()


def test_a_reload_of_a_pipe_is_refused_and_blocks_nothing(spawn: Spawn, tmp_path: Path) -> None:
    path = write_config(tmp_path)
    process = spawn("run", path)
    daemon = DaemonProcess(process)
    daemon.wait_for_line("running 1 stream")
    path.unlink()
    os.mkfifo(path)
    process.send_signal(signal.SIGHUP)
    line = daemon.wait_for_line("was not reloaded")
    assert line["message"].endswith("run.yaml is not a regular file; start the daemon with one")
    process.terminate()
    assert process.wait(DEADLINE) == 0
