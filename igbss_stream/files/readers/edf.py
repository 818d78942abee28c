"""Read what MNE does not report from EDF and BDF headers: rates of channels, and times of records.

A file is a header and records of equal length, each with samples of every channel. In an interrupted file
(EDF+D, BDF+D) each record states its start time in the first bytes of its annotation channel.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError, printable
from igbss_stream.files.channel_selection import format_ranges, pick_channels
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.messages import as_one_line
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.signal_choice import SeveralSignalsError, SignalChoice

_N_HEADER = 256  # bytes of the header, and of the header of each channel
_MOST_CHANNELS = 4096
_ANNOTATIONS = ("EDF Annotations", "BDF Annotations")
_VOLTS = ("V", "mV", "uV", "\u03bcV", "\u00b5V", "\x83\xcaV")  # units that MNE converts to volts
_ONSET = re.compile(rb"[+-]\d+(\.\d*)?(?=[\x14\x15])")  # of the first annotation of a record
_LONGEST_ONSET = 64  # bytes
_TOLERANCE = 1e-3  # seconds; rounding of start times


@dataclass(frozen=True)
class EdfHeader:
    """Header of an EDF or BDF file.

    Parameters
    ----------
    path : Path
    kind : {"EDF", "BDF"}
    interrupted : bool
        Whether there may be gaps between records.
    n_bytes : int
        Length of the header.
    n_records : int
        Number of records as stated; -1 while the file is being written.
    duration : float
        Duration of a record, in seconds.
    labels, dimensions : tuple of str
        Name and unit of each signal, annotations included.
    counts : tuple of int
        Number of samples of each signal in a record.
    ranges : tuple of (str, str, str, str)
        Smallest and largest physical value of each signal, and the smallest and largest stored number.
    dated : bool
        Whether the date of the recording is known; a file that says it is not states one all the same.
    """

    path: Path
    kind: str
    interrupted: bool
    n_bytes: int
    n_records: int
    duration: float
    labels: tuple[str, ...]
    dimensions: tuple[str, ...]
    counts: tuple[int, ...]
    ranges: tuple[tuple[str, str, str, str], ...] = ()
    dated: bool = True

    @cached_property
    def measured(self) -> tuple[int, ...]:
        """Positions of the signals, without annotations."""
        return tuple(i for i, label in enumerate(self.labels) if label not in _ANNOTATIONS)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the channels, without annotations."""
        return tuple(self.labels[i] for i in self.measured)

    @cached_property
    def unscaled(self) -> tuple[int, ...]:
        """Positions of the channels whose scale cannot be computed, because a range is empty."""
        ranges = [self.ranges[i] for i in self.measured] if self.ranges else []
        return tuple(i for i, (low, high, first, last) in enumerate(ranges) if low == high or first == last)

    def get_counts(self, channels: tuple[int, ...]) -> set[int]:
        """Return the numbers of samples per record of some channels."""
        return {self.counts[self.measured[i]] for i in channels}

    def get_unit(self, channels: tuple[int, ...]) -> str | None:
        """Return the unit of some channels as MNE returns them; None if they have several, or none."""
        stated = {self.dimensions[self.measured[i]] for i in channels}
        units = {"V" if dimension in _VOLTS else dimension for dimension in stated}
        return units.pop() or None if len(units) == 1 else None

    def group_by_rate(self) -> dict[int, tuple[int, ...]]:
        """Return the channels for each number of samples per record."""
        groups: dict[int, list[int]] = {}
        for position, i in enumerate(self.measured):
            groups.setdefault(self.counts[i], []).append(position)
        return {count: tuple(positions) for count, positions in groups.items()}

    def format_rates(self) -> str:
        """Format the rates and their channels."""
        return "; ".join(
            f"{count / self.duration:g} Hz: {format_ranges(positions)}"
            for count, positions in self.group_by_rate().items()
        )

    def list_choices(self) -> list[SignalChoice]:
        """Return the channels of each rate as a choice."""
        return [
            SignalChoice(
                f"--channels {format_ranges(positions)}",
                count * self.n_records if self.n_records >= 0 else None,
                len(positions),
                count / self.duration,
                self.get_unit(positions),
                tuple(self.names[i] for i in positions),
            )
            for count, positions in self.group_by_rate().items()
        ]

    def find_gaps(self, count: int) -> tuple[Gap, ...]:
        """Return the gaps between records.

        Parameters
        ----------
        count : int
            Number of samples per record of the channels that are read.

        Returns
        -------
        tuple of Gap

        Raises
        ------
        RecordingError
            If records do not state their start time, or overlap.
        """
        onsets = self._read_onsets()
        rate = count / self.duration
        tolerance = max(_TOLERANCE, 0.5 / rate)
        places = list[tuple[int, int, str]]()
        first = 0  # record of the current run; times are computed from it to avoid rounding errors
        for i in range(1, len(onsets)):
            late = onsets[i] - onsets[first] - (i - first) * self.duration
            if abs(late) < tolerance:
                continue
            if late < 0:
                raise RecordingError(
                    f"{str(self.path)!r} is interrupted, and record {i} begins {-late:g} s before the "
                    "end of "
                    "the previous one; repair or convert it with EDFbrowser"
                )
            places.append((i * count, max(1, round(late * rate)), "missing"))
            first = i
        return make_gaps(places)

    def _read_onsets(self) -> list[float]:
        """Read the start time of each record, in seconds."""
        signal = next((i for i, label in enumerate(self.labels) if label in _ANNOTATIONS), None)
        width = 3 if self.kind == "BDF" else 2
        length = width * sum(self.counts)
        n_records = (self.path.stat().st_size - self.n_bytes) // length
        if signal is None:
            raise RecordingError(
                f"{str(self.path)!r} is interrupted but has no annotations that state where; convert it to "
                f"{self.kind}+C with EDFbrowser"
            )
        at = self.n_bytes + width * sum(self.counts[:signal])
        n_bytes = min(_LONGEST_ONSET, width * self.counts[signal])
        onsets = []
        with open(self.path, "rb", buffering=0) as file:
            for i in range(n_records if self.n_records < 0 else min(n_records, self.n_records)):
                file.seek(at + i * length)
                found = _ONSET.match(file.read(n_bytes))
                if found is None:
                    raise RecordingError(
                        f"{str(self.path)!r} is interrupted, and record {i} does not state its start time; "
                        f"convert it to {self.kind}+C with EDFbrowser"
                    )
                onsets.append(float(found[0]))
        return onsets


