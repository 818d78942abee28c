"""Recordings in XDF, the format of the lab streaming layer's recorder; needs the extra ``xdf``.

pyxdf reads the samples, a whole stream at once. Their order is their place; their times, with clocks
synchronised, tell what is missing by the same rules as in a live stream.
"""

import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.dtypes import get_working_dtype
from igbss_stream._util.memory import check_memory
from igbss_stream._util.optional import require
from igbss_stream.chunk import Gap
from igbss_stream.errors import InputError, ParameterError, RecordingError
from igbss_stream.feeds.timestamps import TimestampIndexer
from igbss_stream.files.channel_selection import picked
from igbss_stream.files.read_options import Wanted
from igbss_stream.files.readers.hdf5.file import check_counts, numbered, one_line
from igbss_stream.files.readers.xdf_streams import XdfStream, streams
from igbss_stream.files.recording import Break, Facts, Fill, Recording
from igbss_stream.files.signal_choice import Offered, SeveralSignalsError
from igbss_stream.files.timing import timing

_COPIES = 2  # of the samples that there are at once while pyxdf joins its pieces
_BYTES_OF_TIMES = 64  # a sample, for its time and what is reckoned from it
_UNTOLD = "clock-segments differ"  # of any stream whose times pyxdf is not to straighten
_OFF = 1e-3  # share by which a rate may be off without a word


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

    def _filler(self, n: int) -> Fill:
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
    rate, breaks, told = _timed(stream, times, wanted, what)
    facts = Facts(
        "XDF",
        "it begins with XDF:",
        stream.name,
        wanted.rate or rate,
        wanted.unit or (None if wanted.factor else stream.unit),
        names,
        stream.types,
        breaks=breaks,
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
) -> tuple[float | None, tuple[Break, ...], tuple[str, ...]]:
    """Return rate and gaps of samples with times, and a note if these do not go with the stated rate."""
    rate = stream.rate or None
    try:
        even = timing(lambda first, last: times[first:last], len(times), what)
        breaks, seen = (even.breaks, even.rate) if even else ((), None)
    except RecordingError:
        if rate is None and wanted.rate is None:
            raise
        # As recorders get them, in bursts: they tell losses that are longer than they stray.
        breaks = _losses(times, rate) if rate else ()
        seen = _rate_between(times, breaks)
    if rate and seen and abs(seen - rate) > _OFF * rate:
        note = f"times tell {seen:.6g} samples a second; the {rate:.6g} that are stated are taken"
        return rate, breaks, (note,)
    return rate or seen, breaks, ()


def _rate_between(times: NDArray[np.float64], breaks: tuple[Break, ...]) -> float | None:
    """Return how many samples came in a second of the longest stretch; None where times do not tell."""
    edges = [0, *(gap.row for gap in breaks), len(times)]
    first, stop = max(itertools.pairwise(edges), key=lambda edge: edge[1] - edge[0])
    passed = float(times[stop - 1] - times[first])
    return (stop - first - 1) / passed if 0 < passed < np.inf else None


def _losses(times: NDArray[np.float64], rate: float) -> tuple[Break, ...]:
    """Return what is missing by the rules of a live stream; see `TimestampIndexer`."""
    if not np.isfinite(times).all():
        return ()
    account, rows, second = TimestampIndexer(rate), np.arange(len(times))[:, None], max(1, round(rate))
    breaks, row = list[Break](), 0
    items = [
        item
        for at in range(0, len(times), second)
        for item in account.push(rows[at : at + second], times[at : at + second])
    ]
    for item in [*items, *account.flush()]:
        if isinstance(item, Gap):
            breaks.append(Break(row, item.n_samples, item.reason))
        else:
            row += len(item.data)
    return tuple(gap for gap in breaks if 0 < gap.row < len(times))
