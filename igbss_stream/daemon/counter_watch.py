"""Warn of channels of a live stream that count samples, which would be separated like signals."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import printable
from igbss_stream.files.counters import find_counter

log = logging.getLogger(__name__)

_N_SAMPLES = 512  # that are looked at
_MOST_NUMBERS = 1 << 20


class CounterWatch:
    """Look at the first samples of each run of a stream.

    Parameters
    ----------
    name : str
        Name of the stream.
    left_out : sequence of str
        Channels that are not separated anyway.
    """

    def __init__(self, name: str, left_out: Sequence[str] = ()) -> None:
        self._name, self._left_out = name, left_out
        self._run: int | None = None
        self._kept: list[NDArray[Any]] = []
        self._n_missing = 0  # samples that are still to be looked at

    def look(self, items: Sequence[Chunk | Gap], stream: Stream | None, run: int) -> None:
        """Keep the samples of items, and log once which channels count.

        Parameters
        ----------
        items : sequence of Chunk and Gap
        stream : Stream or None
            Description of the stream.
        run : int
            Number of the run that the items belong to.
        """
        if run != self._run:
            self._run, self._kept, self._n_missing = run, [], _N_SAMPLES
        if self._n_missing <= 0 or stream is None:
            return
        for item in items:
            if isinstance(item, Chunk) and self._n_missing > 0:
                self._kept.append(np.array(item.data[: self._n_missing]))
                self._n_missing -= len(self._kept[-1])
        if self._n_missing <= 0:
            self._report(stream)
            self._kept = []

    def _report(self, stream: Stream) -> None:
        samples = np.concatenate(self._kept)
        if samples.size > _MOST_NUMBERS:
            return
        found = [(i, find_counter(samples[:, i])) for i in range(samples.shape[1])]
        left_out = {i for i, channel in enumerate(stream.channels) if channel in self._left_out}
        counting = [(i, counter) for i, counter in found if counter is not None and i not in left_out]
        if not counting or len(counting) == samples.shape[1]:
            return
        listed = ", ".join(
            f"{printable(stream.channels[i])} {counter.describe()}" for i, counter in counting[:4]
        )
        log.warning(
            "stream %s: channels count samples like packets do (%s), and are separated like signals; leave "
            "them out with source.omit",
            self._name,
            listed,
        )
