"""`check` refuses what `run` refuses on this machine."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from igbss_stream.daemon.check import find_obstacles
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.daemon import Daemon
from tests.commands import Command
from tests.files.test_stream_recording_existing import record
from tests.recordings import RATE, noise, write_recording

FILE = "{kind: file, path: in.h5}"
SOCKET = "{kind: zmq, address: '1'}"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a configuration, beside a recording `in.h5`."""
    write_recording(tmp_path / "in.h5", noise(), rate=RATE)
    write_recording(tmp_path / "no-rate.h5", noise())

    def write_file(sink: str, source: str = SOCKET, more: str = "") -> Path:
        path = tmp_path / "run.yaml"
        path.write_text(f"streams: [{{name: s, source: {source}, sinks: [{sink}]}}]\n{more}")
        return path

    return write_file


OBSTACLES = {
    "a file that exists": (
        SOCKET,
        "{kind: hdf5, path: old.h5, if_exists: refuse}",
        "old.h5' already exists",
    ),
    "another file": (
        SOCKET,
        "{kind: hdf5, path: no-rate.h5}",
        "no-rate.h5' is not a recording of a stream",
    ),
    "text": (SOCKET, "{kind: hdf5, path: run.yaml}", "run.yaml' is not a recording of a stream"),
    "no folder": (SOCKET, "{kind: hdf5, path: none/out.h5}", "create it first"),
    "no folder to rotate in": (SOCKET, "{kind: hdf5, path: none/out.h5, rotate: 1h}", "create it first"),
    "a folder": (SOCKET, "{kind: hdf5, path: ., if_exists: overwrite}", "is a directory"),
    "a long name": (SOCKET, f"{{kind: hdf5, path: {'x' * 300}.h5}}", "name too long"),
    "a name too long with a time": (
        SOCKET,
        f"{{kind: hdf5, path: {'x' * 240}.h5, rotate: 1h}}",
        "too long",
    ),
    "no input": ("{kind: file, path: none.h5}", "{kind: hdf5, path: out.h5}", "none.h5' does not exist"),
    "no rate": ("{kind: file, path: no-rate.h5}", "{kind: hdf5, path: out.h5}", "has no sampling rate"),
    "no dataset": (
        "{kind: file, path: in.h5, dataset: /eeg}",
        "{kind: hdf5, path: out.h5}",
        "no dataset '/eeg'",
    ),
}


@pytest.mark.parametrize(("source", "sink", "words"), OBSTACLES.values(), ids=OBSTACLES)
def test_what_cannot_run_is_refused_by_both(
    igbss: Command, write: Callable[..., Path], source: str, sink: str, words: str
) -> None:
    path = write(sink, source)
    record(path.with_name("old.h5"))
    before = sorted(os.listdir(path.parent))
    checked, run = igbss("check", path), igbss("run", path)
    assert (checked.exit_code, run.exit_code) == (2, 2)
    assert words.lower() in checked.stderr.lower()
    assert words.lower() in run.stderr.lower()
    place = "source" if source not in (FILE, SOCKET) else "sinks[0]"
    assert checked.stderr.startswith(f"Error: {path}: streams[0].{place}: ")
    assert checked.stdout.startswith(f"{path}: 1 stream")
    found = json.loads(igbss("check", path, "--json").stdout)
    assert len(found["mistakes"]) == 1
    assert sorted(os.listdir(path.parent)) == before


@pytest.mark.parametrize("sink", ["", ", if_exists: number", ", if_exists: overwrite", ", rotate: 1h"])
@pytest.mark.parametrize("old", ["none", "recording", "damaged"])
def test_what_can_run_is_accepted_by_both(
    igbss: Command, write: Callable[..., Path], old: str, sink: str
) -> None:
    path = write(f"{{kind: hdf5, path: old.h5{sink}}}", FILE)
    if old != "none":
        record(path.with_name("old.h5"))
    if old == "damaged":
        os.truncate(path.with_name("old.h5"), 5000)
    assert igbss("check", path).exit_code == 0
    Daemon(load(path), path).run()


def test_a_damaged_state_is_refused(igbss: Command, write: Callable[..., Path]) -> None:
    path = write("{kind: zmq, address: 'tcp://127.0.0.1:*'}", more="state: {path: models}")
    assert igbss("check", path).exit_code == 0
    path.with_name("models").mkdir()
    (path.with_name("models") / "s.h5").write_text("no state")
    assert (igbss("check", path).exit_code, igbss("run", path).exit_code) == (2, 2)
    (text,) = find_obstacles(load(path))
    assert text.startswith("state: ")
    assert "cannot be read" in text


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ("rotate: 1x", "sinks[0].rotate is not valid: a rotation must be a time"),
        ("rotate: 10", "sinks[0].rotate must be a text"),
        ("rotate: 1h, if_exists: overwrite", "sinks[0].if_exists has no effect with rotate"),
        ("if_exists: replace", "sinks[0].if_exists must be one of"),
    ],
)
def test_sinks_that_cannot_be(igbss: Command, write: Callable[..., Path], sink: str, message: str) -> None:
    result = igbss("check", write(f"{{kind: hdf5, path: out.h5, {sink}}}"))
    assert result.exit_code == 2
    assert message in result.stderr
