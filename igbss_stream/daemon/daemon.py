"""`igbss-stream run`: streams from their feeds to their sinks until told to stop.

One thread takes samples from all feeds to all sinks; another learns models; a third answers HTTP. Kernels
are loaded before the first socket opens. SIGINT and SIGTERM end the run in order, SIGHUP reads the
configuration again; `again` tells what of it can change while it runs.
"""

import gc
import logging
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from igbss_stream._util.scheduling import use_normal_priority
from igbss_stream.daemon import logs, state
from igbss_stream.daemon.config.load import key_path, load
from igbss_stream.daemon.config.reload import differences, taken_over
from igbss_stream.daemon.config.schema import Config, Stream
from igbss_stream.daemon.config.sources import FileInput
from igbss_stream.daemon.connectors import open_feed, open_sink, wait_for
from igbss_stream.daemon.resident import give_back_library
from igbss_stream.daemon.stream_runner import Lane
from igbss_stream.daemon.viewer_keys import Guest
from igbss_stream.errors import IgbssError
from igbss_stream.streaming.model_updates import StreamModel

if TYPE_CHECKING:
    from igbss_stream.daemon.health import HealthServer
    from igbss_stream.daemon.viewer import Viewer

log = logging.getLogger(__name__)

_TICK = 0.1  # seconds between what is done besides the streams
_SWITCH = 5e-4  # seconds after which a thread that learns lets the streams' thread go on


