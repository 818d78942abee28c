"""Read XDF, the format of the LSL recorder (extra `xdf`).

pyxdf reads the samples of one stream, and the marker streams, all at once. Samples keep their order; gaps
follow from their timestamps, with synchronised clocks, by the same rules as in a live stream.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.dtypes import get_working_dtype
from igbss_stream._util.memory import check_memory
from igbss_stream._util.optional import require
from igbss_stream.chunk import Gap
from igbss_stream.errors import InputError, ParameterError, RecordingError
from igbss_stream.files.bad_rows import is_bad
from igbss_stream.files.channel_selection import pick_channels
from igbss_stream.files.jittered_times import find_stream_losses, measure_mean_rate
from igbss_stream.files.messages import as_one_line, check_counts, complete_names
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.in_memory import MemoryRecording, collect_log
from igbss_stream.files.readers.xdf_headers import XdfStream, list_streams
from igbss_stream.files.readers.xdf_markers import Markers, choose_marker_streams, place_markers
from igbss_stream.files.recording import Facts
from igbss_stream.files.signal_choice import SeveralSignalsError, SignalChoice
from igbss_stream.files.timing import measure_restarts, measure_timing
from igbss_stream.positions import Positions

_COPIES = 2  # of the samples in memory while pyxdf concatenates its chunks
_BYTES_OF_TIMES = 64  # per sample, for its timestamp and the computation of gaps
_IGNORED = "clock-segments differ"  # a warning for every stream that is not dejittered
_TOLERANCE = 1e-3  # relative difference of rates that is not reported


def open_xdf(path: Path, options: ReadOptions) -> MemoryRecording:
    """Open a stream of an XDF file.

    Parameters
    ----------
    path : Path
    options : ReadOptions
        `dataset` is the name or the number of a stream.

    Returns
    -------
    MemoryRecording

    Raises
    ------
    ParameterError, RecordingError, InputError
        If pyxdf is missing, the file is damaged or larger than memory, the choice of the stream is
        ambiguous, or the samples cannot be separated.
    """
    if options.axis is not None:
        raise ParameterError(f"{str(path)!r} is XDF, which has no axes; omit --axis")
    found, header_notes = list_streams(path)
    stream = _choose_stream(found, options, path)
    what = f"stream {stream.name!r} of {str(path)!r}"
    if stream.dtype is None:
        raise InputError(f"{what} contains text, not samples; choose another stream with --dataset")
    dtype = get_working_dtype(stream.dtype, what)
    names = complete_names(stream.labels, stream.n_channels)
    picks = None if options.channels is None else pick_channels(options.channels, names, what)
    n_channels = len(names) if picks is None else len(picks)
    check_counts(stream.n_samples, n_channels, what)
    n_bytes = stream.n_samples * (_COPIES * stream.n_channels * stream.dtype.itemsize + _BYTES_OF_TIMES)
    remedy = "convert it to HDF5 (/data), which is read in blocks, on a computer with more memory"
    check_memory(n_bytes, f"{what} must be read at once, which", remedy)
    marker_streams = choose_marker_streams(found, stream, options.event_names, repr(str(path)))
    samples, times, markers, notes = _load_samples(path, stream, marker_streams)
    check_counts(len(samples), n_channels, what)  # of a damaged file, pyxdf reads a part
    rate, gaps, rate_notes = _find_timing(stream, times, options, what)
    events = place_markers(markers, times, gaps, options.rate or rate)
    n_bad = sum(map(is_bad, events.label))
    bad_notes = (f"{n_bad} markers begin with BAD, but have no duration, so they mark no samples as bad",)
    facts = Facts(
        "XDF",
        "it begins with XDF:",
        stream.name,
        options.rate or rate,
        options.unit or (None if options.factor else stream.unit),
        names,
        stream.types,
        gaps=gaps,
        notes=(*header_notes, *notes, *rate_notes, *(bad_notes if n_bad else ())),
        events=events,
        positions=_place_channels(stream, names),
    )
    gain = None if options.factor is None else np.full(len(names), float(options.factor))
    return MemoryRecording(path, samples, facts=facts, dtype=dtype, picks=picks, gain=gain)


def _place_channels(stream: XdfStream, names: tuple[str, ...]) -> Positions | None:
    """Return the positions that the header of a stream states; None if it states none."""
    if not stream.locations:
        return None
    return Positions.from_table(names, stream.locations, "unknown", "positions of the file (XDF)")


def _choose_stream(found: list[XdfStream], options: ReadOptions, path: Path) -> XdfStream:
    """Return the selected stream."""
    if not found:
        raise RecordingError(f"{str(path)!r} has no streams; record it again")
    if options.dataset is None:
        named = [stream for stream in found if stream.is_signal] or found
        problem = f"has {len(named)} streams to choose from"
    else:
        named = [stream for stream in found if stream.name == options.dataset]
        named = named or [stream for stream in found if str(stream.id) == options.dataset]
        problem = f"has {len(named) or 'no'} streams {options.dataset!r}"
    if len(named) == 1:
        return named[0]
    choices = [_as_choice(stream, found) for stream in named or found]
    listed = ", ".join(
        f"{signal.option.removeprefix('--dataset ')} ({signal.n_samples} samples of {signal.n_channels} "
        f"channels, {f'{signal.rate:g} Hz' if signal.rate else 'irregular'})"
        for signal in choices
    )
    raise SeveralSignalsError(
        f"{str(path)!r} (XDF) {problem}; pass --dataset with one of: {listed}", choices
    )


def _as_choice(stream: XdfStream, found: list[XdfStream]) -> SignalChoice:
    is_unique = bool(stream.name) and sum(other.name == stream.name for other in found) == 1
    return SignalChoice(
        f"--dataset {stream.name!r}" if is_unique else f"--dataset {stream.id}",
        stream.n_samples,
        stream.n_channels,
        stream.rate or None,
        stream.unit,
        complete_names(stream.labels, stream.n_channels),
        stream.types or (stream.type,) * bool(stream.type),
    )


def _load_samples(
    path: Path, stream: XdfStream, markers: list[XdfStream]
) -> tuple[NDArray[Any], NDArray[np.float64], list[Markers], tuple[str, ...]]:
    """Return samples and timestamps of a stream, the markers of others, and the warnings of pyxdf."""
    pyxdf = require("pyxdf", "xdf", f"{str(path)!r} is XDF, read by pyxdf")
    wanted = [stream.id, *(each.id for each in markers)]
    try:
        # pyxdf divides by the time between the first and the last sample, which may be 0
        with collect_log("pyxdf") as texts, np.errstate(all="ignore"):
            loaded, _ = pyxdf.load_xdf(path, select_streams=wanted, dejitter_timestamps=False)
        found = {each["info"]["stream_id"]: each for each in loaded}
        samples = np.asarray(found[stream.id]["time_series"], stream.dtype)
        times = np.asarray(found[stream.id]["time_stamps"], np.float64)
        events = [
            Markers(
                each.name,
                found[each.id]["time_series"],
                np.asarray(found[each.id]["time_stamps"], np.float64),
            )
            for each in markers
        ]
    except Exception as error:  # the type depends on the damage
        raise RecordingError(
            f"{str(path)!r} is XDF, and pyxdf cannot read it: {as_one_line(error)}; copy or record it again"
        ) from error
    if samples.shape != (len(times), stream.n_channels):
        raise RecordingError(
            f"{str(path)!r} is a damaged XDF file (samples of shape {samples.shape}); copy or record it "
            "again"
        )
    return samples, times, events, tuple(f"pyxdf warns: {text}" for text in texts if _IGNORED not in text)


def _find_timing(
    stream: XdfStream, times: NDArray[np.float64], options: ReadOptions, what: str
) -> tuple[float | None, tuple[Gap, ...], tuple[str, ...]]:
    """Return rate and gaps of a stream, and a note if the timestamps contradict the nominal rate."""
    rate, certain = stream.rate or None, True
    try:
        timing = measure_timing(lambda first, last: times[first:last], len(times), what)
        gaps, measured = (timing.gaps, timing.rate) if timing else ((), None)
    except RecordingError:
        if rate is None and options.rate is None:
            raise
        restarted = measure_restarts(times, what)
        if restarted is not None:
            gaps, measured = restarted.gaps, restarted.rate
        else:
            # Recorders receive samples in bursts: find only losses that are longer than the jitter.
            gaps, certain = find_stream_losses(times, rate) if rate else ((), False)
            measured = measure_mean_rate(times, gaps)
    if not (rate and measured and abs(measured - rate) > _TOLERANCE * rate):
        return rate or measured, gaps, ()
    used = options.rate or (measured if certain else rate)
    note = (
        f"the file states {rate:.6g} Hz, but its timestamps give {measured:.6g} Hz; {used:.6g} Hz are used"
    )
    return used, gaps, (note,)
