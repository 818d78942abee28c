"""Run the live page of a daemon as a separate process, so that none of its threads delays the streams."""

import importlib.util
import logging
import os
import subprocess
import sys
import tempfile

from igbss_stream.daemon.config.schema import Config
from igbss_stream.daemon.config.web_sections import ViewSection
from igbss_stream.daemon.viewer_keys import ViewerKeys
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.addresses import parse_address
from igbss_stream.pages.view.port import find_free_port

log = logging.getLogger(__name__)

_COMMAND = "from igbss_stream.cli import main; main(prog_name='igbss-stream')"
_TERMINATION_TIMEOUT = 1.0  # seconds that the process may take to end
_MAX_ERROR_BYTES = 2000  # of its standard error, in a log line


class ViewerProcess:
    """Start `igbss-stream view` for a stream of a daemon, and end it.

    Parameters
    ----------
    config : Config
        With a section `view`.
    health_port : int or None
        Port of the metrics, if they are served.
    control_port : int or None
        Port of the control server, if there is one.
    keys : ViewerKeys, optional
        Keys of the page, if the sink that it reads is encrypted.

    Attributes
    ----------
    url : str
        Address of the page.
    pid : int
        Identifier of the process.

    Raises
    ------
    ParameterError
        If Bokeh is not installed.
    FeedError
        If the port is in use.
    """

    def __init__(
        self,
        config: Config,
        health_port: int | None,
        control_port: int | None = None,
        keys: ViewerKeys | None = None,
    ) -> None:
        view = config.view or ViewSection()
        if importlib.util.find_spec("bokeh") is None:
            raise ParameterError(
                "view needs Bokeh, which is not installed; pip install 'igbss-stream[view]', or remove view"
            )
        port = find_free_port(view.port)  # later, nobody would learn that it is in use
        self.url = f"http://{view.endpoint.host}:{port}/"
        stream, sink = config.find_viewed()
        command = [
            "view",
            str(parse_address(sink.address).reachable),
            "--topic",
            stream.name,
            "--port",
            str(port),
        ]
        for name in view.allowed_hosts:
            command += ["--allowed-host", name]
        if health_port is not None and config.health.endpoint is not None:
            host = parse_address(str(config.health.endpoint)).reachable.host
            command += ["--metrics", f"http://{host}:{health_port}/metrics"]
        if control_port is not None and config.control is not None:
            host = parse_address(str(config.control.endpoint)).reachable.host
            command += ["--control", f"http://{host}:{control_port}"]
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 # closed by `close`
        self._process: subprocess.Popen[bytes] | None = self._start(command, keys)
        self.pid = self._process.pid
        log.info("page of stream %s at %s", stream.name, self.url)

    def _start(self, command: list[str], keys: ViewerKeys | None) -> "subprocess.Popen[bytes]":
        with tempfile.TemporaryFile() as key_file:  # has no name; only the process inherits it
            if keys is not None:
                key_file.write(keys.secret_key.encode())
                key_file.seek(0)
                command = [*command, f"--server-key={keys.server_key}"]
                command += ["--key-file", f"/dev/fd/{key_file.fileno()}"]
            return subprocess.Popen(
                [sys.executable, "-c", _COMMAND, *command, "--parent", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=() if keys is None else (key_file.fileno(),),
                start_new_session=True,  # Ctrl-C goes to the daemon, which ends the page
            )

    def check(self) -> None:
        """Log an error if the process has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            log.error(
                "the page at %s has ended: %s; streams continue. Restart the daemon to serve it again",
                self.url,
                self._read_error(),
            )
            self._process = None

    def stop(self) -> None:
        """Ask the process to end, and return at once."""
        if self._process is not None:
            self._process.terminate()

    def close(self) -> None:
        """End the process. Calling this twice is allowed."""
        self.stop()
        if self._process is not None:
            try:
                self._process.wait(_TERMINATION_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None
        self._stderr.close()

    def _read_error(self) -> str:
        self._stderr.seek(0)
        text = self._stderr.read()[-_MAX_ERROR_BYTES:].decode(errors="replace")
        return " ".join(text.split()) or "it gave no reason"
