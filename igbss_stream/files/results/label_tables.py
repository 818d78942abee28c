"""Parse the tables of an output about its sources: their labels, and which were removed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.labels.labelling import Labelling
from igbss_stream.labels.scores import LABELS
from igbss_stream.separation.source_choice import Excluded

LABEL_TABLE = "labels"
"""Name of the table of labels."""


def make_excluded(rows: NDArray[np.void]) -> tuple[Excluded, ...]:
    """Return the removed sources of a table; files of version 0.1 state no labels.

    Parameters
    ----------
    rows : ndarray
        Rows of ``/excluded``.
    """
    has_labels = "label" in (rows.dtype.names or ())
    names = ("source", "channel", "correlation", *(("label", "score") if has_labels else ()))
    return tuple(
        Excluded(int(source), _decode(channel), float(correlation), *_make_reason(*reason))
        for source, channel, correlation, *reason in zip(
            *(rows[name].tolist() for name in names), strict=True
        )
    )


def make_labelling(rows: NDArray[np.void], notes: tuple[str, ...]) -> Labelling:
    """Return the labels of a table.

    Parameters
    ----------
    rows : ndarray
        Rows of ``/labels``.
    notes : tuple of str

    Raises
    ------
    ValueError
        If the rows are not those of sources from 0 on, or a column is missing.
    """
    if rows["source"].tolist() != list(range(len(rows))):
        raise ValueError("/labels does not have one row for each source")
    scores = [np.asarray(rows[label.replace(" ", "_")], np.float64) for label in LABELS]
    labels, reasons = (tuple(map(_decode, rows[name].tolist())) for name in ("label", "reason"))
    return Labelling(np.column_stack(scores), labels, reasons, notes)


def _make_reason(label: Any = b"", score: Any = np.nan) -> tuple[str, float]:
    return _decode(label), float(score)


def _decode(text: Any) -> str:
    return bytes(text).decode(errors="replace")
