"""Read a stream of the lab streaming layer (LSL); needs the extra ``lsl``.

LSL does not number samples. They are indexed in their order, and their timestamps show which are missing;
see `TimestampIndexer`. If the outlet vanishes, the inlet searches for it until it returns.
"""

import math
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from igbss_stream._util.closeable import Closeable
from igbss_stream._util.dtypes import get_working_dtype
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import FeedError, IgbssError, ParameterError, StreamNotFoundError
from igbss_stream.feeds.liblsl import ERRORS, measure_unix_offset, pylsl
from igbss_stream.feeds.lsl_locations import read_locations
from igbss_stream.feeds.lsl_query import LslQuery
from igbss_stream.feeds.lsl_units import shorten_unit
from igbss_stream.feeds.timestamps import TimestampIndexer

_ANSWER_TIME = 1.0  # seconds in which all streams answer; LSL asks twice in this time
_MAX_SAMPLES = 8192  # samples read at once


class LslInlet(Closeable):
    """Receive an LSL stream as chunks and gaps that account for every sample.

    A context manager, which closes the inlet.

    Parameters
    ----------
    name, type, source_id : str, optional
        Properties of the stream; at least one of them is needed.
    timeout : float
        Longest search for the stream, in seconds. An inlet that is silent for this time is opened again.
    buffer : float
        Seconds of samples that LSL buffers while the caller is busy.
    tolerance : float
        Largest error of a timestamp, in seconds.
    settle : float
        Seconds of samples that must be late before samples are declared missing.
    rate : float, optional
        Sampling rate in Hz, in place of the one that the stream states. Required if it states none.

    Attributes
    ----------
    stated_rate : float
        Nominal sampling rate of the outlet, in Hz; 0 if it states none.
    stream : Stream
        `t0` is known once the first samples have arrived.
    received : int
        Number of blocks received.
    rejected : Counter
        Number of times that a stream with another description was found, reason ``"description"``.
    indexer : TimestampIndexer
        Has the counts of samples.
    connected : bool
        Whether the inlet is connected to an outlet.

    Raises
    ------
    ParameterError
        If an option is not valid.
    StreamNotFoundError
        If there is no such stream.
    FeedError
        If there are several such streams, or the stream cannot be separated because it is text or states no
        regular sampling rate and `rate` is not given.
    """

    def __init__(
        self,
        name: str | None = None,
        type: str | None = None,
        source_id: str | None = None,
        *,
        timeout: float = 10.0,
        buffer: float = 30.0,
        tolerance: float = 0.1,
        settle: float = 1.0,
        rate: float | None = None,
    ) -> None:
        if rate is not None and not 0 < rate < math.inf:
            raise ParameterError(
                f"rate must be a finite number of Hz above 0. Got {rate!r} instead.", parameter="rate"
            )
        self._query = LslQuery(name, type, source_id)
        self._timeout, self._rate = timeout, rate
        self._buffer = max(1, math.ceil(buffer))
        self.received = 0
        self.rejected: Counter[str] = Counter()
        self._inlet: Any = None
        self._last = time.monotonic()  # when samples arrived or an inlet was opened
        info = self._find(timeout)
        if info is None:
            raise StreamNotFoundError(
                f"no LSL stream with {self._query} was found within {timeout:g} s; "
                "check that its sender runs and that this machine can discover it (LSLAPICFG, KnownPeers)"
            )
        self._check_single()
        self.stated_rate = float(info.nominal_srate())
        self.stream = self._open(info, timeout)
        self._clock_offset = self._measure_clock_offset(timeout)
        self.indexer = TimestampIndexer(self.stream.rate, tolerance=tolerance, settle=settle)

    @property
    def connected(self) -> bool:
        """Whether the inlet is connected to an outlet."""
        return self._inlet is not None

    def close(self) -> None:
        """Close the inlet. Closing it twice is allowed."""
        self._inlet = None  # pylsl destroys it

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait for samples, then return all that have arrived, up to a limit.

        Parameters
        ----------
        timeout : float
            Approximate longest wait in seconds; 0 does not wait.

        Returns
        -------
        list of Chunk and Gap
            In order, each index once, from 0. Gaps have the reason ``"lost"``, ``"disconnected"`` (the
            outlet had vanished) or, with zero samples, ``"restart"`` (the clock of the sender was set).
            Samples after a loss are held back for `settle` seconds.
        """
        if self._inlet is None and not self._reconnect(timeout):
            return []
        try:
            data, times = self._inlet.pull_chunk(timeout, _MAX_SAMPLES, min_samples=1, as_numpy=True)
        except ERRORS:
            return self._disconnect()
        if not len(data):
            is_silent = time.monotonic() - self._last > self._timeout
            return self._disconnect() if is_silent else []
        self._last = time.monotonic()
        self.received += 1
        if self.stream.t0 is None and self._clock_offset is not None:
            t0 = float(times[0]) + self._clock_offset + measure_unix_offset()
            self.stream = replace(self.stream, t0=t0)
        return self.indexer.push(np.ascontiguousarray(data, self.stream.dtype), times)

    def find_index(self, time: float, *, beyond: bool = False) -> float | None:
        """Return the index of a time; None if the samples have not reached it yet.

        Parameters
        ----------
        time : float
            On the LSL clock of this machine, in seconds.
        beyond : bool
            Whether a time after the last sample has an index.
        """
        if self._inlet is not None:
            with suppress(*ERRORS):  # it is measured in the background; the last one is used meanwhile
                self._clock_offset = float(self._inlet.time_correction(0.0))
        return self.indexer.times.find_index(time - (self._clock_offset or 0.0), beyond=beyond)

    def flush(self) -> list[Chunk | Gap]:
        """Return the samples that are held back, at the end of the stream."""
        return self.indexer.flush()

    def _find(self, timeout: float) -> Any:
        """Return the LSL description of the stream; None if there is no such stream."""
        found = pylsl.resolve_bypred(self._query.predicate, 1, timeout)
        return found[0] if found else None

    def _check_single(self) -> None:
        """Check that only one stream matches; wait for all streams to answer."""
        found = pylsl.resolve_bypred(self._query.predicate, 2, _ANSWER_TIME)
        if len(found) > 1:
            listed = ", ".join(
                f"{info.name()!r} ({info.type()}, {info.source_id()!r})" for info in found[:8]
            )
            raise FeedError(
                f"{len(found)} LSL streams have {self._query}: {listed}; give a source_id as well"
            )

    def _open(self, info: Any, timeout: float) -> Stream:
        """Open the inlet; return the description that its outlet gives."""
        _check_regular(info, self._rate)
        inlet = pylsl.StreamInlet(info, max_buflen=self._buffer, recover=False)
        try:
            stream = _describe(inlet.info(timeout), self._rate)
            inlet.open_stream(timeout)
        except ERRORS as error:
            raise FeedError(
                f"the LSL stream {info.name()!r} cannot be opened: {error}; restart its sender"
            ) from error
        self._inlet, self._last = inlet, time.monotonic()
        return stream

    def _measure_clock_offset(self, timeout: float) -> float | None:
        """Return the difference of this machine's clock and the sender's in seconds; None if unknown."""
        try:
            return float(self._inlet.time_correction(timeout))
        except ERRORS:
            return None

    def _reconnect(self, timeout: float) -> bool:
        """Search for an outlet that has vanished; return whether it was found. Does not raise."""
        try:
            info = self._find(timeout)
            if info is None:
                return False
            stream = self._open(info, self._timeout)
        except IgbssError:
            return False
        if stream != replace(self.stream, t0=None) or info.nominal_srate() != self.stated_rate:
            self.rejected["description"] += 1
            self._inlet = None
            time.sleep(timeout)  # the next search would find it again at once
        return self._inlet is not None

    def _disconnect(self) -> list[Chunk | Gap]:
        self._inlet = None
        return self.indexer.interrupt("disconnected")


def _check_regular(info: Any, rate: float | None) -> None:
    """Check that the stream has numbers at a regular sampling rate, stated or given."""
    name = info.name()
    if info.channel_format() == pylsl.cf_string:
        raise FeedError(f"LSL stream {name!r} has text, not samples; choose another stream")
    if rate is None and not info.nominal_srate() > 0:
        raise FeedError(
            f"LSL stream {name!r} states no regular sampling rate (nominal rate {info.nominal_srate():g}), "
            "and separation needs evenly sampled channels: set its rate if they are, or choose another "
            "stream"
        )


def _describe(info: Any, rate: float | None) -> Stream:
    units = set(info.get_channel_units() or [None])
    unit = units.pop() if len(units) == 1 else None
    names = _read_names(info)
    return Stream(
        info.name(),
        rate or info.nominal_srate(),
        names,
        shorten_unit(unit),
        get_working_dtype(pylsl.inlet.fmt2npdtype[info.channel_format()], f"LSL stream {info.name()!r}"),
        positions=read_locations(info, names),
    )


def _read_names(info: Any) -> tuple[str, ...]:
    """Return the labels of the channels, or what some senders write instead: their names."""
    names, channel = list[str](), info.desc().child("channels").child("channel")
    for i in range(info.channel_count()):
        names.append(channel.child_value("label") or channel.child_value("name") or f"channel-{i}")
        channel = channel.next_sibling("channel")
    return tuple(names)
