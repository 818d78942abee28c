"""Recordings in XDF, the format of the lab streaming layer's recorder; needs the extra ``xdf``.

pyxdf reads the samples, a whole stream at once. Their order is their place; their times, with clocks
synchronised, tell what is missing by the same rules as in a live stream.
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
from igbss_stream.files.channel_selection import picked
from igbss_stream.files.gaps import get_gap_rows, make_gaps
from igbss_stream.files.messages import check_counts, numbered, one_line
from igbss_stream.files.read_options import Wanted
from igbss_stream.files.recording import Facts, Fill, Recording
from igbss_stream.files.signal_choice import Offered, SeveralSignalsError
from igbss_stream.files.timing import timing

_COPIES = 2  # of the samples that there are at once while pyxdf joins its pieces
_BYTES_OF_TIMES = 64  # a sample, for its time and what is reckoned from it
_UNTOLD = "clock-segments differ"  # of any stream whose times pyxdf is not to straighten
_OFF = 1e-3  # share by which a rate may be off without a word
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
    """A stream of a file.

    Parameters
    ----------
    id : int
    name, type : str
    rate : float
        As it is stated, in Hz; 0 where samples come when they come.
    dtype : dtype or None
        None for text.
    n_channels, n_samples : int
    labels, types : tuple of str
        One each channel, or none.
    unit : str or None
        If all channels have the same.
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
        """Whether it holds channels that are sampled evenly."""
        return self.dtype is not None and self.rate > 0 and self.n_channels > 1 and self.n_samples > 0


class XdfRecording(Recording):
    """A stream of an XDF file, in memory; `open_xdf` makes it.

    Parameters
    ----------
    path : Path
    samples : ndarray of shape (samples, channels)
    **facts
        What `Recording` takes.
    """

    def __init__(self, path: Path, samples: NDArray[Any], **facts: Any) -> None:
        super().__init__(path, n_samples=len(samples), **facts)
        self._samples: NDArray[Any] | None = samples

    def close(self) -> None:
        """Let go of the samples."""
        self._samples = None

    def _make_filler(self, n: int) -> Fill:
        def fill(start: int, out: NDArray[Any]) -> None:
            if self._samples is None:
                raise RecordingError(f"{str(self.path)!r} is closed; open it again to read from it")
            out[:] = self._samples[start : start + len(out)]

        return fill


def open_xdf(path: Path, wanted: Wanted) -> XdfRecording:
    """Open a stream of an XDF file.

    Parameters
    ----------
    path : Path
    wanted : Wanted
        Its dataset is the name or the number of a stream.

    Returns
    -------
    XdfRecording

    Raises
    ------
    ParameterError, RecordingError, InputError
        If pyxdf is missing, the file is damaged, does not tell which stream is meant, or is larger than
        memory, or the samples cannot be separated.
    """
    if wanted.axis is not None:
        raise ParameterError(f"{str(path)!r} is XDF, where samples follow each other; leave --axis out")
    found = streams(path)
    stream = _chosen(found, wanted, path)
    what = f"stream {stream.name!r} of {str(path)!r}"
    if stream.dtype is None:
        raise InputError(f"{what} holds text, not samples; choose another with --dataset")
    dtype = get_working_dtype(stream.dtype, what)
    names = numbered(stream.labels, stream.n_channels)
    picks = None if wanted.channels is None else picked(wanted.channels, names, what)
    n_channels = len(names) if picks is None else len(picks)
    check_counts(stream.n_samples, n_channels, what)
    if n_channels > stream.n_samples:
        raise InputError(
            f"{what} has {n_channels} channels and {stream.n_samples} samples, fewer than channels; pass "
            f"--channels with at most {stream.n_samples} of them"
        )
    require = stream.n_samples * (_COPIES * stream.n_channels * stream.dtype.itemsize + _BYTES_OF_TIMES)
    remedy = "store it as /data in HDF5 on a larger machine, which is read in blocks"
    check_memory(require, f"{what} has to be read as a whole, which", remedy)
    samples, times, notes = _loaded(path, stream)
    rate, gaps, told = _timed(stream, times, wanted, what)
    facts = Facts(
        "XDF",
        "it begins with XDF:",
        stream.name,
        wanted.rate or rate,
        wanted.unit or (None if wanted.factor else stream.unit),
        names,
        stream.types,
        gaps=gaps,
        notes=(*notes, *told),
    )
    gain = None if wanted.factor is None else np.full(len(names), float(wanted.factor))
    return XdfRecording(path, samples, facts=facts, dtype=dtype, picks=picks, gain=gain)


