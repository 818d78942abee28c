"""The interface of every reader: a recording in an open file.

Samples are returned time-major, C-ordered and in native byte order, as float32 or float64. Missing samples
take no rows; the gaps of the recording state where they are.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.closeable import Closeable
from igbss_stream.chunk import Gap
from igbss_stream.errors import ParameterError
from igbss_stream.events import Events, OnsetFinder
from igbss_stream.files.gaps import count_missing, get_indices, get_rows, merge_losses
from igbss_stream.positions import Positions

_TOLERANCE = 1e-6  # relative, of the number that means missing
_BLOCK = 1 << 14  # rows that are read at a time to find onsets

Fill = Callable[[int, NDArray[Any]], None]
"""Fill an array of shape (rows, stored channels) with samples, from a row of the file on."""


@dataclass(frozen=True)
class Facts:
    """Description of the samples of a file.

    Parameters
    ----------
    layout : str
        Name of the layout or format of the file.
    why : str
        How the layout was detected.
    dataset : str
        Where in the file the samples are; empty if a file contains a single signal.
    rate : float or None
        In Hz, if known.
    unit : str or None
        Unit of the samples that are returned, if known.
    channels : tuple of str
        Name of each stored channel.
    types : tuple of str
        Type of each stored channel, as the file states it; empty if it does not.
    bad : tuple of str
        Names of channels that the file marks as bad.
    bad_rows : tuple of (int, int)
        Start and stop of the rows that the file marks as bad, sorted and without overlaps.
    gaps : tuple of Gap
        Missing samples, in order; see `igbss_stream.files.gaps`.
    notes : tuple of str
        Decisions of the reader that the user should know.
    events : Events or callable
        Events of the file; a function that finds them if that takes reading the samples.
    t0 : float or None
        Unix time of the first sample, in seconds, if the file states it.
    positions : Positions or None
        Positions of the stored channels, in their order, if the file states any.
    """

    layout: str
    why: str
    dataset: str
    rate: float | None
    unit: str | None
    channels: tuple[str, ...]
    types: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    bad_rows: tuple[tuple[int, int], ...] = ()
    gaps: tuple[Gap, ...] = ()
    notes: tuple[str, ...] = ()
    events: Events | Callable[[], Events] = field(default_factory=Events)
    t0: float | None = None
    positions: Positions | None = None


class Recording(Closeable):
    """A recording in an open file. A context manager that closes the file.

    Parameters
    ----------
    path : Path
    facts : Facts
    n_samples : int
    dtype : dtype
        Dtype of the blocks, native float32 or float64.
    picks : tuple of int, optional
        Positions of the stored channels to return, in this order. Default: all.
    gain, offset : array of shape (stored channels,), optional
        Samples are ``stored * gain + offset``.
    triggers : tuple of int, optional
        Positions of the stored channels whose onsets are events.

    Attributes
    ----------
    n_channels : int
        Number of channels that are returned.
    channels, types, bad : tuple of str
        See `Facts`; for the channels that are returned.
    layout, why, dataset, rate, unit, bad_rows, gaps, t0
        See `Facts`.
    positions : Positions or None
        Positions of the channels that are returned. May be set.
    events : Events
        Those within the samples, gaps included.
    is_selection : bool
        Whether the user selected these channels.
    missing : float or None
        Stored number that means that a sample is missing; it is read as NaN.
    """

    def __init__(
        self,
        path: Path,
        facts: Facts,
        n_samples: int,
        dtype: np.dtype[Any],
        *,
        picks: tuple[int, ...] | None = None,
        gain: NDArray[np.float64] | None = None,
        offset: NDArray[np.float64] | None = None,
        triggers: tuple[int, ...] = (),
    ) -> None:
        self.path = path
        self.layout, self.why, self.dataset = facts.layout, facts.why, facts.dataset
        self.rate, self.unit = facts.rate, facts.unit
        self._stated_gaps = facts.gaps
        self.bad_rows, self.gaps, self._notes = facts.bad_rows, facts.gaps, facts.notes
        self.t0, self._stated_events = facts.t0, facts.events
        self._triggers = tuple((i, facts.channels[i]) for i in triggers)
        self.is_selection = False
        self.missing: float | None = None
        self.n_samples, self.dtype = int(n_samples), dtype  # JSON cannot write NumPy integers
        self._stored_channels, self._n_stored = facts.channels, len(facts.channels)
        every = tuple(range(self._n_stored))
        self._picks = every if picks is None else picks
        self._whole = self._picks == every
        self.n_channels = len(self._picks)
        self.channels = tuple(facts.channels[i] for i in self._picks)
        self.types = tuple(facts.types[i] for i in self._picks) if facts.types else ()
        self.bad = tuple(name for name in facts.bad if name in self.channels)
        self.positions = None if facts.positions is None else facts.positions.pick(self._picks)
        picked = list(self._picks)
        self._gain = None if gain is None else gain[picked]
        self._offset = None if offset is None else offset[picked]

    def leave_out(self, channels: tuple[int, ...], note: str) -> None:
        """Return the other channels only.

        Parameters
        ----------
        channels : tuple of int
            Positions among the channels that are returned.
        note : str
            Reason, added to `notes`.
        """
        kept = [i for i in range(self.n_channels) if i not in channels]
        self._picks, self._whole = tuple(self._picks[i] for i in kept), False
        self.n_channels, self.channels = len(kept), tuple(self.channels[i] for i in kept)
        self.types = tuple(self.types[i] for i in kept) if self.types else ()
        self.bad = tuple(name for name in self.bad if name in self.channels)
        self._gain = None if self._gain is None else self._gain[kept]
        self._offset = None if self._offset is None else self._offset[kept]
        self.positions = None if self.positions is None else self.positions.pick(kept)
        self.add_note(note)

    def add_losses(self, lost: Sequence[tuple[int, int]], note: str) -> None:
        """Add the gaps that a counter shows.

        Parameters
        ----------
        lost : sequence of (row, n_samples)
            See `igbss_stream.files.gaps.merge_losses`.
        note : str
            What shows them, added to `notes` if there are any that the file does not state.
        """
        merged = merge_losses(lost, self.gaps)
        if merged != self.gaps:
            self.gaps = merged
            self.add_note(note)

    def add_note(self, note: str) -> None:
        """Add a decision that the user should know."""
        self._notes += (note,)

    @property
    def notes(self) -> tuple[str, ...]:
        """Decisions of the reader that the user should know, and what is wrong with the positions."""
        of_positions = () if self.positions is None else self.positions.notes
        return tuple(dict.fromkeys((*self._notes, *of_positions)))

    @property
    def stored_channels(self) -> tuple[str, ...]:
        """Names of all channels in the file, whether they are returned or not."""
        return self._stored_channels

    @property
    def is_costly_to_read(self) -> bool:
        """Whether reading samples takes longer than copying them, as decompressing or filtering does."""
        return True

    @property
    def picks(self) -> tuple[int, ...]:
        """Positions of the channels that are returned, among the stored ones."""
        return self._picks

    @property
    def has_events_in_samples(self) -> bool:
        """Whether finding the events takes reading the samples."""
        return bool(self._triggers) or not isinstance(self._stated_events, Events)

    @cached_property
    def events(self) -> Events:
        """Events of the file; see `has_events_in_samples`."""
        stated = self._stated_events
        events = stated if isinstance(stated, Events) else stated()
        if self.gaps != self._stated_gaps:  # the samples that a counter shows as missing count as well
            rows = get_rows(self._stated_gaps, events.index)
            shift = get_indices(self.gaps, rows) - get_indices(self._stated_gaps, rows)
            events = events.move(events.index + shift)
        if self._triggers:
            events = Events.join([events, self._find_onsets()])
        return events.select_samples(self.n_samples + count_missing(self.gaps))

    def _find_onsets(self) -> Events:
        """Return the onsets in the trigger channels, of which the stored numbers count."""
        finders = [(i, OnsetFinder(name, self.rate)) for i, name in self._triggers]
        for block in self._read_stored(self.n_samples):
            for i, finder in finders:
                finder.push(block[:, i].copy())
        found = Events.join(finder.finish() for _, finder in finders)
        return found.move(get_indices(self.gaps, found.index))

    def read_stored(self, n_samples: int, channels: Sequence[int] | None = None) -> NDArray[Any]:
        """Read the stored numbers of the first rows.

        Parameters
        ----------
        n_samples : int
        channels : sequence of int, optional
            Positions of stored channels. Default: all, whether they are returned by `read_blocks` or not.

        Returns
        -------
        array of shape (n_samples, channels)
        """
        columns = slice(None) if channels is None else list(channels)
        blocks = [block[:, columns].copy() for block in self._read_stored(n_samples)]
        return np.concatenate(blocks) if blocks else np.empty((0, self._n_stored), self.dtype)[:, columns]

    def _read_stored(self, n_samples: int) -> Iterator[NDArray[Any]]:
        """Yield the stored numbers of the first rows, in blocks that share their memory."""
        fill = self._make_filler(min(_BLOCK, n_samples))
        stored = np.empty((min(_BLOCK, n_samples), self._n_stored), self.dtype)
        for row in range(0, n_samples, _BLOCK):
            block = stored[: min(_BLOCK, n_samples - row)]
            with _without_warnings():
                fill(row, block)
            yield block

    def read_blocks(
        self, n: int, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Read the recording, or a range of its rows, `n` samples at a time.

        Parameters
        ----------
        n : int
            Number of samples in a block, at least 1; the last block may be shorter.
        start, stop : int, optional
            First row, and the row after the last. Default: all rows.

        Returns
        -------
        iterator of (start, block)
            Row of the first sample of the block, and the samples: an array of shape
            (at most `n`, `n_channels`), C-ordered, of type `dtype`. All blocks share their memory: a
            block may be changed, but is valid only until the next one is requested.

        Raises
        ------
        ParameterError
            If `n` is not a positive integer.
        RecordingError
            While reading, if the file is damaged or closed.
        """
        if not isinstance(n, int | np.integer) or n < 1:
            raise ParameterError(f"the block size must be an integer of at least 1. Got {n!r} instead.")
        stop = self.n_samples if stop is None else stop
        return self._read_blocks(min(int(n), stop - start), start, stop)

    def _read_blocks(self, n: int, start: int, stop: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the blocks of `read_blocks`."""
        fill = self._make_filler(n)
        stored = np.empty((n, self._n_stored), self.dtype)
        picked = stored if self._whole else np.empty((n, self.n_channels), self.dtype)
        for row in range(start, stop, n):
            rows = min(n, stop - row)
            with _without_warnings():
                fill(row, stored[:rows])
                if not self._whole:
                    np.take(stored[:rows], self._picks, axis=1, out=picked[:rows])
                self._scale(picked[:rows])
            yield row, picked[:rows]

    def _scale(self, block: NDArray[Any]) -> None:
        """Convert stored numbers to samples in place, computing in float64."""
        if self.missing is not None:
            block[np.isclose(block, self.missing, rtol=_TOLERANCE, atol=0)] = np.nan
        if self._gain is not None:
            np.multiply(block, self._gain, out=block, casting="same_kind")
        if self._offset is not None:
            np.add(block, self._offset, out=block, casting="same_kind")

    @abstractmethod
    def _make_filler(self, n: int) -> Fill:
        """Return a function that reads blocks of at most `n` samples; it may keep a buffer."""


def _without_warnings() -> np.errstate:
    """Return a context in which NumPy does not warn: NaN and infinite samples are for the user to judge."""
    return np.errstate(over="ignore", invalid="ignore")
