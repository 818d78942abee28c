"""Order messages by sample index, declare gaps, and account for every sample.

The position of a message is the sender's sample index, `start`. Without `start`, it is the message counter
`seq` times the block length; without both, messages are taken in the order of arrival.

- A message that arrives too early waits until the missing ones have arrived or `patience` is used up; then
  a gap is declared.
- A message that arrives twice, or after its gap was declared, is dropped and counted.
- A sender that restarts begins a new run. Its indices start again, whereas the output indices continue; a
  gap of zero samples, reason ``"restart"``, separates the runs. Times derived from the old `t0` are not
  valid after it.

A new run is recognised by another `run` in the header. If senders give no `run`, a message is considered
the first of a new run if it is more than `horizon` samples back, or if it is more than `patience` samples
back and has `seq` or `start` 0. A jump ahead by more than `max_gap` samples is a new run as well, or a gap
if both messages have the same `run`; if the sender then continues where it was before the gap, that is a
new run as well. In all these cases a second message must follow the first; otherwise
the first was a stray and is dropped.
"""

from bisect import insort
from collections import deque
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.placed_message import PlacedMessage, count_samples
from igbss_stream.feeds.sequencer_counts import SequencerCounts
from igbss_stream.feeds.wire import DataMessage, GapMessage

_MAX_INDEX = 2**53  # of an output sample; larger integers lose digits in JSON and in float64
_WRAPS = (1 << 8, 1 << 16)  # of message counters, which senders in C or firmware keep in small integers
_NEAR = 8  # messages before and after a wrap, of which some must arrive for it to be seen
_REMEMBERED = 64  # past gaps and runs, which distinguish late messages from duplicates


