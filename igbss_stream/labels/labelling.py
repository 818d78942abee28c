"""Label sources by their maps, spectra and courses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from igbss_stream._util.electrodes import find_positions
from igbss_stream.errors import ParameterError
from igbss_stream.labels.courses import CourseFacts, measure_courses
from igbss_stream.labels.maps import MIN_POSITIONS, measure_maps, select_scalp
from igbss_stream.labels.reasons import describe
from igbss_stream.labels.scores import LABELS, SourceFacts, compute_scores
from igbss_stream.labels.spectra import SpectrumFacts, measure_spectra

Array = NDArray[np.float64]
_Facts = TypeVar("_Facts", SpectrumFacts, CourseFacts)

OTHER = "other"
"""Label of a source whose largest score is below one half."""
_LEAST = 0.5
MIN_SECONDS = 2.0
"""Shortest samples that are labelled."""
_RHYTHM_SECONDS = 12.0
_GROUP = 4  # sources
_LOWEST_RATE = 65.0  # Hz; below it, nothing is left of 25 to 29 Hz


@dataclass(frozen=True, eq=False)
class Labelling:
    """Labels of sources.

    Parameters
    ----------
    scores : ndarray of shape (sources, labels)
        From 0 to 1, in the order of `LABELS`; NaN where a label cannot be judged.
    labels : tuple of str
        The label with the largest score of each source; ``"other"`` if that is below one half.
    reasons : tuple of str
        The facts that each label is based on.
    notes : tuple of str
        What could not be judged, and why.
    """

    scores: Array
    labels: tuple[str, ...]
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def top_scores(self) -> Array:
        """The largest score of each source."""
        return np.asarray(np.nanmax(self.scores, axis=1))

    def summarize(self, sources: Sequence[str]) -> str:
        """List the sources that are not labelled as brain, and what could not be judged.

        Parameters
        ----------
        sources : sequence of str
            Names of all sources.
        """
        rows = zip(sources, self.labels, self.top_scores.tolist(), strict=True)
        shown = [
            f"{name} {label} {score:.2f}" if label != OTHER else f"{name} {label}"
            for name, label, score in rows
            if label != "brain"
        ]
        n_brain = len(self.labels) - len(shown)
        return "; ".join([", ".join([*shown, f"{n_brain} brain"]), *self.notes])

    def __str__(self) -> str:
        rows = zip(self.labels, self.top_scores, self.reasons, strict=True)
        return "\n".join(
            f"source-{i}: {label} {score:.2f}, {why}" for i, (label, score, why) in enumerate(rows)
        )


def label_sources(
    courses: ArrayLike,
    maps: ArrayLike,
    channels: Sequence[str],
    rate: float,
    *,
    positions: Mapping[int, Array] | None = None,
    breaks: Sequence[int] = (),
) -> Labelling:
    """Label sources as eye blink, eye movement, heart, muscle, line noise, channel noise or brain.

    The criteria are simple and made for EEG; docs/labels.md lists them. Sources of other recordings get
    scores too, which mean nothing.

    Parameters
    ----------
    courses : array-like of shape (samples, sources)
        The sources, in any unit. A minute or more is best.
    maps : array-like of shape (channels, sources)
        Weights of the sources in the channels.
    channels : sequence of str
        Names of the channels.
    rate : float
        In Hz.
    positions : mapping of int to ndarray of shape (3,), optional
        Directions of the channels from the centre of the head, by index: x to the right ear, y to the nose,
        z to the vertex. Default: those of the electrodes of the 10-20 system, by name.
    breaks : sequence of int, optional
        Rows of `courses` that do not continue the row before them.

    Returns
    -------
    Labelling

    Raises
    ------
    ParameterError
        If shapes do not match, samples are not finite, or there are less than two seconds.

    Examples
    --------
    >>> import numpy as np
    >>> from igbss_stream import label_sources
    >>> rng = np.random.default_rng(0)
    >>> t = np.arange(5000) / 250
    >>> hum = np.sin(2 * np.pi * 50 * t) + 0.1 * rng.normal(size=5000)
    >>> found = label_sources(hum[:, None], np.ones((2, 1)), ["Fz", "Cz"], 250.0)
    >>> found.labels
    ('line noise',)
    """
    x, weights = np.asarray(courses, np.float64), np.asarray(maps, np.float64)
    _check(x, weights, channels, rate)
    known = select_scalp(find_positions(channels) if positions is None else positions)
    scale = np.maximum(x.std(axis=0), 1e-300)
    x = (x - x.mean(axis=0)) / scale  # so that no unit is too small to be squared
    facts = SourceFacts(
        measure_maps(weights, known),
        _measure_in_groups(SpectrumFacts, measure_spectra, x, breaks, rate),
        _measure_in_groups(CourseFacts, measure_courses, x, breaks, rate),
    )
    scores = compute_scores(facts)
    top = np.nanmax(scores, axis=1)
    best = np.nanargmax(scores, axis=1)
    labels = tuple(LABELS[k] if score >= _LEAST else OTHER for k, score in zip(best, top, strict=True))
    reasons = tuple(describe(facts, label, i, channels) for i, label in enumerate(labels))
    return Labelling(scores, labels, reasons, tuple(_list_notes(len(x) / rate, rate, len(known), channels)))


def _measure_in_groups(
    kind: type[_Facts],
    measure: Callable[[Array, Sequence[int], float], _Facts],
    x: Array,
    breaks: Sequence[int],
    rate: float,
) -> _Facts:
    """Return facts of all sources, measured a few sources at a time, which takes less memory."""
    parts = [measure(x[:, i : i + _GROUP], breaks, rate) for i in range(0, x.shape[1], _GROUP)]
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])}
    return kind(**joined)


def _check(x: Array, weights: Array, channels: Sequence[str], rate: float) -> None:
    if x.ndim != 2 or weights.shape != (len(channels), x.shape[1]):
        raise ParameterError(
            f"courses must be (samples, sources) and maps (channels, sources), with {len(channels)} "
            f"channels. Got {x.shape} and {weights.shape} instead."
        )
    if not (np.isfinite(rate) and rate > 0):
        raise ParameterError(f"rate must be a number of Hz above 0. Got {rate!r} instead.")
    if len(x) < MIN_SECONDS * rate:
        raise ParameterError(
            f"labels need at least {MIN_SECONDS:g} s of samples. Got {len(x) / rate:g} s instead; pass "
            "more samples."
        )
    if not np.isfinite(x).all():
        raise ParameterError("courses must be finite. Leave out samples that are NaN or infinite.")


def _list_notes(seconds: float, rate: float, n_known: int, channels: Sequence[str]) -> list[str]:
    """Return what could not be judged."""
    notes = []
    if n_known < MIN_POSITIONS:
        notes.append(
            f"maps are not judged, because the positions of {n_known} of {len(channels)} channels are "
            f"known ({MIN_POSITIONS} are needed): no source is labelled as eye movement or channel noise, "
            "and blinks are found by their course alone"
        )
    if seconds < _RHYTHM_SECONDS:
        notes.append(
            f"no source is labelled as heart, which takes {_RHYTHM_SECONDS:g} s of consecutive samples"
        )
    if rate < _LOWEST_RATE:
        notes.append(f"no source is labelled as muscle, which takes a rate of {_LOWEST_RATE:g} Hz")
    return notes
