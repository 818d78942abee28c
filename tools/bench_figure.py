"""Figures of benchmarks, with the limits that the project sets itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of the result."""

    name: str
    value: float
    unit: str
    limit: float
    detail: str = ""

    @property
    def within(self) -> bool:
        """Whether the limit is kept."""
        return self.value <= self.limit
