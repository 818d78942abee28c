"""Read simple binary files of EGI (.raw), continuous (versions 2, 4 and 6) and in segments (3, 5 and 7)."""

import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.events import Events, OnsetFinder
from igbss_stream.files.gaps import get_indices, make_gaps
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.in_memory import MemoryRecording, convert_errors, open_array, refuse_choice
from igbss_stream.files.readers.mapped_samples import MappedFile, MappedSamples
from igbss_stream.files.recording import Facts

_HEAD = struct.Struct(">i6hi5h")  # version, date and time, milliseconds, rate, channels, gain, bits, range
_TYPES = {2: ">i2", 4: ">f4", 6: ">f8"}  # by the version; odd ones, by one more, have segments
_MICROVOLT = 1e-6
_SEGMENT = struct.Struct(">hi")  # category from 1, and milliseconds, before the samples of a segment
_BLOCK = 1 << 16  # samples


@dataclass(frozen=True)
class _EgiHeader:
    """Header of a file."""

    n_bytes: int
    dtype: np.dtype[Any]
    rate: float
    n_channels: int
    factor: float
    t0: float
    n_segments: int  # 0 if it is continuous
    n_samples: int  # of a segment
    categories: tuple[str, ...]
    codes: tuple[str, ...]

    @property
    def frame(self) -> int:
        """Bytes of one sample of all channels and codes."""
        return self.dtype.itemsize * (self.n_channels + len(self.codes))


def is_egi(head: bytes) -> bool:
    """Return whether a file begins with a header of EGI, which has a date and counts but no signature."""
    if len(head) < _HEAD.size:
        return False
    version, year, month, day, hour, minute, _, _, rate, n_channels, *_ = _HEAD.unpack_from(head)
    is_date = 1980 <= year < 2100 and 1 <= month <= 12 and 1 <= day <= 31 and 0 <= hour < 24
    return bool(2 <= version <= 7 and is_date and 0 <= minute < 60 and rate > 0 and 0 < n_channels <= 1024)


def open_egi(path: Path, options: ReadOptions) -> MemoryRecording:
    """Open a simple binary file of EGI.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Raises
    ------
    RecordingError, InputError, ParameterError
    """
    what, notes = repr(str(path)), list[str]()
    refuse_choice(options, what)
    with convert_errors(f"{what} is simple binary of EGI with a damaged header"):
        head = _read_header(path)
        file = MappedFile(path)
        frames, starts = _map_frames(path, file, head, notes)
        gaps = _find_gaps(starts, head)
    n = head.n_channels
    blocks = frames if starts else frames.transpose(1, 0, 2)  # without segments, blocks of one sample
    samples = MappedSamples(file, [blocks[:, :, i] for i in range(n)])
    facts = Facts(
        "EGI raw",
        "it begins with a header of EGI",
        "",
        head.rate,
        "V",
        tuple(f"E{i + 1}" for i in range(n)),
        gaps=gaps,
        notes=tuple(notes),
        events=partial(_find_events, file, frames, starts, gaps, head),
        t0=head.t0,
    )
    return open_array(path, samples, facts, options, gain=np.full(n, head.factor))


def _read_header(path: Path) -> _EgiHeader:
    with open(path, "rb") as file:
        version, *date, milliseconds, rate, n_channels, _, bits, scale = _HEAD.unpack(file.read(_HEAD.size))

        def read(form: str) -> Any:
            return struct.unpack(f">{form}", file.read(struct.calcsize(f">{form}")))[0]

        n_segments, categories = 0, list[str]()
        if version % 2:
            for _ in range(read("h")):
                categories.append(file.read(read("B")).decode("latin-1"))
            n_segments = max(1, read("h"))
        n_samples, n_codes = read("i"), read("h")
        codes = [file.read(4).decode("latin-1").strip("\0 ") for _ in range(n_codes)]
        n_bytes = file.tell()
    if not (rate > 0 and n_channels > 0 and n_samples >= 0 and n_codes >= 0):
        raise ValueError(f"{n_channels} channels at {rate} Hz")
    start = datetime(*date).replace(tzinfo=UTC).timestamp() + milliseconds / 1000
    # Without bits and range, the numbers are microvolts; with them, those of the converter.
    factor = scale / 2.0**bits if bits and scale else 1.0
    return _EgiHeader(
        n_bytes,
        np.dtype(_TYPES[version & 6]),
        float(rate),
        n_channels,
        factor * _MICROVOLT,
        start,
        n_segments,
        n_samples,
        tuple(categories),
        tuple(codes),
    )


