"""EEGLAB set in MATLAB 7.3: struct EEG, its signal inside or in the .fdt beside it, in microvolts."""

import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS, naming, positive
from igbss_stream.files.readers.hdf5.layouts.matlab import is_matlab
from igbss_stream.files.readers.hdf5.layouts.values import dataset, kind_of, number
from igbss_stream.files.readers.hdf5.signal import Contents, RawFile, Signal

LAYOUT = "EEGLAB set (MATLAB 7.3)"
_FLOAT32 = np.dtype("<f4")
_MOST = 1 << 20  # entries of a list
_LONGEST = 1 << 12  # characters


def find(file: Any, path: Path) -> Contents | None:
    """Describe the signal, if the file is a set."""
    if not is_matlab(file):
        return None
    root = file.get("EEG")
    where = "struct EEG with srate and nbchan"
    if not isinstance(root, h5py.Group):
        root, where = file, "variables srate, nbchan and data, as EEGLAB saves them"
    if any(number(root, key) is None for key in ("srate", "nbchan")) or dataset(root, "data") is None:
        return None
    return Contents(LAYOUT, f"it is of MATLAB and has a {where}", (_signal(root, path),))


def _signal(root: Any, path: Path) -> Signal:
    data = root["data"]
    name = data.name
    n_channels, n_points, n_trials = (int(number(root, key) or 1) for key in ("nbchan", "pnts", "trials"))
    raw, shape, trouble = None, data.shape, ""
    if n_trials > 1 or data.ndim > 2:
        trouble = (
            f"{naming(name, path)} is cut into {n_trials} epochs; separation needs it whole: give the set "
            "that they were cut from"
        )
    elif kind_of(data, "MATLAB_class") == "char":
        raw, trouble = _beside(_text(data), path, (n_points, n_channels))
        shape = (n_points, n_channels)
    elif data.shape != (n_points, n_channels):
        trouble = (
            f"{naming(name, path)} has the shape {data.shape}, but the set states {n_points} samples of "
            f"{n_channels} channels; repair the set in EEGLAB"
        )
    labels, types = (_texts(root, f"chanlocs/{field}", n_channels) for field in ("labels", "type"))
    return Signal(
        dataset=name,
        shape=shape,
        raw=raw,
        rate=positive(number(root, "srate")),
        unit="uV",
        channels=labels,
        types=types if any(types) else (),
        gaps=_find_boundaries(root, shape[0]),
        notes=() if labels else ("the set has no labels of channels; they are numbered",),
        trouble=trouble,
    )


def _beside(name: str, path: Path, shape: tuple[int, int]) -> tuple[RawFile | None, str]:
    """Return the file of plain numbers that belongs to a set, or what is wrong with it."""
    # Only the name counts: the folder is that of another computer.
    bare = name.replace("\\", "/").rsplit("/", 1)[-1]
    candidates = [path.with_name(bare)] if bare not in ("", ".", "..") else []
    candidates.append(path.with_suffix(".fdt"))
    for candidate in candidates:
        if candidate.is_file():
            stated, there = shape[0] * shape[1] * _FLOAT32.itemsize, candidate.stat().st_size
            if stated == there:
                return RawFile(candidate, shape, _FLOAT32), ""
            return None, (
                f"{str(candidate)!r} has {there} bytes, but {str(path)!r} states {shape[0]} samples of "
                f"{shape[1]} channels, {stated} bytes; copy both files again"
            )
    return None, (
        f"{str(path)!r} has its samples in {bare or path.with_suffix('.fdt').name!r}, which is not beside "
        "it; copy it there"
    )


def _find_boundaries(root: Any, n_samples: int) -> tuple[Gap, ...]:
    """Return where something was cut out: events of type boundary, their latency counted from 1."""
    kinds = _referred(root, "event/type", _MOST)
    latencies = _referred(root, "event/latency", _MOST)
    durations = _referred(root, "event/duration", _MOST)
    places = []
    for i, kind in enumerate(kinds):
        if kind_of(kind, "MATLAB_class") != "char" or _text(kind) != "boundary" or i >= len(latencies):
            continue
        row = math.ceil((_value(latencies[i]) or 0) - 1)  # 0.5 is before the first sample
        missing = _value(durations[i]) if i < len(durations) else None
        if 0 < row < n_samples:
            known = missing is not None and 0 < missing < 1e15
            places.append((row, round(missing or 0) if known else 0, "boundary"))
    return make_gaps(sorted(places, key=lambda place: place[0]))


def _texts(root: Any, name: str, n: int) -> tuple[str, ...]:
    found = _referred(root, name, n)
    texts = tuple(_text(each) if kind_of(each, "MATLAB_class") == "char" else "" for each in found)
    return texts if len(texts) == n else ()


def _referred(root: Any, name: str, most: int) -> list[Any]:
    """Return the datasets that a field of an array of structs refers to; of one struct, the field."""
    field = dataset(root, name)
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


def _value(handle: Any) -> float | None:
    if not isinstance(handle, h5py.Dataset) or handle.size != 1 or handle.dtype.kind not in "iuf":
        return None
    value = float(np.asarray(handle[()]).item())
    return value if np.isfinite(value) else None


def _text(handle: Any) -> str:
    """Return a MATLAB text, a dataset of UTF-16 units."""
    if not isinstance(handle, h5py.Dataset) or handle.dtype.kind not in "iu" or handle.size > _LONGEST:
        return ""
    if handle.attrs.get("MATLAB_empty"):
        return ""
    units: NDArray[Any] = np.asarray(handle[()]).reshape(-1).astype("<u2")
    return units.tobytes().decode("utf-16-le", "replace").strip()
