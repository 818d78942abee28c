"""Cleaning: the channels without some of their sources.

What a source adds to the channels is what the mixing makes of all sources, less what it makes of them with
that one at zero. Cleaned channels are the channels less that; what no source explains stays in them.

A source can be named by its number, or by a channel that it is like. The correlation of source i and
channel j over the samples that the structure was learned from follows from their covariance C and the
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
from igbss_stream.separation.linear import LinearStage
from igbss_stream.separation.polynomial import PolynomialStage
from igbss_stream.separation.statistics import Survey
from igbss_stream.separation.transform import Transform

Array = NDArray[np.float64]
Stage = LinearStage | PolynomialStage

_NO_LINEAR_MAP = (
    "exclude_like needs order = 1: sources whose products are learned are no linear map of the channels. "
    "Name sources by exclude."
)
LEAST = 0.5
"""Least |correlation| of a source that is like a channel, where none is given."""


@dataclass(frozen=True)
class Excluded:
    """A source that is taken out, and why.

    Parameters
    ----------
    source : int
    channel : str
        The channel that it is like; empty if its number was given.
    correlation : float
        With that channel; NaN if its number was given.
    """

    source: int
    channel: str = ""
    correlation: float = math.nan

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Return what `plain` told."""
        source, channel, correlation = row
        return cls(int(source), str(channel), math.nan if correlation is None else float(correlation))

    def plain(self) -> list[Any]:
        """Return it as JSON knows it."""
        return [self.source, self.channel, None if math.isnan(self.correlation) else self.correlation]

    def __str__(self) -> str:
        like = f" ({printable(self.channel)} {self.correlation:.2f})" if self.channel else ""
        return f"source-{self.source}{like}"


