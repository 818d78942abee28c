"""Read GDF 1 and 2: a header, records of equal length as in EDF, and a table of events."""

import struct
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError
from igbss_stream.files.channel_selection import pick_channels
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.messages import NO_UNIT, check_counts
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.binary.gdf_events import NEW_SEGMENT, read_gdf_events
from igbss_stream.files.readers.edf import EdfHeader, choose_single_rate, find_unit, read_column
from igbss_stream.files.readers.in_memory import MemoryRecording, convert_errors, open_array, refuse_choice
from igbss_stream.files.readers.mapped_samples import MappedFile, MappedSamples
from igbss_stream.files.recording import Facts

_N_HEADER = 256  # bytes of the header, and of the header of each channel
_SECOND = 1.9  # versions from here on have the second layout
_TYPES = {
    1: "i1",
    2: "u1",
    3: "<i2",
    4: "<u2",
    5: "<i4",
    6: "<u4",
    7: "<i8",
    8: "<u8",
    16: "<f4",
    17: "<f8",
}
_VOLT = 4256  # code of a unit; the lower five bits are its prefix
_PREFIXES = {0: 1.0, 3: 1e3, 18: 1e-3, 19: 1e-6, 20: 1e-9}
_VOLTS = {"V": 1.0, "mV": 1e-3, "uV": 1e-6, "\xb5V": 1e-6, "nV": 1e-9}
_TRIGGERS = ("status", "trigger")  # names of channels without measurements, as in MNE
_EPOCH = 719529  # days from the year 0 to 1970


@dataclass(frozen=True, eq=False)
class _GdfHeader:
    """Header of a GDF file.

    `table` describes the channels as in EDF; samples are ``stored * gain + offset``.
    """

    table: EdfHeader
    version: float
    t0: float | None
    types: tuple[int, ...]
    gain: NDArray[np.float64]
    offset: NDArray[np.float64]

    @property
    def starts(self) -> list[int]:
        """Position of each channel in a record, in bytes, and the length of a record."""
        widths = [
            count * np.dtype(_TYPES[code]).itemsize
            for count, code in zip(self.table.counts, self.types, strict=True)
        ]
        return [0, *np.cumsum(widths).tolist()]


def open_gdf(path: Path, options: ReadOptions) -> MemoryRecording:
    """Open a GDF file. Volts of any prefix are converted to volts.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Raises
    ------
    RecordingError, InputError, ParameterError
    """
    what, chosen = repr(str(path)), options.channels is not None
    refuse_choice(options, what)
    with convert_errors(f"{what} is GDF with a damaged header"):
        head = _read_header(path)
        table, notes = head.table, list[str]()
        n_records = _count_records(head, notes)
        picks = tuple(range(len(table.names)))
        read = tuple(i for i in picks if table.names[i].lower() not in _TRIGGERS)
        if options.channels is not None:
            read = pick_channels(options.channels, table.names, what)
        if len(table.get_counts(picks)) > 1:
            picks, options = choose_single_rate(table, options, what), replace(options, channels=None)
        rate = table.counts[picks[0]] / table.duration
        file = MappedFile(path)
        samples = MappedSamples(file, [_map_channel(file, head, i, n_records) for i in picks])
        found = read_gdf_events(
            path, head.version, table.n_bytes + n_records * head.starts[-1], rate, len(samples)
        )
    unit, unit_notes = find_unit(table, read, options, what)
    if unit is None and not (options.unit or options.factor):
        notes += unit_notes or (NO_UNIT,)
    breaks = found.index[found.label == NEW_SEGMENT]
    facts = Facts(
        "GDF",
        "it begins with GDF",
        "",
        rate,
        unit,
        tuple(table.names[i] for i in picks),
        gaps=make_gaps((int(i), 0, "boundary") for i in np.unique(breaks) if 0 < i < len(samples)),
        notes=tuple(notes),
        events=found[found.label != NEW_SEGMENT],
        t0=head.t0,
    )
    recording = open_array(
        path, samples, facts, options, gain=head.gain[list(picks)], offset=head.offset[list(picks)]
    )
    left = tuple(i for i, name in enumerate(recording.channels) if name.lower() in _TRIGGERS)
    if left and not chosen:
        listed = ",".join(recording.channels[i] for i in left)
        note = f"channels without measurements are omitted: {listed}; --events {listed} reads their onsets"
        recording.leave_out(left, note)
        check_counts(len(samples), recording.n_channels, what)
    return recording


