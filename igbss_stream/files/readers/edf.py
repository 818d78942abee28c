"""What EDF and BDF files say in their head and of their records, as far as MNE would not tell.

A file is a head and records of equal length, each with a stretch of every channel. In an interrupted file
(EDF+D, BDF+D) each record says when it begins, in the first bytes of its channel of annotations.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError
from igbss_stream.files.channel_selection import ranges
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.messages import one_line
from igbss_stream.files.signal_choice import Offered

_HEAD = 256  # bytes of the head, and of the head of each channel
_MOST_CHANNELS = 4096
_ANNOTATIONS = ("EDF Annotations", "BDF Annotations")
_VOLTS = ("V", "mV", "uV", "\u03bcV", "\u00b5V", "\x83\xcaV")  # what MNE turns into volts
_ONSET = re.compile(rb"[+-]\d+(\.\d*)?(?=[\x14\x15])")  # of the first annotation of a record
_LONGEST_ONSET = 64  # bytes
_TOLERANCE = 1e-3  # seconds by which onsets may be rounded


@dataclass(frozen=True)
class EdfHead:
    """The head of an EDF or BDF file.

    Parameters
    ----------
    path : Path
    kind : {"EDF", "BDF"}
    interrupted : bool
        Whether records need not follow each other.
    n_bytes : int
        Length of the head itself.
    n_records : int
        As it is stated; -1 while a file is being written.
    duration : float
        Of a record, in seconds.
    labels, dimensions : tuple of str
        Name and unit of each signal, annotations included.
    counts : tuple of int
        Samples of each signal in a record.
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

    @cached_property
    def measured(self) -> tuple[int, ...]:
        """The signals that are no annotations."""
        return tuple(i for i, label in enumerate(self.labels) if label not in _ANNOTATIONS)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the channels, without annotations."""
        return tuple(self.labels[i] for i in self.measured)

    def counts_of(self, channels: tuple[int, ...]) -> set[int]:
        """Return the numbers of samples in a record that channels have."""
        return {self.counts[self.measured[i]] for i in channels}

    def unit(self, channels: tuple[int, ...]) -> str | None:
        """Return the unit that MNE hands channels over in; None if they have several, or none."""
        stated = {self.dimensions[self.measured[i]] for i in channels}
        units = {"V" if dimension in _VOLTS else dimension for dimension in stated}
        return units.pop() or None if len(units) == 1 else None

    def by_rate(self) -> dict[int, tuple[int, ...]]:
        """Return which channels have how many samples in a record."""
        groups: dict[int, list[int]] = {}
        for position, i in enumerate(self.measured):
            groups.setdefault(self.counts[i], []).append(position)
        return {count: tuple(positions) for count, positions in groups.items()}

    def rates(self) -> str:
        """List which channels have which rate."""
        return "; ".join(
            f"{count / self.duration:g} Hz: {ranges(positions)}"
            for count, positions in self.by_rate().items()
        )

    def offered(self) -> list[Offered]:
        """Return what there is to choose from, where channels have several rates."""
        return [
            Offered(
                f"--channels {ranges(positions)}",
                count * self.n_records if self.n_records >= 0 else None,
                len(positions),
                count / self.duration,
                self.unit(positions),
                tuple(self.names[i] for i in positions),
            )
            for count, positions in self.by_rate().items()
        ]

    def find_gaps(self, count: int) -> tuple[Gap, ...]:
        """Return where records do not follow each other.

        Parameters
        ----------
        count : int
            Samples that a record has of the channels that are read.

        Returns
        -------
        tuple of Gap

        Raises
        ------
        RecordingError
            If records do not say when they begin, or go back in time.
        """
        onsets = self._onsets()
        rate = count / self.duration
        tolerance = max(_TOLERANCE, 0.5 / rate)
        places, first = (
            list[tuple[int, int, str]](),
            0,
        )  # the first record of a stretch; its length is not added up
        for i in range(1, len(onsets)):
            late = onsets[i] - onsets[first] - (i - first) * self.duration
            if abs(late) < tolerance:
                continue
            if late < 0:
                raise RecordingError(
                    f"{str(self.path)!r} is interrupted, and its record {i} begins {-late:g} s before the "
                    "one before it ends; repair or convert it with EDFbrowser"
                )
            places.append((i * count, max(1, round(late * rate)), "missing"))
            first = i
        return make_gaps(places)

    def _onsets(self) -> list[float]:
        """Read when each record begins, in seconds."""
        signal = next((i for i, label in enumerate(self.labels) if label in _ANNOTATIONS), None)
        width = 3 if self.kind == "BDF" else 2
        length = width * sum(self.counts)
        n_records = (self.path.stat().st_size - self.n_bytes) // length
        if signal is None:
            raise RecordingError(
                f"{str(self.path)!r} is interrupted, and has no annotations that say where; convert it to "
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
                        f"{str(self.path)!r} is interrupted, and its record {i} does not say when it "
                        f"begins; convert it to {self.kind}+C with EDFbrowser"
                    )
                onsets.append(float(found[0]))
        return onsets


def edf_head(path: Path, kind: str) -> EdfHead:
    """Read the head of an EDF or BDF file.

    Raises
    ------
    RecordingError
        If it is damaged.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            n = int(head[252:256])
            if not 0 < n <= _MOST_CHANNELS:
                raise ValueError(f"{n} channels")
            table = file.read(n * _HEAD)
        n_bytes, n_records, duration = int(head[184:192]), int(head[236:244]), float(head[244:252])
        counts = tuple(map(int, _column(table, n, 216, 8)))
        if not (np.isfinite(duration) and duration > 0 and min(counts) >= 0 and sum(counts) > 0):
            raise ValueError(f"records of {duration:g} s")
    except (OSError, ValueError) as error:
        raise RecordingError(
            f"{str(path)!r} has a damaged head of {kind} ({one_line(error)}); copy or record it again"
        ) from error
    return EdfHead(
        path,
        kind,
        head[192:197] in (b"EDF+D", b"BDF+D"),
        n_bytes,
        n_records,
        duration,
        _column(table, n, 0, 16),
        _column(table, n, 96, 8),
        counts,
    )


def _column(table: bytes, n: int, before: int, width: int) -> tuple[str, ...]:
    """Return what the heads of n channels say in a field, which comes after so many bytes a channel."""
    start = before * n
    cells = (table[start + width * i : start + width * (i + 1)] for i in range(n))
    return tuple(cell.decode("latin-1").strip() for cell in cells)
