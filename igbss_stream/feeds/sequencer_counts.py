"""Counts of messages and samples by a sequencer."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class SequencerCounts:
    """Counts of messages and samples.

    ``samples_in = samples_out + samples_dropped + waiting samples``; the number of output indices, from the
    first to the last, is ``samples_out + samples_lost``.

    Parameters
    ----------
    messages : int
        All messages received.
    reordered : int
        Arrived after a later one, but in time.
    duplicates, late, strays : int
        Dropped because they arrived twice, arrived after their gap was declared, or belong to no run.
    restarts : int
    rejected : Counter
        Rejected, by reason: ``channels`` and ``dtype`` differ from those of the first message.
    samples_in, samples_out, samples_lost, samples_dropped : int
    """

    messages: int = 0
    reordered: int = 0
    duplicates: int = 0
    late: int = 0
    strays: int = 0
    restarts: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    samples_in: int = 0
    samples_out: int = 0
    samples_lost: int = 0
    samples_dropped: int = 0
