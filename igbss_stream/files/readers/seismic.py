"""Read seismograms with ObsPy (extra `seismic`): miniSEED, and the SAC files of a station."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.memory import check_memory
from igbss_stream._util.optional import require
from igbss_stream.errors import InputError, RecordingError
from igbss_stream.events import Events
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.in_memory import (
    MemoryRecording,
    convert_errors,
    open_array,
    refuse_choice,
)
from igbss_stream.files.recording import Facts

_OFF = 0.25  # of a sampling interval, by which the times of channels may differ
_COPIES = 3  # of the samples in memory
_REMEDY = "convert it to HDF5 (/data), which is read in blocks, on a computer with more memory"
_N_SAC = 632  # bytes of the header of SAC
_LONGITUDES = (128, 144)  # bytes before those of the station and the event
_LARGEST_LONGITUDE = 1e5  # -12345 is none
_PICKS = ("a", *(f"t{i}" for i in range(10)))  # times of a header of SAC; their names begin with k


def open_miniseed(path: Path, options: ReadOptions) -> MemoryRecording:
    """Open the channels of a miniSEED file, for the time in which all of them have samples.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Raises
    ------
    RecordingError, InputError, ParameterError
    """
    what = repr(str(path))
    refuse_choice(options, what)
    obspy = require("obspy", "seismic", f"{what} is miniSEED, read by ObsPy")
    with convert_errors(f"{what} is miniSEED, and ObsPy cannot read it"):
        check_memory(4 * path.stat().st_size, f"{what} must be read at once, which", _REMEDY)
        traces = [trace for trace in obspy.read(path, format="MSEED") if trace.stats.npts]
        samples, facts = _join_traces(traces, what)
    return open_array(
        path, samples, replace(facts, layout="miniSEED", why="it begins with a record"), options
    )


def is_sac(head: bytes, n_bytes: int) -> bool:
    """Return whether a file is SAC, by the version and the number of samples in its header.

    Parameters
    ----------
    head : bytes
        Start of the file.
    n_bytes : int
        Length of the file.
    """
    return _find_byte_order(head, n_bytes) is not None


def _find_byte_order(head: bytes, n_bytes: int) -> str | None:
    """Return the byte order of a header of SAC; None if it is not one."""
    for order in "<>" if len(head) >= _N_SAC else "":
        version, n = (struct.unpack_from(f"{order}i", head, at)[0] for at in (304, 316))
        if version in (6, 7) and n > 0 and n_bytes >= _N_SAC + 4 * n:
            return order
    return None


def open_sac(path: Path, options: ReadOptions) -> MemoryRecording:
    """Open a SAC file, which has one channel, together with those of the other components beside it.

    These are the files with the same ending, network, station, location, band and instrument, at the same
    time. Picks in their headers are events.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Raises
    ------
    RecordingError, InputError, ParameterError
    """
    what = repr(str(path))
    refuse_choice(options, what)
    obspy = require("obspy", "seismic", f"{what} is SAC, read by ObsPy")
    with convert_errors(f"{what} is SAC, and ObsPy cannot read it"):
        paths = _find_components(obspy, path)
        n_bytes = sum(each.stat().st_size for each in paths)
        check_memory(4 * n_bytes, f"{what} must be read at once, which", _REMEDY)
        traces = [_read_sac(obspy, each) for each in paths]
        samples, facts = _join_traces(traces, what)
    listed = ", ".join(each.name for each in paths)
    return open_array(
        path,
        samples,
        replace(
            facts,
            layout="SAC",
            why="its header says so",
            notes=(f"the components of the station are in: {listed}", *facts.notes),
            events=_find_picks(traces, facts),
        ),
        options,
    )


def _find_components(obspy: Any, path: Path) -> list[Path]:
    """Return the files of the components of a station at the time of one of them, sorted by channel."""
    own = _read_sac(obspy, path, only_header=True).stats
    found = dict[str, Path]()
    for each in sorted(path.parent.glob(f"*{path.suffix}")):
        trace = _read_sac(obspy, each, only_header=True)
        if trace is None:
            continue
        stats = trace.stats
        is_component = stats.channel[:-1] == own.channel[:-1] and all(
            stats[key] == own[key] for key in ("network", "station", "location")
        )
        if not is_component or stats.starttime > own.endtime or own.starttime > stats.endtime:
            continue
        if stats.channel in found:
            raise InputError(
                f"{str(path)!r} has two files of channel {stats.channel!r} of the same time beside it, "
                f"{found[stats.channel].name!r} and {each.name!r}; move one of them"
            )
        found[stats.channel] = each
    return [found[channel] for channel in sorted(found)]


def _read_sac(obspy: Any, path: Path, *, only_header: bool = False) -> Any:
    """Return the trace in a SAC file; None if it is another file."""
    if not path.is_file():
        return None
    with open(path, "rb") as file:
        head = file.read(_N_SAC)
    order = _find_byte_order(head, path.stat().st_size)
    if order is None:
        return None
    for at in _LONGITUDES:  # from large ones, ObsPy does not return
        longitude = struct.unpack_from(f"{order}f", head, at)[0]
        if not abs(longitude) < _LARGEST_LONGITUDE:
            raise InputError(f"{str(path)!r} is damaged: its header states a longitude of {longitude:g}")
    return obspy.read(path, format="SAC", headonly=only_header)[0]


def _find_picks(traces: Sequence[Any], facts: Facts) -> Events:
    """Return the picks in the headers of SAC, each once."""
    found = dict[tuple[float, str], str]()
    for trace in traces:
        stated = trace.stats.sac
        for name in _PICKS:
            if name in stated:
                time = (
                    trace.stats.starttime.ns * 1e-9
                    + float(stated[name])
                    - float(stated["b"])
                    - (facts.t0 or 0.0)
                )
                label = str(stated.get(f"k{name}", "")).strip() or name
                found.setdefault((round(time, 6), label), trace.id)
    times = np.array([time for time, _ in found], np.float64)
    return Events(times * (facts.rate or 0.0), [label for _, label in found], None, list(found.values()))


def _join_traces(traces: Sequence[Any], what: str) -> tuple[NDArray[np.float64], Facts]:
    """Return the samples of channels for the time in which all of them have some, and their facts."""
    rates = {float(trace.stats.sampling_rate) for trace in traces}
    if len(rates) != 1 or not 0 < min(rates) < np.inf:
        listed = ", ".join(f"{rate:g}" for rate in sorted(rates)) or "no"
        raise RecordingError(f"{what} has channels at {listed} Hz; store those of one rate in a file")
    rate = rates.pop()
    first = min(trace.stats.starttime.ns for trace in traces)
    spans = [
        _Span(trace.id, (trace.stats.starttime.ns - first) * 1e-9 * rate, trace.data) for trace in traces
    ]
    names = tuple(dict.fromkeys(span.name for span in spans))
    if any(abs(span.at - round(span.at)) > _OFF for span in spans):
        raise InputError(f"{what} has channels whose samples are at different times; resample them")
    start, stop = _find_common(spans, names)
    if stop - start < 2:
        raise InputError(f"{what} has no time at which all of its {len(names)} channels have samples")
    n_bytes = 8 * (stop - start) * len(names) * _COPIES
    check_memory(n_bytes, f"{what} must be read at once, which", _REMEDY)
    samples, rows = _place_spans(spans, names, start, stop)
    steps, length = np.diff(rows), max(span.stop for span in spans)
    gaps = make_gaps((int(i) + 1, int(steps[i]) - 1, "missing") for i in np.flatnonzero(steps > 1))
    left = length - (stop - start)
    notes = (f"{left} samples at the ends, which not all channels have, are left out",) if left else ()
    t0 = first * 1e-9 + (start + int(rows[0])) / rate if len(rows) else None
    return samples, Facts("", "", "", rate, None, names, gaps=gaps, notes=notes, t0=t0)


@dataclass(frozen=True, eq=False)
class _Span:
    """Samples of a channel without a gap; `at` is the index of the first, with its fraction."""

    name: str
    at: float
    samples: NDArray[Any]

    @property
    def start(self) -> int:
        return round(self.at)

    @property
    def stop(self) -> int:
        return self.start + len(self.samples)


def _find_common(spans: list[_Span], names: tuple[str, ...]) -> tuple[int, int]:
    """Return the first index that all channels have reached, and the one that none has passed."""
    own = [[span for span in spans if span.name == name] for name in names]
    return max(min(s.start for s in each) for each in own), min(max(s.stop for s in each) for each in own)


def _place_spans(
    spans: list[_Span], names: tuple[str, ...], start: int, stop: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the samples that all channels have between two indices, and their indices from the first."""
    samples = np.zeros((stop - start, len(names)))
    known = np.zeros((stop - start, len(names)), bool)
    for span in spans:
        low, high, channel = max(span.start, start), min(span.stop, stop), names.index(span.name)
        if high > low:
            samples[low - start : high - start, channel] = span.samples[
                low - span.start : high - span.start
            ]
            known[low - start : high - start, channel] = True
    is_there = known.all(axis=1)
    return samples[is_there], np.flatnonzero(is_there)
