"""Separate samples or windows with a prepared `Separator`.

`igbss_stream.separation.plan` prepares it. `api` separates a whole array with it, the batch a recording,
the pipeline of the daemon a stream.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.blas_threads import limit_blas_threads
from igbss_stream.labels.labelling import Labelling
from igbss_stream.model.learning import Learning
from igbss_stream.model.poset import Poset
from igbss_stream.model.solve import solve
from igbss_stream.separation.cleaning import Cleaner, Cleaning
from igbss_stream.separation.e_projection import Projection, check_positive
from igbss_stream.separation.parameters import Start
from igbss_stream.separation.result import Separation
from igbss_stream.separation.settings import ModelSettings, make_start
from igbss_stream.separation.stages import LinearStage, Stage
from igbss_stream.separation.transform import Centred, Transform

Array = NDArray[np.float64]

CLOSED_FORM = "closed-form"
_ROWS_AT_ONCE = 1 << 14  # rows whose logarithms are computed at once: they fit into the cache


@dataclass(frozen=True, kw_only=True, eq=False)
class Separator:
    """Separates windows of one recording or stream by one structure and one state of the transform.

    Immutable: threads may share it.

    Parameters
    ----------
    settings : ModelSettings
    poset : Poset
        The sample space.
    stage : LinearStage or PolynomialStage
        Maps samples (transform "exp") or log v (other transforms) to sources.
    transform : Transform
        With its state.
    solver : str
        Name of the solver that is used.
    learning : Learning, optional
        How the structure was learned, and how reliable it is.
    cleaning : Cleaning, optional
        Which sources are removed from the channels, as requested.
    cleaner : Cleaner, optional
        Removes these sources.
    labels : Labelling, optional
        Labels of the sources, if they were labelled.
    """

    settings: ModelSettings
    poset: Poset
    stage: Stage
    transform: Transform
    solver: str
    learning: Learning | None = None
    cleaning: Cleaning | None = None
    cleaner: Cleaner | None = None
    labels: Labelling | None = None

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return self.poset.n_channels

    @property
    def fitted_transform(self) -> Transform:
        """The transform with the state that later samples of the stream share."""
        return self.transform.of if isinstance(self.transform, Centred) else self.transform

    @property
    def by_sample(self) -> bool:
        """Whether each sample is separated independently, and windows may be cut anywhere."""
        return self.solver == CLOSED_FORM

    def with_cleaner(self, cleaning: Cleaning | None, cleaner: Cleaner | None) -> "Separator":
        """Return the same separator with another choice of sources to remove from the channels."""
        return replace(self, cleaning=cleaning, cleaner=cleaner)

    def separate_samples(
        self, x: NDArray[Any], start: int = 0, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Return the sources of independent samples, by the closed form.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            C-ordered float32 or float64.
        start : int
            Index of the first sample in the recording, for messages.
        out : ndarray of shape (samples, sources), optional
            Output array, of the type of x.

        Returns
        -------
        ndarray of shape (samples, sources), of the type of x
        """
        if self.transform.linear:
            return self.stage.unmix(x, out=out)
        out = np.empty((len(x), self.stage.n_sources), x.dtype) if out is None else out
        for at in range(0, len(x), _ROWS_AT_ONCE):
            part = slice(at, at + _ROWS_AT_ONCE)
            log_values = self.transform.log(x[part])
            check_positive(log_values, "solver 'closed-form'", start + at)
            out[part] = self._unmix_log(log_values, self.stage)
        return out

    def separate_window(
        self, x: NDArray[Any], start: int = 0, init: Start | None = None, *, period: int | None = None
    ) -> Separation:
        """Return the separation of a window.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            C-ordered float32 or float64.
        start : int
            Index of its first sample in the recording.
        init : optional
            Start of the fit; that of the settings by default.
        period : int, optional
            Period of the incidence for the first sample; follows from `start` by default.
        """
        poset, stage = self._start_at_period(start if period is None else period)
        transform = self.transform
        projection = Projection(poset, transform, stage, x, start, self.settings.latent_mass)
        if self.by_sample or self.settings.has_products:
            sources = self.separate_samples(x, start)
            return Separation(
                sources, poset, transform, self.solver, stage, projection, learning=self.learning
            )
        shape_z, shape_a = (len(x), poset.n_sources), (poset.n_channels, poset.n_subsets)
        theta = make_start(init or self.settings.init, shape_z, shape_a, self.settings.random_state)
        tol, max_iter = self.settings.tol, self.settings.max_iter
        with limit_blas_threads():
            fit = solve(poset, projection.goal, *theta, solver=self.solver, tol=tol, max_iter=max_iter)
        sources = self._unmix_log(projection.get_fitted_log(fit), stage).astype(x.dtype, copy=False)
        return Separation(sources, poset, transform, self.solver, stage, projection, fit, self.learning)

    def clean_channels(
        self, x: NDArray[Any], sources: NDArray[Any], period: int = 0
    ) -> NDArray[Any] | None:
        """Return channels without the removed sources, see `Cleaner.clean`; None if none are removed."""
        return None if self.cleaner is None else self.cleaner.clean(x, sources, period)

    def has_log(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which samples have a logarithm in all channels, (samples,); all have one with "exp"."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.transform.has_log(x).all(axis=1))

    def estimate_log_sources(self, x: NDArray[Any]) -> Array:
        """Return log z by the left inverse, without a fit, (samples, sources)."""
        return LinearStage.from_poset(self.poset).unmix(np.ascontiguousarray(self.transform.log(x)))

    def mix_sources(self, sources: NDArray[Any]) -> NDArray[Any]:
        """Return the channels that result from sources: the forward model, without interactions.

        Parameters
        ----------
        sources : ndarray of shape (samples, sources)
            C-ordered float32 or float64.

        Returns
        -------
        ndarray of shape (samples, channels), of the type of the sources
        """
        if self.transform.linear:
            return self.stage.mix(sources)
        log_sources = sources if self.settings.is_learned else self.transform.log(sources)
        return self.transform.inverse(self.stage.mix(log_sources)).astype(sources.dtype, copy=False)

    def _unmix_log(self, log_values: Array, stage: Stage) -> Array:
        """Return the sources of log v; those of a learned structure stay on the log scale."""
        if self.transform.linear:
            return stage.unmix(self.transform.inverse(log_values))
        log_sources = stage.unmix(log_values)
        return log_sources if self.settings.is_learned else self.transform.inverse(log_sources)

    def _start_at_period(self, period: int) -> tuple[Poset, Stage]:
        """Return sample space and stage for samples that start at a period of the incidence."""
        poset = self.poset
        if period % poset.periods == 0:
            return poset, self.stage
        ahead = -(period % poset.periods)
        weights, inverse = (np.roll(matrix, ahead, axis=0) for matrix in (poset.incidence, poset.unmixing))
        turned = replace(poset, incidence=weights, left_inverse=inverse)
        return turned, LinearStage.from_poset(turned)
