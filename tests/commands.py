"""The command, run in this process and in a separate one."""

import logging
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from click.testing import CliRunner, Result

from igbss_stream.cli import main
from igbss_stream.errors import IgbssWarning
from tests.recordings import NAMES, RATE, noise, write_recording

Command = Callable[..., Result]
Refusal = Callable[..., str]

PROLOGUE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
_DAEMON_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# For tests that are about a fixed structure, or whose recording takes long to learn from.
SYSTEMATIC = ("--structure", "systematic")
COMMAND = "from igbss_stream.cli import main; main(prog_name='igbss-stream')"


class Spawn(Protocol):
    """Start the command as a process; `before` runs in it first, `env` adds to the environment."""

    def __call__(
        self, *args: object, before: str = ..., env: dict[str, str] | None = ..., **popen: Any
    ) -> subprocess.Popen[str]: ...


@pytest.fixture
def igbss() -> Iterator[Command]:
    """Run the command here, and leave logging, warnings and signal handlers as they were.

    The warnings of the package are shown, as they are on a terminal; any other one is an error.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    signals = {number: signal.getsignal(number) for number in _DAEMON_SIGNALS}

    def run(*args: object) -> Result:
        words = [str(arg) for arg in args]
        result = CliRunner().invoke(main, words, prog_name="igbss-stream")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=IgbssWarning)
        yield run
    root.handlers[:] = handlers
    root.setLevel(level)
    for number, handler in signals.items():
        signal.signal(number, handler)


@pytest.fixture
def separated(igbss: Command, tmp_path: Path) -> Command:
    """Run `batch` on a recording, which must succeed; the output is out.h5."""

    def run(recording: object, *options: object) -> Result:
        result = igbss("batch", recording, "--output", tmp_path / "out.h5", *options)
        assert result.exit_code == 0, result.output
        assert not (tmp_path / "out.h5.partial").exists()
        return result

    return run


@pytest.fixture
def refused(igbss: Command, tmp_path: Path) -> Refusal:
    """Run a command that must fail as it should: one line, code 2, every file as it was before.

    Returns the line, without the folder of the test: its name holds words of the test's own.
    """

    def run(*args: object) -> str:
        before = contents(tmp_path)
        result = igbss(*args)
        assert result.exit_code == 2, result.output
        assert contents(tmp_path) == before
        assert result.output.startswith("Error: ")
        assert result.output.count("\n") == 1, result.output
        return result.output.replace(str(tmp_path), "")

    return run


@pytest.fixture
def batch_refused(refused: Refusal, tmp_path: Path) -> Refusal:
    """Run `batch` with the output out.h5, which must be refused; return the message."""
    return lambda path, *options: refused("batch", path, "--output", tmp_path / "out.h5", *options)


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start the command as a separate process; processes that still run at the end are killed."""
    started: list[subprocess.Popen[str]] = []

    def start(
        *args: object, before: str = "", env: dict[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen[str]:
        script = "\n".join((PROLOGUE, before, COMMAND))
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
        process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, args)],
            text=True,
            env=os.environ | (env or {}),
            **streams,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Return a recording of four channels and sixty samples in float64, with all attributes."""
    return write_recording(tmp_path / "in.h5", noise(), rate=RATE, unit="uV", channels=NAMES)


def contents(folder: Path) -> dict[Path, bytes]:
    """Return every file in a folder, with what it holds."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_says(message: str, *words: str) -> None:
    """Assert that a message holds every one of the words."""
    for word in words:
        assert word in message, message


def read_terminal(ours: int) -> str:
    """Return all that a process writes to a terminal, without what steers it."""
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:
        pass  # how Linux says that the other end is closed
    os.close(ours)
    return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown).decode()
