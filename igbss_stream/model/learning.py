"""How a structure was learned: the view, the evidence for it, and the reliability of the sources.

Outputs and states store it. Unlike `igbss_stream.model.structure`, this module loads no kernels.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Learning:
    """How a structure was learned, and how reliable it is.

    Parameters
    ----------
    losses : tuple of float
        Negative log-likelihood per sample, up to a constant of the data, before each step of the selected
        descent.
    view : float
        Ridge of the view that the structure was learned from; 0 for innovations.
    contradictions : dict of float to float
        The largest contradiction of each view that was tried below the most robust one, see
        `igbss_stream.model.selection`.
    reliability : ndarray of shape (sources,)
        Predicted ratio of each source to the interference of all others, in dB.
    drift_removed : bool
        Whether slow drift was removed from the copy of the channels that the structure was learned from.
    """

    losses: tuple[float, ...]
    view: float
    contradictions: dict[float, float]
    reliability: Array
    drift_removed: bool

    def __str__(self) -> str:
        """State the view, the evidence for it, and the range of the reliability."""
        low, high = float(self.reliability.min()), float(self.reliability.max())
        return f"{self.describe_view()}; reliability {low:.0f} to {high:.0f} dB"

    def describe_view(self) -> str:
        """State the view, the view that was contradicted, and whether drift was removed."""
        contradicted = [
            f" ({name_view(view)} contradicted, {value:.1f})"
            for view, value in self.contradictions.items()
            if view < self.view
        ]
        drift = ", without drift" if self.drift_removed else ""
        return f"{name_view(self.view)}{''.join(contradicted[:1])}{drift}"


def name_view(view: float) -> str:
    """Return the name of a view from its ridge."""
    return "innovations" if view == 0.0 else f"view {view:g}"
