"""What the stage reports: which channels become bad or good, and how often."""

from dataclasses import dataclass

FAULTS = "missing", "flat", "railed", "unlike"
"""Kinds of faults of a channel in a stream."""


@dataclass(frozen=True, slots=True, order=True)
class LeftOutEvent:
    """A channel becomes bad or good.

    Parameters
    ----------
    index : int
        First sample that is replaced, or first that is used again.
    channel : str
    kind : str
        ``"missing"``, ``"flat"``, ``"railed"``, ``"unlike"``, or ``"good"``.
    detail : str
        The number that shows it.
    """

    index: int
    channel: str
    kind: str
    detail: str = ""

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.channel} is {self.kind} from sample {self.index}{detail}"


@dataclass(slots=True)
class BadChannelCounts:
    """Counts of bad channels.

    Parameters
    ----------
    left_out : int
        Number of times that a channel became bad.
    returned : int
        Number of times that a channel became good again.
    values : int
        Number of values that were replaced.
    """

    left_out: int = 0
    returned: int = 0
    values: int = 0