def _count_records(head: _GdfHeader, notes: list[str]) -> int:
    """Return the number of records in the file, and note a difference from the header."""
    table = head.table
    there = max(0, table.path.stat().st_size - table.n_bytes) // head.starts[-1]
    if 0 <= table.n_records <= there:
        return table.n_records
    if table.n_records > 0:
        notes.append(f"the file is truncated: it has {there} of {table.n_records} records")
    return there


def _map_channel(file: MappedFile, head: _GdfHeader, channel: int, n_records: int) -> NDArray[Any]:
    """Return the samples of a channel, of shape (records, samples per record)."""
    starts, dtype = head.starts, np.dtype(_TYPES[head.types[channel]])
    return file.get_array(
        dtype,
        head.table.n_bytes + starts[channel],
        (n_records, head.table.counts[channel]),
        (starts[-1], dtype.itemsize),
    )


def _read_header(path: Path) -> _GdfHeader:
    with open(path, "rb") as file:
        head = file.read(_N_HEADER)
        version = float(head[4:8])
        is_second = version >= _SECOND
        n = int(struct.unpack_from("<H" if is_second else "<I", head, 252)[0])
        if not 0 < n <= path.stat().st_size // _N_HEADER:
            raise ValueError(f"{n} channels")
        rows = file.read(n * _N_HEADER)
    n_bytes = struct.unpack_from("<q", head, 184)[0]
    if is_second:
        n_bytes = _N_HEADER * struct.unpack_from("<H", head, 184)[0]
    n_records, numerator, denominator = struct.unpack_from("<qII", head, 236)
    counts, types = (np.frombuffer(rows, "<u4", n, n * at).tolist() for at in (216, 220))
    if not (numerator and denominator and sum(counts) > 0 and n_bytes >= _N_HEADER * (n + 1)):
        raise ValueError(f"records of {numerator}/{denominator} s after {n_bytes} bytes")
    unread = sorted({*types} - {*_TYPES})
    if unread:
        raise InputError(
            f"{str(path)!r} is GDF with numbers of type {unread[0]}, which are not read; save it with "
            "numbers of 16 or 32 bits, or as EDF, for example with SigViewer"
        )
    units = _find_units(rows, n, is_second)
    ranges = _read_ranges(rows, n, is_second)
    table = EdfHeader(
        path,
        "GDF",
        False,
        n_bytes,
        n_records,
        numerator / denominator,
        tuple(label.split("\0")[0].strip() for label in read_column(rows, n, 0, 16)),
        tuple(unit for unit, _ in units),
        tuple(counts),
        tuple((str(a), str(b), str(c), str(d)) for a, b, c, d in ranges.T),
    )
    low, high, first, last = ranges
    is_scaled, volts = (high != low) & (last != first), np.array([factor for _, factor in units])
    gain = np.where(is_scaled, (high - low) / np.where(is_scaled, last - first, 1.0) * volts, 1.0)
    offset = np.where(is_scaled, low * volts - first * gain, 0.0)
    return _GdfHeader(table, version, _find_start(head, is_second), tuple(types), gain, offset)


def _read_ranges(rows: bytes, n: int, is_second: bool) -> NDArray[np.float64]:
    """Return the smallest and largest physical value and stored number of each channel."""
    kinds = ("<f8", "<f8") if is_second else ("<f8", "<i8")
    return np.stack(
        [np.frombuffer(rows, kinds[i // 2], n, n * (104 + 8 * i)).astype(np.float64) for i in range(4)]
    )


def _find_units(rows: bytes, n: int, is_second: bool) -> list[tuple[str, float]]:
    """Return the units of the channels, and their factors to volts; 1 for other units."""
    texts = read_column(rows, n, 96, 6 if is_second else 8)
    codes = np.frombuffer(rows, "<u2", n, n * 102).tolist() if is_second else [0] * n
    return [_find_unit(code, text.strip("\0 ")) for code, text in zip(codes, texts, strict=True)]


def _find_unit(code: int, text: str) -> tuple[str, float]:
    if code & ~31 == _VOLT and code & 31 in _PREFIXES:
        return "V", _PREFIXES[code & 31]
    if code == 0 and text in _VOLTS:
        return "V", _VOLTS[text]
    return ("" if code else text), 1.0


def _find_start(head: bytes, is_second: bool) -> float | None:
    """Return the Unix time of the first sample; None if it is not stated."""
    if is_second:
        days = struct.unpack_from("<Q", head, 168)[0] / 2**32
        return (days - _EPOCH) * 86400 if days else None
    try:
        stated = head[168:182].decode("ascii")
        return datetime.strptime(stated, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
