"""Plain files: a dataset of numbers with attributes ``rate``, ``unit`` and ``channels``.

Recordings and outputs of igbss-stream have this layout too; their tables ``/gaps`` and ``/events`` state
where samples are missing, and what happened; ``/positions`` states where the sensors are.
"""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError
from igbss_stream.events import Events
from igbss_stream.files.event_table import NAME, read_event_table
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.positions_dataset import POSITIONS_NAME, read_positions_dataset
from igbss_stream.files.readers.hdf5.contents import list_datasets
from igbss_stream.files.readers.hdf5.file import (
    name_dataset,
    read_channel_names,
    read_rate,
    read_start,
    read_unit,
)
from igbss_stream.files.readers.hdf5.layouts.values import get_dataset, get_member, is_numeric
from igbss_stream.files.readers.hdf5.signal import LayoutMatch, Signal
from igbss_stream.positions import Positions

LAYOUT = "plain"
_DATA = "/data"
_OURS = (_DATA, "/sources", "/cleaned")  # /gaps and /events belong to these
_GAP_FIELDS = ("row", "start", "n_samples", "reason")
_MOST_GAPS = 1 << 20


def find(file: Any, path: Path) -> LayoutMatch:
    """Describe `/data`, or else every dataset that could be a recording; matches every file."""
    data = get_member(file, _DATA)
    if isinstance(data, h5py.Dataset):
        return LayoutMatch(LAYOUT, "it has a dataset /data", (describe_signal(data, _DATA, path, file),))
    found = [
        describe_signal(handle, name, path, file)
        for name, handle in list_datasets(file)
        if handle.shape is not None and len(handle.shape) == 2 and is_numeric(handle)
    ]
    signals = tuple(signal for signal in found if signal.is_multichannel)
    why = "no other layout matches"
    if len(signals) == 1:
        why += f", and {signals[0].dataset} is its only two-dimensional dataset of numbers"
    return LayoutMatch(LAYOUT, why, signals, f"{str(path)!r} has no dataset '/data'")


def describe_signal(handle: Any, name: str, path: Path, file: Any) -> Signal:
    """Describe a dataset of an open file as plain numbers."""
    rate, problem = None, ""
    try:
        rate = read_rate(handle, name_dataset(name, path))
    except RecordingError as error:
        problem = str(error)
    shape = handle.shape or ()
    gaps = read_gaps(file, shape[0]) if name in _OURS and shape else ()
    return Signal(
        dataset=name,
        shape=shape,
        axis=None,
        rate=rate,
        unit=read_unit(handle),
        channels=read_channel_names(handle),
        gaps=gaps,
        events=read_events(file) if name in _OURS and shape else Events(),
        # not of `handle`: it would stay open, and a dataset has the cache that it was first opened with
        positions=lambda: read_positions(file, file[name]) if name in _OURS else None,
        t0=read_start_of_rows(file, handle, rate),
        problem=problem,
        needs_rate=bool(problem),
    )


def read_gaps(file: Any, n_samples: int) -> tuple[Gap, ...]:
    """Read the gaps in `n_samples` rows of /data from the table /gaps of an open file."""
    table = get_dataset(file, "/gaps")
    if table is None or table.dtype.names != _GAP_FIELDS or table.size > _MOST_GAPS:
        return ()
    rows = np.asarray(table[()])
    return make_gaps(
        (int(row), int(count), reason.decode("utf-8", "replace") or "missing")
        for row, _, count, reason in rows.tolist()
        if 0 < row < n_samples and count >= 0
    )


def read_events(file: Any) -> Events:
    """Read the table /events of an open file; indices count from the first row."""
    return read_event_table(get_dataset(file, f"/{NAME}"), _read_first_index(file))


def read_positions(file: Any, handle: Any) -> Positions | None:
    """Return the positions in /positions of the channels of a dataset, if one of them is among them."""
    found = read_positions_dataset(get_dataset(file, f"/{POSITIONS_NAME}"))
    channels = read_channel_names(handle)
    return found.select(channels) if found is not None and {*channels} & {*found.names} else None


def _read_first_index(file: Any) -> int:
    """Return the index of the first row: above 0 in a file that continues the recording of a stream."""
    models = get_dataset(file, "/models")
    if models is None or models.dtype.names != ("row", "start", "version") or not len(models):
        return 0
    row, start, _ = models[0].tolist()
    return int(start - row)


def read_start_of_rows(file: Any, handle: Any, rate: float | None) -> float | None:
    """Return the Unix time of the first row, if the dataset states that of index 0."""
    t0 = read_start(handle)
    return None if t0 is None else t0 + (_read_first_index(file) / rate if rate else 0.0)
