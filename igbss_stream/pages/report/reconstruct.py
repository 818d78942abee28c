"""Reconstruct channels from the sources in an output, without reading the input.

If the output contains cleaned channels, the channels are the cleaned channels plus the contribution of the
excluded sources, up to rounding. Otherwise they are the mixed sources plus the mean: exact if there are as
many sources as channels, else as modelled by the sources.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import RecordingError
from igbss_stream.model.poset import list_subsets
from igbss_stream.pages.report.blocks import SampleBlock
from igbss_stream.pages.report.data import ReportData

Array = NDArray[np.float64]


class ChannelReconstructor:
    """Compute channels from sources.

    Parameters
    ----------
    data : ReportData

    Attributes
    ----------
    exact : bool
        Whether the channels are those that were separated, up to rounding.
    """

    def __init__(self, data: ReportData) -> None:
        model = data.model
        n_sources = data.sources.n_channels
        self._mixing = model.mixing if model.mixing.ndim == 3 else model.mixing[None]
        self._excluded = data.excluded_sources
        self._cleaned = data.cleaned is not None
        self._mean = np.zeros(len(model.channels)) if model.mean is None else model.mean
        n_terms = self._mixing.shape[2]
        self._terms = None if n_terms == n_sources else _list_terms(n_sources, n_terms, model.settings)
        complete = n_sources >= len(model.channels) and self._terms is None
        self.exact = self._cleaned or (complete and data.facts.solver == "closed-form")

    @staticmethod
    def is_possible(data: ReportData) -> bool:
        """Check that sources add up to channels; with other transforms, only their logarithms do."""
        return str(data.model.transform.get("name")) == "exp"

    def compute_before(self, block: SampleBlock) -> Array:
        """Return the channels before cleaning, (samples, channels)."""
        if block.cleaned is not None:
            return block.cleaned.astype(np.float64) + self.compute_removed(block.sources, block.index)
        return self._mix_sources(block.sources.astype(np.float64), block.index) + self._mean

    def compute_removed(self, sources: NDArray[np.floating], index: int) -> Array:
        """Return the signal removed by cleaning, (samples, channels).

        Parameters
        ----------
        sources : ndarray of shape (samples, sources)
        index : int
            Index of the first sample, where missing samples count.
        """
        samples = sources.astype(np.float64)
        excluded = list(self._excluded)
        if self._terms is None:
            return self._mix_terms(samples[:, excluded], index, excluded)
        without = samples.copy()
        without[:, excluded] = 0.0
        return self._mix_sources(samples, index) - self._mix_sources(without, index)

    def _mix_sources(self, sources: Array, index: int) -> Array:
        terms = sources
        if self._terms is not None:
            terms = np.column_stack([np.prod(sources[:, term], axis=1) for term in self._terms])
        return self._mix_terms(terms, index, slice(None))

    def _mix_terms(self, terms: Array, index: int, columns: slice | Sequence[int]) -> Array:
        n_periods = len(self._mixing)
        out = np.empty((len(terms), self._mixing.shape[1]))
        for phase in range(min(n_periods, len(terms))):
            out[phase::n_periods] = (
                terms[phase::n_periods] @ self._mixing[(index + phase) % n_periods][:, columns].T
            )
        return out


def _list_terms(n_sources: int, n_terms: int, settings: dict[str, object]) -> list[list[int]]:
    order = settings.get("order", 2)
    found = [list(term) for term in list_subsets(n_sources, int(str(order)))]
    if len(found) != n_terms:
        raise RecordingError(
            f"/mixing has {n_terms} columns, which does not match {n_sources} sources of order {order}; "
            "separate again"
        )
    return found