@dataclass(frozen=True, eq=False)
class Cleaner:
    """Takes sources out of the channels that they were found in.

    Parameters
    ----------
    stage : LinearStage or PolynomialStage
    excluded : tuple of Excluded
        A source may be there more than once, for more than one reason.
    notices : tuple of str
        What one may not expect: a channel that no source is like.

    Raises
    ------
    ParameterError
        If there is no such source.
    InputError
        If no source would be left.
    """

    stage: Stage
    excluded: tuple[Excluded, ...]
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n_sources = self.stage.n_sources
        for source in self.sources:
            if source >= n_sources:
                raise ParameterError(
                    f"source {source} cannot be taken out: there are {n_sources} sources, 0 to "
                    f"{n_sources - 1}."
                )
        if len(self.sources) == n_sources:
            raise InputError(
                f"all {n_sources} sources would be taken out, and nothing be left. Name fewer of them, or "
                "raise the least correlation."
            )

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """The numbers of the sources, each once, in their order."""
        return tuple(sorted({excluded.source for excluded in self.excluded}))

    def clean(self, x: NDArray[Any], sources: NDArray[Any], period: int = 0) -> NDArray[Any]:
        """Return channels without what the sources in question add to them.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
        sources : ndarray of shape (samples, sources)
            Those of the same samples.
        period : int
            Which period of the incidence the first sample is in.

        Returns
        -------
        ndarray of shape (samples, channels), of the type of x
        """
        return (x - self._added(sources, period)).astype(x.dtype, copy=False)

    def _added(self, sources: NDArray[Any], period: int) -> Array:
        if not isinstance(self.stage, PolynomialStage):
            part = np.ascontiguousarray(sources[:, self.sources], dtype=np.float64)
            return self._parts[period % len(self._parts)].mix(part)
        whole = sources.astype(np.float64)
        without = whole.copy()
        without[:, self.sources] = 0.0
        added: Array = self.stage.mix(whole) - self.stage.mix(without)
        return added

    @cached_property
    def _parts(self) -> tuple[LinearStage, ...]:
        """The stage of the sources in question alone, from each period of the incidence on."""
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
    """Which sources are taken out of the channels.

    Parameters
    ----------
    exclude : tuple of int
        Their numbers, from 0.
    exclude_like : tuple of (str, float)
        Names of channels, each with the least |correlation| of a source that is like it.

    Raises
    ------
    ParameterError
        If a value cannot be used, or nothing is named.
    """

    exclude: tuple[int, ...] = ()
    exclude_like: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if not (self.exclude or self.exclude_like):
            raise ParameterError("exclude or exclude_like must name a source or a channel.")
        for source in self.exclude:
            if isinstance(source, bool) or not isinstance(source, int | np.integer) or source < 0:
                raise ParameterError(
                    f"exclude must hold numbers of sources, from 0. Got {source!r} instead."
                )
        for name, least in self.exclude_like:
            if not 0 < least <= 1:
                raise ParameterError(
                    f"exclude_like needs a least correlation above 0 and up to 1. Got {least!r} with "
                    f"channel {printable(name)!r} instead."
                )

    def plain(self) -> dict[str, Any]:
        """Return it as JSON knows it."""
        like = [[name, least] for name, least in self.exclude_like]
        return {"exclude": list(self.exclude), "exclude_like": like}

    @property
    def finds(self) -> bool:
        """Whether sources are found by channels, for which samples have to be seen."""
        return bool(self.exclude_like)

    def check(self, transform: Transform, *, products: bool) -> None:
        """Refuse models that it does not go with.

        Parameters
        ----------
        transform : Transform
        products : bool
            Whether products of sources are learned.

        Raises
        ------
        ParameterError
            If the sources do not add up to the channels, or cannot be compared with them.
        """
        if not transform.linear:
            raise ParameterError(
                "cleaning needs transform 'exp', with which sources add up to the channels. Got transform "
                f"{transform.name!r} instead."
            )
        if products and self.finds:
            raise ParameterError(_NO_LINEAR_MAP)

    def check_channels(self, names: Sequence[str]) -> None:
        """Refuse channels that are not among those that are separated.

        Parameters
        ----------
        names : sequence of str

        Raises
        ------
        ParameterError
            If one is missing, or its name is that of several.
        """
        shown = ", ".join(map(printable, names[:40])) + (", ..." if len(names) > 40 else "")
        for name, _ in self.exclude_like:
            count = sum(printable(other) == printable(name) for other in names)
            if count != 1:
                raise ParameterError(
                    f"exclude_like names {printable(name)!r}, which is the name of "
                    f"{count or 'none'} of the channels that are separated: {shown}."
                )

    def cleaner(self, stage: Stage, survey: Survey | None = None) -> Cleaner:
        """Return what takes the sources out.

        Parameters
        ----------
        stage : LinearStage or PolynomialStage
        survey : Survey, optional
            Of the samples, with covariance; needed where sources are found by channels.

        Returns
        -------
        Cleaner

        Raises
        ------
        IgbssError
            If there is no such source or channel, or no source would be left.
        """
        excluded = [Excluded(int(source)) for source in self.exclude]
        notices = []
        if self.exclude_like:
            if survey is None:
                raise RuntimeError("sources are found by channels once the samples were seen")
            self.check_channels(survey.names)
            correlations = source_correlations(stage, survey.covariance)
            for name, least in self.exclude_like:
                with_channel = correlations[:, survey.names.index(printable(name))]
                found = like(name, with_channel, least)
                excluded += found
                if not found:
                    notices.append(_none_like(name, with_channel, least))
        return Cleaner(stage, tuple(excluded), tuple(notices))


def like(name: str, correlations: Array, least: float) -> list[Excluded]:
    """Return the sources whose correlation with a channel is large enough, the strongest first.

    Parameters
    ----------
    name : str
        Of the channel.
    correlations : ndarray of shape (sources,)
    least : float
    """
    size = np.abs(correlations)
    order = np.argsort(-size, kind="stable")
    return [Excluded(int(i), name, float(correlations[i])) for i in order if size[i] >= least]


def source_correlations(stage: Stage, covariance: Array) -> Array:
    """Return the correlations of sources and channels, (sources, channels).

    Parameters
    ----------
    stage : LinearStage
    covariance : ndarray of shape (channels, channels)
        Of the channels, in any unit.

    Raises
    ------
    ParameterError
        If the sources are no linear map of the channels, or one that changes from sample to sample.
    """
    if isinstance(stage, PolynomialStage):
        raise ParameterError(_NO_LINEAR_MAP)
    if len(stage.unmixing) > 1:
        raise ParameterError(
            "exclude_like needs a structure that is the same for all samples. Name sources by exclude."
        )
    unmixing = stage.unmixing[0]
    shared = unmixing @ covariance
    power = np.einsum("ij,ij->i", shared, unmixing)
    size = np.sqrt(np.outer(np.maximum(power, 0.0), np.diag(covariance)))
    return np.asarray(np.divide(shared, size, out=np.zeros_like(shared), where=size > 0))


def _none_like(name: str, correlations: Array, least: float) -> str:
    i = int(np.abs(correlations).argmax())
    return (
        f"no source is like {printable(name)} by {least:g} or more: the strongest correlation is "
        f"{correlations[i]:.2f}, of source-{i}"
    )
