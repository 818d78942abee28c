"""Run `igbss-stream run` as a separate process in tests: read its log and its pages, wait for conditions."""

import json
import os
import select
import socket
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from subprocess import Popen
from typing import Any

from tests.waiting import DEADLINE, until


def free_port() -> int:
    """Return a port of this machine that no other process is given while the tests run.

    On Linux, a socket stays bound to the port without listening. The system then gives the port to nobody who
    asks for any free one, or connects from any; but servers that set ``SO_REUSEADDR``, as ours do, can listen.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port = int(holder.getsockname()[1])
    if sys.platform == "linux":
        holder.detach()  # open until the process ends
    else:
        holder.close()
    return port


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
        self._unread = b""

    def wait_for_line(self, words: str) -> dict[str, Any]:
        """Read the log until a message contains the words, at most `DEADLINE` seconds."""
        deadline = time.monotonic() + DEADLINE
        while True:
            while b"\n" in self._unread:
                line, self._unread = self._unread.split(b"\n", 1)
                if not line.startswith(b"{"):
                    continue  # messages on kernels, before the log begins
                self.lines.append(json.loads(line))
                if words in self.lines[-1]["message"]:
                    return self.lines[-1]
            assert self._read(deadline - time.monotonic()), f"no {words!r} in {self.lines}"

    def _read(self, seconds: float) -> bool:
        """Read what the process writes next; return False if it ends or writes nothing in the time."""
        assert self.process.stderr is not None
        log = self.process.stderr.fileno()
        ready, _, _ = select.select([log], [], [], max(seconds, 0.0))
        part = os.read(log, 1 << 16) if ready else b""
        self._unread += part
        return part != b""

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
