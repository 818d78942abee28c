"""Judge measures of channels: which are bad, by how much, and by which limit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

KINDS = ("missing", "flat", "railed", "noisy", "hum", "unlike", "bridged")
"""Kinds of findings, in the order in which they are stated."""

_LEAST_SCORE = 5.0  # robust standard deviations from the other channels, on a log scale
_LEAST_DEVIATION = 0.1  # of logarithms: channels that agree better are taken to agree by chance
_MEDIAN_TO_DEVIATION = 1.4826
_MOST_UNEXPLAINED = 0.5  # median of the channels, for a channel to be unlike the others
_FEWEST_WAVES = 0.3  # least hum, as a share of the spread


@dataclass(frozen=True, slots=True, kw_only=True)
class BadChannelLimits:
    """Limits beyond which a channel is bad.

    Parameters
    ----------
    missing : float
        Largest share of samples that are NaN, infinite or beyond 1e100.
    flat : float
        Largest share of time in which a channel is constant.
    railed : float
        Largest share of samples that repeat the smallest or the largest value of their channel.
    noisy : float
        Largest noise, as a multiple of the median of the channels.
    noise_share : float
        Least noise, as a share of the spread of the channel, for it to be called noisy.
    hum : float
        Largest amplitude at the frequency of the mains, as a multiple of the median of the channels.
    unlike : float
        Largest share of the variance that the other channels do not explain.
    bridged : float
        Least power of the difference of two channels, as a share of the smaller of their powers.
    bridged_ratio : float
        The same, as a multiple of what is usual between channels and those most like them.
    fewest : int
        Least number of channels of one type; among fewer, they are not compared with each other.
    """

    missing: float = 0.1
    flat: float = 0.1
    railed: float = 0.005
    noisy: float = 4.0
    noise_share: float = 0.5
    hum: float = 4.0
    unlike: float = 0.8
    bridged: float = 3e-4
    bridged_ratio: float = 0.05
    fewest: int = 6


@dataclass(frozen=True, slots=True)
class BadChannel:
    """A fault of a channel.

    Parameters
    ----------
    channel : str
    kind : str
        One of `KINDS`.
    value : float
        The number that exceeds the limit, or is below it for ``"bridged"``.
    limit : float
    text : str
        What the number is, with its unit and the limit.
    like : str
        For ``"bridged"``, the other channel; empty otherwise.
    """

    channel: str
    kind: str
    value: float
    limit: float
    text: str
    like: str = ""

    def __str__(self) -> str:
        return f"{self.channel} is {self.kind}: {self.text}"


@dataclass(frozen=True, slots=True, eq=False)
class SurveyedChannels:
    """What is known of the channels of a recording.

    Parameters
    ----------
    names : tuple of str
    groups : ndarray of int, shape (channels,)
        Channels of the same number are compared with each other.
    unit : str or None
    missing, flat, railed : ndarray of shape (channels,)
        Shares, see `BadChannelLimits`.
    spread, noise, hum : ndarray of shape (channels,)
        Medians over windows; NaN for channels that were not measured.
    relative_noise, relative_hum : ndarray of shape (channels,)
        Medians over windows of the multiple of the median of the channels of a group.
    correlation : ndarray of shape (channels, channels)
        Mean over windows.
    difference : ndarray of shape (channels, channels)
        Median over windows, see `WindowMeasures`.
    n_samples : int
        Number of samples in these windows.
    """

    names: tuple[str, ...]
    groups: NDArray[np.int_]
    unit: str | None
    missing: Array
    flat: Array
    railed: Array
    spread: Array
    noise: Array
    hum: Array
    relative_noise: Array
    relative_hum: Array
    correlation: Array
    difference: Array
    n_samples: int


def judge_channels(
    found: SurveyedChannels, limits: BadChannelLimits | None = None
) -> tuple[BadChannel, ...]:
    """Return the faults of channels, in the order of `KINDS` and of the channels.

    Parameters
    ----------
    found : SurveyedChannels
    limits : BadChannelLimits, optional

    Returns
    -------
    tuple of BadChannel
    """
    limits = limits or BadChannelLimits()
    faults = [*_judge_shares(found, limits)]
    for group in np.unique(found.groups):
        members = np.flatnonzero((found.groups == group) & np.isfinite(found.noise))
        if len(members) >= limits.fewest:
            faults += [*_judge_noise(found, limits, members), *_judge_hum(found, limits, members)]
            faults += _judge_likeness(found, limits, members)
        faults += _judge_pairs(found, limits, members)
    order = {name: i for i, name in enumerate(found.names)}
    return tuple(sorted(faults, key=lambda fault: (KINDS.index(fault.kind), order[fault.channel])))


def compute_unexplained(correlation: Array, n_samples: int) -> Array:
    """Return the share of the variance of each channel that the other channels do not explain.

    Parameters
    ----------
    correlation : ndarray of shape (channels, channels)
    n_samples : int
        Number of samples that the correlation was computed from. With few of them, chance explains a part.
    """
    ridge = len(correlation) / max(n_samples, 1) * 0.1 + 1e-9
    inverse = np.linalg.inv(correlation + ridge * np.eye(len(correlation)))
    return np.asarray(np.minimum((1.0 + ridge) / np.diag(inverse) / (1.0 + ridge), 1.0))


def _judge_shares(found: SurveyedChannels, limits: BadChannelLimits) -> Iterator[BadChannel]:
    texts = {
        "missing": "{:.3g} % of its samples are NaN, infinite or beyond 1e100 (limit {:g} %)",
        "flat": "constant for {:.3g} % of the time (limit {:g} %)",
        "railed": "{:.3g} % of its samples stay at its extremes (limit {:g} %)",
    }
    for kind, text in texts.items():
        shares, limit = getattr(found, kind), getattr(limits, kind)
        for i in np.flatnonzero(shares > limit):
            share = float(shares[i])
            yield BadChannel(found.names[i], kind, share, limit, text.format(100 * share, 100 * limit))


def _judge_noise(
    found: SurveyedChannels, limits: BadChannelLimits, members: NDArray[np.int_]
) -> Iterator[BadChannel]:
    ratio = found.relative_noise[members]
    is_far = _score(ratio) > _LEAST_SCORE
    is_noise = found.noise[members] > limits.noise_share * found.spread[members]
    for i in members[(ratio > limits.noisy) & is_far & is_noise]:
        text = f"{_format_size(found.noise[i], found.unit)} of noise, {{:.3g}} times that of the others"
        yield _make_fault(found, int(i), "noisy", found.relative_noise[i], limits.noisy, text)


def _judge_hum(
    found: SurveyedChannels, limits: BadChannelLimits, members: NDArray[np.int_]
) -> Iterator[BadChannel]:
    ratio = found.relative_hum[members]
    is_strong = found.hum[members] > _FEWEST_WAVES * found.spread[members]
    is_far = _score(ratio) > _LEAST_SCORE
    for i in members[(ratio > limits.hum) & is_strong & is_far]:
        text = f"{_format_size(found.hum[i], found.unit)} of mains, {{:.3g}} times that of the others"
        yield _make_fault(found, int(i), "hum", found.relative_hum[i], limits.hum, text)


def _judge_likeness(
    found: SurveyedChannels, limits: BadChannelLimits, members: NDArray[np.int_]
) -> Iterator[BadChannel]:
    if found.n_samples < 2 * len(members):
        return
    unexplained = compute_unexplained(found.correlation[np.ix_(members, members)], found.n_samples)
    if np.median(unexplained) > _MOST_UNEXPLAINED:
        return
    for i, share in zip(members, unexplained, strict=True):
        if share > limits.unlike:
            least = 100 - 100 * limits.unlike
            text = f"the others explain {100 - 100 * share:.3g} % of it (at least {least:g} %)"
            yield BadChannel(found.names[i], "unlike", float(share), limits.unlike, text)


def _judge_pairs(
    found: SurveyedChannels, limits: BadChannelLimits, members: NDArray[np.int_]
) -> Iterator[BadChannel]:
    """Yield the later channel of each pair that is nearly equal, unlike most pairs of neighbours."""
    if len(members) < 3:
        return
    difference = found.difference[np.ix_(members, members)]
    nearest = difference.min(axis=1)
    limit = min(limits.bridged, limits.bridged_ratio * float(np.median(nearest)))
    for i, j in np.argwhere(np.triu(difference < limit, 1)):
        one, other = found.names[members[i]], found.names[members[j]]
        share = float(difference[i, j])
        text = f"it differs from {one} by {100 * share:.2g} % of the variance (limit {100 * limit:.2g} %)"
        yield BadChannel(other, "bridged", share, limit, text, one)


def _score(ratio: Array) -> Array:
    """Return how far ratios are above those of the other channels, in robust standard deviations."""
    logs = np.log(np.maximum(ratio, 1e-300))
    center = np.median(logs)
    deviation = _MEDIAN_TO_DEVIATION * np.median(np.abs(logs - center))
    return np.asarray((logs - center) / max(deviation, _LEAST_DEVIATION))


def _make_fault(
    found: SurveyedChannels, channel: int, kind: str, value: float, limit: float, text: str
) -> BadChannel:
    name = found.names[channel]
    return BadChannel(name, kind, float(value), limit, f"{text.format(value)} (limit {limit:g})")


def _format_size(size: float, unit: str | None) -> str:
    return f"{size:.3g} {unit}" if unit else f"{size:.3g}"


def list_channels(faults: Sequence[BadChannel]) -> tuple[str, ...]:
    """Return the names of the channels that have faults, each once.

    Parameters
    ----------
    faults : sequence of BadChannel
    """
    return tuple(dict.fromkeys(fault.channel for fault in faults))
