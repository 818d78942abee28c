"""EEGLAB sets in MATLAB 7.3: struct EEG, with samples in microvolts inside or in a .fdt file."""

import math
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.events import Events
from igbss_stream.files.bad_rows import is_bad, merge_rows
from igbss_stream.files.coordinates import METRES, guess_unit, turn_front_left
from igbss_stream.files.gaps import get_indices, make_gaps
from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS, as_positive, name_dataset
from igbss_stream.files.readers.hdf5.layouts.matlab import is_matlab
from igbss_stream.files.readers.hdf5.layouts.values import get_dataset, read_number, read_text_attribute
from igbss_stream.files.readers.hdf5.signal import LayoutMatch, RawFile, Signal
from igbss_stream.positions import HEAD, Positions

LAYOUT = "EEGLAB set (MATLAB 7.3)"
_FLOAT32 = np.dtype("<f4")
_MOST = 1 << 20  # entries of a list
_LONGEST = 1 << 12  # characters
_LONGEST_EVENT = 1e15  # samples

Marks = list[tuple[str, float, float | None]]
"""Type, position and duration of events."""


def find(file: Any, path: Path) -> LayoutMatch | None:
    """Describe the signal of a set."""
    if not is_matlab(file):
        return None
    root = file.get("EEG")
    where = "a struct EEG with srate and nbchan"
    if not isinstance(root, h5py.Group):
        root, where = file, "variables srate, nbchan and data"
    if (
        any(read_number(root, key) is None for key in ("srate", "nbchan"))
        or get_dataset(root, "data") is None
    ):
        return None
    return LayoutMatch(LAYOUT, f"it is a MATLAB file with {where}", (_describe_signal(root, path),))


def _describe_signal(root: Any, path: Path) -> Signal:
    data = root["data"]
    name = data.name
    n_channels, n_points, n_trials = (
        int(read_number(root, key) or 1) for key in ("nbchan", "pnts", "trials")
    )
    raw, shape, problem = None, data.shape, ""
    if n_trials > 1 or data.ndim > 2:
        problem = (
            f"{name_dataset(name, path)} has {n_trials} epochs; separation needs continuous data: "
            "pass the set before epoching"
        )
    elif read_text_attribute(data, "MATLAB_class") == "char":
        raw, problem = _find_raw_file(_read_text(data), path, (n_points, n_channels))
        shape = (n_points, n_channels)
    elif data.shape != (n_points, n_channels):
        problem = (
            f"{name_dataset(name, path)} has the shape {data.shape}, but the set states "
            f"{n_points} samples of {n_channels} channels; correct the set in EEGLAB"
        )
    events = _read_events(root)
    rate, gaps = as_positive(read_number(root, "srate")), _find_boundaries(events, shape[0])
    labels, types = (_read_texts(root, f"chanlocs/{field}", n_channels) for field in ("labels", "type"))
    return Signal(
        dataset=name,
        shape=shape,
        raw=raw,
        is_reversed=True,
        rate=rate,
        unit="uV",
        channels=labels,
        types=types if any(types) else (),
        bad_rows=_find_bad_rows(events, shape[0]),
        gaps=gaps,
        events=_find_events(events, gaps, rate),
        positions=lambda: _read_positions(root, labels),
        notes=() if labels else ("the set has no channel labels; channels are numbered",),
        problem=problem,
    )


def _find_raw_file(name: str, path: Path, shape: tuple[int, int]) -> tuple[RawFile | None, str]:
    """Return the binary file of a set, or why it cannot be read."""
    # Use only the name: the folder may be on another computer.
    bare = name.replace("\\", "/").rsplit("/", 1)[-1]
    candidates = [path.with_name(bare)] if bare not in ("", ".", "..") else []
    candidates.append(path.with_suffix(".fdt"))
    for candidate in candidates:
        if os.path.isfile(candidate):
            stated, there = shape[0] * shape[1] * _FLOAT32.itemsize, candidate.stat().st_size
            if stated == there:
                return RawFile(candidate, shape, _FLOAT32), ""
            return None, (
                f"{str(candidate)!r} has {there} bytes, but {str(path)!r} states {shape[0]} samples of "
                f"{shape[1]} channels, {stated} bytes; copy both files again"
            )
    return None, (
        f"{str(path)!r} has its samples in {bare or path.with_suffix('.fdt').name!r}, which is not "
        "in the same folder; copy it there"
    )


