"""Plan a separation before its samples are known, and prepare the `Separator` once they are."""

import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.blas_threads import limit_blas_threads
from igbss_stream.errors import IgbssWarning, InputError, ParameterError
from igbss_stream.labels.labelling import Labelling
from igbss_stream.model.learning import Learning
from igbss_stream.model.poset import Poset, check_source_count, make_incidence
from igbss_stream.separation.cleaning import Cleaning
from igbss_stream.separation.engine import CLOSED_FORM, Separator
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.source_labels import LabelContext, label_survey
from igbss_stream.separation.stages import LinearStage, Stage
from igbss_stream.separation.statistics import Survey
from igbss_stream.separation.transform import Transform, as_transform


@dataclass(frozen=True, eq=False)
class SeparationPlan:
    """How the channels of one recording or stream will be separated.

    A plan checks the settings against the number of channels. `make_survey` gathers the statistics of the
    samples that the settings require, and `prepare` returns the `Separator`::

        plan = SeparationPlan(settings, n_channels)
        survey = plan.make_survey(names, x.dtype, len(x))
        survey.update(x)
        separator = plan.prepare(survey)

    Parameters
    ----------
    settings : ModelSettings
    n_channels : int
    previous : LinearStage, optional
        An earlier learned structure. A new one starts from it and keeps its order, signs and scale.
    cleaning : Cleaning, optional
        Which sources are removed from the channels.
    labelling : LabelContext, optional
        What labels of the sources need; sources are labelled if it is given. Required if the cleaning finds
        sources by labels.

    Raises
    ------
    ParameterError
        If the settings do not fit the number of channels.
    InputError
        If there are fewer than two channels.
    """

    settings: ModelSettings
    n_channels: int
    previous: Stage | None = None
    cleaning: Cleaning | None = None
    labelling: LabelContext | None = None

    def __post_init__(self) -> None:
        if self.n_channels < 2:
            raise InputError(f"separation needs at least 2 channels. Got {self.n_channels} instead.")
        if self.previous is not None:
            _check_previous(self.previous, self.settings, self.n_channels)
        if self.settings.is_learned and self.settings.n_sources is not None:
            check_source_count(self.settings.n_sources, self.n_channels)
        _ = self.solver  # raises an error if it does not fit
        if not self.settings.is_learned:
            _warn_about_equal_channels(self._given[0])
        if self.cleaning is not None:
            self.cleaning.check(self._transform, products=self.settings.has_products)
            if not self.needs_survey:
                self.cleaning.make_cleaner(self._given[1])

    @cached_property
    def solver(self) -> str:
        """Name of the solver; "auto" is resolved."""
        if self.settings.is_learned:
            return _choose_solver_of_learned(self.settings)
        return _choose_solver(self.settings, self._given[0])

    @property
    def by_sample(self) -> bool:
        """Whether each sample is separated independently of all others."""
        return self.solver == CLOSED_FORM

    @property
    def has_one_matrix(self) -> bool:
        """Whether the structure is the same for all samples."""
        return self.settings.is_learned or self._given[0].periods == 1

    @property
    def needs_survey(self) -> bool:
        """Whether the separator depends on statistics of the samples."""
        return (
            self.settings.is_learned
            or (self.cleaning is not None and self.cleaning.needs_survey)
            or not (self.by_sample and self._transform.linear)
        )

    def make_survey(
        self,
        names: Sequence[str],
        dtype: np.dtype[Any],
        n_samples: int,
        pool: Executor | None = None,
        breaks: Sequence[int] = (),
        excluded: Sequence[tuple[int, int]] = (),
    ) -> Survey:
        """Return an empty survey that gathers what `prepare` requires; see `Survey` for the parameters."""
        keep_excerpt = self.settings.is_learned or self.labelling is not None
        needs_rank = self.settings.n_sources is not None
        return Survey(
            names,
            dtype,
            n_samples,
            keep_rows=self.needs_survey and self._transform.linear,
            covariance=self._compares_channels or (needs_rank and not keep_excerpt),
            enough_rank=None if self._compares_channels else self.settings.n_sources,
            keep_excerpt=keep_excerpt,
            breaks=breaks,
            excluded=excluded,
            pool=pool,
        )

    def prepare(self, survey: Survey | None = None, *, remedy: str = "") -> Separator:
        """Check the samples and return the separator for them.

        Parameters
        ----------
        survey : Survey, optional
            The statistics of all samples. May be omitted unless `needs_survey`; the samples are then not
            checked.
        remedy : str
            What the caller offers against flat channels, for the message; see `Survey.check`.

        Returns
        -------
        Separator

        Raises
        ------
        InputError
            If the samples cannot be separated, see `Survey.check`, or n_sources exceeds their rank.

        Warns
        -----
        IgbssWarning
            If a learned structure has fewer sources than channels because of the rank.
        """
        if survey is not None:
            survey.check(remedy=remedy)
            self._check_rank(survey)
        elif self.needs_survey:
            raise RuntimeError("this separation depends on the samples: pass a survey of them")
        transform, learning = self._transform, None
        if survey is not None and self.needs_survey:
            transform = transform.fit(survey)
        if survey is not None and self.settings.is_learned:
            # imported here: only a learned structure needs its kernels, and the linear algebra of SciPy
            import scipy.linalg  # noqa: F401  # before the limit, which then includes it

            from igbss_stream.separation.structure_fit import fit_structure

            with limit_blas_threads():
                learned = fit_structure(survey, self.settings, transform, self.previous)
            transform, poset, stage = learned.transform, learned.poset, learned.stage
            learning = learned.learning
        else:
            poset, stage = self._given
        labels = None
        if self.labelling is not None and survey is not None and transform.linear:
            labels = label_survey(stage, survey, self.labelling)
        cleaner = None if self.cleaning is None else self.cleaning.make_cleaner(stage, survey, labels)
        return Separator(
            settings=self.settings,
            poset=poset,
            stage=stage,
            transform=transform,
            solver=self.solver,
            learning=learning,
            cleaning=self.cleaning,
            cleaner=cleaner,
            labels=labels,
        )

    def prepare_for(self, x: NDArray[Any], names: Sequence[str]) -> Separator:
        """Survey a whole array, (samples, channels), and return the separator for it."""
        survey = self.make_survey(names, x.dtype, len(x))
        survey.update(x)
        return self.prepare(survey)

    def restore(
        self,
        poset: Poset,
        stage: LinearStage,
        transform: Transform,
        learning: Learning | None = None,
        labels: Labelling | None = None,
    ) -> Separator:
        """Return a separator of a stored model, which needs no samples.

        Parameters
        ----------
        poset : Poset
        stage : LinearStage
        transform : Transform
            With its state.
        learning : Learning, optional
        labels : Labelling, optional
            See `Separator`.
        """
        return Separator(
            settings=self.settings,
            poset=poset,
            stage=stage,
            transform=transform,
            solver=self.solver,
            learning=learning,
            labels=labels,
        )

    @cached_property
    def _transform(self) -> Transform:
        return as_transform(self.settings.transform)

    @cached_property
    def _given(self) -> tuple[Poset, Stage]:
        """Sample space and stage of a structure that is not learned."""
        settings = self.settings
        weights = make_incidence(
            settings.structure, self.n_channels, settings.n_sources, settings.random_state
        )
        poset = Poset(weights, settings.order, settings.closure)
        return poset, LinearStage.from_poset(poset)

    @property
    def _compares_channels(self) -> bool:
        return self.cleaning is not None and self.cleaning.needs_covariance

    def _check_rank(self, survey: Survey) -> None:
        wanted = self.settings.n_sources
        if self.settings.is_learned and survey.rank == 0:
            raise InputError(
                f"no channel moves by more than the rounding of {survey.dtype} at its offset. "
                "Subtract the offsets before the samples are converted to this type."
            )
        if wanted is not None and wanted > survey.rank:
            raise InputError(
                f"n_sources must be at most the rank of the samples, {survey.rank}. Got {wanted} instead. "
                "After average reference or ICA cleaning, the rank is below the number of channels, "
                f"{self.n_channels}."
            )