class Worker(Executor):
    """Does what it is given in one thread, which does not outlive the process."""

    def __init__(self) -> None:
        self._work: deque[Callable[[], None]] = deque()
        self._ready = threading.Semaphore(0)
        threading.Thread(target=self._run, name="learning", daemon=True).start()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Do a call after those before it."""
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # whoever asks for the result gets it
                future.set_exception(error)

        self._work.append(work)
        self._ready.release()
        return future

    def _run(self) -> None:
        use_normal_priority()
        while True:
            self._ready.acquire()
            self._work.popleft()()


class Daemon:
    """Runs a configuration.

    Parameters
    ----------
    config : Config
    path : Path
        Where it was read from, to be read again.

    Raises
    ------
    IgbssError
        If a socket or file cannot be opened, or a state cannot be read.
    """

    def __init__(self, config: Config, path: Path) -> None:
        self._config, self._path = config, path
        self._stopping = threading.Event()
        self._again = threading.Event()
        warm_up(config)
        worker = Worker()
        self.lanes: list[Lane] = []
        self._health: HealthServer | None = None
        self._viewer: Viewer | None = None
        guest = Guest.of(config)
        try:
            for stream in config.streams:
                self.lanes.append(self._lane(stream, worker, guest))
            if config.health.port is not None:
                from igbss_stream.daemon import health  # 10 MB: only who wants it pays

                self._health = health.HealthServer(config.health.host, config.health.port, self.lanes)
                log.info("health at http://%s:%d/health", config.health.host, self._health.port)
            if config.view is not None:
                from igbss_stream.daemon import viewer

                port = None if self._health is None else self._health.port
                self._viewer = viewer.Viewer(config, port, guest)
        except BaseException:
            self._close()
            raise

    def stop(self) -> None:
        """End the run soon; may be called from a signal handler or another thread."""
        self._stopping.set()

    def run(self) -> None:
        """Take samples from feeds to sinks until all feeds have ended or `stop` is called."""
        next_tick, last_save = 0.0, time.monotonic()
        try:
            while not self._stopping.is_set() and not all(lane.feed.ended for lane in self.lanes):
                self._step()
                now = time.monotonic()
                if now >= next_tick:
                    next_tick = now + _TICK
                    self._tick()
                if now >= last_save + self._save_every:
                    last_save = now
                    self._save()
        finally:
            self._close()
            self._save()

    @property
    def _save_every(self) -> float:
        return float("inf") if self._config.state is None else self._config.state.every

    def _step(self) -> None:
        """Wait for any feed, and take what came to the sinks."""
        if len(self.lanes) == 1:
            self.lanes[0].step(_TICK)
            return
        for lane in wait_for(self.lanes, _TICK):
            lane.step(0.0)

    def _tick(self) -> None:
        for lane in self.lanes:
            lane.serve()
        if self._viewer is not None:
            self._viewer.look()
        if self._again.is_set():
            self._again.clear()
            self._read_again()

    def _read_again(self) -> None:
        """Take over what can change, and name what cannot."""
        try:
            config = load(self._path)
        except IgbssError as error:
            log.error("the configuration is kept as it was: %s", error)
            return
        before, self._config = self._config, taken_over(self._config, config)
        logs.set_level(self._config.log.level)
        for lane, stream in zip(self.lanes, self._config.streams, strict=True):
            if not isinstance(stream.source, FileInput):  # a file is never silent
                lane.feed.silence.after = stream.source.silence
        for keys, value in differences(before, self._config):
            log.info("%s is %s now", key_path(keys), value)
        waiting = [key_path(keys) for keys, _ in differences(self._config, config)]
        if waiting:
            log.warning("a restart is needed for what else changed: %s", ", ".join(waiting))
        elif before == config:
            log.info("the configuration is the same as before")

    def _lane(self, stream: Stream, worker: Worker, guest: Guest | None) -> Lane:
        model = self._saved(stream)
        feed = open_feed(stream)
        sinks: list[Any] = []
        try:
            sinks += (open_sink(stream, sink, guest) for sink in stream.sinks)
        except BaseException:
            feed.close()
            for sink in sinks:
                sink.close()
            raise
        wait = isinstance(stream.source, FileInput)
        return Lane(stream, feed, sinks, worker, model=model, wait=wait, stop=self._stopping)

    def _saved(self, stream: Stream) -> StreamModel | None:
        if self._config.state is None:
            return None
        file = state.state_file(self._config.state.path, stream.name)
        cleaning = None if stream.clean is None else stream.clean.cleaning()
        model = state.load(file, stream.model.settings(), stream.prepare.settings(), cleaning)
        if model is not None:
            log.info("stream %s: model %d of the run before is taken up", stream.name, model.version)
        return model

    def _save(self) -> None:
        if self._config.state is None:
            return
        for stream, lane in zip(self._config.streams, self.lanes, strict=True):
            if lane.model is not None:
                file = state.state_file(self._config.state.path, lane.name)
                try:
                    state.save(file, lane.model, stream.prepare.settings())
                except IgbssError as error:
                    log.error("stream %s: %s", lane.name, error)

    def _close(self) -> None:
        if self._viewer is not None:
            self._viewer.stop()
        if self._health is not None:
            self._health.close()
        for lane in self.lanes:
            lane.finish()
        if self._viewer is not None:
            self._viewer.close()

    def handle_signals(self) -> None:
        """Stop on SIGINT and SIGTERM, and read the configuration again on SIGHUP."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.stop()

        def again(number: int, frame: FrameType | None) -> None:
            self._again.set()

        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGHUP, again)


def warm_up(config: Config) -> None:
    """Load what would otherwise be loaded, or compiled, while samples wait."""
    began = time.perf_counter()
    needed = ["igbss_stream.streaming.pipeline", "igbss_stream.separation.engine"]
    if any(stream.model.structure == "learned" for stream in config.streams):
        needed += ["igbss_stream.separation.structure_fit", "scipy.optimize"]
    if config.health.port is not None:
        needed.append("igbss_stream.daemon.health")
    for module in needed:
        import_module(module)
    sys.setswitchinterval(_SWITCH)
    gc.collect()
    gc.freeze()  # what is loaded by now stays: no collection has to look at it
    give_back_library("llvmlite")  # the compiler, 65 MB
    log.info("kernels are ready after %.1f s", time.perf_counter() - began)


def run(path: Path) -> None:
    """Run a configuration file until it is told to stop.

    Parameters
    ----------
    path : Path

    Raises
    ------
    IgbssError
        If the configuration, or what it names, cannot be used.
    """
    config = load(path)
    logs.set_up(config.log.level, config.log.format)
    daemon = Daemon(config, path)
    daemon.handle_signals()
    log.info("running %d stream(s); stop with Ctrl-C or SIGTERM", len(daemon.lanes))
    daemon.run()
