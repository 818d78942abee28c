"""Run `igbss-stream run` as a separate process in tests: read its log and its pages, wait for conditions."""

import json
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from subprocess import Popen
from typing import Any

from tests.waiting import DEADLINE, until


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class DaemonProcess:
    """A running daemon with JSON lines on standard error, and its pages on a port of this machine.

    Parameters
    ----------
    process : Popen
    health : int, optional
        Port of the pages.
    """

    def __init__(self, process: "Popen[str]", health: int = 0) -> None:
        self.process, self.health = process, health
        self.lines: list[dict[str, Any]] = []

    def wait_for_line(self, words: str) -> dict[str, Any]:
        """Read the log until a message contains the words."""
        assert self.process.stderr is not None
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            line = self.process.stderr.readline()
            if not line:
                break
            if not line.startswith("{"):
                continue  # messages on kernels, before the log begins
            self.lines.append(json.loads(line))
            if words in self.lines[-1]["message"]:
                return self.lines[-1]
        raise AssertionError(f"no {words!r} in {self.lines}")

    def get(self, page: str) -> str:
        """Return a page; pages open after the sockets of the streams."""
        answers: list[str] = []
        until(lambda: answers, lambda: answers.extend(self._answer(page)), lambda: f"no page {page!r}")
        return answers[0]

    def _answer(self, page: str) -> list[str]:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.health}/{page}", timeout=DEADLINE
            ) as answer:
                return [str(answer.read().decode())]
        except urllib.error.HTTPError as error:
            return [str(error.read().decode())]
        except urllib.error.URLError:
            return []

    def count(self, kind: str, stream: str = "s") -> int:
        """Return a counter of events from the metrics, or 0 if it is missing."""
        start = f'igbss_events_total{{kind="{kind}",stream="{stream}"}} '
        lines = [line for line in self.get("metrics").splitlines() if line.startswith(start)]
        return int(float(lines[0].removeprefix(start))) if lines else 0

    def state(self, stream: str = "s") -> dict[str, Any]:
        """Return the state of a stream from the health page."""
        found: dict[str, Any] = json.loads(self.get("health"))["streams"][stream]
        return found

    def end(self, number: int) -> None:
        """Send a signal that ends the daemon, and check the exit code."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=DEADLINE)
        assert self.process.returncode == 0, errors

    @property
    def peak_memory(self) -> int:
        """The largest resident memory so far, in kB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])
