"""What `batch` writes of cleaned channels: /cleaned, and /excluded, which sources they lack and why."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from igbss_stream.batch.models import KnownModel
from igbss_stream.cleaning import Cleaner, Cleaning
from igbss_stream.ingest.recording import Recording
from igbss_stream.publish.hdf5 import Hdf5Sink
from igbss_stream.separator import Separator
from igbss_stream.survey import Survey


def reserve_cleaned(
    sink: Hdf5Sink, recording: Recording, channels: Sequence[str], compression: str
) -> None:
    """Reserve the dataset of cleaned channels, which is like that of the recording.

    Parameters
    ----------
    sink : Hdf5Sink
    recording : Recording
    channels : sequence of str
        Those that are separated.
    compression : str
        As of the sources.
    """
    sink.create(
        "cleaned",
        (recording.n_samples, len(channels)),
        recording.dtype,
        compression=compression,
        rate=recording.rate,
        unit=recording.unit,
        channels=list(channels),
    )


def write_excluded(sink: Hdf5Sink, cleaner: Cleaner) -> None:
    """Write which sources were taken out, and why: the channel is empty where a number was given."""
    rows = [(one.source, one.channel.encode(), one.correlation) for one in cleaner.excluded]
    width = max((len(name) for _, name, _ in rows), default=0) or 1
    kind = [("source", "i8"), ("channel", f"S{width}"), ("correlation", "f8")]
    sink.write("excluded", np.array(rows, kind))


def needs_look(separator: Separator) -> bool:
    """Return whether all samples are looked at before a known model separates the first."""
    finds = separator.cleaning is not None and separator.cleaning.finds
    return finds or not separator.by_sample


def starting_with(
    model: KnownModel,
    names: Sequence[str],
    dtype: np.dtype[Any],
    n_samples: int,
    cleaning: Cleaning | None,
) -> tuple[Separator, Survey, Callable[[Survey], None]]:
    """Return a known model that takes sources out: those like a channel are found in this recording.

    Parameters
    ----------
    model : KnownModel
    names : sequence of str
        Of the channels, in the order of the model.
    dtype : dtype
    n_samples : int
    cleaning : Cleaning, optional

    Returns
    -------
    Separator
    Survey
        Empty.
    callable
        Makes the separator ready once all is surveyed.
    """
    separator = copy.copy(model.separator)  # the model may go on to other recordings
    separator.cleaning = cleaning
    if cleaning is None:
        return separator, Survey(names, dtype, n_samples), model.check
    cleaning.check(separator.transform, products=False)
    if not cleaning.finds:
        separator.cleaner = cleaning.cleaner(separator.stage)

    def ready(survey: Survey) -> None:
        model.check(survey)
        if cleaning.finds:
            separator.cleaner = cleaning.cleaner(separator.stage, survey)

    return separator, Survey(names, dtype, n_samples, covariance=cleaning.finds), ready
