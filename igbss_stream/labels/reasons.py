"""Describe in words why a source has its label."""

from collections.abc import Callable, Sequence

import numpy as np

from igbss_stream.errors import printable
from igbss_stream.labels.scores import SourceFacts


def describe(facts: SourceFacts, label: str, source: int, names: Sequence[str]) -> str:
    """Return the facts of a source that speak for a label.

    Parameters
    ----------
    facts : SourceFacts
    label : str
        One of `LABELS`, or ``"other"``.
    source : int
    names : sequence of str
        Names of the channels.
    """
    parts = _DESCRIPTIONS[label](facts, source)
    if facts.maps is not None and label in ("muscle", "channel noise"):
        parts.append(f"strongest at {printable(names[facts.maps.strongest[source]])}")
    return "; ".join(part for part in parts if part)


def _describe_blink(facts: SourceFacts, i: int) -> list[str]:
    return [_describe_front(facts, i), _describe_deflections(facts, i)]


def _describe_movement(facts: SourceFacts, i: int) -> list[str]:
    where = "" if facts.maps is None else f"opposite at the two eyes ({facts.maps.lateral[i]:.2f})"
    share = facts.courses.in_deflections[i]
    return [where, f"{share:.0%} of the slow power in an eighth of the time"]


def _describe_heart(facts: SourceFacts, i: int) -> list[str]:
    beats, rhythm = facts.courses.beats[i], facts.courses.rhythm[i]
    return [f"{beats:.0f} sharp peaks a minute, in a regular rhythm ({rhythm:.2f})"]


def _describe_muscle(facts: SourceFacts, i: int) -> list[str]:
    parts = [f"as strong from 25 Hz on as from 4 to 14 Hz (ratio {facts.spectra.high[i]:.2g})"]
    if facts.courses.bursts[i] > 3.0:
        parts.append(f"in bursts of up to {facts.courses.bursts[i]:.2g} times the usual power")
    return parts


def _describe_mains(facts: SourceFacts, i: int) -> list[str]:
    spectra = facts.spectra
    return [f"{spectra.mains[i]:.0%} of the power at {spectra.mains_frequency[i]:.0f} Hz and its multiples"]


def _describe_channel(facts: SourceFacts, i: int) -> list[str]:
    return [] if facts.maps is None else [f"{facts.maps.focus[i]:.0%} of the map in one channel"]


def _describe_brain(facts: SourceFacts, i: int) -> list[str]:
    spectra, parts = facts.spectra, []
    if spectra.alpha[i] > 3.0:
        height = 10.0 * np.log10(spectra.alpha[i])
        parts.append(f"peak of {height:.0f} dB at {spectra.alpha_frequency[i]:g} Hz")
    if np.isfinite(spectra.fall[i]):
        parts.append(f"spectrum falls as 1/f^{max(0.0, spectra.fall[i]):.1f}")
    return [*parts, "no sign of an artefact"]


def _describe_other(facts: SourceFacts, i: int) -> list[str]:
    return ["no label fits"]


def _describe_front(facts: SourceFacts, i: int) -> str:
    return "" if facts.maps is None else f"frontal on both sides ({facts.maps.frontal[i]:.2f})"


def _describe_deflections(facts: SourceFacts, i: int) -> str:
    courses = facts.courses
    return (
        f"{courses.n_deflections[i]:.0f} deflections a minute, {courses.width[i]:.2f} s wide at half their "
        f"height, with {courses.in_deflections[i]:.0%} of the slow power in an eighth of the time"
    )


_DESCRIPTIONS: dict[str, Callable[[SourceFacts, int], list[str]]] = {
    "eye blink": _describe_blink,
    "eye movement": _describe_movement,
    "heart": _describe_heart,
    "muscle": _describe_muscle,
    "line noise": _describe_mains,
    "channel noise": _describe_channel,
    "brain": _describe_brain,
    "other": _describe_other,
}
