"""SNIRF, the Shared Near Infrared Spectroscopy Format: /nirs/data1/dataTimeSeries."""

import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from igbss_stream.files.clock import TimedEvents, Timeline
from igbss_stream.files.readers.hdf5.file import as_positive, name_dataset
from igbss_stream.files.readers.hdf5.layouts.snirf_probe import read_probe_positions
from igbss_stream.files.readers.hdf5.layouts.values import (
    get_dataset,
    is_numeric,
    parse_time,
    read_number,
    read_numbers,
    read_text,
    read_texts,
)
from igbss_stream.files.readers.hdf5.signal import LayoutMatch, Signal
from igbss_stream.files.timing import Times

LAYOUT = "SNIRF"
_SECONDS = {"s": 1.0, "ms": 1e3, "us": 1e6}
_TYPES = {1: "continuous-wave amplitude", 99999: "processed"}
_STIM = re.compile(r"stim\d*$")
_MOST = 1 << 22  # numbers in a table of stimuli
_AUX = re.compile(r"aux\d*$")


def find(file: Any, path: Path) -> LayoutMatch | None:
    """Describe every data block of every run of a file of this layout."""
    runs = [
        file[key] for key in file if re.fullmatch(r"nirs\d*", key) and isinstance(file[key], h5py.Group)
    ]
    blocks = [
        (run, key)
        for run in runs
        for key in run
        if re.fullmatch(r"data\d*", key) and get_dataset(run, f"{key}/dataTimeSeries") is not None
    ]
    if not blocks:
        return None
    version = read_text(file, "formatVersion")
    why = f"it has {blocks[0][0].name}/{blocks[0][1]}/dataTimeSeries"
    why += f" and states formatVersion {version}" if version else ""
    return LayoutMatch(LAYOUT, why, tuple(_describe_signal(run, run[key], path) for run, key in blocks))


def _describe_signal(run: Any, block: Any, path: Path) -> Signal:
    data, name = block["dataTimeSeries"], f"{block.name}/dataTimeSeries"
    per_second = _SECONDS.get(read_text(run, "metaDataTags/TimeUnit") or "s", 1.0)
    rate, times, problem = _find_timing(
        block, data.shape[0] if data.shape else 0, per_second, name_dataset(name, path)
    )
    shape = data.shape if data.ndim == 2 else (*data.shape, 1)
    measured = [_read_measurement(block, i) for i in range(1, shape[1] + 1)]
    names, types, units = zip(*(_describe_channel(m, run) for m in measured), strict=True)
    return Signal(
        dataset=name,
        shape=shape,
        rate=rate,
        unit=(units[0] or None) if len(set(units)) == 1 else None,
        channels=names,
        types=types,
        times=times,
        timeline=lambda: _read_timeline(run, block, per_second),
        positions=lambda: read_probe_positions(
            run, names, [(m.get("sourceIndex"), m.get("detectorIndex")) for m in measured]
        ),
        notes=_note_auxiliary(run),
        problem=problem,
        needs_rate=bool(problem),
    )


def _find_timing(
    block: Any, n_samples: int, per_second: float, what: str
) -> tuple[float | None, Times | None, str]:
    """Return the rate, or the timestamps, or why neither can be used."""
    time = _get_times(block)
    if time is None:
        return None, None, f"{what} has no timestamps; pass --rate"
    if time.size == 2 != n_samples:  # start and step
        step = float(_read_times(time, 1, 2)[0])
        rate = as_positive(per_second / step if step else 0)
        return rate, None, "" if rate else f"{what} has timestamps that do not increase; pass --rate"
    if time.size != n_samples:
        return None, None, f"{what} has {time.size} timestamps for {n_samples} samples; pass --rate"
    return None, Times(lambda a, b: _read_times(time, a, b), n_samples, per_second), ""


def _get_times(block: Any) -> Any:
    """Return the dataset of times, which may have a second axis of length 1; None without one."""
    time = get_dataset(block, "time")
    return (
        time
        if time is not None and is_numeric(time) and time.size and max(time.shape) == time.size
        else None
    )


def _read_times(time: Any, start: int, stop: int) -> Any:
    """Return some of the times."""
    along = int(np.argmax(time.shape))
    return time[tuple(slice(start, stop) if axis == along else 0 for axis in range(time.ndim))]


def _read_stimuli(run: Any, per_second: float) -> TimedEvents:
    """Return the stimuli of a run: rows of onset, duration and amplitude in /stim1, /stim2, ..."""
    tables = []
    for key in run:
        data = get_dataset(run, f"{key}/data") if _STIM.match(key) else None
        if data is None or data.ndim != 2 or data.shape[1] < 2 or data.size > _MOST or not is_numeric(data):
            continue
        onset, duration = np.asarray(data[:, :2], np.float64).T / per_second
        name = read_text(run[key], "name") or key
        tables.append(TimedEvents(onset, [name] * len(onset), duration, [key] * len(onset)))
    return TimedEvents.join(tables)


def _read_timeline(run: Any, block: Any, per_second: float) -> Timeline:
    """Return the stimuli, and the date and time of the measurement, which is that of time 0."""
    time = _get_times(block)
    first = float(_read_times(time, 0, 1)[0]) / per_second if time is not None else 0.0
    date, clock = (read_text(run, f"metaDataTags/Measurement{name}") for name in ("Date", "Time"))
    return Timeline(_read_stimuli(run, per_second), first, parse_time(f"{date}T{clock}"))


def _read_measurement(block: Any, i: int) -> dict[str, Any]:
    """Read the measurement of channel i (from 1) of a block, in either form of the list."""
    keys = ("sourceIndex", "detectorIndex", "wavelengthIndex", "dataType")
    one, every = block.get(f"measurementList{i}"), block.get("measurementLists")
    found: dict[str, Any] = {}
    if isinstance(one, h5py.Group):
        found = {key: read_number(one, key) for key in keys}
        found |= {key: read_text(one, key) for key in ("dataTypeLabel", "dataUnit")}
    elif isinstance(every, h5py.Group):
        for key in keys:
            values = read_numbers(every, key)
            found[key] = float(values[i - 1]) if values is not None and len(values) >= i else None
        for key in ("dataTypeLabel", "dataUnit"):
            texts = read_texts(every, key)
            found[key] = texts[i - 1] if len(texts) >= i else None
    return found


def _describe_channel(measured: dict[str, Any], run: Any) -> tuple[str, str, str]:
    """Return name, type and unit of a channel; the name has the form of MNE: ``S1_D2 760``."""
    source, detector = measured.get("sourceIndex"), measured.get("detectorIndex")
    label, kind = measured.get("dataTypeLabel") or "", measured.get("dataType")
    unit = measured.get("dataUnit") or ""
    kind_name = label or (_TYPES.get(int(kind), f"dataType {int(kind)}") if kind else "")
    if source is None or detector is None:
        return "", kind_name, unit
    name = f"S{int(source)}_D{int(detector)}"
    wavelengths, at = read_numbers(run, "probe/wavelengths"), measured.get("wavelengthIndex")
    if label in ("HbO", "HbR", "HbT"):
        name += f" {label.lower()}"
    elif wavelengths is not None and at is not None and 0 < at <= len(wavelengths):
        name += f" {round(float(np.asarray(wavelengths)[int(at) - 1]))}"
    return name, kind_name, unit


def _note_auxiliary(run: Any) -> tuple[str, ...]:
    aux = [key for key in run if _AUX.match(key)]
    if not aux:
        return ()
    return (f"{len(aux)} auxiliary series ({run.name}/{aux[0]} etc.) with separate timestamps are omitted",)
