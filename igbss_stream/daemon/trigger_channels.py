"""Turn trigger channels of a stream into events, and leave them and others out of what is separated."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import ParameterError
from igbss_stream.events import Events, OnsetFinder


class TriggerChannels:
    """Split trigger channels, and channels to omit, off a stream.

    Parameters
    ----------
    stream : Stream
    names : sequence of str
        Channels whose onsets are events.
    omitted : sequence of str
        Other channels that are not separated, such as counters.

    Attributes
    ----------
    stream : Stream
        Description of the other channels.

    Raises
    ------
    ParameterError
        If the stream lacks a named channel, or has no other.
    """

    def __init__(self, stream: Stream, names: Sequence[str], omitted: Sequence[str] = ()) -> None:
        for key, named in (("events", names), ("omit", omitted)):
            missing = [name for name in named if name not in stream.channels]
            if missing:
                listed = ", ".join(stream.channels[:16]) + (", ..." if stream.n_channels > 16 else "")
                raise ParameterError(
                    f"source.{key} names the channel {missing[0]!r}, which the stream lacks. Name one of: "
                    f"{listed}."
                )
        left_out = {*names, *omitted}
        self._kept = [i for i, name in enumerate(stream.channels) if name not in left_out]
        if not self._kept:
            keys = " and ".join(f"source.{key}" for key, n in (("events", names), ("omit", omitted)) if n)
            verb = "name" if names and omitted else "names"
            raise ParameterError(f"{keys} {verb} every channel of the stream; leave out some.")
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