def choose_single_rate(head: EdfHeader, options: ReadOptions, what: str) -> tuple[int, ...]:
    """Return the selected channels of a file with several rates.

    Parameters
    ----------
    head : EdfHeader
    options : ReadOptions
    what : str
        Name of the file, for messages.

    Raises
    ------
    SeveralSignalsError, RecordingError
        If no channels are selected, or channels of several rates.
    """
    reason = f"{what} has channels with different rates ({head.format_rates()})"
    if options.channels is None:
        raise SeveralSignalsError(
            f"{reason}; pass --channels with channels of one rate", head.list_choices()
        )
    chosen = pick_channels(options.channels, head.names, what)
    same_name = tuple(i for i, name in enumerate(head.names) if name in {head.names[i] for i in chosen})
    if len(head.get_counts(same_name)) > 1:
        raise RecordingError(f"{reason}; the channels of --channels must have the same rate")
    return chosen


def find_unit(
    head: EdfHeader, read: tuple[int, ...], options: ReadOptions, what: str
) -> tuple[str | None, tuple[str, ...]]:
    """Return the unit of the channels that are read, and a note if some have no scale.

    Parameters
    ----------
    head : EdfHeader
    read : tuple of int
        Positions of these channels.
    options : ReadOptions
    what : str
        Name of the file, for messages.

    Raises
    ------
    RecordingError
        If a channel that was not selected has no scale.
    """
    unscaled = [i for i in read if i in head.unscaled]
    if not unscaled:
        return head.get_unit(read), ()
    names = ", ".join(printable(head.names[i]) for i in unscaled[:4])
    scaled = [i for i in read if i not in unscaled]
    if options.channels is None and len(scaled) > 1:
        raise RecordingError(
            f"{what} states no scale for the channels {names}: their smallest and largest value are equal. "
            f"Pass --channels {format_ranges(scaled)} to omit them, or all to read them without a unit"
        )
    return None, (f"the file states no scale for the channels {names}, so the unit is unknown",)


def read_edf_header(path: Path, kind: str) -> EdfHeader:
    """Read the header of an EDF or BDF file.

    Raises
    ------
    RecordingError
        If it is damaged or cannot be read.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_N_HEADER)
            n = int(head[252:256])
            if not 0 < n <= _MOST_CHANNELS:
                raise ValueError(f"{n} channels")
            table = file.read(n * _N_HEADER)
        n_bytes, n_records, duration = int(head[184:192]), int(head[236:244]), float(head[244:252])
        counts = tuple(map(int, read_column(table, n, 216, 8)))
        labels = read_column(table, n, 0, 16)
        timed = duration > 0 or all(label in _ANNOTATIONS for label in labels)
        if not (np.isfinite(duration) and timed and min(counts) >= 0 and sum(counts) > 0):
            raise ValueError(f"records of {duration:g} s")
    except (OSError, ValueError) as error:
        raise RecordingError(
            f"{str(path)!r} has a damaged {kind} header ({as_one_line(error)}); copy or record it again"
        ) from error
    return EdfHeader(
        path,
        kind,
        head[192:197] in (b"EDF+D", b"BDF+D"),
        n_bytes,
        n_records,
        duration,
        labels,
        read_column(table, n, 96, 8),
        counts,
        tuple(zip(*(read_column(table, n, at, 8) for at in (104, 112, 120, 128)), strict=True)),
        not head[88:168].startswith(b"Startdate X"),
    )


def read_column(table: bytes, n: int, before: int, width: int) -> tuple[str, ...]:
    """Return a field of the headers of channels.

    Parameters
    ----------
    table : bytes
        Headers of the channels, field by field.
    n : int
        Number of channels.
    before, width : int
        Bytes per channel of the fields before, and of this one.
    """
    start = before * n
    cells = (table[start + width * i : start + width * (i + 1)] for i in range(n))
    return tuple(cell.strip().decode("latin-1") for cell in cells)
