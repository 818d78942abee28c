"""Read XDF, the format of the LSL recorder (extra `xdf`).

The headers of streams are read here, because pyxdf cannot read them without the samples. pyxdf then reads
the samples of one stream, all at once. Samples keep their order; gaps follow from their timestamps, with
synchronised clocks, by the same rules as in a live stream.
"""

import itertools
import logging
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.dtypes import get_working_dtype
from igbss_stream._util.memory import check_memory
from igbss_stream._util.optional import require
from igbss_stream.chunk import Gap
from igbss_stream.errors import InputError, ParameterError, RecordingError
from igbss_stream.feeds.lsl_units import shorten_unit
from igbss_stream.feeds.timestamps import TimestampIndexer
from igbss_stream.files.channel_selection import pick_channels
from igbss_stream.files.gaps import get_gap_rows, make_gaps
from igbss_stream.files.messages import as_one_line, check_counts, complete_names
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.recording import Facts, Fill, Recording
from igbss_stream.files.signal_choice import SeveralSignalsError, SignalChoice
from igbss_stream.files.timing import measure_timing

_COPIES = 2  # of the samples in memory while pyxdf concatenates its chunks
_BYTES_OF_TIMES = 64  # per sample, for its timestamp and the computation of gaps
_IGNORED = "clock-segments differ"  # a warning for every stream that is not dejittered
_TOLERANCE = 1e-3  # relative difference of rates that is not reported
_MAGIC = b"XDF:"
_HEADER, _SAMPLES = 2, 3  # tags
_LENGTHS = {1: "<B", 4: "<I", 8: "<Q"}
_LONGEST_HEADER = 1 << 24  # bytes
_MOST_CHANNELS = 1 << 16
_DTYPES = {
    "float32": "f4", "double64": "f8", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8",
}  # fmt: skip


@dataclass(frozen=True)
class XdfStream:
    """Header of a stream in an XDF file.

    Parameters
    ----------
    id : int
    name, type : str
    rate : float
        Nominal rate in Hz; 0 for irregular samples.
    dtype : dtype or None
        None for text.
    n_channels, n_samples : int
    labels, types : tuple of str
        One per channel, or none.
    unit : str or None
        Unit, if it is the same for all channels.
    """

    id: int
    name: str
    type: str
    rate: float
    dtype: np.dtype[np.generic] | None
    n_channels: int
    labels: tuple[str, ...]
    types: tuple[str, ...]
    unit: str | None
    n_samples: int = 0

    @property
    def is_signal(self) -> bool:
        """Whether the stream has several regularly sampled channels."""
        return self.dtype is not None and self.rate > 0 and self.n_channels > 1 and self.n_samples > 0


class XdfRecording(Recording):
    """A stream of an XDF file, in memory; created by `open_xdf`.

    Parameters
    ----------
    path : Path
    samples : ndarray of shape (samples, channels)
    **facts
        Parameters of `Recording`.
    """

    def __init__(self, path: Path, samples: NDArray[Any], **facts: Any) -> None:
        super().__init__(path, n_samples=len(samples), **facts)
        self._samples: NDArray[Any] | None = samples

    def close(self) -> None:
        """Release the samples."""
        self._samples = None

    def _make_filler(self, n: int) -> Fill:
        def fill(start: int, out: NDArray[Any]) -> None:
            if self._samples is None:
                raise RecordingError(f"{str(self.path)!r} is closed; open it again to read from it")
            out[:] = self._samples[start : start + len(out)]

        return fill


def open_xdf(path: Path, options: ReadOptions) -> XdfRecording:
    """Open a stream of an XDF file.

    Parameters
    ----------
    path : Path
    options : ReadOptions
        `dataset` is the name or the number of a stream.

    Returns
    -------
    XdfRecording

    Raises
    ------
    ParameterError, RecordingError, InputError
        If pyxdf is missing, the file is damaged or larger than memory, the choice of the stream is
        ambiguous, or the samples cannot be separated.
    """
    if options.axis is not None:
        raise ParameterError(f"{str(path)!r} is XDF, which has no axes; omit --axis")
    found = list_streams(path)
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
    samples, times, notes = _load_samples(path, stream)
    rate, gaps, rate_notes = _find_timing(stream, times, options, what)
    facts = Facts(
        "XDF",
        "it begins with XDF:",
        stream.name,
        options.rate or rate,
        options.unit or (None if options.factor else stream.unit),
        names,
        stream.types,
        gaps=gaps,
        notes=(*notes, *rate_notes),
    )
    gain = None if options.factor is None else np.full(len(names), float(options.factor))
    return XdfRecording(path, samples, facts=facts, dtype=dtype, picks=picks, gain=gain)


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
    path: Path, stream: XdfStream
) -> tuple[NDArray[Any], NDArray[np.float64], tuple[str, ...]]:
    """Return samples and timestamps of a stream, and the warnings of pyxdf."""
    pyxdf = require("pyxdf", "xdf", f"{str(path)!r} is XDF, read by pyxdf")
    try:
        with _collect_warnings("pyxdf") as texts:
            loaded, _ = pyxdf.load_xdf(path, select_streams=[stream.id], dejitter_timestamps=False)
        samples, times = np.asarray(loaded[0]["time_series"]), np.asarray(loaded[0]["time_stamps"])
    except Exception as error:  # the type depends on the damage
        raise RecordingError(
            f"{str(path)!r} is XDF, and pyxdf cannot read it: {as_one_line(error)}; copy or record it again"
        ) from error
    if samples.shape != (len(times), stream.n_channels):
        raise RecordingError(
            f"{str(path)!r} is a damaged XDF file (samples of shape {samples.shape}); copy or record it "
            "again"
        )
    return samples, times, tuple(f"pyxdf warns: {text}" for text in texts if _IGNORED not in text)


