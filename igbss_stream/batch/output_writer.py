"""What the output of `batch` holds: samples, which are appended block by block, and what made them."""

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.version import __version__
from igbss_stream.batch.channels import Channels
from igbss_stream.batch.models import KnownModel
from igbss_stream.files.gaps import get_gap_rows
from igbss_stream.files.recording import Recording
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from igbss_stream.files.writers.stream_recording import GAP
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.cleaning import Cleaner
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.settings import to_plain


def reserve_samples(sink: Hdf5Sink, source: Channels, separator: Separator, compression: str) -> None:
    """Reserve the sources, and the cleaned channels if there are to be any.

    Parameters
    ----------
    sink : Hdf5Sink
    source : Channels
    separator : Separator
        Prepared.
    compression : str
    """
    n_samples, recording = source.n_samples, source.recording
    sink.create(
        "sources",
        (n_samples, separator.stage.n_sources),
        compression=compression,
        **of_sources(recording, separator),
    )
    if separator.cleaning is not None:
        sink.create(
            "cleaned",
            (n_samples, len(source.names)),
            compression=compression,
            **of_cleaned(recording, source.names),
        )


def of_sources(recording: Recording, separator: Separator) -> dict[str, Any]:
    """Return type and attributes of the sources of a recording.

    Parameters
    ----------
    recording : Recording
    separator : Separator
        Prepared.

    Returns
    -------
    dict
    """
    return {
        "dtype": recording.dtype,
        "rate": recording.rate,
        "unit": None if separator.settings.has_unit_variance else recording.unit,
        "channels": [f"source-{n}" for n in range(separator.stage.n_sources)],
    }


def of_cleaned(recording: Recording, channels: Sequence[str]) -> dict[str, Any]:
    """Return type and attributes of the cleaned channels of a recording.

    Parameters
    ----------
    recording : Recording
        As it is separated.
    channels : sequence of str
        Those that are separated.

    Returns
    -------
    dict
    """
    return {
        "dtype": recording.dtype,
        "rate": recording.rate,
        "unit": recording.unit,
        "channels": channels,
    }


def append_samples(sink: Hdf5Sink, sources: NDArray[Any], cleaned: NDArray[Any] | None) -> None:
    """Append what was made of the samples that come next.

    Parameters
    ----------
    sink : Hdf5Sink
    sources : ndarray of shape (samples, sources)
    cleaned : ndarray of shape (samples, channels), optional
    """
    sink.append("sources", sources)
    if cleaned is not None:
        sink.append("cleaned", cleaned)


def write_gaps(sink: Hdf5Sink, recording: Recording) -> None:
    """Say where samples are missing, as recordings of streams do; gaps take no rows.

    Parameters
    ----------
    sink : Hdf5Sink
    recording : Recording
    """
    if not recording.gaps:
        return
    gaps = [
        (row, gap.start, gap.n_samples, gap.reason.encode()[:40])
        for row, gap in zip(get_gap_rows(recording.gaps), recording.gaps, strict=True)
    ]
    sink.write("gaps", np.array(gaps, GAP))


def write_model(
    sink: Hdf5Sink,
    channels: Sequence[str],
    unit: str | None,
    separator: Separator,
    preparation: Preparation,
) -> None:
    """Write what makes sources of samples.

    Parameters
    ----------
    sink : Hdf5Sink
    channels : sequence of str
    unit : str or None
        Of the channels.
    separator : Separator
        Prepared.
    preparation : Preparation
        Of the samples.
    """
    stage = separator.stage
    mixing, unmixing = (
        weights if len(weights) > 1 else weights[0] for weights in (stage.mixing, stage.unmixing)
    )
    mixed = unit if separator.settings.has_unit_variance else None
    sink.write("mixing", mixing, channels=channels, unit=mixed)
    sink.write("unmixing", unmixing, channels=channels)
    if separator.losses:
        sink.write("learning", separator.losses)
    if stage.mean is not None:
        sink.write("mean", stage.mean, channels=channels, unit=unit)
    sink.set_attrs(
        igbss_stream_version=__version__,
        input_unit=unit,
        solver=separator.solver,
        settings=separator.settings.to_json(),
        preparation=preparation.to_json(),
        transform=json.dumps(to_plain(separator.transform)),
        cleaning=None if separator.cleaning is None else json.dumps(separator.cleaning.to_dict()),
    )


def write_origin(sink: Hdf5Sink, recording: Recording, model: KnownModel | None, **attrs: str) -> None:
    """Write which recording the samples are of, and where their model is from.

    Parameters
    ----------
    sink : Hdf5Sink
    recording : Recording
    model : KnownModel or None
        What separated them, if it was not made of this recording.
    **attrs
        More attributes of the output.
    """
    name = os.fsencode(recording.path.name).decode(errors="replace")
    told = None if model is None else json.dumps(model.origin.told(model.path))
    sink.set_attrs(input=name, dataset=recording.dataset, model=told, **attrs)


def write_excluded(sink: Hdf5Sink, cleaner: Cleaner) -> None:
    """Write which sources were taken out, and why: the channel is empty where a number was given.

    Parameters
    ----------
    sink : Hdf5Sink
    cleaner : Cleaner
    """
    rows = [(one.source, one.channel.encode(), one.correlation) for one in cleaner.excluded]
    width = max((len(name) for _, name, _ in rows), default=0) or 1
    kind = [("source", "i8"), ("channel", f"S{width}"), ("correlation", "f8")]
    sink.write("excluded", np.array(rows, kind))
