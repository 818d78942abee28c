"""Samples from a stream of the lab streaming layer (LSL); needs the extra ``lsl``.

LSL numbers no samples. Their order is their place, and their times tell what is missing; see
`TimestampIndexer`. An outlet that vanishes is looked for until it returns.
"""

import math
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from igbss_stream._util.closeable import Closeable
from igbss_stream._util.dtypes import get_working_dtype
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import FeedError, IgbssError, ParameterError, StreamNotFoundError
from igbss_stream.feeds.liblsl import ERRORS, measure_unix_offset, pylsl
from igbss_stream.feeds.lsl_units import shorten_unit
from igbss_stream.feeds.timestamps import TimestampIndexer

_ANSWER = 1.0  # seconds in which all streams answer: LSL asks twice in this time
_DRAIN = 8192  # samples taken at once


class LslInlet(Closeable):
    """Receives a stream of LSL, as chunks and gaps that account for every sample.

    A context manager, which closes the inlet.

    Parameters
    ----------
    name, type, source_id : str, optional
        What the stream must have; at least one of them.
    timeout : float
        Seconds to look for the stream. An inlet from which nothing comes for as long is opened anew.
    buffer : float
        Seconds of samples that LSL holds while the caller is busy.
    tolerance : float
        Seconds that the times of samples may be off.
    settle : float
        Seconds of samples that must be off before something counts as missing.

    Attributes
    ----------
    stream : Stream
        `t0` is known when the first samples have come.
    received : int
        Number of blocks that came in.
    rejected : Counter
        Number of times that a stream with another description was found instead, reason ``"description"``.
    account : TimestampIndexer
        Counts samples.
    connected : bool
        Whether there is an outlet to read from.

    Raises
    ------
    ParameterError
        If an option cannot be used.
    FeedError
        If there is no such stream, more than one, or one that cannot be separated: of text, or without a
        regular rate.
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
    ) -> None:
        wanted = {"name": name, "type": type, "source_id": source_id}
        self._wanted = {key: value for key, value in wanted.items() if value is not None}
        if not self._wanted:
            raise ParameterError("an LSL stream needs a name, a type or a source_id.")
        self._predicate = " and ".join(f"{key}={_quote(value)}" for key, value in self._wanted.items())
        self._timeout = timeout
        self._buffer = max(1, math.ceil(buffer))
        self.received = 0
        self.rejected: Counter[str] = Counter()
        self._inlet: Any = None
        self._last = time.monotonic()  # when samples came, or an inlet was opened
        info = self._find(timeout)
        if info is None:
            raise StreamNotFoundError(
                f"no LSL stream with {self._told} was found within {timeout:g} s; check that its sender "
                "runs, and that this machine may see it (LSLAPICFG, KnownPeers)"
            )
        self._check_single()
        self.stream = self._open(info, timeout)
        self._correction = self._clock_offset(timeout)
        self.indexer = TimestampIndexer(self.stream.rate, tolerance=tolerance, settle=settle)

    @property
    def connected(self) -> bool:
        """Whether there is an outlet to read from."""
        return self._inlet is not None

    def close(self) -> None:
        """Close the inlet. Closing it twice is allowed."""
        self._inlet = None  # pylsl destroys it

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait until something comes in, then take all that is there, up to a limit.

        Parameters
        ----------
        timeout : float
            Longest wait in seconds, about; 0 takes what is there.

        Returns
        -------
        list of Chunk and Gap
            In order, each index once, from 0. Gaps have the reason ``"lost"``, ``"disconnected"`` (the
            outlet had vanished) or, with zero samples, ``"restart"`` (its clock was set). Samples after a
            loss are held back for `settle` seconds.
        """
        if self._inlet is None and not self._find_again(timeout):
            return []
        try:
            data, times = self._inlet.pull_chunk(timeout, _DRAIN, min_samples=1, as_numpy=True)
        except ERRORS:
            return self._lose()
        if not len(data):
            silent = time.monotonic() - self._last > self._timeout
            return self._lose() if silent else []
        self._last = time.monotonic()
        self.received += 1
        if self.stream.t0 is None and self._correction is not None:
            t0 = float(times[0]) + self._correction + measure_unix_offset()
            self.stream = replace(self.stream, t0=t0)
        return self.indexer.push(np.ascontiguousarray(data, self.stream.dtype), times)

    def flush(self) -> list[Chunk | Gap]:
        """Return what is held back, at the end."""
        return self.indexer.flush()

    @property
    def _told(self) -> str:
        return ", ".join(f"{key} {value!r}" for key, value in self._wanted.items())

    def _find(self, timeout: float) -> Any:
        """Return the description of a stream that is wanted; None if there is none."""
        found = pylsl.resolve_bypred(self._predicate, 1, timeout)
        return found[0] if found else None

    def _check_single(self) -> None:
        """Refuse to choose; the other streams need a moment to answer."""
        found = pylsl.resolve_bypred(self._predicate, 2, _ANSWER)
        if len(found) > 1:
            listed = ", ".join(
                f"{info.name()!r} ({info.type()}, {info.source_id()!r})" for info in found[:8]
            )
            raise FeedError(
                f"{len(found)} LSL streams have {self._told}: {listed}; give a source_id as well"
            )

    def _open(self, info: Any, timeout: float) -> Stream:
        """Open the inlet; return what its outlet says of the stream."""
        _check_regular(info)
        inlet = pylsl.StreamInlet(info, max_buflen=self._buffer, recover=False)
        try:
            stream = _describe(inlet.info(timeout))
            inlet.open_stream(timeout)
        except ERRORS as error:
            raise FeedError(
                f"the LSL stream {info.name()!r} cannot be opened: {error}; start it again"
            ) from error
        self._inlet, self._last = inlet, time.monotonic()
        return stream

    def _clock_offset(self, timeout: float) -> float | None:
        """Return what to add to the sender's times to have those of this machine, in seconds, if known."""
        try:
            return float(self._inlet.time_correction(timeout))
        except ERRORS:
            return None

    def _find_again(self, timeout: float) -> bool:
        """Look for an outlet that has vanished; whatever it finds, it does not raise."""
        try:
            info = self._find(timeout)
            if info is None:
                return False
            stream = self._open(info, self._timeout)
        except IgbssError:
            return False
        if stream != replace(self.stream, t0=None):
            self.rejected["description"] += 1
            self._inlet = None
            time.sleep(timeout)  # a resolver would find it again at once
        return self._inlet is not None

    def _lose(self) -> list[Chunk | Gap]:
        self._inlet = None
        return self.indexer.interrupt("disconnected")


