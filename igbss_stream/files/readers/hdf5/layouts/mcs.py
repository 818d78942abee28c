"""Multi Channel Systems: analogue streams of integers, channel by channel, with the scale of each channel.

A sample is ``(stored - ADZero) * ConversionFactor * 10 ** Exponent`` in the unit of its channel; ``Tick``
is the time between samples in microseconds. ``ChannelDataTimeStamps`` has a row for each stretch without
a gap.
"""

import itertools
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.readers.hdf5.file import naming, text
from igbss_stream.files.readers.hdf5.layouts.values import dataset, groups, kind_of
from igbss_stream.files.readers.hdf5.signal import Contents, Signal

LAYOUT = "MCS"
_FIELDS = ("Label", "RowIndex", "Unit", "Exponent", "ADZero", "Tick", "ConversionFactor")
_MOST_CHANNELS = 1 << 16


def find(file: Any, path: Path) -> Contents | None:
    """Describe the analogue streams of all recordings, if the file is of this make."""
    if kind_of(file, "McsHdf5ProtocolType") is None or not isinstance(file.get("Data"), h5py.Group):
        return None
    signals = [_signal(group, path) for group in groups(file["Data"])]
    why = f"attribute McsHdf5ProtocolType is {kind_of(file, 'McsHdf5ProtocolType')!r}"
    found = tuple(signal for signal in signals if signal is not None)
    return Contents(LAYOUT, why, found, f"{str(path)!r} has no analogue stream")


def _signal(group: Any, path: Path) -> Signal | None:
    data, info = dataset(group, "ChannelData"), dataset(group, "InfoChannel")
    if data is None or data.ndim != 2 or info is None or not _describes(info, data.shape[0]):
        return None
    name = f"{group.name}/ChannelData"
    channels = np.sort(np.asarray(info.fields(list(_FIELDS))[()]), order="RowIndex")
    ticks, units = set(channels["Tick"].tolist()), {text(unit) or "" for unit in channels["Unit"]}
    trouble = ""
    if len(ticks) > 1 or not min(ticks) > 0:
        trouble = f"{naming(name, path)} has channels of different rates; pass --rate if that is wrong"
    tick = min(ticks)
    unit = units.pop() if len(units) == 1 else None
    gain, zero = _scale(channels)
    return Signal(
        dataset=name,
        shape=(data.shape[1], data.shape[0]),
        axis=1,
        rate=None if trouble else 1e6 / tick,
        unit=None if unit in (None, "NoUnit") else unit,
        channels=tuple(text(label) or "" for label in channels["Label"]),
        types=(kind_of(group, "DataSubType") or "Analog",) * data.shape[0],
        gain=gain,
        offset=-zero * gain if zero.any() else None,
        gaps=() if trouble else _find_gaps(dataset(group, "ChannelDataTimeStamps"), tick, data.shape[1]),
        notes=(f"stream {kind_of(group, 'Label') or group.name}",),
        trouble=trouble,
        untimed=bool(trouble),
    )


def _describes(info: Any, n_channels: int) -> bool:
    names = info.dtype.names or ()
    return (
        0 < info.size == n_channels <= _MOST_CHANNELS
        and info.ndim == 1
        and all(f in names for f in _FIELDS)
    )


def _scale(channels: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    factor = channels["ConversionFactor"].astype(np.float64)
    exponent = channels["Exponent"].astype(np.float64)
    # Digital streams state a factor of 0, which means that they have none.
    gain = np.where(factor == 0, 1.0, factor * 10.0**exponent)
    return gain, channels["ADZero"].astype(np.float64)


def _find_gaps(runs: Any, tick: int, n_samples: int) -> tuple[Gap, ...]:
    """Return the gaps between stretches: (time of the first sample in us, its index, that of the last)."""
    if runs is None or runs.ndim != 2 or runs.shape[1] != 3 or len(runs) > n_samples:
        return ()
    rows = np.asarray(runs[()]).tolist()
    places = []
    for (time, first, last), (next_time, next_first, _) in itertools.pairwise(rows):
        missing = round((next_time - time) / tick) - (last - first + 1)
        if missing and 0 < next_first < n_samples:
            places.append((next_first, max(0, missing), "missing"))
    return make_gaps(places)