def _read_events(root: Any) -> Marks:
    """Return the type, position (first sample: 0) and duration of each event, in samples."""
    kinds = _get_referenced(root, "event/type", _MOST)
    latencies = _get_referenced(root, "event/latency", _MOST)
    durations = _get_referenced(root, "event/duration", _MOST)
    events = []
    for i, kind in enumerate(kinds[: len(latencies)]):
        is_text = read_text_attribute(kind, "MATLAB_class") == "char"
        number = None if is_text else _read_value(kind)
        if is_text or number is not None:
            duration = _read_value(durations[i]) if i < len(durations) else None
            known = duration is not None and 0 < duration < _LONGEST_EVENT
            at = (_read_value(latencies[i]) or 0) - 1  # latencies count from 1
            events.append(
                (f"{number:g}" if number is not None else _read_text(kind), at, duration if known else None)
            )
    return events


def _find_boundaries(events: Marks, n_samples: int) -> tuple[Gap, ...]:
    """Return the gaps: events of type boundary."""
    places = []
    for kind, at, missing in events:
        row = math.ceil(at)  # -0.5 is before the first sample
        if kind == "boundary" and 0 < row < n_samples:
            places.append((row, round(missing or 0), "boundary"))
    return make_gaps(sorted(places, key=lambda place: place[0]))


def _find_events(events: Marks, gaps: tuple[Gap, ...], rate: float | None) -> Events:
    """Return the events that are no boundaries."""
    kept = [
        (kind, at, (length or 0.0) / (rate or 1.0)) for kind, at, length in events if kind != "boundary"
    ]
    rows = [at for _, at, _ in kept]
    index = get_indices(gaps, rows)
    return Events(index, [kind for kind, _, _ in kept], [length for *_, length in kept], "events")


def _find_bad_rows(events: Marks, n_samples: int) -> tuple[tuple[int, int], ...]:
    """Return the rows that events mark as bad."""
    spans = [(round(at), round(at + (length or 0))) for kind, at, length in events if is_bad(kind)]
    return merge_rows(spans, n_samples)


def _read_texts(root: Any, name: str, n: int) -> tuple[str, ...]:
    found = _get_referenced(root, name, n)
    texts = tuple(
        _read_text(each) if read_text_attribute(each, "MATLAB_class") == "char" else "" for each in found
    )
    return texts if len(texts) == n else ()


def _read_positions(root: Any, labels: tuple[str, ...]) -> Positions | None:
    """Return the positions of a set: X to the nose and Y to the left ear, in a unit that is not stated."""
    columns = [_get_referenced(root, f"chanlocs/{axis}", _MOST) for axis in "XYZ"]
    if not labels or {len(column) for column in columns} != {len(labels)}:
        return None
    stated = [[_read_coordinate(handle) for handle in column] for column in columns]
    xyz = turn_front_left(np.array(stated).T)
    if np.isnan(xyz).all():
        return None
    unit = guess_unit(xyz)
    source = f"positions of the file (EEGLAB chanlocs, taken as {unit})"
    return Positions.from_table(labels, METRES[unit] * xyz, HEAD, source)


def _read_coordinate(handle: Any) -> float:
    value = _read_value(handle)
    return math.nan if value is None else value


def _get_referenced(root: Any, name: str, most: int) -> list[Any]:
    """Return the datasets that a field of a struct array refers to; for a single struct, the field."""
    field = get_dataset(root, name)
    if field is None or field.size > most:
        return []
    if h5py.check_ref_dtype(field.dtype) is None:
        return [field]
    found = []
    for reference in np.asarray(field[()]).reshape(-1):
        try:
            found.append(root.file[reference])
        except LIBRARY_ERRORS:
            return []
    return found


def _read_value(handle: Any) -> float | None:
    if not isinstance(handle, h5py.Dataset) or handle.size != 1 or handle.dtype.kind not in "iuf":
        return None
    value = float(np.asarray(handle[()]).item())
    return value if np.isfinite(value) else None


def _read_text(handle: Any) -> str:
    """Read a MATLAB text, a dataset of UTF-16 units."""
    if not isinstance(handle, h5py.Dataset) or handle.dtype.kind not in "iu" or handle.size > _LONGEST:
        return ""
    if handle.attrs.get("MATLAB_empty"):
        return ""
    units: NDArray[Any] = np.asarray(handle[()]).reshape(-1).astype("<u2")
    return units.tobytes().decode("utf-16-le", "replace").strip()
