"""Run the streams of a configuration until they end or a signal stops the daemon.

One thread moves samples from all sources to all sinks, a second learns models, a third answers HTTP.
Kernels are loaded before the first socket opens. SIGINT and SIGTERM end the run in order. SIGHUP reads the
configuration again; `config.reload` applies the values that can change while the daemon runs.
"""

import logging
import platform
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from igbss_stream._util.scheduling import use_normal_priority
from igbss_stream._util.signals import DaemonSignals
from igbss_stream._util.version import __version__
from igbss_stream.daemon import logs
from igbss_stream.daemon.choice import SourceChoice
from igbss_stream.daemon.config.load import format_keys, load
from igbss_stream.daemon.config.reload import apply_reloadable, iter_differences
from igbss_stream.daemon.config.schema import Config, StreamSection
from igbss_stream.daemon.config.sources import FileInput
from igbss_stream.daemon.connectors import open_sink, open_source, wait_for_input
from igbss_stream.daemon.process_tuning import tune_process
from igbss_stream.daemon.stream_counts import summarize
from igbss_stream.daemon.stream_runner import StreamRunner
from igbss_stream.daemon.stream_settings import StreamSettings
from igbss_stream.daemon.viewer_keys import ViewerKeys
from igbss_stream.errors import ConfigError, IgbssError
from igbss_stream.model.kernels import jit
from igbss_stream.streaming.stream_model import StreamModel

if TYPE_CHECKING:
    from igbss_stream.bad_channels.memory import ChannelMemory
    from igbss_stream.daemon.control import ControlServer
    from igbss_stream.daemon.health import HealthServer
    from igbss_stream.daemon.viewer import ViewerProcess

log = logging.getLogger(__name__)

_TICK = 0.1  # seconds between periodic work besides the streams


