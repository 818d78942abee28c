"""The items of a stream: chunks of samples, and gaps that declare missing samples.

Every index, from the first one on, is in exactly one `Chunk` or one `Gap`, in order. Positions are sample
indices; time is derived from them (`Stream.time_of`), never accumulated. A gap of zero samples marks a
discontinuity: the samples after it do not continue those before. Consecutive missing samples may arrive as
several gaps, each as soon as it is known; code that counts gaps counts them as one (`Gap.continues`).

`Chunk` and `Gap` check nothing; samples are checked once, where they enter.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError
from igbss_stream.positions import Positions

_FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class Stream:
    """Description of a stream.

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
        Algorithmic delay in samples: a sample can be published this many samples after it was received.
    positions : Positions or None
        Positions of the channels, matched by name; may have other channels too.

    Raises
    ------
    ParameterError
        If a value is not valid.
    """

    name: str
    rate: float
    channels: tuple[str, ...]
    unit: str | None = None
    dtype: np.dtype[Any] = _FLOAT32
    t0: float | None = None
    delay: int = 0
    positions: Positions | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ParameterError("the name of a stream must not be empty; pass a name.")
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise ParameterError(
                f"rate of stream {self.name!r} must be a finite number above 0. Got {self.rate!r} instead."
            )
        if not self.channels:
            raise ParameterError(f"stream {self.name!r} has no channels; name at least one.")
        if self.dtype not in (np.float32, np.float64):
            raise ParameterError(
                f"dtype of stream {self.name!r} must be float32 or float64. Got {self.dtype} instead."
            )

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return len(self.channels)

    def time_of(self, index: int) -> float | None:
        """Return the Unix time of a sample in seconds, or None if `t0` is unknown."""
        return None if self.t0 is None else self.t0 + index / self.rate


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive samples.

    Parameters
    ----------
    data : array of shape (samples, channels)
        C-ordered, in native byte order; may be read-only.
    start : int
        Index of the first sample.
    model_version : int
        Version of the model that separated the samples; 0 if none did.
    cleaned : array of shape (samples, channels), optional
        Cleaned channels, in a chunk of sources; None if cleaning is off.
    """

    data: NDArray[Any]
    start: int
    model_version: int = 0
    cleaned: NDArray[Any] | None = None

    def __repr__(self) -> str:
        # without the samples, which would fill a screen
        shape = " x ".join(map(str, self.data.shape))
        cleaned = "" if self.cleaned is None else ", cleaned"
        version = f"model_version={self.model_version}"
        return f"Chunk(start={self.start}, {shape} {self.data.dtype}, {version}{cleaned})"

    @property
    def stop(self) -> int:
        """Index after the last sample."""
        return self.start + len(self.data)


@dataclass(frozen=True, slots=True)
class Gap:
    """Missing samples, and the reason.

    Parameters
    ----------
    start : int
        Index of the first missing sample.
    n_samples : int
        Number of missing samples; 0 for a discontinuity without missing samples.
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
        """Return whether the gap extends the one before it, for the same reason: the two count as one."""
        return (
            before is not None
            and self.n_samples > 0
            and (self.start, self.reason) == (before.stop, before.reason)
        )