def _map_frames(
    path: Path, file: MappedFile, head: _EgiHeader, notes: list[str]
) -> tuple[NDArray[Any], list[tuple[int, int]]]:
    """Return frames of shape (segments, samples, channels and codes), and category and time of segments."""
    width = head.n_channels + len(head.codes)
    n_there = path.stat().st_size - head.n_bytes
    if not head.n_segments:
        n_samples = min(head.n_samples, n_there // head.frame)
        if n_samples < head.n_samples:
            notes.append(f"the file is truncated: it has {n_samples} of {head.n_samples} samples")
        return file.get_array(head.dtype, head.n_bytes, (1, n_samples, width)), []
    length = _SEGMENT.size + head.n_samples * head.frame
    n_segments = min(head.n_segments, n_there // length)
    if n_segments < head.n_segments:
        notes.append(f"the file is truncated: it has {n_segments} of {head.n_segments} segments")
    strides = (length, head.frame, head.dtype.itemsize)
    frames = file.get_array(
        head.dtype, head.n_bytes + _SEGMENT.size, (n_segments, head.n_samples, width), strides
    )
    with open(path, "rb") as opened:
        starts = []
        for i in range(n_segments):
            opened.seek(head.n_bytes + i * length)
            starts.append(_SEGMENT.unpack(opened.read(_SEGMENT.size)))
    return frames, starts


def _find_gaps(starts: list[tuple[int, int]], head: _EgiHeader) -> tuple[Gap, ...]:
    """Return the gaps between segments, by their times; of unknown length where segments overlap."""
    places = list[tuple[int, int, str]]()
    for i in range(1, len(starts)):
        step = (starts[i][1] - starts[i - 1][1]) * head.rate / 1000 - head.n_samples
        missing = round(step)
        if missing:
            places.append((i * head.n_samples, max(0, missing), "missing" if missing > 0 else "boundary"))
    return make_gaps(places)


def _find_events(
    file: MappedFile,
    frames: NDArray[Any],
    starts: list[tuple[int, int]],
    gaps: tuple[Gap, ...],
    head: _EgiHeader,
) -> Events:
    """Return the segments by category, and the onsets in the columns of codes."""
    finders = [OnsetFinder(code, head.rate, from_start=True) for code in head.codes]
    columns = frames[:, :, head.n_channels :]
    for segment in range(len(columns) if finders else 0):
        for at in range(0, columns.shape[1], _BLOCK):
            block = np.ascontiguousarray(columns[segment, at : at + _BLOCK].T)
            for finder, values in zip(finders, block, strict=True):
                finder.push(values != 0)
            file.release()
    found = list[Events]()
    for code, finder in zip(head.codes, finders, strict=True):
        onsets = finder.finish()
        found.append(Events(onsets.index, [code] * len(onsets), onsets.duration, "events"))
    names = [
        head.categories[i - 1] if 0 < i <= len(head.categories) else f"category {i}" for i, _ in starts
    ]
    rows, length = np.arange(len(starts)) * head.n_samples, head.n_samples / head.rate
    found.append(Events(rows, names, np.full(len(starts), length), "segments"))
    joined = Events.join(found)
    return joined.move(get_indices(gaps, joined.index))
