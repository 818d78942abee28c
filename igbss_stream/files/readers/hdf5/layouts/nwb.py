"""Neurodata Without Borders: every ElectricalSeries of the file.

A sample is ``stored * conversion * channel_conversion + offset`` in the unit of the series.
"""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import RecordingError
from igbss_stream.files.readers.hdf5.file import (
    LIBRARY_ERRORS,
    attribute,
    naming,
    positive,
    stated_unit,
    text,
)
from igbss_stream.files.readers.hdf5.layouts.values import (
    dataset,
    groups,
    if_one_each,
    kind_of,
    member,
    numbers,
    numeric,
    word,
    words,
)
from igbss_stream.files.readers.hdf5.signal import Contents, Signal
from igbss_stream.files.timing import Times

LAYOUT = "NWB"
_VOLTS = ("volt", "volts", "v")


def find(file: Any, path: Path) -> Contents | None:
    """Describe every electrical series, if the file is of this format."""
    version = kind_of(file, "nwb_version") or word(file, "nwb_version")
    if version is None and kind_of(file, "neurodata_type") != "NWBFile":
        return None
    series = [
        group
        for group in groups(file)
        if kind_of(group, "neurodata_type") == "ElectricalSeries" and dataset(group, "data") is not None
    ]
    nothing = (
        f"{str(path)!r} is NWB of version {version or 'unknown'} and holds no ElectricalSeries with data, "
        "which is where NWB keeps continuous channels; pass --dataset to read another one as plain numbers"
    )
    why = "the file states nwb_version" if version else "the file is an NWBFile"
    return Contents(LAYOUT, why, tuple(_signal(group, path) for group in series), nothing)


def _signal(group: Any, path: Path) -> Signal:
    data, name = group["data"], f"{group.name.rstrip('/')}/data"
    shape = data.shape if data.ndim >= 2 else (data.shape[0], 1)
    rate, times, trouble = _timing(group, shape[0], naming(name, path))
    names, note = _names(group, shape[1])
    gain, offset = _scale(group, data, shape[1])
    unit = text(attribute(data, "unit"))
    if gain is None and offset is None:
        unit = unit or stated_unit(data)
    return Signal(
        dataset=name,
        shape=shape,
        rate=rate,
        unit="V" if (unit or "").lower() in _VOLTS else unit,
        channels=names,
        types=("electrode",) * shape[1],
        gain=gain,
        offset=offset,
        times=times,
        notes=(note,) if note else (),
        trouble=trouble,
        untimed=bool(trouble),
    )


def _scale(
    group: Any, data: Any, n_channels: int
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return gain and offset of each channel; None where they change nothing."""
    gain = np.full(n_channels, _stated(data, "conversion", 1.0))
    each = numbers(group, "channel_conversion")
    if each is not None and len(each) == n_channels:
        gain = gain * each.astype(np.float64)
    offset = np.full(n_channels, _stated(data, "offset", 0.0))
    return None if np.all(gain == 1) else gain, None if np.all(offset == 0) else offset


def _stated(data: Any, name: str, neutral: float) -> float:
    value = attribute(data, name)
    if value is None:
        return neutral
    if not isinstance(value, int | float | np.integer | np.floating) or not np.isfinite(value):
        raise RecordingError(
            f"{naming(data.name, Path(data.file.filename))} states the {name} {value!r}, which is no "
            "number; repair the file"
        )
    return float(value)


def _timing(group: Any, n_samples: int, what: str) -> tuple[float | None, Times | None, str]:
    """Return rate or times, or what is wrong with them."""
    start = dataset(group, "starting_time")
    if start is not None:
        rate = positive(attribute(start, "rate"))
        return rate, None, "" if rate else f"{what} states no rate in starting_time; pass --rate"
    times = dataset(group, "timestamps")
    if times is None or times.ndim != 1 or not numeric(times):
        return None, None, f"{what} has neither starting_time nor timestamps; pass --rate"
    if len(times) != n_samples:
        return None, None, f"{what} has {len(times)} timestamps for {n_samples} samples; pass --rate"
    return None, Times(lambda a, b: times[a:b], n_samples), ""


def _names(group: Any, n_channels: int) -> tuple[tuple[str, ...], str]:
    """Return the names of the electrodes of a series, or why there are none."""
    rows, table = numbers(group, "electrodes"), _table(group)
    if rows is None or table is None:
        return (), "no table of electrodes tells the names of the channels; they are numbered"
    if len(rows) != n_channels:
        return (), f"{len(rows)} electrodes are listed for {n_channels} channels; the channels are numbered"
    for column in ("label", "channel_name", "electrode_name"):
        labels = words(table, column)
        if labels and rows.min() >= 0 and rows.max() < len(labels):
            chosen = tuple(labels[int(row)] for row in rows)
            if len(set(chosen)) == n_channels:
                return if_one_each(chosen, n_channels), ""
    ids = numbers(table, "id")
    if ids is not None and rows.min() >= 0 and rows.max() < len(ids):
        return tuple(f"electrode-{ids[int(row)]}" for row in rows), ""
    return (), "the table of electrodes names none of the channels; they are numbered"


def _table(group: Any) -> Any:
    """Return the table of electrodes that a series refers to."""
    reference = attribute(dataset(group, "electrodes"), "table") if dataset(group, "electrodes") else None
    if isinstance(reference, h5py.Reference):
        try:
            found = group.file[reference]
        except LIBRARY_ERRORS:
            return None
        return found if isinstance(found, h5py.Group) else None
    return member(group.file, "/general/extracellular_ephys/electrodes")
