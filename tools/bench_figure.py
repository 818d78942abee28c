"""What a benchmark tells: a figure beside the limit that the project sets itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of what is told."""

    name: str
    value: float
    unit: str
    limit: float
    detail: str = ""

    @property
    def within(self) -> bool:
        """Whether the limit is kept."""
        return self.value <= self.limit
