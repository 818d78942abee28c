"""Publish a stream through the lab streaming layer (LSL); needs the extra ``lsl``.

LSL knows neither indices nor gaps. The time of a sample follows from its index, never from when it was
pushed, so that what is missing shows to receivers as a jump of the times by as many samples.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from igbss_stream._util.closeable import Closeable
from igbss_stream._util.version import __version__
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import FeedError
from igbss_stream.feeds.liblsl import ERRORS, measure_unix_offset, pylsl

_BUFFER = 30  # seconds that are held for each receiver


class LslPublisher(Closeable):
    """Publishes one stream; a context manager, which closes the outlet.

    Parameters
    ----------
    type : str
        Type of the stream, by which receivers choose; LSL recommends ``"EEG"`` for EEG, also if processed.
    source_id : str, optional
        By which receivers find the stream again after a restart; the same at each start. Left out, it
        follows from the name of the stream.

    Attributes
    ----------
    sent : int
        Chunks that were published.
    """

    def __init__(self, type: str = "EEG", source_id: str | None = None) -> None:
        self.sent = 0
        self._type = type
        self._source_id = source_id
        self._outlet: Any = None
        self._stream: Stream
        self._zero: float | None = None  # time of index 0 on LSL's clock

    @property
    def has_receivers(self) -> bool:
        """Whether anyone reads the stream."""
        return self._outlet is not None and bool(self._outlet.have_consumers())

    def start(self, stream: Stream, extra: Mapping[str, Any] | None = None) -> None:
        """Open an outlet, with the description of the stream.

        Parameters
        ----------
        stream : Stream
            If its `t0` is not known, the first sample is published as one of now.
        extra : mapping, optional
            What else the description tells; anything that JSON can say.

        Raises
        ------
        FeedError
            If the outlet cannot be opened.
        """
        self.close()
        self._stream = stream
        self._zero = None if stream.t0 is None else stream.t0 - measure_unix_offset()
        try:
            self._outlet = pylsl.StreamOutlet(self._info(stream, extra or {}), 0, _BUFFER)
        except ERRORS as error:
            raise FeedError(f"the LSL outlet {stream.name!r} cannot be opened: {error}") from error

    def publish(self, item: Chunk | Gap) -> None:
        """Publish samples; a gap is left out, and shows in the times of what follows.

        Raises
        ------
        RuntimeError
            If no stream was started.
        """
        if self._outlet is None:
            raise RuntimeError("start a stream before publishing")
        if isinstance(item, Gap) or not len(item.data):
            return
        rate = self._stream.rate
        if self._zero is None:
            self._zero = pylsl.local_clock() - (item.stop - 1) / rate
        data = np.ascontiguousarray(item.data, self._stream.dtype)
        self._outlet.push_chunk(data, self._zero + (item.stop - 1) / rate)  # the time of the last sample
        self.sent += 1

    def serve(self) -> None:
        """Do nothing: LSL serves its receivers by itself."""

    def close(self) -> None:
        """Close the outlet. Closing it twice is allowed."""
        self._outlet = None  # pylsl destroys it

    def _info(self, stream: Stream, extra: Mapping[str, Any]) -> Any:
        source_id = self._source_id or f"igbss_stream {stream.name}"
        kind = "double64" if stream.dtype == np.float64 else "float32"
        info = pylsl.StreamInfo(stream.name, self._type, stream.n_channels, stream.rate, kind, source_id)
        info.set_channel_labels(list(stream.channels))
        if stream.unit is not None:
            info.set_channel_units("microvolts" if stream.unit == "uV" else stream.unit)
        about = info.desc().append_child("igbss_stream")
        about.append_child_value("software", f"igbss_stream {__version__}")
        about.append_child_value("delay", str(stream.delay))
        about.append_child_value("extra", json.dumps(dict(extra)))
        return info
