"""Remove sources from the channels.

The contribution of a source is the difference between the mixing of all sources and the mixing of the same
sources with that one set to zero. Cleaned channels are the channels less the contributions of the removed
sources; what no source explains remains.

A source is chosen by its number, or by a channel that it is similar to. The correlation of source i and
channel j, over the samples that the structure was learned from, follows from their covariance C and the
unmixing W::

    r_ij = (W C)_ij / sqrt((W C W')_ii C_jj)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError, ParameterError, printable
from igbss_stream.separation.stages import LinearStage, PolynomialStage, Stage
from igbss_stream.separation.statistics import Survey
from igbss_stream.separation.transform import Transform

Array = NDArray[np.float64]

_NO_LINEAR_MAP = (
    "exclude_like needs order = 1: with learned products, sources are not a linear map of the channels. "
    "Name sources by exclude."
)
MIN_CORRELATION = 0.5
"""Default of the least |correlation| between a channel and a source that is similar to it."""


@dataclass(frozen=True)
class Excluded:
    """A source to remove, and the reason.

    Parameters
    ----------
    source : int
    channel : str
        The channel that it is similar to; empty if the source was given by its number.
    correlation : float
        With that channel; NaN if the source was given by its number.
    """

    source: int
    channel: str = ""
    correlation: float = math.nan

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Self:
        """Return the source that `to_list` described."""
        source, channel, correlation = values
        return cls(int(source), str(channel), math.nan if correlation is None else float(correlation))

    def to_list(self) -> list[Any]:
        """Return the fields as a list for JSON."""
        return [self.source, self.channel, None if math.isnan(self.correlation) else self.correlation]

    def __str__(self) -> str:
        reason = f" ({printable(self.channel)} {self.correlation:.2f})" if self.channel else ""
        return f"source-{self.source}{reason}"


@dataclass(frozen=True, eq=False)
class Cleaner:
    """Removes the contributions of sources from channels.

    Parameters
    ----------
    stage : LinearStage or PolynomialStage
    excluded : tuple of Excluded
        A source may appear several times, for several reasons.
    notices : tuple of str
        Requests that had no effect: channels that no source is similar to.

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
                "correlation."
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

    Raises
    ------
    ParameterError
        If a value cannot be used, or nothing is named.
    """

    exclude: tuple[int, ...] = ()
    exclude_like: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if not (self.exclude or self.exclude_like):
            raise ParameterError(
                "exclude or exclude_like must name a source or a channel.", parameter="exclude"
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

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON."""
        like = [[name, least] for name, least in self.exclude_like]
        return {"exclude": list(self.exclude), "exclude_like": like}

    @property
    def needs_survey(self) -> bool:
        """Whether sources are found by channels, which requires the covariance of the samples."""
        return bool(self.exclude_like)

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
            raise ParameterError(_NO_LINEAR_MAP, parameter="exclude_like")

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

    def make_cleaner(self, stage: Stage, survey: Survey | None = None) -> Cleaner:
        """Return the cleaner that removes the chosen sources.

        Parameters
        ----------
        stage : LinearStage or PolynomialStage
        survey : Survey, optional
            Of the samples, with covariance. Required if sources are found by channels.

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
                    notices.append(_describe_strongest(name, with_channel, least))
        return Cleaner(stage, tuple(excluded), tuple(notices))


def find_similar_sources(name: str, correlations: Array, least: float) -> list[Excluded]:
    """Return the sources that correlate with a channel, strongest first.

    Parameters
    ----------
    name : str
        Name of the channel.
    correlations : ndarray of shape (sources,)
    least : float
        Least |correlation|.
    """
    size = np.abs(correlations)
    order = np.argsort(-size, kind="stable")
    return [Excluded(int(i), name, float(correlations[i])) for i in order if size[i] >= least]


def correlate_sources(stage: Stage, covariance: Array) -> Array:
    """Return the correlations of sources and channels, (sources, channels).

    Parameters
    ----------
    stage : LinearStage or PolynomialStage
    covariance : ndarray of shape (channels, channels)
        Of the channels, in any unit.

    Raises
    ------
    ParameterError
        If the sources are not a linear map of the channels, or the map changes from sample to sample.
    """
    if isinstance(stage, PolynomialStage):
        raise ParameterError(_NO_LINEAR_MAP, parameter="exclude_like")
    if len(stage.unmixing) > 1:
        raise ParameterError(
            "exclude_like needs a structure that is the same for all samples. Name sources by exclude.",
            parameter="exclude_like",
        )
    unmixing = stage.unmixing[0]
    shared = unmixing @ covariance
    power = np.einsum("ij,ij->i", shared, unmixing)
    size = np.sqrt(np.outer(np.maximum(power, 0.0), np.diag(covariance)))
    return np.asarray(np.divide(shared, size, out=np.zeros_like(shared), where=size > 0))


def _describe_strongest(name: str, correlations: Array, least: float) -> str:
    i = int(np.abs(correlations).argmax())
    return (
        f"no source is like {printable(name)} by {least:g} or more: the strongest correlation is "
        f"{correlations[i]:.2f}, of source-{i}"
    )