def _quote(value: str) -> str:
    """Return a value as XPath has it, which knows no escapes."""
    for quote in "'\"":
        if quote not in value:
            return f"{quote}{value}{quote}"
    raise ParameterError(f"an LSL stream is not found by a text with both kinds of quotes. Got {value!r}.")


def _check_regular(info: Any) -> None:
    """Refuse what is not a series of numbers."""
    name = info.name()
    if info.channel_format() == pylsl.cf_string:
        raise FeedError(f"the LSL stream {name!r} holds text, not samples; choose another one")
    if not info.nominal_srate() > 0:
        raise FeedError(
            f"the LSL stream {name!r} has no regular rate (nominal rate {info.nominal_srate():g}), as "
            "streams of events have; separation needs evenly sampled channels: choose another stream"
        )


def _describe(info: Any) -> Stream:
    n_channels = info.channel_count()
    labels = info.get_channel_labels() or [None] * n_channels
    units = set(info.get_channel_units() or [None])
    unit = units.pop() if len(units) == 1 else None
    return Stream(
        info.name(),
        info.nominal_srate(),
        tuple(label or f"channel-{i}" for i, label in enumerate(labels)),
        shorten_unit(unit),
        get_working_dtype(pylsl.inlet.fmt2npdtype[info.channel_format()], f"LSL stream {info.name()!r}"),
    )
