"""Remove sources from the channels.

The contribution of a source is the difference between the mixing of all sources and the mixing of the same
sources with that one set to zero. Cleaned channels are the channels less the contributions of the removed
sources; what no source explains remains.

A source is chosen by its number, by its label, or by a channel that it is similar to;
`igbss_stream.separation.source_choice` finds it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError, ParameterError, printable
from igbss_stream.labels.labelling import Labelling
from igbss_stream.separation.source_choice import (
    LABEL_GROUPS,
    NO_LINEAR_MAP,
    Excluded,
    correlate_sources,
    describe_largest_score,
    describe_strongest,
    find_labelled_sources,
    find_similar_sources,
)
from igbss_stream.separation.stages import LinearStage, PolynomialStage, Stage
from igbss_stream.separation.statistics import Survey
from igbss_stream.separation.transform import Transform

Array = NDArray[np.float64]

MIN_SCORE = 0.8
"""Default of the least score of a label at which a source is removed."""
MIN_CORRELATION = 0.5
"""Default of the least |correlation| between a channel and a source that is similar to it."""


@dataclass(frozen=True, eq=False)
class Cleaner:
    """Removes the contributions of sources from channels.

    Parameters
    ----------
    stage : LinearStage or PolynomialStage
    excluded : tuple of Excluded
        A source may appear several times, for several reasons.
    notices : tuple of str
        Requests that had no effect: channels that no source is similar to, labels that no source has.

    Raises
    ------
    ParameterError
        If a source does not exist.
    InputError
        If no source would remain.
    """

    stage: Stage
    excluded: tuple[Excluded, ...]
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n_sources = self.stage.n_sources
        for source in self.sources:
            if source >= n_sources:
                raise ParameterError(
                    f"source {source} cannot be removed: there are {n_sources} sources, 0 to "
                    f"{n_sources - 1}. Name one of these."
                )
        if len(self.sources) == n_sources:
            raise InputError(
                f"all {n_sources} sources would be removed. Name fewer sources, or raise the least "
                "correlation or score."
            )

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """Numbers of the removed sources, sorted, without duplicates."""
        return tuple(sorted({excluded.source for excluded in self.excluded}))

    def clean(self, x: NDArray[Any], sources: NDArray[Any], period: int = 0) -> NDArray[Any]:
        """Return channels without the contributions of the removed sources.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
        sources : ndarray of shape (samples, sources)
            All sources of the same samples.
        period : int
            Period of the incidence for the first sample.

        Returns
        -------
        ndarray of shape (samples, channels), of the type of x
        """
        if not self.excluded:
            return x
        return (x - self._compute_contribution(sources, period)).astype(x.dtype, copy=False)

    def _compute_contribution(self, sources: NDArray[Any], period: int) -> Array:
        if not isinstance(self.stage, PolynomialStage):
            removed = np.ascontiguousarray(sources[:, self.sources], dtype=np.float64)
            return self._parts[period % len(self._parts)].mix(removed)
        whole = sources.astype(np.float64)
        without = whole.copy()
        without[:, self.sources] = 0.0
        contribution: Array = self.stage.mix(whole) - self.stage.mix(without)
        return contribution

    @cached_property
    def _parts(self) -> tuple[LinearStage, ...]:
        """The stage of the removed sources only, starting at each period of the incidence."""
        mixing = self.stage.mixing[:, :, self.sources]
        unmixing = self.stage.unmixing[:, self.sources]
        return tuple(
            LinearStage(np.roll(mixing, -period, axis=0), np.roll(unmixing, -period, axis=0))
            for period in range(len(mixing))
        )

    def __str__(self) -> str:
        return ", ".join(map(str, self.excluded)) or "no source"


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """Which sources to remove from the channels.

    Parameters
    ----------
    exclude : tuple of int
        Numbers of sources, from 0.
    exclude_like : tuple of (str, float)
        Names of channels, each with the least |correlation| of a source that is similar to it.
    exclude_labelled : tuple of (str, float)
        Names of labels or groups of labels (`LABEL_GROUPS`), each with the least score.

    Raises
    ------
    ParameterError
        If a value cannot be used, or nothing is named.
    """

    exclude: tuple[int, ...] = ()
    exclude_like: tuple[tuple[str, float], ...] = ()
    exclude_labelled: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if not (self.exclude or self.exclude_like or self.exclude_labelled):
            raise ParameterError(
                "exclude must name a source, exclude_like a channel, or exclude_labelled a label.",
                parameter="exclude",
            )
        for source in self.exclude:
            if isinstance(source, bool) or not isinstance(source, int | np.integer) or source < 0:
                raise ParameterError(
                    f"exclude must contain numbers of sources, from 0. Got {source!r} instead.",
                    parameter="exclude",
                )
        for name, least in self.exclude_like:
            if not 0 < least <= 1:
                raise ParameterError(
                    f"exclude_like needs a least correlation above 0 and up to 1. Got {least!r} with "
                    f"channel {printable(name)!r} instead.",
                    parameter="exclude_like",
                )
        for label, least in self.exclude_labelled:
            _check_label(label, least)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the cleaning that `to_dict` described."""
        like, labelled = (
            tuple((str(name), float(least)) for name, least in values.get(key, ()))
            for key in ("exclude_like", "exclude_labelled")
        )
        return cls(exclude=tuple(values["exclude"]), exclude_like=like, exclude_labelled=labelled)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON."""
        like = [[name, least] for name, least in self.exclude_like]
        labelled = [[label, least] for label, least in self.exclude_labelled]
        fields: dict[str, Any] = {"exclude": list(self.exclude), "exclude_like": like}
        return fields | ({"exclude_labelled": labelled} if labelled else {})

    @property
    def needs_survey(self) -> bool:
        """Whether sources are found by channels or labels, which requires statistics of the samples."""
        return self.needs_covariance or self.needs_labels

    @property
    def needs_covariance(self) -> bool:
        """Whether sources are found by channels."""
        return bool(self.exclude_like)

    @property
    def needs_labels(self) -> bool:
        """Whether sources are found by labels."""
        return bool(self.exclude_labelled)

    def check(self, transform: Transform, *, products: bool) -> None:
        """Refuse models whose channels cannot be cleaned.

        Parameters
        ----------
        transform : Transform
        products : bool
            Whether products of sources are learned.

        Raises
        ------
        ParameterError
            If the contributions of sources do not add up, or sources cannot be compared with channels.
        """
        if not transform.linear:
            raise ParameterError(
                "cleaning needs transform 'exp', with which sources add up to the channels. Got transform "
                f"{transform.name!r} instead."
            )
        if products and self.needs_survey:
            option = "exclude_like" if self.needs_covariance else "exclude_labelled"
            raise ParameterError(NO_LINEAR_MAP.format(option), parameter=option)

    def check_channels(self, names: Sequence[str]) -> None:
        """Check that each channel of `exclude_like` is one of the separated channels.

        Parameters
        ----------
        names : sequence of str
            Names of the separated channels.

        Raises
        ------
        ParameterError
            If a name is missing or not unique.
        """
        listed = ", ".join(map(printable, names[:40])) + (", ..." if len(names) > 40 else "")
        for name, _ in self.exclude_like:
            count = sum(printable(other) == printable(name) for other in names)
            if count != 1:
                raise ParameterError(
                    f"exclude_like names {printable(name)!r}, which is the name of "
                    f"{count or 'none'} of the separated channels: {listed}. Name one of these.",
                    parameter="exclude_like",
                )

    def make_cleaner(
        self, stage: Stage, survey: Survey | None = None, labels: Labelling | None = None
    ) -> Cleaner:
        """Return the cleaner that removes the chosen sources.

        Parameters
        ----------
        stage : LinearStage or PolynomialStage
        survey : Survey, optional
            Of the samples, with covariance. Required if sources are found by channels.
        labels : Labelling, optional
            Of the sources. Required if sources are found by labels.

        Returns
        -------
        Cleaner

        Raises
        ------
        IgbssError
            If a source or channel does not exist, or no source would remain.
        """
        excluded = [Excluded(int(source)) for source in self.exclude]
        notices = []
        if self.exclude_like:
            if survey is None:
                raise RuntimeError("exclude_like needs a survey of the samples with their covariance")
            self.check_channels(survey.names)
            correlations = correlate_sources(stage, survey.covariance)
            for name, least in self.exclude_like:
                with_channel = correlations[:, survey.names.index(printable(name))]
                found = find_similar_sources(name, with_channel, least)
                excluded += found
                if not found:
                    notices.append(describe_strongest(name, with_channel, least))
        if self.exclude_labelled:
            if labels is None:
                raise RuntimeError("exclude_labelled needs the labels of the sources")
            for name, least in self.exclude_labelled:
                labelled = find_labelled_sources(labels, name, least)
                excluded += labelled
                if not labelled:
                    notices.append(describe_largest_score(labels, name, least))
            notices += labels.notes
        return Cleaner(stage, tuple(excluded), tuple(notices))


def _check_label(label: str, least: float) -> None:
    if label not in LABEL_GROUPS:
        raise ParameterError(
            f"exclude_labelled must name labels: {', '.join(LABEL_GROUPS)}. Got {printable(label)!r} "
            "instead.",
            parameter="exclude_labelled",
        )
    if not 0 < least <= 1:
        raise ParameterError(
            f"exclude_labelled needs a least score above 0 and up to 1. Got {least!r} with label {label!r} "
            "instead.",
            parameter="exclude_labelled",
        )
