"""Read continuous recordings of Neuroscan (.cnt): a header, integers of 16 or 32 bits, and events.

The layout is that of the structures SETUP, ELECTLOC and TEEG. Some amplifiers store samples in blocks.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError
from igbss_stream.events import Events
from igbss_stream.files.bad_rows import find_bad_rows
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.binary.start_time import parse_start
from igbss_stream.files.readers.in_memory import MemoryRecording, convert_errors, open_array, refuse_choice
from igbss_stream.files.readers.mapped_samples import MappedFile, MappedSamples
from igbss_stream.files.recording import Facts

_N_HEADER, _N_CHANNEL = 900, 75  # bytes of the header, and of the header of each channel
_CALIBRATION = 204.8  # of the units of amplifiers
_MICROVOLT = 1e-6
_EVENT = [("code", "<u2"), ("keyboard", "u1"), ("keypad", "u1"), ("at", "<u4")]
_LONG_EVENT = [*_EVENT, ("more", "V11")]
_BY_SAMPLE = 3  # type of a table whose events state a sample; others state the position in the file
_ACCEPT, _REJECT = 0xD, 0xC  # upper half of the byte of the keypad
_DATES = ("%m/%d/%y", "%d/%m/%y")


@dataclass(frozen=True, eq=False)
class _CntHeader:
    """Header of a CNT file; samples are ``stored * gain + offset``, in volts."""

    path: Path
    n_samples: int
    rate: float
    width: int  # bytes per number
    length: int  # samples of a channel that are stored in succession
    event_table: int
    names: tuple[str, ...]
    bad: tuple[str, ...]
    gain: NDArray[np.float64]
    offset: NDArray[np.float64]
    t0: float | None

    @property
    def first_sample(self) -> int:
        """Position of the samples, in bytes."""
        return _N_HEADER + _N_CHANNEL * len(self.names)

    @property
    def frame(self) -> int:
        """Bytes of one sample of all channels."""
        return self.width * len(self.names)


def open_cnt(path: Path, options: ReadOptions) -> MemoryRecording:
    """Open a CNT file of Neuroscan.

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
    with convert_errors(f"{what} is CNT of Neuroscan with a damaged header"):
        head = _read_header(path, notes)
        samples = _map_samples(head)
        found = _read_events(head)
    facts = Facts(
        "Neuroscan CNT",
        "it begins with the version of Neuroscan",
        "",
        head.rate,
        "V",
        head.names,
        bad=head.bad,
        bad_rows=find_bad_rows(found, head.rate, (), len(samples)),
        notes=tuple(notes),
        events=found,
        t0=head.t0,
    )
    return open_array(path, samples, facts, options, gain=head.gain, offset=head.offset)


def _map_samples(head: _CntHeader) -> MappedSamples:
    file, n = MappedFile(head.path), len(head.names)
    blocks = file.get_array(
        f"<i{head.width}", head.first_sample, (head.n_samples // head.length, n, head.length)
    )
    return MappedSamples(file, [blocks[:, i] for i in range(n)])


def _read_header(path: Path, notes: list[str]) -> _CntHeader:
    size = path.stat().st_size
    with open(path, "rb") as file:
        head = file.read(_N_HEADER)
        (n,) = struct.unpack_from("<H", head, 370)
        if not 0 < n <= size // _N_CHANNEL:
            raise ValueError(f"{n} channels")
        rows = [file.read(_N_CHANNEL) for _ in range(n)]
    rate, n_stated = struct.unpack_from("<H", head, 376)[0], struct.unpack_from("<i", head, 864)[0]
    (n_block_bytes,) = struct.unpack_from("<i", head, 894)
    if rate == 0:
        raise ValueError("a rate of 0 Hz")
    first = _N_HEADER + _N_CHANNEL * n
    event_table, width = _find_event_table(head, (first, size), n, n_stated, repr(str(path)))
    if event_table == size:  # as in a file that was not closed
        notes.append("the file has no table of events where its header states")
    n_samples = (event_table - first) // (width * n)
    length = max(1, n_block_bytes // width)
    if n_samples % length:
        notes.append(f"{n_samples % length} samples of an incomplete block at the end are left out")
    names = tuple(_read_text(row, 0, 10) for row in rows)
    baseline = np.array([struct.unpack_from("<h", row, 47)[0] for row in rows], np.float64)
    sensitivity, calibration = (
        np.array([struct.unpack_from("<f", row, at)[0] for row in rows], np.float64) for at in (59, 71)
    )
    gain = sensitivity * calibration / _CALIBRATION * _MICROVOLT
    bad = tuple(name for name, row in zip(names, rows, strict=True) if row[14])
    return _CntHeader(
        path,
        n_samples,
        float(rate),
        width,
        length,
        event_table,
        names,
        bad,
        gain,
        -baseline * gain,
        parse_start(_read_text(head, 225, 10), _read_text(head, 235, 12), _DATES, notes),
    )


def _read_text(content: bytes, at: int, length: int) -> str:
    return content[at : at + length].split(b"\0")[0].decode("latin-1").strip()


def _find_event_table(
    head: bytes, limits: tuple[int, int], n_channels: int, n_samples: int, what: str
) -> tuple[int, int]:
    """Return the position of the events, which is the end of the samples, and the bytes per number.

    The header does not state the latter; the number of samples shows them. Beyond 4 GB, the upper half of
    the position is where other files name a previous one.
    """
    (low,), (high,) = struct.unpack_from("<I", head, 886), struct.unpack_from("<I", head, 16)
    first, size = limits
    for at in (low, low + (high << 32), size):
        for width in (2, 4):
            if first <= at <= size and at - first == width * n_channels * n_samples:
                return at, width
    end = low if first <= low <= size else size
    n_stored = [(end - first) // (width * n_channels) for width in (2, 4)]
    raise InputError(
        f"{what} states {n_samples} samples, but has {n_stored[0]} of 16 bits or {n_stored[1]} of 32 bits, "
        "so which of them is unknown; save it as an EEGLAB set with the format that you know: "
        "pop_loadcnt(name, 'dataformat', 'int32')"
    )


def _read_events(head: _CntHeader) -> Events:
    """Return the events; a rejected stretch, from its mark to the next that accepts, is a bad one."""
    with open(head.path, "rb") as file:
        file.seek(head.event_table)
        content = file.read()
    if len(content) < 9:
        return Events()
    kind, n_bytes = struct.unpack_from("<BI", content)
    if kind not in (1, 2, _BY_SAMPLE):
        raise ValueError(f"a table of events of type {kind}")
    dtype = np.dtype(_EVENT if kind == 1 else _LONG_EVENT)
    table = np.frombuffer(content, dtype, min(n_bytes, len(content) - 9) // dtype.itemsize, 9)
    at = table["at"].astype(np.float64)
    if kind != _BY_SAMPLE:
        at = (at - head.first_sample) // head.frame
    labels, durations, marks = list[str](), np.zeros(len(table)), table["keypad"] >> 4
    ends = at[marks == _ACCEPT]
    for i, (code, keyboard, keypad) in enumerate(table[["code", "keyboard", "keypad"]].tolist()):
        pressed = f"Keyboard Response {keyboard}" if keyboard else str(code)
        label = f"KeyPad Response {keypad & 15}" if keypad & 15 else pressed
        if marks[i] == _REJECT:
            label = f"BAD_{label}"
            later = ends[ends >= at[i]]
            durations[i] = ((later[0] if len(later) else head.n_samples) - at[i]) / head.rate
        labels.append(label)
    kept = np.flatnonzero(marks != _ACCEPT)
    return Events(at[kept], [labels[i] for i in kept], durations[kept], "events")
