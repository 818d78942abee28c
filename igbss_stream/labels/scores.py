"""Score sources: how well the facts of each match an eye blink, a heartbeat, a muscle and so on.

A criterion turns a fact into a number from 0 to 1 by a logistic function,
``1 / (1 + exp(-(fact - middle) / step))``. The score of a label is that of its weakest criterion. The
middles are explained in docs/labels.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.labels.courses import CourseFacts
from igbss_stream.labels.maps import MapFacts
from igbss_stream.labels.spectra import SpectrumFacts

Array = NDArray[np.float64]

LABELS = ("eye blink", "eye movement", "heart", "muscle", "line noise", "channel noise", "brain")
"""Names of the labels, in the order of the columns of scores."""


@dataclass(frozen=True, eq=False)
class SourceFacts:
    """What is known of sources.

    Parameters
    ----------
    maps : MapFacts or None
        None if too few positions are known.
    spectra : SpectrumFacts
    courses : CourseFacts
    """

    maps: MapFacts | None
    spectra: SpectrumFacts
    courses: CourseFacts


def compute_scores(facts: SourceFacts) -> Array:
    """Return scores (sources, labels); NaN where a label cannot be judged.

    Parameters
    ----------
    facts : SourceFacts
    """
    blink, movement = _score_blink(facts), _score_movement(facts)
    heart, muscle, mains = _score_heart(facts), _score_muscle(facts), _score_mains(facts)
    explained = np.fmax.reduce([blink, movement, heart, muscle, mains])
    channel = _score_channel(facts, explained)
    brain = _score_brain(facts, np.fmax(explained, channel))
    return np.column_stack([blink, movement, heart, muscle, mains, channel, brain])


def _rate(fact: Array, middle: float, step: float) -> Array:
    """Return the logistic function of a fact; a negative step prefers small values."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip((fact - middle) / step, -50.0, 50.0))))


def _rate_ratio(fact: Array, middle: float, factor: float) -> Array:
    """Return the logistic function of the logarithm of a fact; `factor` changes the odds by e."""
    return _rate(np.log(np.maximum(fact, 1e-12)), float(np.log(middle)), float(np.log(factor)))


def _all_of(*criteria: Array) -> Array:
    return np.asarray(np.min(criteria, axis=0))


def _any_of(*criteria: Array) -> Array:
    return np.asarray(np.max(criteria, axis=0))


def _score_blink(facts: SourceFacts) -> Array:
    course = _all_of(
        _rate(facts.courses.in_deflections, 0.65, 0.03),
        _rate(facts.spectra.low, 0.38, 0.05),
        _rate_ratio(facts.courses.n_deflections, 1.0, 1.5),
    )
    if facts.maps is not None:
        return _all_of(_rate(facts.maps.frontal, 0.85, 0.03), course)
    return _all_of(course, _rate(facts.courses.skewness, 1.5, 0.3))


def _score_movement(facts: SourceFacts) -> Array:
    if facts.maps is None:
        return np.full(len(facts.spectra.low), np.nan)
    return _all_of(
        _rate(facts.maps.lateral, 0.75, 0.03),
        _rate(facts.spectra.low, 0.38, 0.05),
        _rate(facts.courses.in_deflections, 0.65, 0.03),
    )


def _score_heart(facts: SourceFacts) -> Array:
    course = _all_of(
        _rate(facts.courses.rhythm, 0.65, 0.08),
        _rate_ratio(facts.courses.peaked, 2.0, 1.3),
    )
    if facts.maps is None:
        return course
    return _all_of(course, _rate(facts.maps.focus, 0.70, -0.05))


def _score_muscle(facts: SourceFacts) -> Array:
    return _all_of(
        _rate_ratio(facts.spectra.high, 0.35, 1.3),
        _any_of(
            _rate_ratio(facts.courses.bursts, 2.0, 1.08),
            _rate(facts.spectra.fall, -0.25, -0.05),
        ),
        _rate(facts.spectra.mains, 0.3, -0.05),
    )


def _score_mains(facts: SourceFacts) -> Array:
    return _rate(facts.spectra.mains, 0.4, 0.06)


def _score_channel(facts: SourceFacts, explained: Array) -> Array:
    if facts.maps is None:
        return np.full(len(explained), np.nan)
    return _all_of(_rate(facts.maps.focus, 0.88, 0.03), 1.0 - explained)


def _score_brain(facts: SourceFacts, explained: Array) -> Array:
    rhythmic_or_falling = _any_of(
        _rate(facts.spectra.fall, 0.5, 0.12), _rate_ratio(facts.spectra.alpha, 4.0, 1.3)
    )
    return _all_of(
        1.0 - explained,
        np.nan_to_num(rhythmic_or_falling, nan=0.5),
        _rate(facts.courses.in_deflections, 0.88, -0.03),
    )
