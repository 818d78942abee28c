"""The annotations of exports: events, and marks where samples are missing or added, which readers parse."""

import re

from igbss_stream.chunk import Gap
from igbss_stream.errors import printable

GAP_LABEL = re.compile(r"(?:comment/|bad boundary, )?gap: (\d+|unknown number of) samples missing")
_CONTROL = dict.fromkeys(range(32), " ")
END_OF_SAMPLES = re.compile(r"end: \d+ samples of padding follow")


def as_label(text: str) -> str:
    """Return the label of an event without control characters: they end lines and annotations in files."""
    return text.translate(_CONTROL)


def describe_gap(gap: Gap) -> str:
    """Return the annotation of a gap."""
    if gap.n_samples == 0:
        return f"gap: unknown number of samples missing ({printable(gap.reason)})"
    return f"gap: {gap.n_samples} samples missing"


def describe_padding(n_samples: int) -> str:
    """Return the annotation after the last sample."""
    return f"end: {n_samples} samples of padding follow"
