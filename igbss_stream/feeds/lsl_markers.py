"""Publish the events of a stream as LSL markers; needs the extra ``lsl``.

Markers are a stream of their own beside the samples, as LSL programs expect: irregular, with one text each.
Their time is that of the sample that they belong to.
"""

from collections import deque
from typing import Any

from igbss_stream.chunk import Stream
from igbss_stream.errors import FeedError
from igbss_stream.events import Event, Events
from igbss_stream.feeds.liblsl import ERRORS, pylsl

SUFFIX = "-events"
"""What follows the name and the source_id of the samples in those of the markers."""
MARKERS = "Markers"
"""Type of the stream."""
OWN_SOURCE = "igbss_stream "
"""How the source_id of a stream of this package begins, unless it is set."""

_MOST = 1 << 16  # events that wait for the time of a sample
_BUFFER = 4096  # markers that are buffered for each receiver


class LslMarkerOutlet:
    """Publish the events of one stream.

    Parameters
    ----------
    stream : Stream
        Of the samples.
    source_id : str
        Of the samples.

    Raises
    ------
    FeedError
        If the outlet cannot be opened.
    """

    def __init__(self, stream: Stream, source_id: str) -> None:
        self._rate = stream.rate
        self._waiting: deque[Event] = deque(maxlen=_MOST)
        name = stream.name + SUFFIX
        info = pylsl.StreamInfo(name, MARKERS, 1, pylsl.IRREGULAR_RATE, "string", source_id + SUFFIX)
        info.set_channel_labels(["label"])
        about = info.desc().append_child("igbss_stream")
        about.append_child_value("samples", stream.name)
        try:
            self._outlet: Any = pylsl.StreamOutlet(info, 0, _BUFFER)
        except ERRORS as error:
            raise FeedError(
                f"the LSL outlet {name!r} cannot be opened: {error}; check the LSL installation"
            ) from error

    def publish(self, events: Events, time_zero: float | None) -> None:
        """Publish events, or hold them until the time of a sample is known.

        Parameters
        ----------
        events : Events
            In indices of the samples.
        time_zero : float or None
            Time of index 0 on the LSL clock.
        """
        self._waiting.extend(events)
        if time_zero is None:
            return
        while self._waiting:
            event = self._waiting.popleft()
            self._outlet.push_sample([event.label], time_zero + event.index / self._rate)
