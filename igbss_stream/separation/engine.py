"""From samples to sources, piece by piece: prepared once, a `Separator` takes window after window.

Prepared are structure, solver and the state of the transform. `one_call` separates a whole array by it,
`batch` a recording, `pipeline` a stream.
"""

import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import IgbssWarning, InputError, ParameterError
from igbss_stream.model.poset import Poset, make_incidence
from igbss_stream.model.solve import solve
from igbss_stream.separation.cleaning import Cleaner, Cleaning
from igbss_stream.separation.e_projection import Projection, check_positive
from igbss_stream.separation.linear import LinearStage
from igbss_stream.separation.polynomial import PolynomialStage
from igbss_stream.separation.result import Separation
from igbss_stream.separation.settings import ModelSettings, Start, start_from
from igbss_stream.separation.statistics import Survey
from igbss_stream.separation.transform import Centred, Transform, as_transform

Array = NDArray[np.float64]
Stage = LinearStage | PolynomialStage

_ROWS_AT_ONCE = 1 << 14  # rows whose logarithms are held at a time: they stay in cache


class Separator:
    """Separates windows of one recording or stream by one structure and one state of the transform.

    Parameters
    ----------
    settings : ModelSettings
    n_channels : int
    previous : LinearStage, optional
        Of an earlier learned structure, which a new one starts from; order, signs and scale are kept.
    cleaning : Cleaning, optional
        Which sources are taken out of the channels, for `cleaned`.

    Attributes
    ----------
    cleaner : Cleaner or None
        What takes them out, once it is known which they are.
    losses : tuple of float
        Negative log-likelihood a sample, before each step in which a structure was learned.

    Raises
    ------
    ParameterError
        If the settings do not fit the number of channels.
    """

    def __init__(
        self,
        settings: ModelSettings,
        n_channels: int,
        previous: Stage | None = None,
        cleaning: Cleaning | None = None,
    ) -> None:
        if n_channels < 2:
            raise InputError(f"separation needs at least 2 channels. Got {n_channels} instead.")
        if previous is not None:
            _check_previous(previous, settings, n_channels)
        self.settings = settings
        self.n_channels = n_channels
        self.transform = as_transform(settings.transform)
        self._previous = previous
        self._model: tuple[Poset, Stage] | None = None
        self.losses: tuple[float, ...] = ()
        if settings.is_learned:
            self.solver = _of_learned(settings)
        else:
            weights = make_incidence(
                settings.structure, n_channels, settings.n_sources, settings.random_state
            )
            poset = Poset(weights, settings.order, settings.closure)
            self._model = poset, LinearStage.of(poset)
            self.solver = _resolve(settings, poset)
            _warn_of_equal_channels(poset)
        self.cleaning = cleaning
        self.cleaner: Cleaner | None = None
        self._finds = cleaning is not None and cleaning.finds
        if cleaning is not None:
            cleaning.check(self.transform, products=settings.has_products)
            if not self.needs_survey:
                self.cleaner = cleaning.cleaner(self.stage)

    @classmethod
    def known(
        cls, settings: ModelSettings, poset: Poset, stage: LinearStage, transform: Transform
    ) -> "Separator":
        """Return a separator that needs no samples: its structure and its transform are known."""
        separator = cls(settings, poset.n_channels)
        separator._model = poset, stage
        separator.transform = transform
        return separator

    @property
    def poset(self) -> Poset:
        """The sample space; a learned one is there once `prepare` has seen the samples."""
        return self._known[0]

    @property
    def stage(self) -> Stage:
        """From samples (transform "exp") or log v (others) to sources."""
        return self._known[1]

    @property
    def _known(self) -> tuple[Poset, Stage]:
        if self._model is None:
            raise RuntimeError("the structure is not learned yet: prepare the separator first")
        return self._model

    @property
    def state(self) -> Transform:
        """The transform with the state that later samples of the stream share."""
        return self.transform.of if isinstance(self.transform, Centred) else self.transform

    @property
    def by_sample(self) -> bool:
        """Whether each sample is separated on its own, so that windows may be cut anywhere."""
        return self.solver == "closed-form"

    @property
    def needs_survey(self) -> bool:
        """Whether `prepare` has to see all samples before the first is separated."""
        return self.settings.is_learned or self._finds or not (self.by_sample and self.transform.linear)

    def new_survey(
        self,
        names: Sequence[str],
        dtype: np.dtype[Any],
        n_samples: int,
        pool: Executor | None = None,
        breaks: Sequence[int] = (),
    ) -> Survey:
        """Return an empty survey that gathers what `prepare` needs; see `Survey` for the parameters."""
        return Survey(
            names,
            dtype,
            n_samples,
            keep_rows=self.needs_survey and self.transform.linear,
            covariance=self._finds or self.settings.is_learned or self.settings.n_sources is not None,
            keep_excerpt=self.settings.is_learned,
            breaks=breaks,
            pool=pool,
        )

    def prepare(self, survey: Survey, *, remedy: str = "") -> None:
        """Refuse samples that cannot be separated; take the state of the transform from the others.

        Raises
        ------
        InputError
            See `Survey.check`; also if n_sources was asked for and exceeds the rank of the samples.

        Warns
        -----
        IgbssWarning
            If a learned structure has fewer sources than channels because the rank is lower.
        """
        survey.check(remedy=remedy)
        wanted = self.settings.n_sources
        if wanted is not None and wanted > survey.rank:
            raise InputError(
                f"n_sources = {wanted} exceeds the rank of the samples, {survey.rank} (of "
                f"{self.n_channels} channels, as after average reference or ICA cleaning). Ask for at most "
                f"{survey.rank}."
            )
        if self.needs_survey:
            self.transform = self.transform.fit(survey)
        if self.settings.is_learned:
            from igbss_stream.separation.structure_fit import (
                learned_structure,  # its kernels are for this alone
            )

            prepared = learned_structure(survey, self.settings, self.transform, self._previous)
            self.transform, self._model = prepared.transform, (prepared.poset, prepared.stage)
            self.losses = prepared.losses
        if self.cleaning is not None:
            self.cleaner = self.cleaning.cleaner(self.stage, survey)

    def separate(self, x: NDArray[Any], names: Sequence[str]) -> Separation:
        """Survey a whole recording, prepare for it, and return its separation as one window."""
        survey = self.new_survey(names, x.dtype, len(x))
        survey.update(x)
        self.prepare(survey)
        return self.window(x)

    def sources(self, x: NDArray[Any], start: int = 0, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the sources of samples that stand alone, by the closed form.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            C-ordered float32 or float64.
        start : int
            Index of the first sample in the recording, for messages.
        out : ndarray of shape (samples, sources), optional
            Of the type of x; where they go.

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
            out[part] = self._delivered(log_values, self.stage)
        return out

    def cleaned(self, x: NDArray[Any], sources: NDArray[Any], period: int = 0) -> NDArray[Any] | None:
        """Return channels without the sources that are taken out, as `Cleaner.clean`; None without one."""
        return None if self.cleaner is None else self.cleaner.clean(x, sources, period)

    def has_log(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which samples have a logarithm in all channels, (samples,); for transforms but "exp"."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.isfinite(self.transform.log(x)).all(axis=1))

    def log_least_squares(self, x: NDArray[Any]) -> Array:
        """Return log z by the left inverse, without a fit, (samples, sources)."""
        return LinearStage.of(self.poset).unmix(np.ascontiguousarray(self.transform.log(x)))

    def channels(self, sources: NDArray[Any]) -> NDArray[Any]:
        """Return the channels that sources make up: the forward model, without interactions.

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

    def _delivered(self, log_values: Array, stage: Stage) -> Array:
        """Return the sources of log v; those of a learned structure have a scale of their own."""
        if self.transform.linear:
            return stage.unmix(self.transform.inverse(log_values))
        log_sources = stage.unmix(log_values)
        return log_sources if self.settings.is_learned else self.transform.inverse(log_sources)

    def window(
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
            Start of the fit, instead of the settings'.
        period : int, optional
            Which period of the incidence the first sample is in; that of `start` when left out.
        """
        poset, stage = self._from_period(start if period is None else period)
        transform = self.transform
        projection = Projection(poset, transform, stage, x, start, self.settings.latent_mass)
        if self.by_sample or self.settings.has_products:
            sources = self.sources(x, start)
            return Separation(sources, poset, transform, self.solver, stage, projection)
        shape_z, shape_a = (len(x), poset.n_sources), (poset.n_channels, poset.n_subsets)
        fit = solve(
            poset,
            projection.goal,
            *start_from(init or self.settings.init, shape_z, shape_a, self.settings.random_state),
            solver=self.solver,
            tol=self.settings.tol,
            max_iter=self.settings.max_iter,
        )
        sources = self._delivered(projection.fitted(fit), stage).astype(x.dtype, copy=False)
        return Separation(sources, poset, transform, self.solver, stage, projection, fit)

    def _from_period(self, period: int) -> tuple[Poset, Stage]:
        """Return sample space and stage for samples that begin within the periods of the incidence."""
        poset = self.poset
        if period % poset.periods == 0:
            return poset, self.stage
        ahead = -(period % poset.periods)
        weights, inverse = (np.roll(matrix, ahead, axis=0) for matrix in (poset.incidence, poset.unmixing))
        turned = replace(poset, incidence=weights, left_inverse=inverse)
        return turned, LinearStage.of(turned)


def _check_previous(previous: Stage, settings: ModelSettings, n_channels: int) -> None:
    if not settings.is_learned:
        raise ParameterError("previous goes with structure 'learned' alone.")
    if settings.has_products:
        raise ParameterError("previous goes with order = 1 alone: products are learned anew.")
    before = previous.mixing.shape[1]
    if before != n_channels:
        raise InputError(f"previous was learned from {before} channels. Got {n_channels} channels instead.")


def _warn_of_equal_channels(poset: Poset) -> None:
    groups = "; ".join(", ".join(map(str, group)) for group in poset.equal_channels)
    if groups:
        warnings.warn(
            f"the structure cannot tell channels apart: rows {groups} are equal, so the model gives "
            "these channels one signal. More sources, or a structure of your own, avoid it.",
            IgbssWarning,
            stacklevel=4,
        )


def _of_learned(settings: ModelSettings) -> str:
    if settings.has_products:
        return "inversion"
    if settings.solver != "auto":
        return settings.solver
    return "joint" if settings.latent_mass > 0 else "closed-form"


def _resolve(settings: ModelSettings, poset: Poset) -> str:
    if settings.solver == "closed-form" and poset.n_channels != poset.n_sources:
        raise ParameterError(
            f"solver 'closed-form' needs as many sources as channels, {poset.n_channels}. "
            f"Got n_sources = {poset.n_sources} instead; use solver 'joint'."
        )
    if settings.solver == "closed-form" and not poset.has_closed_form:
        raise ParameterError("solver 'closed-form' is not exact for this structure; use solver 'joint'.")
    if settings.solver != "auto":
        return settings.solver
    return "closed-form" if settings.latent_mass == 0 and poset.has_closed_form else "joint"
