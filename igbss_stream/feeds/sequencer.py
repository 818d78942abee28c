"""From messages in the order of their arrival to an account of every sample, in the order of its index.

Where a message belongs (its position) is the sender's sample index, `start`. A sender that gives none is
placed by its message counter `seq` times the length of its blocks, one that gives neither by arrival.

- What comes too early waits until what is missing has come or `patience` is used up; then a gap is
  declared.
- What comes twice, or after its gap was declared, is dropped and counted.
- A sender that starts over begins a new run. Its indices begin anew, those that leave here go on: a gap of
  zero samples, reason ``"restart"``, stands between. Time derived from the old `t0` does not hold after it.

A new run is known by another `run` in the header. Where senders give none, a message is taken for one if it
lies more than `horizon` samples back, or more than `patience` and is the first of all (`seq` or `start` is
0). A jump ahead by more than `max_gap` samples is one as well, or a gap if senders give the same `run`. In
all these cases a second message must follow on the first, or it was a stray and is dropped.
"""

from bisect import insort
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.wire import DataMessage, GapMessage

_REMEMBERED = 64  # gaps and runs that are over, to tell what is late from what came twice


@dataclass(slots=True)
class SequencerCounts:
    """What became of the messages and of their samples.

    ``samples_in = samples_out + samples_dropped + samples that wait``, and the indices that left,
    from the first to the last, are ``samples_out + samples_lost``.

    Parameters
    ----------
    messages : int
        All that came.
    reordered : int
        Came after a later one, yet in time.
    duplicates, late, strays : int
        Dropped: came before, came after their gap was declared, belonged nowhere.
    restarts : int
    rejected : Counter
        Refused, by reason: ``channels`` and ``dtype`` differ from those of the first message.
    samples_in, samples_out, samples_lost, samples_dropped : int
    """

    messages: int = 0
    reordered: int = 0
    duplicates: int = 0
    late: int = 0
    strays: int = 0
    restarts: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    samples_in: int = 0
    samples_out: int = 0
    samples_lost: int = 0
    samples_dropped: int = 0


@dataclass(slots=True)
class _PlacedMessage:
    """A message in its place, in the sender's indices; a declared gap has no data."""

    start: int
    stop: int
    data: NDArray[Any] | None
    model_version: int
    reason: str


