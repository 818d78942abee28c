"""Fit a window by e-projection: compute p_hat, and the log-values of a fit."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.blas_threads import limit_blas_threads
from igbss_stream.errors import InputError
from igbss_stream.model.closed_form import compute_limit
from igbss_stream.model.loglinear import Target, make_target
from igbss_stream.model.poset import Poset
from igbss_stream.model.solve import Fit
from igbss_stream.separation.stages import LinearStage, PolynomialStage, Stage
from igbss_stream.separation.statistics import survey_array
from igbss_stream.separation.transform import Exp, Transform

Array = NDArray[np.float64]

# exp of a larger range overflows in p, or underflows where the model needs it
_LARGEST_RANGE = 600.0


class Projection:
    """The empirical distribution of a window, and the interpretation of fits to it.

    Parameters
    ----------
    poset : Poset
    transform : Transform
        With its state.
    stage : LinearStage or PolynomialStage
        Maps samples to sources.
    x : ndarray of shape (samples, channels)
    start : int
        Index of the first sample in the recording, for messages.
    latent_mass : float
    """

    def __init__(
        self,
        poset: Poset,
        transform: Transform,
        stage: Stage,
        x: NDArray[Any],
        start: int,
        latent_mass: float,
    ) -> None:
        self.poset, self.transform, self.stage, self.latent_mass = poset, transform, stage, latent_mass
        self.x, self.start = x, start

    @cached_property
    def log_values(self) -> Array:
        """Transformed samples, (samples, channels)."""
        return np.ascontiguousarray(self.transform.log(self.x))

    @cached_property
    def goal(self) -> Target:
        """The empirical distribution, p_hat.

        Raises
        ------
        InputError
            If the transformed samples have no mass or too much of it, or contain zeros, which
            latent_mass = 0 does not permit.
        """
        top = self.log_values.max()
        if np.isposinf(top):
            raise InputError(f"transform '{self.transform.name}' overflows. Give it a larger scale.")
        if np.isneginf(top):
            raise InputError(
                f"transform '{self.transform.name}' leaves no mass: all samples are zero. "
                "Check the recording."
            )
        finite = self.log_values[np.isfinite(self.log_values)]
        if top - finite.min() > _LARGEST_RANGE:
            sample, channel = np.unravel_index(np.argmax(np.abs(self.log_values)), self.log_values.shape)
            furthest = f"{self.x[sample, channel]:g} (sample {self.start + sample}, channel {channel})"
            raise InputError(
                f"transform '{self.transform.name}' spans exp({top - finite.min():.3g}), more than float64 "
                f"can represent; the most extreme value is {furthest}. Give a larger scale, cut out the "
                "outlier, or use transform 'min-max'."
            )
        if self.latent_mass == 0:
            check_positive(self.log_values, "latent_mass = 0", self.start)
        return make_target(self.poset, np.exp(self.log_values - top), self.latent_mass)

    def get_fitted_log(self, fit: Fit) -> Array:
        """Return log v of a fit: log p of the received layer, at the level of the samples.

        Sources unmixed from it are log p(z) up to a constant per source, which the scale of the transform
        fixes: a perfect fit gives the result of the closed form.
        """
        share = np.log(np.exp(self.log_values - self.log_values.max()).sum()) + self.log_values.max()
        return np.asarray(np.log(fit.p.p_x) + (share - np.log1p(-self.latent_mass)))

    def compute_limit(self, sources: NDArray[Any]) -> Fit:
        """Return the limit of the fits, for sources that were found without one.

        Parameters
        ----------
        sources : ndarray of shape (samples, sources)
            As they were returned.
        """
        if isinstance(self.transform, Exp) and self.transform.scale is None:
            names = [str(i) for i in range(self.x.shape[1])]
            self.transform = self.transform.fit(survey_array(self.x, names, keep_rows=True))
        log_channels = None
        if isinstance(self.stage, PolynomialStage):
            log_sources = sources.astype(np.float64)
            log_channels = self.transform.log(self.stage.mix(log_sources))
        else:
            log_sources = LinearStage.from_poset(self.poset).unmix(self.log_values)
        with limit_blas_threads():
            return compute_limit(self.poset, self.goal, log_sources, log_channels)


def check_positive(log_values: Array, what: str, start: int) -> None:
    """Refuse transformed samples that are zero.

    Parameters
    ----------
    log_values : ndarray of shape (samples, channels)
    what : str
        The setting that does not permit zeros, for the message.
    start : int
        Index of the first sample.

    Raises
    ------
    InputError
        With the position of the first zero.
    """
    if log_values.size and np.isneginf(log_values.min()):
        sample, channel = np.argwhere(np.isneginf(log_values))[0]
        raise InputError(
            f"{what} needs values above zero. Got 0 at sample {start + sample}, channel {channel}; "
            "use transform 'exp' or 'min-max', or latent_mass = 1e-3."
        )
