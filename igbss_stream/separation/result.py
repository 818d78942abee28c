"""Result of a separation: the sources and their model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError
from igbss_stream.labels.labelling import Labelling, label_sources
from igbss_stream.model.learning import Learning
from igbss_stream.model.poset import Poset
from igbss_stream.model.solve import Fit
from igbss_stream.separation.e_projection import Projection
from igbss_stream.separation.stages import LinearStage, Stage
from igbss_stream.separation.transform import Transform

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Separation:
    """Sources of a window, and their model.

    The closed form needs no fit. The attributes of `fit` (theta, p, eta, kl) are then computed on first
    access, as the limit of the fits (see `igbss_stream.model.solve.limit`).

    Parameters
    ----------
    sources : ndarray of shape (samples, sources)
        In the unit of the input; for a learned structure, see the parameter `scaling`.
    poset : Poset
        Sample space with the incidence.
    transform : Transform
        Converted samples to probabilities; with its state.
    solver : str
        Name of the solver that was used.
    stage : LinearStage or PolynomialStage
        Maps samples to sources, by `mixing`, `unmixing` and `mean`.
    learning : Learning, optional
        How the structure was learned; None unless it was.
    """

    sources: NDArray[Any]
    poset: Poset
    transform: Transform
    solver: str
    stage: Stage
    _projection: Projection
    _fit: Fit | None = None
    learning: Learning | None = None

    @property
    def mixing(self) -> Array:
        """Weights (channels, sources), with a leading axis if they change from sample to sample.

        With transform "exp" the channels are ``sources @ mixing.T``, plus `mean` if there is one. If
        products are learned, there is a column for each set of sources, (channels, subsets); those of
        single sources come first.
        """
        weights = self.stage.mixing
        return weights[0] if len(weights) == 1 else weights

    @property
    def unmixing(self) -> Array:
        """Left inverse of `mixing`, (sources, channels)."""
        inverse = self.stage.unmixing
        return inverse[0] if len(inverse) == 1 else inverse

    @property
    def mean(self) -> Array | None:
        """Subtracted from the channels before unmixing, (channels,); None unless learned."""
        return self.stage.mean

    @property
    def view(self) -> float | None:
        """Ridge of the view that the structure was learned from; None unless learned."""
        return None if self.learning is None else self.learning.view

    @property
    def reliability(self) -> Array | None:
        """Predicted ratio of each source to the interference of all others, in dB; None unless learned."""
        return None if self.learning is None else self.learning.reliability

    def label_sources(
        self, channels: Sequence[str], rate: float, positions: Mapping[int, Array] | None = None
    ) -> Labelling:
        """Label the sources as eye blink, eye movement, heart, muscle, line noise, channel noise or brain.

        Parameters
        ----------
        channels : sequence of str
            Names of the channels.
        rate : float
            In Hz.
        positions : mapping of int to ndarray of shape (3,), optional
            See `igbss_stream.label_sources`.

        Returns
        -------
        Labelling

        Raises
        ------
        ParameterError
            If the sources are not a linear map of the channels, or there are too few samples.
        """
        has_one_map = isinstance(self.stage, LinearStage) and len(self.stage.mixing) == 1
        if not (has_one_map and self.transform.linear):
            raise ParameterError(
                "labels need transform 'exp', and a structure without products that is the same for all "
                "samples."
            )
        return label_sources(self.sources, self.stage.mixing[0], channels, rate, positions=positions)

    @cached_property
    def fit(self) -> Fit:
        """The fit: theta, p, eta, KL per iteration, and why it stopped."""
        return self._fit or self._projection.compute_limit(self.sources)

    @property
    def theta_z(self) -> Array:
        """Natural parameters of the source layer, (samples, sources)."""
        return self.fit.theta_z

    @property
    def theta_a(self) -> Array:
        """Natural parameters of the mixing layer, (channels, subsets)."""
        return self.fit.theta_a

    @property
    def p_z(self) -> Array:
        """Probability of the source states, (samples, sources)."""
        return self.fit.p.p_z

    @property
    def p_x(self) -> Array:
        """Probability of the received states, (samples, channels); also their expectation parameters."""
        return self.fit.p.p_x

    @property
    def p_a(self) -> Array:
        """Probability of the mixing states, (channels, subsets)."""
        return self.fit.p.p_a

    @property
    def eta_z(self) -> Array:
        """Expectation parameters of the source layer, (samples, sources)."""
        return self.fit.eta_z

    @property
    def eta_a(self) -> Array:
        """Expectation parameters of the mixing layer, (channels, subsets)."""
        return self.fit.eta_a

    @property
    def kl(self) -> Array:
        """KL(p_hat || p) at the start and after each iteration, in nats; never rises."""
        return self.fit.kl

    @property
    def n_iter(self) -> int:
        """Number of iterations; 1 for the closed form."""
        return self.fit.n_iter if self._fit else 1

    @property
    def converged(self) -> bool:
        """Whether the largest relative gradient is within the tolerance."""
        return self._fit.converged if self._fit else True

    @property
    def reason(self) -> str:
        """Why the solver stopped."""
        return self.fit.reason