@contextmanager
def _collect_warnings(name: str) -> Iterator[list[str]]:
    """Collect the warnings of a logger instead of printing them."""
    collected: dict[str, None] = {}

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            collected[as_one_line(record.getMessage())] = None

    logger, listener = logging.getLogger(name), Listener(logging.WARNING)
    before, texts = logger.propagate, list[str]()
    logger.propagate = False
    logger.addHandler(listener)
    try:
        yield texts
    finally:
        logger.removeHandler(listener)
        logger.propagate = before
        texts += collected


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
        # Recorders receive samples in bursts: find only losses that are longer than the jitter.
        gaps, certain = _find_losses(times, rate) if rate else ((), False)
        measured = _measure_rate(times, gaps)
    if not (rate and measured and abs(measured - rate) > _TOLERANCE * rate):
        return rate or measured, gaps, ()
    used = options.rate or (measured if certain else rate)
    note = (
        f"the file states {rate:.6g} Hz, but its timestamps give {measured:.6g} Hz; {used:.6g} Hz are used"
    )
    return used, gaps, (note,)


def _measure_rate(times: NDArray[np.float64], gaps: tuple[Gap, ...]) -> float | None:
    """Return the rate in the longest run without a gap; None if the timestamps do not give one."""
    edges = [0, *get_gap_rows(gaps), len(times)]
    first, stop = max(itertools.pairwise(edges), key=lambda edge: edge[1] - edge[0])
    passed = float(times[stop - 1] - times[first])
    return (stop - first - 1) / passed if 0 < passed < np.inf else None


def _find_losses(times: NDArray[np.float64], rate: float) -> tuple[tuple[Gap, ...], bool]:
    """Return the gaps by the rules of a live stream, and whether the rate is certainly another one.

    See `TimestampIndexer`.
    """
    if not np.isfinite(times).all():
        return (), False
    indexer, rows, second = TimestampIndexer(rate), np.arange(len(times))[:, None], max(1, round(rate))
    places, row = list[tuple[int, int, str]](), 0
    items = [
        item
        for at in range(0, len(times), second)
        for item in indexer.push(rows[at : at + second], times[at : at + second])
    ]
    for item in [*items, *indexer.flush()]:
        if isinstance(item, Gap):
            places.append((row, item.n_samples, item.reason))
        else:
            row += len(item.data)
    found = make_gaps(place for place in places if 0 < place[0] < len(times))
    return found, indexer.measured_rate is not None


def list_streams(path: Path) -> list[XdfStream]:
    """Read the headers of all streams of a file, in their order, and count the samples.

    Raises
    ------
    RecordingError
        If the file or a header is damaged.
    """
    found, counts = dict[int, XdfStream](), dict[int, int]()
    try:
        with open(path, "rb") as file:
            for tag, number, length in _read_chunks(file):
                if tag == _HEADER:
                    found[number] = _parse_header(number, file.read(min(length, _LONGEST_HEADER)))
                else:
                    counts[number] = counts.get(number, 0) + (_read_length(file) or 0)
    except (OSError, ValueError, struct.error, ElementTree.ParseError) as error:
        raise RecordingError(
            f"{str(path)!r} is a damaged XDF file ({as_one_line(error)}); copy or record it again"
        ) from error
    return [replace(stream, n_samples=counts.get(number, 0)) for number, stream in found.items()]


def _read_chunks(file: BinaryIO) -> Iterator[tuple[int, int, int]]:
    """Yield tag, stream and length of header and sample chunks, with the file at their content."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin with XDF:")
    while (length := _read_length(file)) is not None:
        stop = file.tell() + length
        head = file.read(2)
        tag = struct.unpack("<H", head)[0] if len(head) == 2 else 0
        if tag in (_HEADER, _SAMPLES):
            yield tag, struct.unpack("<I", file.read(4))[0], max(0, length - 6)
        file.seek(stop)


def _read_length(file: BinaryIO) -> int | None:
    """Read an integer of 1, 4 or 8 bytes; None at the end of the file or if it is truncated."""
    size = file.read(1)
    code = _LENGTHS.get(size[0]) if size else None
    if code is None:
        return None
    content = file.read(size[0])
    return int(struct.unpack(code, content)[0]) if len(content) == size[0] else None


def _parse_header(number: int, xml: bytes) -> XdfStream:
    if b"<!ENTITY" in xml or b"<!DOCTYPE" in xml:
        raise ValueError(f"stream {number} declares entities")
    root = ElementTree.fromstring(xml.decode("utf-8", "replace"))
    fields = {key: (root.findtext(key) or "").strip() for key in ("name", "type", "channel_format")}
    n_channels, rate = int(root.findtext("channel_count") or 0), float(root.findtext("nominal_srate") or 0)
    if not (0 <= n_channels <= _MOST_CHANNELS and math.isfinite(rate)):
        raise ValueError(f"stream {number} has {n_channels} channels at {rate:g} Hz")
    if fields["channel_format"] not in (*_DTYPES, "string"):
        raise ValueError(f"stream {number} has numbers of the format {fields['channel_format']!r}")
    code = _DTYPES.get(fields["channel_format"])
    channels = root.findall("desc/channels/channel")
    labels, types, units = (
        tuple((channel.findtext(key) or "").strip() for channel in channels)
        for key in ("label", "type", "unit")
    )
    unit = units[0] if len(set(units)) == 1 else ""
    return XdfStream(
        number,
        fields["name"],
        fields["type"],
        max(0.0, rate),
        None if code is None else np.dtype(code),
        n_channels,
        labels,
        types if len(types) == n_channels and any(types) else (),
        shorten_unit(unit),
    )