def _chosen(found: list[XdfStream], wanted: Wanted, path: Path) -> XdfStream:
    """Return the stream that is meant."""
    if not found:
        raise RecordingError(f"{str(path)!r} holds no streams; record it again")
    if wanted.dataset is None:
        named = [stream for stream in found if stream.is_signal] or found
        problem = f"has {len(named)} streams and does not tell which one is meant"
    else:
        named = [stream for stream in found if stream.name == wanted.dataset]
        named = named or [stream for stream in found if str(stream.id) == wanted.dataset]
        problem = f"has {len(named) or 'no'} streams {wanted.dataset!r}"
    if len(named) == 1:
        return named[0]
    offered = [_offered(stream, found) for stream in named or found]
    listed = ", ".join(
        f"{signal.option.removeprefix('--dataset ')} ({signal.n_samples} samples of {signal.n_channels} "
        f"channels, {f'{signal.rate:g} Hz' if signal.rate else 'no even rate'})"
        for signal in offered
    )
    raise SeveralSignalsError(
        f"{str(path)!r} (XDF) {problem}; pass --dataset with one of: {listed}", offered
    )


def _offered(stream: XdfStream, found: list[XdfStream]) -> Offered:
    alone = bool(stream.name) and sum(other.name == stream.name for other in found) == 1
    return Offered(
        f"--dataset {stream.name!r}" if alone else f"--dataset {stream.id}",
        stream.n_samples,
        stream.n_channels,
        stream.rate or None,
        stream.unit,
        numbered(stream.labels, stream.n_channels),
        stream.types or (stream.type,) * bool(stream.type),
    )


def _loaded(path: Path, stream: XdfStream) -> tuple[NDArray[Any], NDArray[np.float64], tuple[str, ...]]:
    """Return samples and times of a stream, and what pyxdf warned of."""
    pyxdf = require("pyxdf", "xdf", f"{str(path)!r} is XDF, read by pyxdf")
    try:
        with _heard("pyxdf") as said:
            loaded, _ = pyxdf.load_xdf(path, select_streams=[stream.id], dejitter_timestamps=False)
        samples, times = np.asarray(loaded[0]["time_series"]), np.asarray(loaded[0]["time_stamps"])
    except Exception as error:  # pyxdf raises what it stumbles over
        raise RecordingError(
            f"{str(path)!r} is XDF, and pyxdf cannot read it: {one_line(error)}; copy or record it again"
        ) from error
    if samples.shape != (len(times), stream.n_channels):
        raise RecordingError(
            f"{str(path)!r} is a damaged XDF file (samples of shape {samples.shape}); copy or record it "
            "again"
        )
    return samples, times, tuple(f"pyxdf warns: {text}" for text in said if _UNTOLD not in text)


@contextmanager
def _heard(name: str) -> Iterator[list[str]]:
    """Gather what a logger warns of, in place of having it printed."""
    said: dict[str, None] = {}

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said[one_line(record.getMessage())] = None

    logger, listener = logging.getLogger(name), Listener(logging.WARNING)
    before, texts = logger.propagate, list[str]()
    logger.propagate = False
    logger.addHandler(listener)
    try:
        yield texts
    finally:
        logger.removeHandler(listener)
        logger.propagate = before
        texts += said


def _timed(
    stream: XdfStream, times: NDArray[np.float64], wanted: Wanted, what: str
) -> tuple[float | None, tuple[Gap, ...], tuple[str, ...]]:
    """Return rate and gaps of samples with times, and a note if these do not go with the stated rate."""
    rate = stream.rate or None
    try:
        even = timing(lambda first, last: times[first:last], len(times), what)
        gaps, seen = (even.gaps, even.rate) if even else ((), None)
    except RecordingError:
        if rate is None and wanted.rate is None:
            raise
        # As recorders get them, in bursts: they tell losses that are longer than they stray.
        gaps = _losses(times, rate) if rate else ()
        seen = _rate_between(times, gaps)
    if rate and seen and abs(seen - rate) > _OFF * rate:
        note = f"times tell {seen:.6g} samples a second; the {rate:.6g} that are stated are taken"
        return rate, gaps, (note,)
    return rate or seen, gaps, ()


