"""Multi Channel Systems: analogue streams of integers, stored by channel, with a scale for each channel.

A sample is ``(stored - ADZero) * ConversionFactor * 10 ** Exponent`` in the unit of its channel; ``Tick``
is the time between samples in microseconds. ``ChannelDataTimeStamps`` has a row for each run without a gap.
"""

import itertools
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.readers.hdf5.file import decode_text, name_dataset
from igbss_stream.files.readers.hdf5.layouts.values import get_dataset, read_text_attribute, walk_groups
from igbss_stream.files.readers.hdf5.signal import LayoutMatch, Signal

LAYOUT = "MCS"
_FIELDS = ("Label", "RowIndex", "Unit", "Exponent", "ADZero", "Tick", "ConversionFactor")
_MOST_CHANNELS = 1 << 16


def find(file: Any, path: Path) -> LayoutMatch | None:
    """Describe the analogue streams of all recordings in a file of this layout."""
    if read_text_attribute(file, "McsHdf5ProtocolType") is None or not isinstance(
        file.get("Data"), h5py.Group
    ):
        return None
    signals = [_describe_signal(group, path) for group in walk_groups(file["Data"])]
    why = f"attribute McsHdf5ProtocolType is {read_text_attribute(file, 'McsHdf5ProtocolType')!r}"
    found = tuple(signal for signal in signals if signal is not None)
    return LayoutMatch(LAYOUT, why, found, f"{str(path)!r} has no analogue stream")


def _describe_signal(group: Any, path: Path) -> Signal | None:
    data, info = get_dataset(group, "ChannelData"), get_dataset(group, "InfoChannel")
    if data is None or data.ndim != 2 or info is None or not _is_valid_table(info, data.shape[0]):
        return None
    name = f"{group.name}/ChannelData"
    channels = np.sort(np.asarray(info.fields(list(_FIELDS))[()]), order="RowIndex")
    ticks, units = set(channels["Tick"].tolist()), {decode_text(unit) or "" for unit in channels["Unit"]}
    problem = ""
    if len(ticks) > 1 or not min(ticks) > 0:
        problem = (
            f"{name_dataset(name, path)} has channels with different rates; pass --rate if it is wrong"
        )
    tick = min(ticks)
    unit = units.pop() if len(units) == 1 else None
    gain, zero = _read_scale(channels)
    return Signal(
        dataset=name,
        shape=(data.shape[1], data.shape[0]),
        axis=1,
        rate=None if problem else 1e6 / tick,
        unit=None if unit in (None, "NoUnit") else unit,
        channels=tuple(decode_text(label) or "" for label in channels["Label"]),
        types=(read_text_attribute(group, "DataSubType") or "Analog",) * data.shape[0],
        gain=gain,
        offset=-zero * gain if zero.any() else None,
        gaps=()
        if problem
        else _find_gaps(get_dataset(group, "ChannelDataTimeStamps"), tick, data.shape[1]),
        notes=(f"stream {read_text_attribute(group, 'Label') or group.name}",),
        problem=problem,
        needs_rate=bool(problem),
    )


def _is_valid_table(info: Any, n_channels: int) -> bool:
    names = info.dtype.names or ()
    return (
        0 < info.size == n_channels <= _MOST_CHANNELS
        and info.ndim == 1
        and all(f in names for f in _FIELDS)
    )


def _read_scale(channels: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    factor = channels["ConversionFactor"].astype(np.float64)
    exponent = channels["Exponent"].astype(np.float64)
    # Digital streams state a factor of 0 for no scale.
    gain = np.where(factor == 0, 1.0, factor * 10.0**exponent)
    return gain, channels["ADZero"].astype(np.float64)


def _find_gaps(runs: Any, tick: int, n_samples: int) -> tuple[Gap, ...]:
    """Return the gaps between runs: (time in us and index of the first sample, index of the last)."""
    if runs is None or runs.ndim != 2 or runs.shape[1] != 3 or len(runs) > n_samples:
        return ()
    rows = np.asarray(runs[()]).tolist()
    places = []
    for (time, first, last), (next_time, next_first, _) in itertools.pairwise(rows):
        missing = round((next_time - time) / tick) - (last - first + 1)
        if missing and 0 < next_first < n_samples:
            places.append((next_first, max(0, missing), "missing"))
    return make_gaps(places)
