"""Measure rate, gaps, latency and amplitudes of a stream as a subscriber sees it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.events import Event, Events
from igbss_stream.playback.pacing import Item

_SPAN = 10.0  # seconds over which the rate is measured
_MAX_NEW_EVENTS = 100  # in a report


@dataclass(frozen=True, slots=True)
class Report:
    """The state of a stream at one moment. Unknown values are None.

    Parameters
    ----------
    stream : str or None
        Name of the stream.
    seconds : float
        Time since monitoring started.
    silence : float
        Seconds since the last message.
    index : int or None
        Index after the last sample that arrived or was declared missing.
    samples : int
        Total number of samples that arrived.
    rate : float or None
        Sampling rate in Hz, measured over the last ten seconds; None if nothing arrived in them.
    nominal_rate : float or None
        Sampling rate in Hz, as published.
    delay : float or None
        Seconds between the time stamp of the last sample and its arrival, by the clocks of both machines.
    model : int or None
        Version of the model that made the last samples.
    gaps, samples_lost : int
        Total number of gaps that the publisher declared, and the samples in them. Consecutive missing
        samples with the same reason are one gap, however many messages declare them.
    samples_learning, samples_never_received : int
        Those of `samples_lost` that the publisher spent on learning, and those that never reached it.
    drops, samples_dropped : int
        The same for samples that were published but did not arrive.
    restarts : int
        Restarts of the publisher.
    unit : str or None
    rms : dict
        Standard deviation of each source since the previous report; None without samples.
    ended : bool
        Whether the publisher has ended the stream.
    others : tuple of str
        Names of other streams at the same address.
    refusal : str
        Why the publisher refuses the connection; empty if it does not.
    missing : str
        Reason of the current gap, as published; empty while samples arrive.
    events, events_lost : int
        Total number of events that arrived, and of those that were published but did not arrive.
    new_events : tuple of Event
        Those since the previous report, at most the last 100.
    """

    stream: str | None
    seconds: float
    silence: float
    index: int | None
    samples: int
    rate: float | None
    nominal_rate: float | None
    delay: float | None
    model: int | None
    gaps: int
    samples_lost: int
    samples_learning: int
    samples_never_received: int
    drops: int
    samples_dropped: int
    restarts: int
    unit: str | None
    rms: dict[str, float | None]
    ended: bool = False
    others: tuple[str, ...] = ()
    refusal: str = ""
    missing: str = ""
    events: int = 0
    events_lost: int = 0
    new_events: tuple[Event, ...] = ()


class Monitor:
    """Collect statistics on arriving items.

    Parameters
    ----------
    began : float
        Time at which monitoring started, by the clock of `take`.
    """

    def __init__(self, began: float) -> None:
        self.samples = 0
        self._began = began
        self._stream: Stream | None = None
        self._index: int | None = None
        self._model: int | None = None
        self._delay: float | None = None
        self._arrivals: deque[tuple[float, int]] = deque()
        self._gaps = self._lost = self._drops = self._dropped = self._restarts = 0
        self._learning = self._never_received = 0
        self._last_gap: Gap | None = None
        self._missing = ""
        self._events, self._events_lost = 0, 0
        self._new_events: deque[Event] = deque(maxlen=_MAX_NEW_EVENTS)
        self._sums: NDArray[np.float64] | None = None
        self._summed = 0

    def take(self, items: Sequence[Item], stream: Stream | None, now: float, time_of_day: float) -> None:
        """Count items that arrived together.

        Parameters
        ----------
        items : sequence of Chunk and Gap
        stream : Stream or None
            Description of the stream, if it has arrived.
        now : float
            Monotonic time in seconds.
        time_of_day : float
            Unix time in seconds.
        """
        self._stream = stream
        for item in items:
            self._index = item.stop
            if isinstance(item, Gap):
                self._take_gap(item)
            else:
                self._take_samples(item, time_of_day)
        if items:
            self._arrivals.append((now, items[-1].stop))
            while len(self._arrivals) > 2 and now - self._arrivals[1][0] >= _SPAN:
                self._arrivals.popleft()

    def take_events(self, events: Events, n_lost: int) -> None:
        """Count events that arrived.

        Parameters
        ----------
        events : Events
        n_lost : int
            Total number of events that did not arrive.
        """
        self._events += len(events)
        self._events_lost = n_lost
        self._new_events.extend(events[-_MAX_NEW_EVENTS:])

    def report(
        self, now: float, *, ended: bool = False, others: tuple[str, ...] = (), refusal: str = ""
    ) -> Report:
        """Return a report, and start a new measurement of the amplitudes.

        Parameters
        ----------
        now : float
        ended : bool
        others : tuple of str
        refusal : str

        Returns
        -------
        Report
        """
        stream = self._stream
        report = Report(
            stream=stream.name if stream else None,
            seconds=now - self._began,
            silence=now - (self._arrivals[-1][0] if self._arrivals else self._began),
            index=self._index,
            samples=self.samples,
            rate=self._rate(now),
            nominal_rate=stream.rate if stream else None,
            delay=self._delay,
            model=self._model,
            gaps=self._gaps,
            samples_lost=self._lost,
            samples_learning=self._learning,
            samples_never_received=self._never_received,
            drops=self._drops,
            samples_dropped=self._dropped,
            restarts=self._restarts,
            unit=stream.unit if stream else None,
            rms=self._rms(),
            ended=ended,
            others=others,
            refusal=refusal,
            missing=self._missing,
            events=self._events,
            events_lost=self._events_lost,
            new_events=tuple(self._new_events),
        )
        self._new_events.clear()
        self._sums, self._summed = None, 0
        return report

    def _take_gap(self, gap: Gap) -> None:
        is_new = not gap.continues(self._last_gap)
        self._last_gap, self._missing = gap, gap.reason if gap.n_samples else ""
        if gap.reason == "dropped":
            self._drops += is_new
            self._dropped += gap.n_samples
        elif gap.reason == "restart":
            self._restarts += 1
        else:
            self._gaps += is_new
            self._lost += gap.n_samples
            self._learning += gap.n_samples if gap.reason == "learning" else 0
            self._never_received += gap.n_samples if gap.reason == "lost" else 0

    def _take_samples(self, chunk: Chunk, time_of_day: float) -> None:
        self.samples += len(chunk.data)
        self._missing = ""
        self._model = chunk.model_version
        # after a restart, indices continue while the publisher counts from 0: they no longer give the time
        time = self._stream.time_of(chunk.stop - 1) if self._stream and not self._restarts else None
        self._delay = None if time is None else time_of_day - time
        x = chunk.data.astype(np.float64)
        sums = np.stack([x.sum(axis=0), np.square(x).sum(axis=0)])
        if self._sums is None or self._sums.shape != sums.shape:  # the publisher has other channels now
            self._sums, self._summed = np.zeros_like(sums), 0
        self._sums += sums
        self._summed += len(x)

    def _rate(self, now: float) -> float | None:
        if not self._arrivals or now - self._arrivals[-1][0] > _SPAN:
            return None
        (began, first), (until, last) = self._arrivals[0], self._arrivals[-1]
        return (last - first) / (until - began) if until > began else None

    def _rms(self) -> dict[str, float | None]:
        names = self._names()
        if self._sums is None:
            return dict.fromkeys(names)
        mean, square = self._sums / self._summed
        rms: NDArray[Any] = np.sqrt(np.maximum(square - mean**2, 0.0))
        return dict(zip(names, map(float, rms), strict=True))

    def _names(self) -> tuple[str, ...]:
        n = 0 if self._sums is None else self._sums.shape[1]
        if self._stream is not None and n in (0, self._stream.n_channels):
            return self._stream.channels
        return tuple(map(str, range(n)))
