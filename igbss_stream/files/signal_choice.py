"""List the signals of a file in which several could be read."""

from collections.abc import Sequence
from dataclasses import dataclass

from igbss_stream.errors import RecordingError


@dataclass(frozen=True)
class SignalChoice:
    """A signal that can be chosen.

    Parameters
    ----------
    option : str
        Command-line option that selects the signal.
    n_samples : int or None
    n_channels : int
    rate : float or None
        In Hz.
    unit : str or None
    channels, types : tuple of str
        Names and types of its channels; empty if the file does not state them.
    """

    option: str
    n_samples: int | None
    n_channels: int
    rate: float | None
    unit: str | None
    channels: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class SeveralSignalsError(RecordingError):
    """A file has several signals, and the choice is ambiguous.

    Parameters
    ----------
    message : str
    signals : sequence of SignalChoice

    Attributes
    ----------
    signals : tuple of SignalChoice
    """

    def __init__(self, message: str, signals: Sequence[SignalChoice] = ()) -> None:
        super().__init__(message)
        self.signals = tuple(signals)
