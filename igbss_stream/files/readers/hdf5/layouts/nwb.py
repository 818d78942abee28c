"""Neurodata Without Borders (NWB): every ElectricalSeries of a file.

A sample is ``stored * conversion * channel_conversion + offset`` in the unit of the series.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import RecordingError
from igbss_stream.files.messages import complete_names
from igbss_stream.files.readers.hdf5.file import (
    as_positive,
    decode_text,
    name_dataset,
    read_attribute,
    read_unit,
)
from igbss_stream.files.readers.hdf5.layouts.nwb_electrodes import (
    read_electrode_names,
    read_electrode_positions,
)
from igbss_stream.files.readers.hdf5.layouts.nwb_events import read_timeline
from igbss_stream.files.readers.hdf5.layouts.values import (
    get_dataset,
    is_numeric,
    read_numbers,
    read_text,
    read_text_attribute,
    walk_groups,
)
from igbss_stream.files.readers.hdf5.signal import LayoutMatch, Signal
from igbss_stream.files.timing import Times

LAYOUT = "NWB"
_VOLTS = ("volt", "volts", "v")


def find(file: Any, path: Path) -> LayoutMatch | None:
    """Describe every electrical series of a file of this layout."""
    version = read_text_attribute(file, "nwb_version") or read_text(file, "nwb_version")
    if version is None and read_text_attribute(file, "neurodata_type") != "NWBFile":
        return None
    series = [
        group
        for group in walk_groups(file)
        if read_text_attribute(group, "neurodata_type") == "ElectricalSeries"
        and get_dataset(group, "data") is not None
    ]
    empty_message = (
        f"{str(path)!r} is NWB of version {version or 'unknown'} and has no ElectricalSeries with data, "
        "where NWB stores continuous channels; pass --dataset to read another dataset as plain numbers"
    )
    why = "the file states nwb_version" if version else "the file is an NWBFile"
    return LayoutMatch(LAYOUT, why, tuple(_describe_signal(group, path) for group in series), empty_message)


def _describe_signal(group: Any, path: Path) -> Signal:
    data, name = group["data"], f"{group.name.rstrip('/')}/data"
    shape = data.shape if data.ndim >= 2 else (data.shape[0], 1)
    if _is_transposed(group, shape):
        return _describe_transposed(group, data, name, path)
    rate, times, problem = _find_timing(group, shape[0], name_dataset(name, path))
    names, note = read_electrode_names(group, shape[1])
    gain, offset = _read_scale(group, data, shape[1])
    unit = decode_text(read_attribute(data, "unit"))
    if gain is None and offset is None:
        unit = unit or read_unit(data)
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
        timeline=lambda: read_timeline(group),
        positions=lambda: read_electrode_positions(group, complete_names(names, shape[1])),
        notes=(note,) if note else (),
        problem=problem,
        needs_rate=bool(problem),
    )


def _is_transposed(group: Any, shape: tuple[int, ...]) -> bool:
    """Return whether the first axis of a series has the electrodes, or the second one the times."""
    if len(shape) != 2 or shape[0] == shape[1]:
        return False
    rows, times = read_numbers(group, "electrodes"), get_dataset(group, "timestamps")
    n_times = None if times is None or times.ndim != 1 else len(times)
    if n_times in shape:
        return n_times == shape[1]
    return rows is not None and len(rows) == shape[0]


def _describe_transposed(group: Any, data: Any, name: str, path: Path) -> Signal:
    """Describe a series whose axes are swapped; the user has to confirm it by passing the axis."""
    n_channels, n_samples = data.shape
    what = name_dataset(name, path)
    rate, times, problem = _find_timing(group, n_samples, what)
    names, note = read_electrode_names(group, n_channels)
    gain, offset = _read_scale(group, data, n_channels)
    unit = decode_text(read_attribute(data, "unit"))
    swapped = (
        f"{what} has shape {data.shape}, but its first axis is as long as the list of electrodes, not as "
        "the samples: it was written transposed. Pass --axis 1"
    )
    return Signal(
        dataset=name,
        shape=(n_samples, n_channels),
        axis=None,
        rate=rate,
        unit="V" if (unit or "").lower() in _VOLTS else unit,
        channels=names,
        gain=gain,
        offset=offset,
        times=times,
        timeline=lambda: read_timeline(group),
        positions=lambda: read_electrode_positions(group, complete_names(names, n_channels)),
        notes=(note,) if note else (),
        problem=f"{swapped}, and --rate: {problem}" if problem else swapped,
    )


def _read_scale(
    group: Any, data: Any, n_channels: int
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return gain and offset of each channel; None if they have no effect."""
    gain = np.full(n_channels, _read_factor(data, "conversion", 1.0))
    each = read_numbers(group, "channel_conversion")
    if each is not None and len(each) == n_channels:
        gain = gain * each.astype(np.float64)
    offset = np.full(n_channels, _read_factor(data, "offset", 0.0))
    return None if np.all(gain == 1) else gain, None if np.all(offset == 0) else offset


def _read_factor(data: Any, name: str, neutral: float) -> float:
    value = read_attribute(data, name)
    if value is None:
        return neutral
    if not isinstance(value, int | float | np.integer | np.floating) or not np.isfinite(value):
        raise RecordingError(
            f"{name_dataset(data.name, Path(data.file.filename))} states the {name} {value!r}, which "
            "is not a "
            "number; correct the file"
        )
    return float(value)


def _find_timing(group: Any, n_samples: int, what: str) -> tuple[float | None, Times | None, str]:
    """Return the rate, or the timestamps, or why neither can be used."""
    start = get_dataset(group, "starting_time")
    if start is not None:
        rate = as_positive(read_attribute(start, "rate"))
        return rate, None, "" if rate else f"{what} states no rate in starting_time; pass --rate"
    times = get_dataset(group, "timestamps")
    if times is None or times.ndim != 1 or not is_numeric(times):
        return None, None, f"{what} has neither starting_time nor timestamps; pass --rate"
    if len(times) != n_samples:
        return None, None, f"{what} has {len(times)} timestamps for {n_samples} samples; pass --rate"
    return None, Times(lambda a, b: times[a:b], n_samples), ""
