"""Combine the configuration of a stream with the file that its model comes from."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from igbss_stream.chunk import Stream
from igbss_stream.daemon.choice import SourceChoice
from igbss_stream.daemon.config.prepare_section import PrepareSection
from igbss_stream.daemon.config.schema import StreamSection
from igbss_stream.daemon.published import describe_removed
from igbss_stream.errors import ConfigError, IgbssError, ParameterError
from igbss_stream.preparation.settings import Preparation, describe_differences, describe_steps
from igbss_stream.separation.cleaning import Cleaning
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.streaming.stream_model import StreamModel

if TYPE_CHECKING:
    from igbss_stream.daemon.calibration import Calibration, ChannelOrder


@dataclass(frozen=True, eq=False)
class StreamSettings:
    """How a stream is prepared, separated and cleaned.

    Parameters
    ----------
    model : ModelSettings
    preparation : Preparation
    cleaning : Cleaning or None
    calibration : Calibration or None
        The model to start with, if the configuration names a file.
    initial : tuple of int or None
        Sources that are removed until others are chosen, instead of those that `cleaning` determines: none,
        where the section `clean` is empty.
    is_learning : bool
        Whether models are learned from the stream, if they depend on its samples.
    """

    model: ModelSettings
    preparation: Preparation
    cleaning: Cleaning | None
    calibration: "Calibration | None" = None
    initial: tuple[int, ...] | None = None
    is_learning: bool = True

    @classmethod
    def create(cls, config: StreamSection) -> "StreamSettings":
        """Return the settings of a stream; read the file that `model.from` names, if there is one.

        Parameters
        ----------
        config : StreamSection

        Raises
        ------
        ConfigError
            If the file cannot be read, or contradicts the configuration. The message begins with the key.
        """
        preparation = config.prepare.as_settings()
        cleaning = None if config.clean is None else config.clean.as_cleaning()
        if config.model.file is None:
            initial = () if config.clean is not None and cleaning is None else None
            return cls(config.model.as_settings(), preparation, cleaning, initial=initial)
        try:
            return cls._load(config, config.model.file, preparation, cleaning)
        except IgbssError as error:
            text = str(error)
            has_key = text.startswith(("model.", "clean.", "sinks["))
            raise ConfigError(text if has_key else f"model.from: {text}") from error

    @classmethod
    def _load(
        cls, config: StreamSection, path: Path, preparation: Preparation, cleaning: Cleaning | None
    ) -> "StreamSettings":
        """Return the settings of a stream whose model is in a file."""
        from igbss_stream.daemon import calibration as files  # imports h5py

        loaded = files.load_calibration(path)
        files.check_parameters(loaded, config.model)
        loaded = files.apply_cleaning(loaded, cleaning)
        cleaning = loaded.separator.cleaning
        if config.prepare == PrepareSection():
            preparation = loaded.preparation
        for j, sink in enumerate(config.sinks):
            if sink.publish == "cleaned" and cleaning is None and config.clean is None:
                raise ParameterError(
                    f"sinks[{j}].publish is cleaned, but '{loaded.path}' removes no sources: add a section "
                    "clean, or pass --exclude or --exclude-like to batch."
                )
        depends = loaded.settings.is_learned or (cleaning is not None and cleaning.needs_survey)
        is_learning = config.model.follow and depends
        initial = () if config.clean is not None and cleaning is None else None
        return cls(loaded.settings, preparation, cleaning, loaded, initial, is_learning)

    @property
    def has_state(self) -> bool:
        """Whether models are stored between runs: not if the model of a file is kept."""
        return self.calibration is None or self.is_learning

    def load_state(self, path: Path) -> StreamModel | None:
        """Return the model that an earlier run stored; None if there is none, or the model is fixed.

        Parameters
        ----------
        path : Path
            File of the state.

        Raises
        ------
        StateError
            If it cannot be used.
        """
        if not self.has_state:
            return None
        from igbss_stream.daemon import state  # imports h5py, which other configurations do not need

        channels = None if self.calibration is None else self.calibration.channels
        return state.load(path, self.model, self.preparation, self.cleaning, channels)

    def load_choice(self, path: Path) -> SourceChoice | None:
        """Return the choice of sources that an earlier run stored; None if there is none.

        The sources of a file with a fixed model are those of the choice only if the model is the same.

        Parameters
        ----------
        path : Path
            File of the state.

        Raises
        ------
        StateError
            If it cannot be used.
        """
        from igbss_stream.daemon import state  # imports h5py, which other configurations do not need

        fixed = None if self.has_state or self.calibration is None else self.calibration.separator
        return state.load_choice(path, fixed)

    def iter_start(self) -> Iterator[str]:
        """Yield what a stream takes from the file of its model, for the log."""
        calibration = self.calibration
        if calibration is None:
            return
        follow = "later models follow it" if self.is_learning else "it stays as it is"
        removed = describe_removed(calibration.separator.cleaner)
        yield f"starting with the model of '{calibration.path}'{removed}; {follow}"
        if (labels := calibration.separator.labels) is not None:
            names = [f"source-{n}" for n in range(len(labels.labels))]
            yield f"labels in '{calibration.path}': {labels.summarize(names)}"
        if not (self.differences or self.preparation.does_nothing):
            steps = describe_steps(self.preparation)
            yield f"samples are prepared as those of '{calibration.path}': {steps}"

    def iter_warnings(self, state: Path | None) -> Iterator[str]:
        """Yield what differs from the file of the model, and what overrides it.

        Parameters
        ----------
        state : Path or None
            File of the state of the stream.
        """
        calibration = self.calibration
        if calibration is None:
            return
        if self.differences:
            yield (
                f"prepare differs from that of the samples of '{calibration.path}': "
                f"{self.differences}; leave prepare out to take it from the file"
            )
        if state is not None and self.has_state and state.exists():
            yield f"the state '{state}' overrides model.from; remove it to start from '{calibration.path}'"

    def check_stream(self, stream: Stream, *, has_rate: bool) -> None:
        """Check that a stream matches the calibration.

        Parameters
        ----------
        stream : Stream
            Before its preparation.
        has_rate : bool
            Whether its rate is known; its preparation is checked only then.

        Raises
        ------
        ParameterError
            If it does not match.
        """
        order = self.order_channels(stream)
        if order is None or self.calibration is None or not has_rate:
            return
        from igbss_stream.preparation.online import OnlinePreparation

        self.calibration.check_prepared(OnlinePreparation(order.stream, self.preparation).output_stream)

    def iter_notes(self, stream: Stream, prepared: Stream) -> Iterator[str]:
        """Yield how a stream differs from that of the calibration, for the log.

        Parameters
        ----------
        stream, prepared : Stream
            Before and after its preparation.
        """
        if self.calibration is not None:
            order = self.calibration.match(stream, self.preparation)
            yield from self.calibration.iter_notes(order, prepared)

    @property
    def differences(self) -> str:
        """How the preparation differs from that of the calibration; empty if it does not."""
        if self.calibration is None:
            return ""
        return describe_differences(self.calibration.preparation, self.preparation)

    def order_channels(self, stream: Stream) -> "ChannelOrder | None":
        """Return how to put channels in the order of the calibration; None if there is none.

        Parameters
        ----------
        stream : Stream
            Before its preparation.

        Raises
        ------
        ParameterError
            If the stream does not match the calibration.
        """
        return None if self.calibration is None else self.calibration.match(stream, self.preparation)
