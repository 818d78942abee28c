"""The stage of sources that multiply: from samples to sources and back, through a learned polynomial."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from igbss_stream.model.interactions.learn import LearnedInteractions

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PolynomialStage:
    """Channels = mean + mixing @ products of sources; it has the face of a `LinearStage`.

    Parameters
    ----------
    learned : LearnedInteractions
    """

    learned: "LearnedInteractions"

    @property
    def mixing(self) -> Array:
        """Weights (1, channels, subsets); the first columns are those of the sources themselves."""
        return self.learned.mixing[None]

    @cached_property
    def unmixing(self) -> Array:
        """Pseudo-inverse of the sources' own weights, (1, sources, channels)."""
        return np.asarray(np.linalg.pinv(self.learned.mixing[:, : self.n_sources])[None])

    @property
    def mean(self) -> Array:
        """What the channels are where all sources are zero, (channels,)."""
        return self.learned.offset

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return int(self.learned.sources.shape[1])

    def unmix(self, x: NDArray[Any], start: int = 0, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the sources of samples that follow each other, (samples, sources), of the type of x."""
        sources = self.learned.separate(x.astype(np.float64, copy=False))
        if out is None:
            return sources.astype(x.dtype, copy=False)
        out[:] = sources
        return out

    def mix(self, sources: NDArray[Any]) -> NDArray[Any]:
        """Return the channels that sources make up, (samples, channels), of the type of the sources."""
        return self.learned.mix(sources).astype(sources.dtype, copy=False)
