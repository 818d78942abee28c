"""Turn trigger channels of a stream into events, and leave them out of what is separated."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import ParameterError
from igbss_stream.events import Events, OnsetFinder


class TriggerChannels:
    """Split trigger channels off a stream.

    Parameters
    ----------
    stream : Stream
    names : sequence of str
        Channels whose onsets are events.

    Attributes
    ----------
    stream : Stream
        Description of the other channels.

    Raises
    ------
    ParameterError
        If the stream lacks a named channel, or has no other.
    """

    def __init__(self, stream: Stream, names: Sequence[str]) -> None:
        missing = [name for name in names if name not in stream.channels]
        if missing:
            listed = ", ".join(stream.channels[:16]) + (", ..." if stream.n_channels > 16 else "")
            raise ParameterError(
                f"source.events names the channel {missing[0]!r}, which the stream lacks. Name one of: "
                f"{listed}."
            )
        self._kept = [i for i, name in enumerate(stream.channels) if name not in names]
        if not self._kept:
            raise ParameterError("source.events names every channel of the stream; leave out some.")
        self._finders = [
            (i, OnsetFinder(name, stream.rate)) for i, name in enumerate(stream.channels) if name in names
        ]
        self.stream = replace(stream, channels=tuple(stream.channels[i] for i in self._kept))

    def split(self, items: Sequence[Chunk | Gap]) -> tuple[list[Chunk | Gap], Events]:
        """Return the items without the trigger channels, and the onsets in these.

        An onset within a gap is at the first sample after it.

        Parameters
        ----------
        items : sequence of Chunk and Gap
            Those that follow the previous ones.
        """
        out: list[Chunk | Gap] = []
        for item in items:
            if isinstance(item, Chunk):
                for i, finder in self._finders:
                    finder.push(item.data[:, i], item.start)
                item = replace(item, data=np.ascontiguousarray(item.data[:, self._kept]))
            out.append(item)
        return out, Events.join(finder.pop_onsets() for _, finder in self._finders)
