"""A message with its position among the samples of its sender."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(slots=True)
class PlacedMessage:
    """A message with its position, in the sender's indices; a declared gap has no data."""

    start: int
    stop: int
    data: NDArray[Any] | None
    model_version: int
    reason: str


def count_samples(placed: PlacedMessage) -> int:
    """Return the number of samples that a message contains."""
    return 0 if placed.data is None else len(placed.data)
