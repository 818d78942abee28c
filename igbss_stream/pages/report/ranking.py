"""The order of sources in a report, and why each stands where it does.

First those that were taken out, then those that are like a reference channel, then the others; among each
those that explain the most variance first.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from igbss_stream.errors import ParameterError, printable
from igbss_stream.pages.report.contents import Contents
from igbss_stream.pages.report.markup import number, signed
from igbss_stream.pages.report.statistics import Look
from igbss_stream.separation.cleaning import MIN_CORRELATION

RULE = (
    "Sources that were taken out come first; then those whose correlation with a reference channel is "
    f"{MIN_CORRELATION:g} or more in size; then the others. Of each, those that explain the most variance "
    "come first."
)
_REFERENCE = re.compile(r"(?:^|[^a-z])[vhr]?(?:EOG|ECG|EKG|EMG)(?:$|[^a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class Ranked:
    """A source and its place.

    Parameters
    ----------
    source : int
    group : {"taken out", "like a reference", "other"}
    why : str
        A sentence.
    like : int or None
        Place of the reference channel that it is most like, if there is any.
    """

    source: int
    group: str
    why: str
    like: int | None


def references(contents: Contents, asked: Sequence[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return which channels are references: asked for, cleaned by, or named EOG, ECG, EMG.

    Parameters
    ----------
    contents : Contents
    asked : sequence of str

    Returns
    -------
    among : tuple of int
        Channels that were separated.
    beside : tuple of str
        Those that are asked for and were not.
    """
    if contents.stream is not None and asked:
        raise ParameterError(
            "--reference compares sources with channels that `batch` separated; a recording of a stream "
            "keeps none: leave it out"
        )
    names = contents.model.channels
    wanted = {*asked, *(one.channel for one in contents.excluded if one.channel)}
    among = tuple(i for i, name in enumerate(names) if name in wanted or _REFERENCE.search(name))
    return among, tuple(dict.fromkeys(name for name in asked if name not in names))


def ranking(contents: Contents, found: Look) -> list[Ranked]:
    """Return all sources in their order.

    Parameters
    ----------
    contents : Contents
    found : Look
    """
    n = contents.sources.n_channels
    size, like = _likeness(found, n)
    explained = np.zeros(n) if found.channels is None else np.nan_to_num(found.channels.explained)
    order = np.argsort(-explained, kind="stable").tolist()
    taken = [k for k in order if k in contents.excluded_sources]
    alike = [k for k in order if size[k] >= MIN_CORRELATION and k not in taken]
    rest = [k for k in order if k not in taken and k not in alike]
    whys = {k: _taken_out(contents, k) for k in taken}
    whys |= {k: _like(found, k, int(like[k])) for k in alike}
    groups = ((taken, "taken out"), (alike, "like a reference"), (rest, "other"))
    return [
        Ranked(
            k,
            group,
            whys.get(k) or _by_variance(contents, found, k, place),
            int(like[k]) if found.references.names else None,
        )
        for members, group in groups
        for place, k in enumerate(members, 1)
    ]


def _likeness(found: Look, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest |correlation| of each source with a reference, and with which."""
    if not found.references.names:
        return np.zeros(n), np.zeros(n, int)
    size = np.abs(np.nan_to_num(found.references.correlation))
    return size.max(axis=1), size.argmax(axis=1)


def _taken_out(contents: Contents, source: int) -> str:
    reasons = [one for one in contents.excluded if one.source == source]
    likes = [
        f"it is like {printable(one.channel)} ({signed(one.correlation)})" for one in reasons if one.channel
    ]
    by_number = ["it was named by its number"] if any(not one.channel for one in reasons) else []
    return f"Among the first because it was taken out of the channels: {' and '.join(by_number + likes)}."


def _like(found: Look, source: int, reference: int) -> str:
    name, r = found.references.names[reference], found.references.correlation[source, reference]
    return (
        f"Here because it is like the reference channel {printable(name)} (correlation {signed(float(r))})."
    )


def _by_variance(contents: Contents, found: Look, source: int, place: int) -> str:
    if contents.stream is not None:
        return "In the order of the stream."
    if found.channels is None:
        return "In the order of the output: with this transform no share of variance can be told."
    share = 100 * found.channels.explained[source]
    return f"Number {place} by explained variance among the sources that are left ({number(share, 2)} %)."