def _check_previous(previous: Stage, settings: ModelSettings, n_channels: int) -> None:
    if not settings.is_learned:
        raise ParameterError(
            "previous requires structure 'learned'; leave previous out for other structures."
        )
    if settings.has_products:
        raise ParameterError(
            "previous requires order = 1: products of sources are always learned from scratch. "
            f"Got order = {settings.order} instead."
        )
    n_before = previous.mixing.shape[1]
    if n_before != n_channels:
        raise InputError(
            f"previous was learned from {n_before} channels. Got {n_channels} channels instead; "
            "leave previous out, or separate the same channels."
        )


def _warn_about_equal_channels(poset: Poset) -> None:
    groups = "; ".join(", ".join(map(str, group)) for group in poset.equal_channels)
    if groups:
        warnings.warn(
            f"the structure does not distinguish channels: rows {groups} are equal, and the model gives "
            "these channels the same signal. Use more sources, or pass a matrix as structure.",
            IgbssWarning,
            stacklevel=5,
        )


def _choose_solver_of_learned(settings: ModelSettings) -> str:
    if settings.has_products:
        return "inversion"
    if settings.solver != "auto":
        return settings.solver
    return "joint" if settings.latent_mass > 0 else CLOSED_FORM


def _choose_solver(settings: ModelSettings, poset: Poset) -> str:
    if settings.solver == CLOSED_FORM and poset.n_channels != poset.n_sources:
        raise ParameterError(
            f"solver 'closed-form' needs one source per channel, {poset.n_channels}. "
            f"Got n_sources = {poset.n_sources} instead; use solver 'joint'."
        )
    if settings.solver == CLOSED_FORM and not poset.has_closed_form:
        raise ParameterError("solver 'closed-form' is not exact for this structure; use solver 'joint'.")
    if settings.solver != "auto":
        return settings.solver
    return CLOSED_FORM if settings.latent_mass == 0 and poset.has_closed_form else "joint"
