"""Find the sources to remove: those that are similar to a channel, or have a label.

The correlation of source i and channel j, over the samples that the structure was learned from, follows
from their covariance C and the unmixing W::

    r_ij = (W C)_ij / sqrt((W C W')_ii C_jj)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError, printable
from igbss_stream.labels.labelling import Labelling
from igbss_stream.labels.scores import LABELS
from igbss_stream.separation.stages import PolynomialStage, Stage

Array = NDArray[np.float64]

NO_LINEAR_MAP = (
    "{} needs order = 1: with learned products, sources are not a linear map of the channels. "
    "Name sources by exclude."
)
LABEL_GROUPS: dict[str, tuple[str, ...]] = {
    "eye": ("eye blink", "eye movement"),
    "eye blink": ("eye blink",),
    "eye movement": ("eye movement",),
    "heart": ("heart",),
    "muscle": ("muscle",),
    "line": ("line noise",),
    "line noise": ("line noise",),
    "channel": ("channel noise",),
    "channel noise": ("channel noise",),
}
"""Names that `exclude_labelled` accepts, and the labels that they stand for."""


@dataclass(frozen=True)
class Excluded:
    """A source to remove, and the reason.

    Parameters
    ----------
    source : int
    channel : str
        The channel that it is similar to; empty if the source was given by its number or label.
    correlation : float
        With that channel; NaN if the source was given by its number or label.
    label : str
        The label that it is removed for; empty if it is removed for another reason.
    score : float
        Of that label; NaN without a label.
    """

    source: int
    channel: str = ""
    correlation: float = math.nan
    label: str = ""
    score: float = math.nan

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Self:
        """Return the source that `to_list` described."""
        source, channel, correlation, label, score = values
        return cls(int(source), str(channel), _from_json(correlation), str(label), _from_json(score))

    def to_list(self) -> list[Any]:
        """Return the fields as a list for JSON."""
        return [self.source, self.channel, _to_json(self.correlation), self.label, _to_json(self.score)]

    def __str__(self) -> str:
        reason = f" ({printable(self.channel)} {self.correlation:.2f})" if self.channel else ""
        reason = f" ({self.label} {self.score:.2f})" if self.label else reason
        return f"source-{self.source}{reason}"


def find_labelled_sources(labels: Labelling, name: str, least: float) -> list[Excluded]:
    """Return the sources with a score of a label, or of one of a group of labels, in order.

    Parameters
    ----------
    labels : Labelling
    name : str
        One of `LABEL_GROUPS`.
    least : float
        Least score.
    """
    return [
        Excluded(int(i), label=label, score=float(labels.scores[i, LABELS.index(label)]))
        for label in LABEL_GROUPS[name]
        for i in np.flatnonzero(labels.scores[:, LABELS.index(label)] >= least)
    ]


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
        raise ParameterError(NO_LINEAR_MAP.format("exclude_like"), parameter="exclude_like")
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


def describe_strongest(name: str, correlations: Array, least: float) -> str:
    """Describe the strongest correlation of a channel that no source is similar to."""
    i = int(np.abs(correlations).argmax())
    return (
        f"no source is like {printable(name)} by {least:g} or more: the strongest correlation is "
        f"{correlations[i]:.2f}, of source-{i}"
    )


def describe_largest_score(labels: Labelling, name: str, least: float) -> str:
    """Describe the largest score of a label that no source has."""
    columns = [LABELS.index(label) for label in LABEL_GROUPS[name]]
    scores = np.nan_to_num(labels.scores[:, columns]).max(axis=1)
    i = int(scores.argmax())
    return (
        f"no source is labelled as {name} with a score of {least:g} or more: the largest score is "
        f"{scores[i]:.2f}, of source-{i}"
    )


def _to_json(value: float) -> float | None:
    return None if math.isnan(value) else value


def _from_json(value: float | None) -> float:
    return math.nan if value is None else float(value)
