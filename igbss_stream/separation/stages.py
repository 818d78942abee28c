"""Map samples to sources and back, one stage of the separation: `LinearStage` or `PolynomialStage`."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError
from igbss_stream.model.kernels import samples
from igbss_stream.model.poset import Poset

if TYPE_CHECKING:
    from igbss_stream.model.interactions.learn import LearnedInteractions

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearStage:
    """Sources = unmixing @ (x - mean), channels = mixing @ sources + mean.

    Parameters
    ----------
    mixing : ndarray of shape (periods, channels, sources)
        Sample m uses ``mixing[m % periods]``.
    unmixing : ndarray of shape (periods, sources, channels)
        A left inverse of `mixing`.
    mean : ndarray of shape (channels,), optional
        Zero by default. Requires a single period.
    cut : ndarray of shape (sources,), optional
        See `Poset.cut`: a sum and a difference replace the matrix product.
    """

    mixing: Array
    unmixing: Array
    mean: Array | None = None
    cut: NDArray[np.int64] | None = None

    @classmethod
    def from_poset(cls, poset: Poset) -> Self:
        """Return the stage of an incidence and its pseudo-inverse."""
        return cls(poset.incidence, poset.unmixing, None, poset.cut)

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return int(self.mixing.shape[2])

    def unmix(self, x: NDArray[Any], start: int = 0, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the sources of samples.

        The result is the same to the bit however the samples are cut into calls.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            float32 or float64; copied unless C-ordered.
        start : int
            Index of the first sample; selects the period of the incidence.
        out : ndarray of shape (samples, sources), optional
            Output array, of the type of x.

        Returns
        -------
        ndarray of shape (samples, sources), of the type of x
        """
        x = np.ascontiguousarray(x)
        out = np.empty((len(x), self.n_sources), x.dtype) if out is None else out
        if self.cut is not None:
            samples.unmix_complement(x, self.cut, self._is_in_order, 1.0 / (len(self.cut) - 1), out)
            return out
        samples.unmix(x, *self._backward, start, out)
        return out

    def mix(self, sources: NDArray[Any]) -> NDArray[Any]:
        """Return the channels that result from sources.

        Parameters
        ----------
        sources : ndarray of shape (samples, sources)
            float32 or float64; copied unless C-ordered.

        Returns
        -------
        ndarray of shape (samples, channels), of the type of the sources

        Raises
        ------
        InputError
            If the number of sources differs from that of the stage.
        """
        if sources.shape[1] != self.n_sources:
            raise InputError(
                f"sources must have {self.n_sources} columns, one a source. Got {sources.shape[1]} instead."
            )
        out = np.empty((len(sources), self.mixing.shape[1]), sources.dtype)
        samples.unmix(np.ascontiguousarray(sources), *self._forward, 0, out)
        return out

    @cached_property
    def _is_in_order(self) -> bool:
        """Whether source n is the mean without channel n, for all n."""
        return self.cut is not None and bool((self.cut == np.arange(len(self.cut))).all())

    @cached_property
    def _backward(self) -> tuple[Array, Array]:
        """Weights (periods, channels, sources) and offset of `unmix`."""
        offset = np.zeros(self.n_sources) if self.mean is None else -self.unmixing[0] @ self.mean
        return np.ascontiguousarray(self.unmixing.transpose(0, 2, 1)), offset

    @cached_property
    def _forward(self) -> tuple[Array, Array]:
        """Weights (periods, sources, channels) and offset of `mix`."""
        offset = np.zeros(self.mixing.shape[1]) if self.mean is None else np.ascontiguousarray(self.mean)
        return np.ascontiguousarray(self.mixing.transpose(0, 2, 1)), offset


@dataclass(frozen=True, eq=False)
class PolynomialStage:
    """Channels = mean + mixing @ products of sources, with the interface of `LinearStage`.

    Parameters
    ----------
    learned : LearnedInteractions
    """

    learned: "LearnedInteractions"

    @property
    def mixing(self) -> Array:
        """Weights (1, channels, subsets); the first columns are those of the single sources."""
        return self.learned.mixing[None]

    @cached_property
    def unmixing(self) -> Array:
        """Pseudo-inverse of the weights of the single sources, (1, sources, channels)."""
        return np.asarray(np.linalg.pinv(self.learned.mixing[:, : self.n_sources])[None])

    @property
    def mean(self) -> Array:
        """Values of the channels where all sources are zero, (channels,)."""
        return self.learned.offset

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return int(self.learned.sources.shape[1])

    def unmix(self, x: NDArray[Any], start: int = 0, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the sources of consecutive samples, (samples, sources), of the type of x."""
        sources = self.learned.separate(x.astype(np.float64, copy=False))
        if out is None:
            return sources.astype(x.dtype, copy=False)
        out[:] = sources
        return out

    def mix(self, sources: NDArray[Any]) -> NDArray[Any]:
        """Return the channels that result from sources, (samples, channels), of the type of the sources."""
        return self.learned.mix(sources).astype(sources.dtype, copy=False)


Stage = LinearStage | PolynomialStage
