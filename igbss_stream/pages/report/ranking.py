"""Rank the sources of a report and give the reason for each position.

Excluded sources come first, then sources that correlate with a reference channel, then those that are
labelled as an artefact, then the others. Each group is sorted by explained variance, largest first.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from igbss_stream.errors import ParameterError, printable
from igbss_stream.pages.markup import format_correlation, format_number
from igbss_stream.pages.report.data import ReportData
from igbss_stream.pages.report.statistics import SampleStatistics
from igbss_stream.separation.cleaning import MIN_CORRELATION, MIN_SCORE
from igbss_stream.separation.source_choice import LABEL_GROUPS

RULE = (
    "Excluded sources come first, then sources whose absolute correlation with a reference channel is "
    f"{MIN_CORRELATION:g} or more, then those labelled as an artefact with a score of {MIN_SCORE:g} or "
    "more, then the others. Each group is sorted by explained variance, largest first."
)
_REFERENCE = re.compile(r"(?:^|[^a-z])[vhr]?(?:EOG|ECG|EKG|EMG)(?:$|[^a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class RankedSource:
    """A source and its position.

    Parameters
    ----------
    source : int
    group : {"excluded", "like a reference", "labelled", "other"}
    reason : str
        A sentence that explains the position.
    reference : int or None
        Index of the reference channel with the largest absolute correlation, if there are any.
    """

    source: int
    group: str
    reason: str
    reference: int | None


def find_references(data: ReportData, requested: Sequence[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Find reference channels: requested, used for cleaning, or named EOG, ECG or EMG.

    Parameters
    ----------
    data : ReportData
    requested : sequence of str

    Returns
    -------
    separated : tuple of int
        Indices of the reference channels that were separated.
    others : tuple of str
        Names of the requested channels that were not separated.
    """
    if data.stream is not None and requested:
        raise ParameterError(
            "--reference compares sources with the channels that `batch` separated, and a "
            "recording of a stream "
            "contains no channels; leave it out"
        )
    names = data.model.channels
    wanted = {*requested, *(one.channel for one in data.excluded if one.channel)}
    separated = tuple(i for i, name in enumerate(names) if name in wanted or _REFERENCE.search(name))
    return separated, tuple(dict.fromkeys(name for name in requested if name not in names))


def rank_sources(data: ReportData, statistics: SampleStatistics) -> list[RankedSource]:
    """Return all sources in the order of the report.

    Parameters
    ----------
    data : ReportData
    statistics : SampleStatistics
    """
    n = data.sources.n_channels
    size, reference = _find_most_similar(statistics, n)
    explained = np.zeros(n) if statistics.channels is None else np.nan_to_num(statistics.channels.explained)
    order = np.argsort(-explained, kind="stable").tolist()
    excluded = [k for k in order if k in data.excluded_sources]
    similar = [k for k in order if size[k] >= MIN_CORRELATION and k not in excluded]
    label_reasons = _explain_labels(data)
    labelled = [k for k in order if k in label_reasons and k not in excluded and k not in similar]
    others = [k for k in order if k not in {*excluded, *similar, *labelled}]
    reasons = label_reasons | {k: _explain_exclusion(data, k) for k in excluded}
    reasons |= {k: _explain_similarity(statistics, k, int(reference[k])) for k in similar}
    groups = (
        (excluded, "excluded"),
        (similar, "like a reference"),
        (labelled, "labelled"),
        (others, "other"),
    )
    return [
        RankedSource(
            k,
            group,
            reasons.get(k) or _explain_rank(data, statistics, k, place),
            int(reference[k]) if statistics.references.names else None,
        )
        for members, group in groups
        for place, k in enumerate(members, 1)
    ]


def _find_most_similar(statistics: SampleStatistics, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest absolute correlation of each source with a reference, and the reference."""
    if not statistics.references.names:
        return np.zeros(n), np.zeros(n, int)
    size = np.abs(np.nan_to_num(statistics.references.correlation))
    return size.max(axis=1), size.argmax(axis=1)


def _explain_labels(data: ReportData) -> dict[int, str]:
    """Return the sources that are labelled as an artefact, and the reasons for their positions."""
    found = data.model.labels
    if found is None:
        return {}
    artefacts = {label for labels in LABEL_GROUPS.values() for label in labels}
    return {
        k: f"Listed here because it is labelled as {label} ({score:.2f})."
        for k, (label, score) in enumerate(zip(found.labels, found.top_scores.tolist(), strict=True))
        if label in artefacts and score >= MIN_SCORE
    }


def _explain_exclusion(data: ReportData, source: int) -> str:
    reasons = [one for one in data.excluded if one.source == source]
    likes = [
        f"it correlates with {printable(one.channel)} ({format_correlation(one.correlation)})"
        for one in reasons
        if one.channel
    ]
    likes += [f"it is labelled as {one.label} ({one.score:.2f})" for one in reasons if one.label]
    is_numbered = any(not (one.channel or one.label) for one in reasons)
    by_number = ["it was selected by its number"] if is_numbered else []
    return f"Listed first because it was excluded from the channels: {' and '.join(by_number + likes)}."


def _explain_similarity(statistics: SampleStatistics, source: int, reference: int) -> str:
    name, r = statistics.references.names[reference], statistics.references.correlation[source, reference]
    return (
        f"Listed here because it resembles the reference channel {printable(name)} (correlation "
        f"{format_correlation(float(r))})."
    )


def _explain_rank(data: ReportData, statistics: SampleStatistics, source: int, place: int) -> str:
    if data.stream is not None:
        return "Listed in the order of the stream."
    if statistics.channels is None:
        return "Listed in the order of the output: explained variance is not defined for this transform."
    share = 100 * statistics.channels.explained[source]
    return (
        f"Number {place} by explained variance among the remaining sources ({format_number(share, 2)} %)."
    )
