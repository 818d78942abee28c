"""The channels of an output, made of what it holds: the input itself is not needed.

What sources add to the channels is what the mixing makes of them. Where cleaned channels are kept, the
channels are these and what the excluded sources add, to rounding. Elsewhere they are what all sources add,
and the mean: the channels themselves if there are as many sources, else as the model has them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import RecordingError
from igbss_stream.model.poset import list_subsets
from igbss_stream.pages.report.blocks import Piece
from igbss_stream.pages.report.contents import Contents

Array = NDArray[np.float64]


class Rebuilt:
    """Makes channels of sources.

    Parameters
    ----------
    contents : Contents

    Attributes
    ----------
    exact : bool
        Whether the channels are those that were separated, to rounding.
    """

    def __init__(self, contents: Contents) -> None:
        model = contents.model
        n_sources = contents.sources.n_channels
        self._mixing = model.mixing if model.mixing.ndim == 3 else model.mixing[None]
        self._excluded = contents.excluded_sources
        self._cleaned = contents.cleaned is not None
        self._mean = np.zeros(len(model.channels)) if model.mean is None else model.mean
        n_terms = self._mixing.shape[2]
        self._terms = None if n_terms == n_sources else _terms(n_sources, n_terms, model.settings)
        whole = n_sources >= len(model.channels) and self._terms is None
        self.exact = self._cleaned or (whole and contents.facts.solver == "closed-form")

    @staticmethod
    def is_possible(contents: Contents) -> bool:
        """Return whether sources add up to the channels; with other transforms logarithms do."""
        return str(contents.model.transform.get("name")) == "exp"

    def before(self, piece: Piece) -> Array:
        """Return the channels before cleaning, (samples, channels)."""
        if piece.cleaned is not None:
            return piece.cleaned.astype(np.float64) + self.removed(piece.sources, piece.index)
        return self._added(piece.sources.astype(np.float64), piece.index) + self._mean

    def removed(self, sources: NDArray[np.floating], index: int) -> Array:
        """Return what cleaning takes off the channels, (samples, channels).

        Parameters
        ----------
        sources : ndarray of shape (samples, sources)
        index : int
            Of the first sample, where missing ones count.
        """
        whole = sources.astype(np.float64)
        excluded = list(self._excluded)
        if self._terms is None:
            return self._mixed(whole[:, excluded], index, excluded)
        without = whole.copy()
        without[:, excluded] = 0.0
        return self._added(whole, index) - self._added(without, index)

    def _added(self, sources: Array, index: int) -> Array:
        terms = sources
        if self._terms is not None:
            terms = np.column_stack([np.prod(sources[:, term], axis=1) for term in self._terms])
        return self._mixed(terms, index, slice(None))

    def _mixed(self, terms: Array, index: int, columns: slice | Sequence[int]) -> Array:
        periods = len(self._mixing)
        out = np.empty((len(terms), self._mixing.shape[1]))
        for phase in range(min(periods, len(terms))):
            out[phase::periods] = (
                terms[phase::periods] @ self._mixing[(index + phase) % periods][:, columns].T
            )
        return out


def _terms(n_sources: int, n_terms: int, settings: dict[str, object]) -> list[list[int]]:
    order = settings.get("order", 2)
    found = [list(term) for term in list_subsets(n_sources, int(str(order)))]
    if len(found) != n_terms:
        raise RecordingError(
            f"/mixing has {n_terms} columns, which are not those of {n_sources} sources and order {order}: "
            "separate again"
        )
    return found
