"""The page of a daemon: a process of its own, so that no thread of it competes with the streams."""

import importlib.util
import logging
import os
import subprocess
import sys
import tempfile

from igbss_stream.daemon.config.schema import Config, View
from igbss_stream.daemon.viewer_keys import Guest
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.addresses import parse_address
from igbss_stream.pages.view.port import free_port

log = logging.getLogger(__name__)

_COMMAND = "from igbss_stream.cli import main; main(prog_name='igbss-stream')"
_PATIENCE = 1.0  # seconds that it may take to end
_LAST_WORDS = 2000  # bytes of what it said that are told


class Viewer:
    """Starts `igbss-stream view` for a stream of a daemon, and ends it.

    Parameters
    ----------
    config : Config
        With a section `view`.
    health : int or None
        Port of the metrics, if there are any.
    guest : Guest, optional
        Keys of the page, if the sink that it reads encrypts.

    Attributes
    ----------
    url : str
        Of the page.
    pid : int
        Of the process.

    Raises
    ------
    ParameterError
        If Bokeh is not installed.
    FeedError
        If the port is taken.
    """

    def __init__(self, config: Config, health: int | None, guest: Guest | None = None) -> None:
        view = config.view or View()
        if importlib.util.find_spec("bokeh") is None:
            raise ParameterError(
                "view needs Bokeh, which is not installed; pip install 'igbss-stream[view]', or remove view"
            )
        port = free_port(view.port)  # later nobody would be told that it is taken
        self.url = f"http://{view.endpoint.host}:{port}/"
        stream, sink = config.viewed()
        command = [
            "view",
            str(parse_address(sink.address).reachable),
            "--topic",
            stream.name,
            "--port",
            str(port),
        ]
        if health is not None and config.health.endpoint is not None:
            host = parse_address(str(config.health.endpoint)).reachable.host
            command += ["--metrics", f"http://{host}:{health}/metrics"]
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 # closed by `close`
        self._process: subprocess.Popen[bytes] | None = self._start(command, guest)
        self.pid = self._process.pid
        log.info("page of stream %s at %s", stream.name, self.url)

    def _start(self, command: list[str], guest: Guest | None) -> "subprocess.Popen[bytes]":
        with tempfile.TemporaryFile() as keys:  # without a name, and for the one who is handed it
            if guest is not None:
                keys.write(guest.secret_key.encode())
                keys.seek(0)
                command = [
                    *command, f"--server-key={guest.server_key}", "--key-file", f"/dev/fd/{keys.fileno()}"
                ]  # fmt: skip
            return subprocess.Popen(
                [sys.executable, "-c", _COMMAND, *command, "--parent", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=() if guest is None else (keys.fileno(),),
                start_new_session=True,  # Ctrl-C is for the daemon, which ends it
            )

    def look(self) -> None:
        """Tell if the process has ended, which it should not."""
        if self._process is not None and self._process.poll() is not None:
            log.error("the page at %s has ended: %s", self.url, self._last_words())
            self._process = None

    def stop(self) -> None:
        """Tell it to end; returns at once."""
        if self._process is not None:
            self._process.terminate()

    def close(self) -> None:
        """End it. Closing it twice is allowed."""
        self.stop()
        if self._process is not None:
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None
        self._said.close()

    def _last_words(self) -> str:
        self._said.seek(0)
        words = self._said.read()[-_LAST_WORDS:].decode(errors="replace")
        return " ".join(words.split()) or "it did not say why"
