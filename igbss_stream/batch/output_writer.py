"""Write the contents of an output: samples block by block, and the origin."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.batch.channels import Channels, LeftOut
from igbss_stream.batch.models import KnownModel
from igbss_stream.errors import printable
from igbss_stream.files.event_table import NAME, make_event_table
from igbss_stream.files.gaps import get_gap_rows
from igbss_stream.files.positions_dataset import POSITIONS_NAME, make_positions_dataset
from igbss_stream.files.recording import Recording
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from igbss_stream.files.writers.recording_layout import GAP
from igbss_stream.separation.engine import Separator

_ROWS = np.dtype([("start", "i8"), ("n_samples", "i8")])


def reserve_samples(sink: Hdf5Sink, source: Channels, separator: Separator, compression: str) -> None:
    """Create the datasets of the sources and, with cleaning, of the cleaned channels.

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
        **describe_sources(recording, separator),
    )
    if separator.cleaning is not None:
        sink.create(
            "cleaned",
            (n_samples, len(source.cleaned_names)),
            compression=compression,
            **describe_cleaned(recording, source.cleaned_names),
        )


def describe_sources(recording: Recording, separator: Separator) -> dict[str, Any]:
    """Return the dtype and attributes of the sources.

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
        "t0": recording.t0,
        "unit": None if separator.settings.has_unit_variance else recording.unit,
        "channels": [f"source-{n}" for n in range(separator.stage.n_sources)],
    }


def describe_cleaned(recording: Recording, channels: Sequence[str]) -> dict[str, Any]:
    """Return the dtype and attributes of the cleaned channels.

    Parameters
    ----------
    recording : Recording
        The prepared recording.
    channels : sequence of str
        Channels that are separated.

    Returns
    -------
    dict
    """
    return {
        "dtype": recording.dtype,
        "rate": recording.rate,
        "t0": recording.t0,
        "unit": recording.unit,
        "channels": channels,
    }


def append_samples(sink: Hdf5Sink, sources: NDArray[Any], cleaned: NDArray[Any] | None) -> None:
    """Append the sources, and cleaned channels, of the next samples.

    Parameters
    ----------
    sink : Hdf5Sink
    sources : ndarray of shape (samples, sources)
    cleaned : ndarray of shape (samples, channels), optional
    """
    sink.append("sources", sources)
    if cleaned is not None:
        sink.append("cleaned", cleaned)


@dataclass(frozen=True)
class NamesLeftOut:
    """Names of channels that are not separated.

    Parameters
    ----------
    flat, bad : tuple of str
        See `LeftOut`.
    """

    flat: tuple[str, ...]
    bad: tuple[str, ...]


def name_left_out(recording: Recording, left_out: LeftOut) -> NamesLeftOut:
    """Return the names of channels that are left out.

    Parameters
    ----------
    recording : Recording
        As stored, not prepared.
    left_out : LeftOut
    """
    flat, bad = (tuple(recording.channels[i] for i in which) for which in (left_out.flat, left_out.bad))
    return NamesLeftOut(flat, bad)


def write_left_out(
    sink: Hdf5Sink,
    left_out: NamesLeftOut,
    excluded: Sequence[tuple[int, int]],
    *,
    interpolated: bool = False,
) -> None:
    """Write which channels were left out, and which rows nothing was learned from.

    Parameters
    ----------
    sink : Hdf5Sink
    left_out : NamesLeftOut
    excluded : sequence of (int, int)
        Start and stop of the rows.
    interpolated : bool
        Whether the bad channels are among the cleaned ones.
    """
    sink.set_attrs(
        flat_channels=list(left_out.flat) or None,
        bad_channels=list(left_out.bad) or None,
        interpolated_channels=list(left_out.bad) if interpolated else None,
    )
    write_excluded_rows(sink, excluded)


def write_excluded_rows(sink: Hdf5Sink, excluded: Sequence[tuple[int, int]]) -> None:
    """Write which rows nothing was learned from, if any.

    Parameters
    ----------
    sink : Hdf5Sink
    excluded : sequence of (int, int)
        Start and stop of the rows.
    """
    if excluded:
        rows = [(start, stop - start) for start, stop in excluded]
        sink.write("bad_rows", np.array(rows, _ROWS))


def write_gaps(sink: Hdf5Sink, recording: Recording) -> None:
    """Write the gaps in the format of recorded streams; gaps take no rows.

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


def write_events(sink: Hdf5Sink, recording: Recording) -> None:
    """Write the events, if there are any.

    Parameters
    ----------
    sink : Hdf5Sink
    recording : Recording
        The prepared recording.
    """
    if len(recording.events):
        sink.write(NAME, make_event_table(recording.events, recording.gaps, recording.rate))


def write_positions(sink: Hdf5Sink, recording: Recording, channels: Sequence[str]) -> None:
    """Write the positions of channels, if the recording has any.

    Parameters
    ----------
    sink : Hdf5Sink
    recording : Recording
    channels : sequence of str
        Channels that are separated.
    """
    if recording.positions is not None:
        xyz, attributes = make_positions_dataset(recording.positions, channels)
        sink.write(POSITIONS_NAME, xyz, **attributes)


def write_origin(sink: Hdf5Sink, recording: Recording, model: KnownModel | None, **attrs: str) -> None:
    """Write the names of the recording and of the model file, and the notes of the reader.

    Parameters
    ----------
    sink : Hdf5Sink
    recording : Recording
    model : KnownModel or None
        The model, if it was read from a file.
    **attrs
        Further attributes of the output.
    """
    name = os.fsencode(recording.path.name).decode(errors="replace")
    origin = None if model is None else json.dumps(model.origin.as_dict(model.path))
    notes = list(map(printable, recording.notes)) or None
    sink.set_attrs(input=name, dataset=recording.dataset, model=origin, notes=notes, **attrs)
