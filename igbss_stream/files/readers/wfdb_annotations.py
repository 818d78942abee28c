"""Read the annotations of a WFDB record: files beside its header, as events."""

from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream.errors import RecordingError
from igbss_stream.events import Events
from igbss_stream.files.readers.in_memory import convert_errors

_ENDINGS = (
    *("atr", "ari", "alh", "alm", "apn", "blh", "blm", "bph", "bpm", "ecg", "event", "fqrs", "hyp", "man"),
    *("pu", "pu0", "pu1", "q1c", "q2c", "qrs", "qrsc", "qt1", "st", "sta", "stb", "stc", "wabp", "wqrs"),
)
"""Usual names of annotators, which are the endings of their files."""


def read_annotations(wfdb: Any, path: Path, rate: float) -> tuple[Events, tuple[str, ...]]:
    """Return the annotations beside the header of a record, and notes that name their files.

    Parameters
    ----------
    wfdb : module
    path : Path
        The header (.hea).
    rate : float
        Of the record, in Hz.

    Returns
    -------
    events : Events
        Labelled by the symbol of the annotation and the text of its note; the source is the file.
    notes : tuple of str
    """
    found, notes = list[Events](), list[str]()
    for ending in _ENDINGS:
        file = path.with_suffix(f".{ending}")
        if not file.is_file():
            continue
        try:
            with convert_errors(f"{file.name!r} beside the record is not read as annotations"):
                found.append(_read_file(wfdb, file, rate))
        except RecordingError as error:
            notes.append(str(error))
        else:
            notes.append(f"{len(found[-1])} annotations in {file.name!r} are events")
    return Events.join(found), tuple(notes)


def _read_file(wfdb: Any, file: Path, rate: float) -> Events:
    table = wfdb.rdann(str(file.absolute().with_suffix("")), file.suffix[1:])
    texts = [str(text or "").strip("\0 ") for text in table.aux_note or [""] * len(table.sample)]
    labels = [f"{symbol} {text}".strip() for symbol, text in zip(table.symbol, texts, strict=True)]
    return Events(
        np.asarray(table.sample, np.float64) * rate / float(table.fs or rate), labels, None, file.name
    )
