"""Find the events of a file that MNE reads: its annotations, and the onsets in its trigger channels."""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import ParameterError, RecordingError, printable
from igbss_stream.events import Events, OnsetFinder
from igbss_stream.files.gaps import get_gap_rows, get_indices
from igbss_stream.files.messages import as_one_line
from igbss_stream.files.sample_marks import END_OF_SAMPLES, GAP_LABEL

Array = NDArray[np.float64]
Runs = list[tuple[int, int]]

SKIP = "bad_acq_skip"
BOUNDARIES = ("boundary", "new segment", "edge boundary", "bad boundary")
_COMMENT = "Comment/"  # MNE prepends the type of a BrainVision marker; a comment needs none
_SOURCES = {"BrainVision": "markers", "EEGLAB set": "events"}
_COMPOSED = ("STI101", "STI 014")  # channels of FIF that hold the sum of the other trigger channels
_TRIGGER_BITS = 0xFFFF  # of a BDF status channel; the others are the state of the amplifier
_BLOCK = 1 << 20  # samples


def is_event(text: str) -> bool:
    """Return whether an annotation is an event, not a break in the samples."""
    lower = text.lower().removeprefix(_COMMENT.lower())
    return not (
        lower.startswith((SKIP, *BOUNDARIES)) or GAP_LABEL.match(lower) or END_OF_SAMPLES.match(lower)
    )


def find_annotated_events(annotations: Any, kind: str, to_index: Callable[[Array], Array]) -> Events:
    """Return the annotations that are events.

    Parameters
    ----------
    annotations : mne.Annotations
    kind : str
        Name of the format.
    to_index : callable
        Converts onsets in seconds to indices.
    """
    texts = [str(text) for text in annotations.description]
    keep = np.array([is_event(text) for text in texts], bool)
    if kind == "BrainVision":
        texts = [text.removeprefix(_COMMENT) for text in texts]
    return Events(
        to_index(np.asarray(annotations.onset, np.float64))[keep],
        [text for text, kept in zip(texts, keep, strict=True) if kept],
        np.asarray(annotations.duration, np.float64)[keep],
        _SOURCES.get(kind, "annotations"),
    )


def make_index_map(runs: Runs, gaps: Sequence[Gap]) -> Callable[[Array], Array]:
    """Return a function from samples, as MNE counts them, to indices.

    MNE counts the samples of a skip, but not those that are missing at a boundary.

    Parameters
    ----------
    runs : list of (int, int)
        Samples that are read.
    gaps : tuple of Gap
    """
    first_rows = np.cumsum([0, *(stop - first for first, stop in runs[:-1])]).tolist()
    edges, missing = list[int](), [0]
    for row, gap in zip(get_gap_rows(gaps), gaps, strict=True):
        if gap.reason == "boundary":
            run = bisect_right(first_rows, row) - 1
            edges.append(runs[run][0] + row - first_rows[run])
            missing.append(missing[-1] + gap.n_samples)
    counts, begin = np.array(missing, np.float64), runs[0][0]

    def to_index(samples: Array) -> Array:
        return np.asarray(samples - begin + counts[np.searchsorted(edges, samples + 1e-6, "right")])

    return to_index


def choose_trigger_channels(raw: Any, kind: str, names: Sequence[str], what: str) -> list[str]:
    """Return the channels whose onsets are events: the named ones, or the trigger channels of the file.

    Parameters
    ----------
    raw : mne.io.BaseRaw
    kind : str
        Name of the format.
    names : sequence of str
        Of the option `events`.
    what : str
        Name of the file, for the message.

    Raises
    ------
    ParameterError
        If a named channel does not exist.
    """
    missing = [name for name in names if name not in raw.ch_names]
    if missing:
        raise ParameterError(
            f"{what} has no channel {printable(missing[0])!r}, which --events names; its channels are: "
            f"{', '.join(map(printable, raw.ch_names[-8:]))}."
        )
    if names:
        return list(names)
    if kind == "EGI MFF":  # MNE makes them from the events, which are annotations as well
        return []
    types = zip(raw.ch_names, raw.get_channel_types(), strict=True)
    found = [name for name, type_ in types if type_ == "stim"]
    composed = [name for name in _COMPOSED if name in found]
    return composed[:1] or found


def find_onsets(raw: Any, kind: str, channels: Sequence[str], runs: Runs, gaps: Sequence[Gap]) -> Events:
    """Return the onsets in trigger channels.

    Parameters
    ----------
    raw : mne.io.BaseRaw
    kind : str
        Name of the format.
    channels : sequence of str
    runs : list of (int, int)
        Samples that are read, as MNE counts them.
    gaps : tuple of Gap

    Raises
    ------
    RecordingError
        If they cannot be read.
    """
    rate, mask = float(raw.info["sfreq"]), _TRIGGER_BITS if kind == "BDF" else None
    finders = [OnsetFinder(name, rate, mask=mask) for name in channels]
    try:
        for first, stop in runs:
            for at in range(first, stop, _BLOCK):
                values = raw.get_data(list(channels), at, min(at + _BLOCK, stop), verbose="ERROR")
                for finder, column in zip(finders, values, strict=True):
                    finder.push(column)
    except Exception as error:  # the type depends on the format
        raise RecordingError(
            f"the trigger channels {', '.join(channels)} cannot be read: {as_one_line(error)}; copy or "
            "record the file again"
        ) from error
    found = Events.join(finder.finish() for finder in finders)
    return found.move(get_indices(gaps, found.index))


def get_start(raw: Any, runs: Runs) -> float | None:
    """Return the Unix time of the first sample that is read, if the file states it."""
    date = raw.info["meas_date"]
    if date is None:
        return None
    start = float(date.timestamp()) + float(raw.first_time) + runs[0][0] / float(raw.info["sfreq"])
    return start if math.isfinite(start) else None
