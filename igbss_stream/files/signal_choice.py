"""What there is to choose from, in a file that does not tell which of its signals is meant."""

from collections.abc import Sequence
from dataclasses import dataclass

from igbss_stream.errors import RecordingError


@dataclass(frozen=True)
class Offered:
    """A signal that can be chosen.

    Parameters
    ----------
    option : str
        What to pass to choose it.
    n_samples : int or None
    n_channels : int
    rate : float or None
        In Hz.
    unit : str or None
    channels, types : tuple of str
        Of its channels; empty where the file does not say.
    """

    option: str
    n_samples: int | None
    n_channels: int
    rate: float | None
    unit: str | None
    channels: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class SeveralSignalsError(RecordingError):
    """A file has several signals, and does not tell which one is meant.

    Parameters
    ----------
    message : str
    signals : sequence of Offered

    Attributes
    ----------
    signals : tuple of Offered
    """

    def __init__(self, message: str, signals: Sequence[Offered] = ()) -> None:
        super().__init__(message)
        self.signals = tuple(signals)