def _rate_between(times: NDArray[np.float64], gaps: tuple[Gap, ...]) -> float | None:
    """Return how many samples came in a second of the longest stretch; None where times do not tell."""
    edges = [0, *get_gap_rows(gaps), len(times)]
    first, stop = max(itertools.pairwise(edges), key=lambda edge: edge[1] - edge[0])
    passed = float(times[stop - 1] - times[first])
    return (stop - first - 1) / passed if 0 < passed < np.inf else None


def _losses(times: NDArray[np.float64], rate: float) -> tuple[Gap, ...]:
    """Return what is missing by the rules of a live stream; see `TimestampIndexer`."""
    if not np.isfinite(times).all():
        return ()
    account, rows, second = TimestampIndexer(rate), np.arange(len(times))[:, None], max(1, round(rate))
    places, row = list[tuple[int, int, str]](), 0
    items = [
        item
        for at in range(0, len(times), second)
        for item in account.push(rows[at : at + second], times[at : at + second])
    ]
    for item in [*items, *account.flush()]:
        if isinstance(item, Gap):
            places.append((row, item.n_samples, item.reason))
        else:
            row += len(item.data)
    return make_gaps(place for place in places if 0 < place[0] < len(times))


def streams(path: Path) -> list[XdfStream]:
    """Return the streams of a file, in the order of their headers.

    Raises
    ------
    RecordingError
        If the file or a header is damaged.
    """
    found, counts = dict[int, XdfStream](), dict[int, int]()
    try:
        with open(path, "rb") as file:
            for tag, number, length in _chunks(file):
                if tag == _HEADER:
                    found[number] = _stream(number, file.read(min(length, _LONGEST_HEADER)))
                else:
                    counts[number] = counts.get(number, 0) + (_length(file) or 0)
    except (OSError, ValueError, struct.error, ElementTree.ParseError) as error:
        raise RecordingError(
            f"{str(path)!r} is a damaged XDF file ({one_line(error)}); copy or record it again"
        ) from error
    return [replace(stream, n_samples=counts.get(number, 0)) for number, stream in found.items()]


def _chunks(file: BinaryIO) -> Iterator[tuple[int, int, int]]:
    """Yield tag, stream and length of headers and of samples; the file then stands at their content."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin with XDF:")
    while (length := _length(file)) is not None:
        stop = file.tell() + length
        head = file.read(2)
        tag = struct.unpack("<H", head)[0] if len(head) == 2 else 0
        if tag in (_HEADER, _SAMPLES):
            yield tag, struct.unpack("<I", file.read(4))[0], max(0, length - 6)
        file.seek(stop)


def _length(file: BinaryIO) -> int | None:
    """Read a number of 1, 4 or 8 bytes; None at the end, or where the file is cut off."""
    size = file.read(1)
    code = _LENGTHS.get(size[0]) if size else None
    if code is None:
        return None
    content = file.read(size[0])
    return int(struct.unpack(code, content)[0]) if len(content) == size[0] else None


def _stream(number: int, xml: bytes) -> XdfStream:
    if b"<!ENTITY" in xml or b"<!DOCTYPE" in xml:
        raise ValueError(f"stream {number} declares entities")
    root = ElementTree.fromstring(xml.decode("utf-8", "replace"))
    told = {key: (root.findtext(key) or "").strip() for key in ("name", "type", "channel_format")}
    n_channels, rate = int(root.findtext("channel_count") or 0), float(root.findtext("nominal_srate") or 0)
    if not (0 <= n_channels <= _MOST_CHANNELS and math.isfinite(rate)):
        raise ValueError(f"stream {number} has {n_channels} channels at {rate:g} Hz")
    if told["channel_format"] not in (*_DTYPES, "string"):
        raise ValueError(f"stream {number} has numbers of the format {told['channel_format']!r}")
    code = _DTYPES.get(told["channel_format"])
    channels = root.findall("desc/channels/channel")
    labels, types, units = (
        tuple((channel.findtext(key) or "").strip() for channel in channels)
        for key in ("label", "type", "unit")
    )
    unit = units[0] if len(set(units)) == 1 else ""
    return XdfStream(
        number,
        told["name"],
        told["type"],
        max(0.0, rate),
        None if code is None else np.dtype(code),
        n_channels,
        labels,
        types if len(types) == n_channels and any(types) else (),
        shorten_unit(unit),
    )
