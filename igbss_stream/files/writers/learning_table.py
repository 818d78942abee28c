"""The table of a recording that states how its models were learned; docs/recording.md describes it."""

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk
from igbss_stream.feeds.model_facts import LearningFacts
from igbss_stream.files.writers.growing_header import Table

LEARNING = "learning"
"""Name of the table."""

_BYTES = 1 << 22  # of the table
_MIN_ROWS = 1 << 10  # however many sources there are


def make_learning_table(n_sources: int, capacity: int) -> Table:
    """Return the table for streams of so many sources, with at most `capacity` rows."""
    kind = _get_dtype(n_sources)
    return Table(LEARNING, kind, (), min(capacity, max(_MIN_ROWS, _BYTES // kind.itemsize)))


def as_learning_row(learning: LearningFacts, row: int) -> NDArray[np.void]:
    """Return how a model was learned as a row; of the evidence, only what excluded a further view."""
    excluded = [pair for pair in learning.contradictions if pair[0] < learning.view]
    contradicted, contradiction = excluded[0] if excluded else (np.nan, np.nan)
    values = (row, learning.version, learning.view, contradicted, contradiction, learning.drift_removed)
    return np.array([(*values, learning.reliability)], _get_dtype(len(learning.reliability)))


def _get_dtype(n_sources: int) -> np.dtype[np.void]:
    return np.dtype(
        [
            ("row", "<i8"),
            ("version", "<i8"),
            ("view", "<f8"),
            ("contradicted", "<f8"),
            ("contradiction", "<f8"),
            ("drift_removed", "<i8"),
            ("reliability", "<f4", (n_sources,)),
        ]
    )


class LearningStatement:
    """What is known of the current model, and whether the file states it.

    Attributes
    ----------
    known : LearningFacts or None
    """

    def __init__(self) -> None:
        self.known: LearningFacts | None = None
        self._stated: LearningFacts | None = None

    def forget(self) -> None:
        """Begin another run or file, which states nothing yet."""
        self._stated = None

    def find_unstated(self, chunk: Chunk) -> LearningFacts | None:
        """Return how the model of sources was learned, if that is known and not stated yet.

        Parameters
        ----------
        chunk : Chunk
            The sources.
        """
        known = self.known
        if known is None or known == self._stated:
            return None
        is_of_chunk = (known.version, len(known.reliability)) == (chunk.model_version, chunk.data.shape[1])
        return known if is_of_chunk else None

    def note(self, learning: LearningFacts | None) -> None:
        """Note what was written."""
        self._stated = self._stated if learning is None else learning
