"""Publish a stream through the lab streaming layer (LSL); needs the extra ``lsl``.

LSL has neither indices nor gaps. The timestamp of a sample is derived from its index, not from the time at
which it is pushed. Receivers see missing samples as a jump of the timestamps by their duration.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from igbss_stream._util.closeable import Closeable
from igbss_stream._util.version import __version__
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import FeedError
from igbss_stream.events import NO_EVENTS, Events
from igbss_stream.feeds.liblsl import ERRORS, measure_unix_offset, pylsl
from igbss_stream.feeds.lsl_locations import write_locations
from igbss_stream.feeds.lsl_markers import OWN_SOURCE, LslMarkerOutlet
from igbss_stream.feeds.lsl_units import spell_out_unit

_BUFFER = 30  # seconds that are buffered for each receiver


class LslPublisher(Closeable):
    """Publish one stream; a context manager, which closes the outlet.

    Parameters
    ----------
    type : str
        Type of the stream, by which receivers select it; LSL recommends ``"EEG"`` for EEG, also if
        processed.
    source_id : str, optional
        Identifier by which receivers find the stream again after a restart; it must be the same at each
        start. By default derived from the name of the stream.

    Attributes
    ----------
    sent : int
        Number of published chunks.
    """

    def __init__(self, type: str = "EEG", source_id: str | None = None) -> None:
        self.sent = 0
        self._type = type
        self._source_id = source_id
        self._outlet: Any = None
        self._markers: LslMarkerOutlet | None = None
        self._stream: Stream
        self._time_zero: float | None = None  # time of index 0 on the LSL clock

    @property
    def has_receivers(self) -> bool:
        """Whether anyone receives the stream."""
        return self._outlet is not None and bool(self._outlet.have_consumers())

    def start(self, stream: Stream, extra: Mapping[str, Any] | None = None) -> None:
        """Open an outlet with the description of the stream, and one for its events.

        Parameters
        ----------
        stream : Stream
            If its `t0` is not known, the last sample of the first chunk gets the current time.
        extra : mapping, optional
            More items of the description, of types that JSON supports.

        Raises
        ------
        FeedError
            If the outlet cannot be opened.
        """
        self.close()
        self._stream = stream
        source_id = self._source_id or OWN_SOURCE + stream.name
        self._time_zero = None if stream.t0 is None else stream.t0 - measure_unix_offset()
        try:
            self._outlet = pylsl.StreamOutlet(self._describe(stream, source_id, extra or {}), 0, _BUFFER)
            self._markers = LslMarkerOutlet(stream, source_id)
        except ERRORS as error:
            raise FeedError(
                f"the LSL outlet {stream.name!r} cannot be opened: {error}; check the LSL installation"
            ) from error

    def publish(self, item: Chunk | Gap) -> None:
        """Publish samples; skip a gap, which shows in the timestamps of later samples.

        Raises
        ------
        RuntimeError
            If `start` was not called.
        """
        if self._outlet is None:
            raise RuntimeError("start a stream before publishing")
        if isinstance(item, Gap) or not len(item.data):
            return
        elapsed = (item.stop - 1) / self._stream.rate  # from index 0 to the last sample
        if self._time_zero is None:
            self._time_zero = pylsl.local_clock() - elapsed
        data = np.ascontiguousarray(item.data, self._stream.dtype)
        self._outlet.push_chunk(data, self._time_zero + elapsed)
        self.sent += 1
        if self._markers is not None:
            self._markers.publish(NO_EVENTS, self._time_zero)

    def publish_events(self, events: Events) -> None:
        """Publish events as markers, with the times of the samples that they belong to.

        Parameters
        ----------
        events : Events
            With the indices of the published samples. Only their labels are published.

        Raises
        ------
        RuntimeError
            If `start` was not called.
        """
        if self._markers is None:
            raise RuntimeError("start a stream before publishing events")
        self._markers.publish(events, self._time_zero)

    def serve(self) -> None:
        """Do nothing; LSL serves its receivers in its own threads."""

    def close(self) -> None:
        """Close the outlets. Closing them twice is allowed."""
        self._outlet = self._markers = None  # pylsl destroys them

    def _describe(self, stream: Stream, source_id: str, extra: Mapping[str, Any]) -> Any:
        value_type = "double64" if stream.dtype == np.float64 else "float32"
        info = pylsl.StreamInfo(
            stream.name, self._type, stream.n_channels, stream.rate, value_type, source_id
        )
        info.set_channel_labels(list(stream.channels))
        if stream.unit is not None:
            info.set_channel_units(spell_out_unit(stream.unit))
        write_locations(info, stream)
        about = info.desc().append_child("igbss_stream")
        about.append_child_value("software", f"igbss_stream {__version__}")
        about.append_child_value("delay", str(stream.delay))
        about.append_child_value("extra", json.dumps(dict(extra)))
        return info