class Sequencer:
    """Order messages and declare missing samples as gaps.

    Parameters
    ----------
    patience : int
        Number of later samples to wait for before a sample is declared missing; 0 for a feed that keeps its
        order, such as one publisher over TCP.
    max_waiting : int
        Largest number of messages that may wait.
    max_gap : int
        Largest gap, in samples, that a single message may cause.
    horizon : int, optional
        Largest distance, in samples, by which a message without `run` may be behind and still belong to the
        current run. By default 8 times the patience, at least 8192.
    wrap : int, optional
        Number of values of the sender's `seq` before it starts again at 0, e.g. 256. Such a counter cannot
        distinguish n lost messages from n + `wrap`, nor show a restart.
    reason : str
        Reason of the gaps that the sender did not declare.
    follows_layout : bool
        Whether another run may have other channels and another type; otherwise its samples are rejected.

    Attributes
    ----------
    counts : SequencerCounts
    is_exhausted : bool
        Whether an output index would be 2^53 or more: only another sequencer can continue.

    Raises
    ------
    ParameterError
        If a number is not valid.
    """

    def __init__(
        self,
        patience: int = 0,
        *,
        max_waiting: int = 256,
        max_gap: int = 1 << 22,
        horizon: int | None = None,
        wrap: int | None = None,
        reason: str = "lost",
        follows_layout: bool = False,
    ) -> None:
        self.counts = SequencerCounts()
        self.is_exhausted = False
        self._patience = _check_at_least(0, "patience", patience)
        self._max_waiting = _check_at_least(1, "max_waiting", max_waiting)
        self._max_gap = _check_at_least(1, "max_gap", max_gap)
        self._horizon = (
            max(8 * patience, 8192) if horizon is None else _check_at_least(1, "horizon", horizon)
        )
        self._wrap = None if wrap is None else _check_at_least(2, "wrap", wrap)
        self._is_wrap_given = wrap is not None
        self._reason, self._follows_layout = reason, follows_layout
        self._layout: tuple[int, np.dtype[Any]] | None = None
        self._has_begun = False
        self._next = 0  # position of the next output sample
        self._offset = 0  # output index minus position
        self._waiting: list[PlacedMessage] = []
        self._suspect: tuple[PlacedMessage, DataMessage | GapMessage] | None = (
            None  # the first of a new run, or a stray
        )
        self._run: int | None = None
        self._past_runs: deque[int | None] = deque(maxlen=_REMEMBERED)
        self._reset_run()

    def _reset_run(self) -> None:
        self._largest_start = -1  # of the received messages
        self._seq: int | None = None  # largest counter received, unwrapped
        self._base = 0  # what to add to counters
        self._block: int | None = None  # length of the blocks counted by `seq`
        self._lost: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)
        self._left: int | None = None  # position before a jump within the run

    @property
    def stop(self) -> int:
        """Index after the last output sample."""
        return self._next + self._offset

    @property
    def offset(self) -> int:
        """Output index minus the index of the sender, in its present run."""
        return self._offset

    @property
    def run(self) -> int | None:
        """The present run of the sender."""
        return self._run

    @property
    def samples_waiting(self) -> int:
        """Number of samples that were received and are neither output nor dropped yet."""
        waiting = self._waiting + ([self._suspect[0]] if self._suspect else [])
        return sum(count_samples(each) for each in waiting)

    def push(self, message: DataMessage | GapMessage) -> list[Chunk | Gap]:
        """Add a message.

        Parameters
        ----------
        message : DataMessage or GapMessage

        Returns
        -------
        list of Chunk and Gap
            The items that are complete now; each begins where the previous one stopped.
        """
        self.counts.messages += 1
        header = message.header if isinstance(message, DataMessage) else message
        if self._follows_layout and header.run != self._run and header.run not in self._past_runs:
            self._layout = None
        if isinstance(message, DataMessage) and not self._check_layout(message.data):
            return []
        if not self._has_begun:
            self._begin(message, header.run)
        elif header.run != self._run:
            return self._start_other_run(message, header.run)
        elif self._exceeds_block(message):
            return self._restart([message])
        placed = self._place(message)
        if not self._has_room(placed):
            return []
        if self._is_far(placed, header.seq):
            return self._check_suspect(placed, message)
        self._dismiss_suspect()
        return self._accept(placed)

    def flush(self) -> list[Chunk | Gap]:
        """Return all waiting samples, and gaps for the samples missing before them."""
        self._dismiss_suspect()
        return self._release(patience=-1)

    def end(self, stop: int | None = None, run: int | None = None) -> list[Chunk | Gap]:
        """Flush, and return a gap up to the index at which the sender declares the end of a run."""
        if run != self._run:
            return []
        out = self.flush()
        if stop is not None and self._has_begun and 0 < stop - self._next <= self._max_gap:
            out.append(self._declare_lost(stop))
        return out

    def _check_layout(self, data: NDArray[Any]) -> bool:
        """Return whether samples have the layout of the first ones; count them or their rejection."""
        layout = data.shape[1], data.dtype
        if self._layout is None:
            self._layout = layout
        elif layout != self._layout:
            self.counts.rejected["channels" if layout[0] != self._layout[0] else "dtype"] += 1
            return False
        self.counts.samples_in += len(data)
        return True

    def _begin(self, message: DataMessage | GapMessage, run: int | None) -> None:
        self._has_begun = True
        self._run = run
        self._next = self._place(message).start

    def _exceeds_block(self, message: DataMessage | GapMessage) -> bool:
        """Return whether a block is longer than those counted so far, which changes all positions."""
        return (
            isinstance(message, DataMessage)
            and message.header.start is None
            and self._block is not None
            and len(message.data) > self._block
        )

    def _place(self, message: DataMessage | GapMessage) -> PlacedMessage:
        if isinstance(message, GapMessage):
            return PlacedMessage(message.start, message.start + message.n_samples, None, 0, message.reason)
        header, length = message.header, len(message.data)
        start = header.start
        if start is None:
            start = self._find_end() if header.seq is None else self._locate_counter(header.seq, length)
        return PlacedMessage(start, start + length, message.data, header.model, "")

    def _locate_counter(self, seq: int, length: int) -> int:
        """Return the position of a message counter; a block shorter than the first leaves a gap."""
        if self._block is None:
            self._block = length
        before = seq if self._seq is None else self._seq
        if not self._is_wrap_given:
            self._detect_wrap(seq, before)
        seq += self._base
        if self._wrap is not None:
            seq = before + (seq - before + self._wrap // 2) % self._wrap - self._wrap // 2
        self._seq = max(before, seq)
        return seq * self._block

    def _detect_wrap(self, seq: int, before: int) -> None:
        """Find out whether a counter has 8 or 16 bits; a larger count than these hold disproves it."""
        if self._wrap is None:
            highest = before - self._base
            self._wrap = next((top for top in _WRAPS if top - _NEAR <= highest < top and seq < _NEAR), None)
        elif seq >= self._wrap:  # a restart looked like a wrap; its messages keep their positions
            self._base, self._wrap = before - before % self._wrap, None

    def _find_end(self) -> int:
        """Return the position after all samples received so far."""
        return max(self._waiting[-1].stop, self._next) if self._waiting else self._next

    def _has_room(self, placed: PlacedMessage) -> bool:
        """Return whether the output indices of a message are below the limit; drop it if not."""
        if placed.stop + self._offset < _MAX_INDEX:
            return True
        self.is_exhausted = True
        self._drop(placed)
        return False

    def _is_far(self, placed: PlacedMessage, seq: int | None) -> bool:
        """Return whether a message is too far from the current position to belong to this run."""
        ahead = placed.stop - self._next
        if ahead > self._max_gap + count_samples(placed):
            return True
        if self._left is not None and self._left <= placed.start and -ahead > self._horizon:
            return True  # the jump was a mistake of the sender
        if self._run is not None or self._wrap is not None:
            return False
        first = seq == 0 or placed.start == 0
        return -ahead > (self._patience if first else self._horizon)

    def _check_suspect(self, placed: PlacedMessage, message: DataMessage | GapMessage) -> list[Chunk | Gap]:
        """Hold a message that may be the first of a new run until a second one follows it."""
        if self._suspect is None:
            self._suspect = placed, message
            return []
        first, first_message = self._suspect
        if first.start == placed.start:
            self._drop(placed)
            return []
        if 0 <= placed.start - first.stop <= self._patience:
            return self._jump([first_message, message])
        if 0 <= first.start - placed.stop <= self._patience:
            return self._jump([message, first_message])
        self._drop(first)
        self._suspect = placed, message
        return []

    def _jump(self, messages: list[DataMessage | GapMessage]) -> list[Chunk | Gap]:
        """Continue at the position of two consecutive messages."""
        self._suspect = None
        position = self._place(messages[0]).start
        if self._run is None or position < self._next:
            return self._restart(messages)
        self._left = self._next
        return [item for message in messages for item in self._accept(self._place(message))]

    def _dismiss_suspect(self) -> None:
        if self._suspect is not None:
            self._drop(self._suspect[0])
            self._suspect = None

    def _start_other_run(self, message: DataMessage | GapMessage, run: int | None) -> list[Chunk | Gap]:
        if run in self._past_runs:
            self.counts.late += 1
            self.counts.samples_dropped += len(message.data) if isinstance(message, DataMessage) else 0
            return []
        self._past_runs.append(self._run)
        self._run = run
        return self._restart([message])

    def _restart(self, messages: list[DataMessage | GapMessage]) -> list[Chunk | Gap]:
        """End the run and continue with the first messages of another."""
        out = self.flush()
        stop = self.stop
        out.append(Gap(stop, 0, "restart"))
        self.counts.restarts += 1
        self._reset_run()
        for message in messages:
            placed = self._place(message)
            if message is messages[0]:
                self._next, self._offset = placed.start, stop - placed.start
            if self._has_room(placed):
                out += self._accept(placed)
        return out

    def _accept(self, placed: PlacedMessage) -> list[Chunk | Gap]:
        if placed.start == self._next and not self._waiting:
            self._largest_start = placed.start
            return [self._deliver(placed)]
        if self._is_over(placed) or any(other.start == placed.start for other in self._waiting):
            self._drop(placed)
            return []
        self.counts.reordered += placed.start < self._largest_start
        self._largest_start = max(self._largest_start, placed.start)
        insort(self._waiting, placed, key=attrgetter("start"))
        return self._release(self._patience)

    def _release(self, patience: int) -> list[Chunk | Gap]:
        """Return the items that need not wait any longer."""
        out: list[Chunk | Gap] = []
        while self._waiting and self._is_due(patience):
            placed = self._waiting.pop(0)
            if self._is_over(placed):
                self._drop(placed)
                continue
            if placed.start > self._next:
                out.append(self._declare_lost(placed.start))
            out.append(self._deliver(placed))
        return out

    def _is_due(self, patience: int) -> bool:
        return (
            self._waiting[0].start <= self._next
            or self._waiting[-1].stop - self._next > patience
            or len(self._waiting) > self._max_waiting
        )

    def _is_over(self, placed: PlacedMessage) -> bool:
        return placed.start < self._next and placed.stop <= self._next

    def _deliver(self, placed: PlacedMessage) -> Chunk | Gap:
        """Return a message as a chunk or gap, without samples that were output before."""
        n_known, start = self._next - placed.start, self.stop
        self._next = placed.stop
        if placed.data is None:
            self.counts.samples_lost += self.stop - start
            return Gap(start, self.stop - start, placed.reason)
        data = placed.data[n_known:] if n_known else placed.data
        self.counts.samples_out += len(data)
        self.counts.samples_dropped += n_known
        return Chunk(data, start, placed.model_version)

    def _declare_lost(self, position: int) -> Gap:
        gap = Gap(self.stop, position - self._next, self._reason)
        self._lost.append((self._next, position))
        self.counts.samples_lost += gap.n_samples
        self._next = position
        return gap

    def _drop(self, placed: PlacedMessage) -> None:
        self.counts.samples_dropped += count_samples(placed)
        if placed.start >= self._next and not any(placed.start == other.start for other in self._waiting):
            self.counts.strays += 1
        elif any(start < placed.stop and placed.start < stop for start, stop in self._lost):
            self.counts.late += 1
        else:
            self.counts.duplicates += 1


def _check_at_least(least: int, name: str, value: int) -> int:
    if value < least:
        raise ParameterError(
            f"{name} must be a whole number >= {least}. Got {value!r} instead.", parameter=name
        )
    return value
