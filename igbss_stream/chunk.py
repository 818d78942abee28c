"""What moves between the stages of a stream: samples, and declared absences of samples.

Every index from the first one on lies in exactly one `Chunk` or one `Gap`, in order. Positions are sample
indices; time is derived from them (`Stream.time_of`), never accumulated. A gap of zero samples is allowed:
it says that what follows does not continue what came before. Samples that are missing in a row may be told
of in several gaps, as soon as each is known; who counts gaps counts such a run as one (`Gap.continues`).

`Chunk` and `Gap` check nothing: samples are checked once, where they enter.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError

_FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class Stream:
    """What holds for all samples of a stream.

    Parameters
    ----------
    name : str
    rate : float
        In Hz.
    channels : tuple of str
    unit : str or None
    dtype : dtype
        float32 or float64.
    t0 : float or None
        Unix time of sample 0, in seconds, if known.
    delay : int
        Algorithmic delay in samples: how many samples after its own one a sample can be published.

    Raises
    ------
    ParameterError
        If a value cannot be used.
    """

    name: str
    rate: float
    channels: tuple[str, ...]
    unit: str | None = None
    dtype: np.dtype[Any] = _FLOAT32
    t0: float | None = None
    delay: int = 0

    def __post_init__(self) -> None:
        if not self.name:
            raise ParameterError("the name of a stream must not be empty.")
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise ParameterError(
                f"rate of stream {self.name!r} must be a finite number above 0. Got {self.rate!r} instead."
            )
        if not self.channels:
            raise ParameterError(f"stream {self.name!r} has no channels.")
        if self.dtype not in (np.float32, np.float64):
            raise ParameterError(
                f"dtype of stream {self.name!r} must be float32 or float64. Got {self.dtype} instead."
            )

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return len(self.channels)

    def time_of(self, index: int) -> float | None:
        """Return the Unix time of a sample, in seconds; None where `t0` is not known."""
        return None if self.t0 is None else self.t0 + index / self.rate


@dataclass(frozen=True, slots=True)
class Chunk:
    """Samples that follow each other.

    Parameters
    ----------
    data : array of shape (samples, channels)
        C-ordered, in native byte order; may be read-only.
    start : int
        Index of the first sample.
    model : int
        Version of the model that made the samples; 0 where none did.
    cleaned : array of shape (samples, channels), optional
        Channels without some of their sources, beside sources; None where no one asked for them.
    """

    data: NDArray[Any]
    start: int
    model: int = 0
    cleaned: NDArray[Any] | None = None

    def __repr__(self) -> str:
        # the samples themselves would fill a screen
        shape = " x ".join(map(str, self.data.shape))
        cleaned = "" if self.cleaned is None else ", cleaned"
        return f"Chunk(start={self.start}, {shape} {self.data.dtype}, model={self.model}{cleaned})"

    @property
    def stop(self) -> int:
        """Index after the last sample."""
        return self.start + len(self.data)


@dataclass(frozen=True, slots=True)
class Gap:
    """Samples that are missing, and why.

    Parameters
    ----------
    start : int
        Index of the first sample that is missing.
    n_samples : int
        How many are missing; 0 for a break in a stream whose indices go on.
    reason : str
        One word, e.g. ``"lost"``.
    """

    start: int
    n_samples: int
    reason: str

    @property
    def stop(self) -> int:
        """Index after the last missing sample."""
        return self.start + self.n_samples

    def continues(self, before: "Gap | None") -> bool:
        """Tell whether it goes on where the gap before it ended, for the same reason: both are one then."""
        return (
            before is not None
            and self.n_samples > 0
            and (self.start, self.reason) == (before.stop, before.reason)
        )
