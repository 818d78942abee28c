"""What the description of a stream states on its model: the mixing, and how the model was learned."""

import math
from typing import Annotated

import msgspec
import numpy as np

from igbss_stream.chunk import Stream
from igbss_stream.model.learning import Learning
from igbss_stream.positions import Positions

MAX_INTEGER = 2**53 - 1
"""The largest integer that JSON preserves in every language."""

_MAX_VIEWS = 64  # that contradictions name
_MAX_WEIGHTS = 16_384  # of a mixing matrix, at up to 25 bytes each; a header has at most 1 MiB

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]
_MAX_LABEL = 256
_POSITION_DIGITS = 6  # of a metre
Label = Annotated[str, msgspec.Meta(max_length=_MAX_LABEL)]


class SensorPositions(msgspec.Struct, frozen=True, kw_only=True):
    """Positions of channels.

    Parameters
    ----------
    xyz : tuple of (float, float, float) or None
        Of each channel, in metres, towards the right, the front and the top; None where not known.
    frame, source : str
        See `Positions`.
    """

    xyz: tuple[tuple[float, float, float] | None, ...]
    frame: Label = "unknown"
    source: Label = "positions of the stream"

    @classmethod
    def from_stream(cls, stream: Stream) -> "SensorPositions | None":
        """Return the positions of the channels of a stream; None if none is known."""
        if stream.positions is None:
            return None
        found = stream.positions.select(stream.channels)
        rows = zip(found.xyz.round(_POSITION_DIGITS).tolist(), found.is_known.tolist(), strict=True)
        xyz = tuple(tuple(at) if is_known else None for at, is_known in rows)
        if not any(xyz):
            return None
        return cls(xyz=xyz, frame=found.frame[:_MAX_LABEL], source=found.source[:_MAX_LABEL])

    def as_positions(self, channels: tuple[str, ...]) -> Positions | None:
        """Return the positions of channels; None unless there is one for each."""
        if len(self.xyz) != len(channels):
            return None
        xyz = [(math.nan,) * 3 if at is None else at for at in self.xyz]
        return Positions.from_table(channels, xyz, self.frame, self.source)


class Mixing(msgspec.Struct, frozen=True, kw_only=True):
    """The mixing of a model: ``channels = sources @ matrix.T + mean``.

    Parameters
    ----------
    version : int
        Version of the model.
    channels : tuple of str
        Names of the channels.
    matrix : tuple of tuple of float
        One row per channel, one column per source.
    unit : str or None
        Unit of the channels.
    mean : tuple of float or None
        Mean of each channel; None means zero.
    positions : SensorPositions or None
        Of the channels, if known.
    """

    version: Count
    channels: tuple[Label, ...]
    matrix: tuple[tuple[float, ...], ...]
    unit: Label | None = None
    mean: tuple[float, ...] | None = None
    positions: SensorPositions | None = None

    @property
    def fits_in_header(self) -> bool:
        """Whether the mixing is small enough for a header."""
        return len(self.matrix) * len(self.matrix[0]) <= _MAX_WEIGHTS if self.matrix else False

    def find_misfit(self, n_sources: int) -> str | None:
        """Return what does not fit the number of sources; None if all does."""
        n_channels, rows = len(self.channels), {len(row) for row in self.matrix}
        if len(self.matrix) != n_channels or rows != {n_sources}:
            return (
                f"mixing.matrix must have {n_channels} rows (channels) of {n_sources} numbers (sources). "
                f"Got {len(self.matrix)} rows of {sorted(rows)} instead."
            )
        if self.mean is not None and len(self.mean) != n_channels:
            return f"mixing.mean must have {n_channels} numbers. Got {len(self.mean)} instead."
        return None


class LearningFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How a model was learned, and how reliable its sources are; docs/wire.md defines the fields.

    Parameters
    ----------
    version : int
        Version of the model.
    view : float
        Ridge of the view that the structure was learned from; 0 for innovations.
    reliability : tuple of float
        Predicted ratio of each source to the interference of all others, in dB.
    contradictions : tuple of (float, float)
        Views that were tried, and the largest contradiction of each.
    drift_removed : bool
        Whether the structure was learned from a copy of the channels without slow drift.
    """

    version: Count
    view: Annotated[float, msgspec.Meta(ge=0)]
    reliability: tuple[float, ...]
    contradictions: Annotated[tuple[tuple[float, float], ...], msgspec.Meta(max_length=_MAX_VIEWS)] = ()
    drift_removed: bool = False

    @classmethod
    def from_learning(cls, version: int, learning: Learning | None) -> "LearningFacts | None":
        """Return the facts of a model; None if it was not learned, or a number has no form in JSON."""
        if learning is None:
            return None
        pairs = tuple(learning.contradictions.items())
        if not np.isfinite([learning.view, *learning.reliability, *np.ravel(pairs)]).all():
            return None
        return cls(
            version=version,
            view=learning.view,
            reliability=tuple(learning.reliability.tolist()),
            contradictions=pairs,
            drift_removed=learning.drift_removed,
        )

    def find_misfit(self, n_sources: int) -> str | None:
        """Return what does not fit the number of sources; None if all does."""
        found = len(self.reliability)
        if found == n_sources:
            return None
        return f"learning.reliability must have {n_sources} numbers (sources). Got {found} instead."

    def as_learning(self) -> Learning:
        """Return the facts as a `Learning`, whose losses are not known."""
        reliability = np.array(self.reliability, np.float64)
        return Learning((), self.view, dict(self.contradictions), reliability, self.drift_removed)