class Sequencer:
    """Puts messages in order and declares what is missing.

    Parameters
    ----------
    patience : int
        Number of samples beyond a missing one that are waited for it; 0 for a feed that keeps its order,
        as one publisher over TCP does.
    max_waiting : int
        Number of messages that may wait.
    max_gap : int
        Largest gap, in samples, that one message is believed to show.
    horizon : int, optional
        How far back, in samples, a message without `run` may lie and belong to the run that goes on.
        Left out: 8 times the patience, at least 8192.
    wrap : int, optional
        Number of values that the sender's `seq` takes before it begins again at 0, e.g. 256. Such a
        counter cannot tell n lost messages from n + `wrap`, nor show a restart.
    reason : str
        What gaps are called that the sender did not declare.

    Attributes
    ----------
    counts : SequencerCounts

    Raises
    ------
    ParameterError
        If a number cannot be used.
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
    ) -> None:
        self.counts = SequencerCounts()
        self._patience = _check_at_least(0, "patience", patience)
        self._max_waiting = _check_at_least(1, "max_waiting", max_waiting)
        self._max_gap = _check_at_least(1, "max_gap", max_gap)
        self._horizon = (
            max(8 * patience, 8192) if horizon is None else _check_at_least(1, "horizon", horizon)
        )
        self._wrap = None if wrap is None else _check_at_least(2, "wrap", wrap)
        self._reason = reason
        self._layout: tuple[int, np.dtype[Any]] | None = None
        self._begun = False
        self._next = 0  # position of the next sample to leave
        self._offset = 0  # from positions to the indices that leave
        self._waiting: list[_PlacedMessage] = []
        self._suspect: tuple[_PlacedMessage, DataMessage | GapMessage] | None = (
            None  # the first of a new run, or a stray
        )
        self._run: int | None = None
        self._past_runs: deque[int | None] = deque(maxlen=_REMEMBERED)
        self._new_run()

    def _new_run(self) -> None:
        self._furthest = -1  # largest start that came
        self._seq: int | None = None  # largest counter that came, unwrapped
        self._block: int | None = None  # length of the blocks that `seq` counts
        self._lost: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)

    @property
    def stop(self) -> int:
        """Index after the last sample that left."""
        return self._next + self._offset

    @property
    def samples_waiting(self) -> int:
        """Number of samples that came and neither left nor were dropped."""
        pieces = self._waiting + ([self._suspect[0]] if self._suspect else [])
        return sum(_count_samples(piece) for piece in pieces)

    def push(self, message: DataMessage | GapMessage) -> list[Chunk | Gap]:
        """Take a message in.

        Parameters
        ----------
        message : DataMessage or GapMessage

        Returns
        -------
        list of Chunk and Gap
            What leaves by it; each begins where the one before stopped.
        """
        self.counts.messages += 1
        if isinstance(message, DataMessage) and not self._fits(message.data):
            return []
        header = message.header if isinstance(message, DataMessage) else message
        if not self._begun:
            self._begin(message, header.run)
        elif header.run != self._run:
            return self._other_run(message, header.run)
        elif self._outgrows(message):
            return self._restart([message])
        piece = self._placed(message)
        if self._is_far(piece, header.seq):
            return self._doubt(piece, message)
        self._dismiss_suspect()
        return self._accept(piece)

    def flush(self) -> list[Chunk | Gap]:
        """Stop waiting: return what waits, and gaps for what is missing before it."""
        self._dismiss_suspect()
        return self._release(patience=-1)

    def end(self, stop: int | None = None) -> list[Chunk | Gap]:
        """Return what waits, and a gap up to where the sender says that it stopped."""
        out = self.flush()
        if stop is not None and self._begun and 0 < stop - self._next <= self._max_gap:
            out.append(self._lose(stop))
        return out

    def _fits(self, data: NDArray[Any]) -> bool:
        """Whether samples are as the first ones were; a stage after this one could not go on otherwise."""
        layout = data.shape[1], data.dtype
        if self._layout is None:
            self._layout = layout
        elif layout != self._layout:
            self.counts.rejected["channels" if layout[0] != self._layout[0] else "dtype"] += 1
            return False
        self.counts.samples_in += len(data)
        return True

    def _begin(self, message: DataMessage | GapMessage, run: int | None) -> None:
        self._begun = True
        self._run = run
        self._next = self._placed(message).start

    def _outgrows(self, message: DataMessage | GapMessage) -> bool:
        """Whether a block is longer than those counted so far, so that positions are others now."""
        return (
            isinstance(message, DataMessage)
            and message.header.start is None
            and self._block is not None
            and len(message.data) > self._block
        )

    def _placed(self, message: DataMessage | GapMessage) -> _PlacedMessage:
        if isinstance(message, GapMessage):
            return _PlacedMessage(message.start, message.start + message.n_samples, None, 0, message.reason)
        header, length = message.header, len(message.data)
        start = header.start
        if start is None:
            start = self._end_of_all() if header.seq is None else self._counted(header.seq, length)
        return _PlacedMessage(start, start + length, message.data, header.model, "")

    def _counted(self, seq: int, length: int) -> int:
        """Return the position that a counter stands for; a block shorter than the first leaves a gap."""
        if self._block is None:
            self._block = length
        if self._wrap is not None:
            before = seq if self._seq is None else self._seq
            seq = before + (seq - before + self._wrap // 2) % self._wrap - self._wrap // 2
            self._seq = max(before, seq)
        return seq * self._block

    def _end_of_all(self) -> int:
        return max(self._waiting[-1].stop, self._next) if self._waiting else self._next

    def _is_far(self, piece: _PlacedMessage, seq: int | None) -> bool:
        """Whether a message lies where none of this run should."""
        ahead = piece.stop - self._next
        if ahead > self._max_gap + _count_samples(piece):
            return True
        if self._run is not None or self._wrap is not None:
            return False
        first = seq == 0 or piece.start == 0
        return -ahead > (self._patience if first else self._horizon)

    def _doubt(self, piece: _PlacedMessage, message: DataMessage | GapMessage) -> list[Chunk | Gap]:
        """Hold what may be the first of a new run, until a second one follows on it."""
        if self._suspect is None:
            self._suspect = piece, message
            return []
        first, first_message = self._suspect
        if first.start == piece.start:
            self._drop(piece)
            return []
        if 0 <= piece.start - first.stop <= self._patience:
            return self._jump([first_message, message])
        if 0 <= first.start - piece.stop <= self._patience:
            return self._jump([message, first_message])
        self._drop(first)
        self._suspect = piece, message
        return []

    def _jump(self, messages: list[DataMessage | GapMessage]) -> list[Chunk | Gap]:
        """Go where two messages that follow each other say that the stream is now."""
        self._suspect = None
        if self._run is None:
            return self._restart(messages)
        return [item for message in messages for item in self._accept(self._placed(message))]

    def _dismiss_suspect(self) -> None:
        if self._suspect is not None:
            self._drop(self._suspect[0])
            self._suspect = None

    def _other_run(self, message: DataMessage | GapMessage, run: int | None) -> list[Chunk | Gap]:
        if run in self._past_runs:
            self.counts.late += 1
            self.counts.samples_dropped += len(message.data) if isinstance(message, DataMessage) else 0
            return []
        self._past_runs.append(self._run)
        self._run = run
        return self._restart([message])

    def _restart(self, messages: list[DataMessage | GapMessage]) -> list[Chunk | Gap]:
        """End the run and go on with the first messages of another."""
        out = self.flush()
        stop = self.stop
        out.append(Gap(stop, 0, "restart"))
        self.counts.restarts += 1
        self._new_run()
        for message in messages:
            piece = self._placed(message)
            if message is messages[0]:
                self._next, self._offset = piece.start, stop - piece.start
            out += self._accept(piece)
        return out

    def _accept(self, piece: _PlacedMessage) -> list[Chunk | Gap]:
        if piece.start == self._next and not self._waiting:
            self._furthest = piece.start
            return [self._deliver(piece)]
        if self._is_over(piece) or any(other.start == piece.start for other in self._waiting):
            self._drop(piece)
            return []
        self.counts.reordered += piece.start < self._furthest
        self._furthest = max(self._furthest, piece.start)
        insort(self._waiting, piece, key=_get_start)
        return self._release(self._patience)

    def _release(self, patience: int) -> list[Chunk | Gap]:
        """Return what need not wait any longer."""
        out: list[Chunk | Gap] = []
        while self._waiting and self._is_due(patience):
            piece = self._waiting.pop(0)
            if self._is_over(piece):
                self._drop(piece)
                continue
            if piece.start > self._next:
                out.append(self._lose(piece.start))
            out.append(self._deliver(piece))
        return out

    def _is_due(self, patience: int) -> bool:
        return (
            self._waiting[0].start <= self._next
            or self._waiting[-1].stop - self._next > patience
            or len(self._waiting) > self._max_waiting
        )

    def _is_over(self, piece: _PlacedMessage) -> bool:
        return piece.start < self._next and piece.stop <= self._next

    def _deliver(self, piece: _PlacedMessage) -> Chunk | Gap:
        """Let a message go, less its samples that went before."""
        known, start = self._next - piece.start, self.stop
        self._next = piece.stop
        if piece.data is None:
            self.counts.samples_lost += self.stop - start
            return Gap(start, self.stop - start, piece.reason)
        data = piece.data[known:] if known else piece.data
        self.counts.samples_out += len(data)
        self.counts.samples_dropped += known
        return Chunk(data, start, piece.model_version)

    def _lose(self, position: int) -> Gap:
        gap = Gap(self.stop, position - self._next, self._reason)
        self._lost.append((self._next, position))
        self.counts.samples_lost += gap.n_samples
        self._next = position
        return gap

    def _drop(self, piece: _PlacedMessage) -> None:
        self.counts.samples_dropped += _count_samples(piece)
        if piece.start >= self._next and not any(piece.start == other.start for other in self._waiting):
            self.counts.strays += 1
        elif any(start < piece.stop and piece.start < stop for start, stop in self._lost):
            self.counts.late += 1
        else:
            self.counts.duplicates += 1


def _get_start(piece: _PlacedMessage) -> int:
    return piece.start


def _count_samples(piece: _PlacedMessage) -> int:
    return 0 if piece.data is None else len(piece.data)


def _check_at_least(least: int, name: str, value: int) -> int:
    if value < least:
        raise ParameterError(f"{name} must be a whole number >= {least}. Got {value!r} instead.")
    return value
