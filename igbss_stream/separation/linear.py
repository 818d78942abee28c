"""The linear stage: sources from samples and samples from sources, one sample at a time."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError
from igbss_stream.model.kernels import samples
from igbss_stream.model.poset import Poset

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearStage:
    """Sources = unmixing @ (x - mean), channels = mixing @ sources + mean.

    Parameters
    ----------
    mixing : ndarray of shape (periods, channels, sources)
        Sample m uses ``mixing[m % periods]``.
    unmixing : ndarray of shape (periods, sources, channels)
        A left inverse of it.
    mean : ndarray of shape (channels,), optional
        Zero when left out; for one period only.
    cut : ndarray of shape (sources,), optional
        See `Poset.cut`: a sum and a difference do instead of the matrix.
    """

    mixing: Array
    unmixing: Array
    mean: Array | None = None
    cut: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, poset: Poset) -> Self:
        """Return the stage of an incidence and its pseudo-inverse."""
        return cls(poset.incidence, poset.unmixing, None, poset.cut)

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return int(self.mixing.shape[2])

    def unmix(self, x: NDArray[Any], start: int = 0, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the sources of samples, the same to the bit however x is cut.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            C-ordered float32 or float64.
        start : int
            Index of the first sample, where the incidence has periods.
        out : ndarray of shape (samples, sources), optional
            Of the type of x; where they go.

        Returns
        -------
        ndarray of shape (samples, sources), of the type of x
        """
        out = np.empty((len(x), self.n_sources), x.dtype) if out is None else out
        if self.cut is not None:
            in_order = bool((self.cut == np.arange(len(self.cut))).all())
            samples.unmix_complement(x, self.cut, in_order, 1.0 / (len(self.cut) - 1), out)
            return out
        samples.unmix(x, *self._backward, start, out)
        return out

    def mix(self, sources: NDArray[Any]) -> NDArray[Any]:
        """Return the channels that sources make up.

        Parameters
        ----------
        sources : ndarray of shape (samples, sources)
            C-ordered float32 or float64.

        Returns
        -------
        ndarray of shape (samples, channels), of the type of the sources

        Raises
        ------
        InputError
            If the number of sources is another.
        """
        if sources.shape[1] != self.n_sources:
            raise InputError(f"expected {self.n_sources} sources, got {sources.shape[1]}.")
        out = np.empty((len(sources), self.mixing.shape[1]), sources.dtype)
        samples.unmix(sources, *self._forward, 0, out)
        return out

    @cached_property
    def _backward(self) -> tuple[Array, Array]:
        """Weights (periods, channels, sources) and offset of `unmix`."""
        offset = np.zeros(self.n_sources) if self.mean is None else -self.unmixing[0] @ self.mean
        return np.ascontiguousarray(self.unmixing.transpose(0, 2, 1)), offset

    @cached_property
    def _forward(self) -> tuple[Array, Array]:
        """Weights (periods, sources, channels) and offset of `mix`."""
        offset = np.zeros(self.mixing.shape[1]) if self.mean is None else self.mean
        return np.ascontiguousarray(self.mixing.transpose(0, 2, 1)), offset