class LearningThread(Executor):
    """Execute calls in one thread, which does not keep the process alive.

    A ``ThreadPoolExecutor`` joins its threads when the interpreter exits, so a daemon that is stopped
    would first finish its fit. Learning 64 channels from 20,000 samples takes 14 s. With a pool, the daemon
    exits 11 to 13 s after SIGTERM, later than the ``TimeoutStopSec`` of its service allows; with this
    thread, after 0.2 s.
    """

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._ready = threading.Semaphore(0)
        threading.Thread(target=self._run, name="learning", daemon=True).start()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Execute a call after those submitted before it."""
        future: Future[Any] = Future()

        def call() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # raised where the result is requested
                future.set_exception(error)

        self._calls.append(call)
        self._ready.release()
        return future

    def _run(self) -> None:
        use_normal_priority()
        while True:
            self._ready.acquire()
            self._calls.popleft()()


class Daemon:
    """Run a configuration.

    Construction opens the sources and sinks. Only `run` changes settings of the process, and it restores
    them when it returns.

    Parameters
    ----------
    config : Config
    path : Path
        The file of the configuration, which is read again on reload.
    signals : DaemonSignals, optional
        What ends the run and reloads the configuration; signals that arrived earlier count.

    Attributes
    ----------
    runners : list of StreamRunner
        One for each stream.

    Raises
    ------
    IgbssError
        If a socket or file cannot be opened, or a state cannot be read.
    """

    def __init__(self, config: Config, path: Path, signals: DaemonSignals | None = None) -> None:
        self._config, self._path = config, path
        self._signals = DaemonSignals() if signals is None else signals
        self._stopping = self._signals.stopping
        executor = LearningThread()
        self.runners: list[StreamRunner] = []
        self._health: HealthServer | None = None
        self._control: ControlServer | None = None
        self._viewer: ViewerProcess | None = None
        viewer_keys = ViewerKeys.create(config)
        try:
            for stream in config.streams:
                self.runners.append(self._open_stream(stream, executor, viewer_keys))
            if config.health.port is not None:
                from igbss_stream.daemon import health  # 10 MB, only if it is used

                section = config.health
                self._health = health.HealthServer(
                    section.host, config.health.port, self.runners, section.allowed_hosts
                )
                log.info("health at http://%s:%d/health", config.health.host, self._health.port)
            if config.control is not None:
                from igbss_stream.daemon import control

                self._control = control.open_control(config.control, self.runners)
            if config.view is not None:
                from igbss_stream.daemon import viewer

                health_port = None if self._health is None else self._health.port
                control_port = None if self._control is None else self._control.port
                self._viewer = viewer.ViewerProcess(config, health_port, control_port, viewer_keys)
        except BaseException:
            self._close()
            raise

    def stop(self) -> None:
        """End the run soon. Signal handlers and other threads may call this."""
        self._signals.stop()

    def reload(self) -> None:
        """Read the configuration again soon. Signal handlers and other threads may call this."""
        self._signals.reload()

    def run(self) -> None:
        """Process samples from sources to sinks until all sources have ended or `stop` is called."""
        with tune_process():
            try:
                self._run_streams()
            finally:
                self._close()
                self._save()
                for runner in self.runners:
                    log.info("stream %s: %s", runner.name, summarize(runner))

    def _run_streams(self) -> None:
        next_tick, last_save = 0.0, time.monotonic()
        while not self._stopping.is_set() and not all(runner.source.ended for runner in self.runners):
            self._step()
            now = time.monotonic()
            if now >= next_tick:
                next_tick = now + _TICK
                self._tick()
            if now >= last_save + self._save_interval:
                last_save = now
                self._save()
        for runner in self.runners:
            if runner.error is not None and not self._stopping.is_set():
                raise runner.error

    @property
    def _save_interval(self) -> float:
        return float("inf") if self._config.state is None else self._config.state.every

    def _step(self) -> None:
        """Wait for input from any source, and process it."""
        if len(self.runners) == 1:
            self.runners[0].step(_TICK)
            return
        for runner in wait_for_input(self.runners, _TICK):
            runner.step(0.0)

    def _tick(self) -> None:
        """Do periodic work besides the streams."""
        for runner in self.runners:
            runner.serve()
        if [runner for runner in self.runners if runner.chooser.take_unsaved()]:
            self._save()
        if self._viewer is not None:
            self._viewer.check()
        if self._signals.take_reload():
            self._reload()

    def _reload(self) -> None:
        """Apply the changes that need no restart, and log the others."""
        try:
            # A pipe, which a shell may pass at the start, would block the thread that moves samples.
            if self._path.exists() and not self._path.is_file():
                raise ConfigError(f"{self._path} is not a regular file; start the daemon with one")
            config = load(self._path)
        except IgbssError as error:
            log.error("the configuration was not reloaded: %s", "; ".join(str(error).split("\n")))
            return
        before, self._config = self._config, apply_reloadable(self._config, config)
        logs.set_level(self._config.log.level)
        for runner, stream in zip(self.runners, self._config.streams, strict=True):
            if not isinstance(stream.source, FileInput):  # a file is never silent
                runner.source.silence.after = stream.source.silence
        for keys, value in iter_differences(before, self._config):
            log.info("%s is %s now", format_keys(keys), value)
        pending = [format_keys(keys) for keys, _ in iter_differences(self._config, config)]
        if pending:
            log.warning("other changes need a restart: %s", ", ".join(pending))
        elif before == config:
            log.info("the configuration has not changed")

    def _open_stream(
        self, stream: StreamSection, executor: Executor, viewer_keys: ViewerKeys | None
    ) -> StreamRunner:
        try:
            settings = StreamSettings.create(stream)
        except ConfigError as error:
            raise ConfigError(f"stream {stream.name}: {error}") from error
        model, choice = self._load_model(stream, settings), self._load_choice(stream, settings)
        memory = None if model is None else self._load_memory(stream)
        source = open_source(stream)
        sinks: list[Any] = []
        try:
            sinks += (open_sink(sink, viewer_keys) for sink in stream.sinks)
        except BaseException:
            source.close()
            for sink in sinks:
                sink.close()
            raise
        wait = isinstance(stream.source, FileInput)
        return StreamRunner(
            stream,
            source,
            sinks,
            executor,
            settings=settings,
            model=model,
            memory=memory,
            choice=choice,
            wait=wait,
            stop=self._stopping,
        )

    def _load_choice(self, stream: StreamSection, settings: StreamSettings) -> SourceChoice | None:
        """Return the choice of sources of the state, if there is one."""
        if self._config.state is None:
            return None
        choice = settings.load_choice(self._config.state.get_file(stream.name))
        if choice is not None:
            log.info("stream %s: continuing with the sources chosen in the previous run", stream.name)
        return choice

    def _load_model(self, stream: StreamSection, settings: StreamSettings) -> StreamModel | None:
        """Return the model of the state, if there is one, and log which model the stream starts with."""
        state = self._config.state
        model = None if state is None else settings.load_state(state.get_file(stream.name))
        if model is not None:
            log.info("stream %s: continuing with model %d of the previous run", stream.name, model.version)
        else:
            for text in settings.iter_start():
                log.info("stream %s: %s", stream.name, text)
        for text in settings.iter_warnings(None if state is None else state.get_file(stream.name)):
            log.warning("stream %s: %s", stream.name, text)
        return model

    def _load_memory(self, stream: StreamSection) -> "ChannelMemory | None":
        """Return what the state has of the channels, next to a model that was taken from it."""
        if self._config.state is None:
            return None
        from igbss_stream.daemon import state

        return state.load_memory(self._config.state.get_file(stream.name))

    def _save(self) -> None:
        if self._config.state is None:
            return
        from igbss_stream.daemon import state

        for runner in self.runners:
            model, preparation = runner.model, runner.preparation
            if model is None or preparation is None:  # before the first samples nothing has changed
                continue
            choice = runner.chooser.choice
            if not runner.settings.has_state and choice.is_default:
                continue
            path, samples = self._config.state.get_file(runner.name), preparation.output_stream
            try:
                state.save(
                    path,
                    model,
                    runner.settings.preparation,
                    samples.channels,
                    samples.unit,
                    memory=runner.bad_channels.get_memory(),
                    choice=choice,
                )
            except IgbssError as error:
                log.error("stream %s: %s", runner.name, error)

    def _close(self) -> None:
        if self._viewer is not None:
            self._viewer.stop()
        if self._health is not None:
            self._health.close()
        if self._control is not None:
            self._control.close()
        for runner in self.runners:
            runner.finish()
        if self._viewer is not None:
            self._viewer.close()


def load_kernels(config: Config) -> None:
    """Import and compile the modules of a configuration that would otherwise load while samples wait."""
    began = time.perf_counter()
    modules = ["igbss_stream.streaming.pipeline", "igbss_stream.separation.engine"]
    if any(stream.is_model_learned and stream.model.structure == "learned" for stream in config.streams):
        modules += ["igbss_stream.separation.structure_fit", "scipy.optimize"]
    if config.health.port is not None:
        modules.append("igbss_stream.daemon.health")
    if config.control is not None:
        modules.append("igbss_stream.daemon.control")
    for module in modules:
        import_module(module)
    jit.load_kernels()
    log.info("kernels are ready after %.1f s", time.perf_counter() - began)


def run(path: Path, signals: DaemonSignals) -> None:
    """Run a configuration file until a signal stops the daemon.

    Parameters
    ----------
    path : Path
    signals : DaemonSignals
        Installed by the caller.

    Raises
    ------
    IgbssError
        If the configuration, or a file or address in it, cannot be used.
    """
    config = load(path)
    logs.configure(config.log.level, config.log.format)
    log.info("igbss_stream %s, Python %s, configuration %s", __version__, platform.python_version(), path)
    load_kernels(config)
    if signals.stopping.is_set():
        log.info("stopped before any stream was opened")
        return
    daemon = Daemon(config, path, signals)
    log.info("running %d stream(s); stop with Ctrl-C or SIGTERM", len(daemon.runners))
    daemon.run()
