"""Encode and number the messages of one run of a stream, as docs/wire.md defines them. No sockets."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from igbss_stream._util.version import __version__
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.events import Events
from igbss_stream.feeds.cleaning_facts import CleaningFacts
from igbss_stream.feeds.event_rows import split_rows
from igbss_stream.feeds.model_facts import LearningFacts, Mixing, SensorPositions
from igbss_stream.feeds.wire import EVENTS_VERSION, VERSION, Frames


class Encoder:
    """Encode and number the messages of one run of a stream.

    Parameters
    ----------
    stream : Stream
    run : int
        Distinguishes this run from others of the same stream, e.g. its start time in microseconds.
    extra : mapping, optional
        More items of the meta message, of types that JSON supports.

    Attributes
    ----------
    seq : int
        Counter of the next message.
    stop : int
        Index after the last encoded sample.
    model_version : int
        Of the last chunk.

    Notes
    -----
    Only five numbers of a data header vary; the constant part is encoded once.
    """

    def __init__(self, stream: Stream, run: int, extra: Mapping[str, Any] | None = None) -> None:
        self.stream = stream
        self.seq = 0
        self.stop = 0
        self.model_version = 0
        self._extra = dict(extra or {})
        self._n_events = 0
        self._positions = SensorPositions.from_stream(stream)
        self._topic = stream.name.encode()
        self._dtype = stream.dtype.newbyteorder("<")
        self._common = {"version": VERSION, "stream": stream.name, "run": run}
        self._description = {
            "rate": stream.rate,
            "dtype": stream.dtype.name,
            "t0": stream.t0,
            "unit": stream.unit,
            "delay": stream.delay,
        }
        self._constant = self._encode_header("data", self._description)[:-1]
        self._model: dict[str, msgspec.Raw] = {}
        self._bad_channels: tuple[str, ...] = ()
        self._cleaning: CleaningFacts | None = None

    def encode(self, item: Chunk | Gap) -> Frames:
        """Return the message of a chunk, whose buffer is its array, or of a gap."""
        seq, self.seq, self.stop = self.seq, self.seq + 1, item.stop
        if isinstance(item, Gap):
            position = {"seq": seq, "start": item.start, "n_samples": item.n_samples, "reason": item.reason}
            return [self._topic, self._encode_header("gap", position), b""]
        self.model_version = item.model_version
        varying = b',"seq":%d,"start":%d,"model":%d,"shape":[%d,%d]}' % (
            seq,
            item.start,
            item.model_version,
            *item.data.shape,
        )
        return [self._topic, self._constant + varying, np.ascontiguousarray(item.data, self._dtype)]

    def set_model(self, mixing: Mixing | None, learning: LearningFacts | None = None) -> None:
        """Include what is known of a model in every later description; a mixing too large is omitted."""
        parts = {
            "mixing": mixing if mixing is not None and mixing.fits_in_header else None,
            "learning": learning,
        }
        self._model = {
            name: msgspec.Raw(msgspec.json.encode(part)) for name, part in parts.items() if part is not None
        }

    def set_bad_channels(self, names: tuple[str, ...]) -> None:
        """State in every later description which channels of the input are bad."""
        self._bad_channels = names

    def set_cleaning(self, cleaning: CleaningFacts | None) -> None:
        """Include in every later description which sources are taken out of the channels."""
        self._cleaning = cleaning

    def encode_meta(self) -> Frames:
        """Return the message that describes the stream; it does not increase `seq`."""
        fields = {
            "seq": self.seq,
            "model": self.model_version,
            "channels": self.stream.channels,
            "software": f"igbss_stream {__version__}",
            "extra": self._extra,
        }
        if self._cleaning is not None:
            fields["cleaning"] = self._cleaning
        if self._positions is not None:
            fields["positions"] = self._positions
        if self._bad_channels:
            fields["bad_channels"] = self._bad_channels
        return [self._topic, self._encode_header("meta", self._description | fields | self._model), b""]

    def encode_events(self, events: Events) -> list[Frames]:
        """Return the messages of events, which do not increase `seq`.

        Parameters
        ----------
        events : Events
            With the indices of the samples of this run. Texts of more than 255 bytes are cut, and events
            outside the range of an index omitted.
        """
        out = []
        for rows in split_rows(events):
            fields = {"version": EVENTS_VERSION, "seq": self.seq, "number": self._n_events, "events": rows}
            self._n_events += len(rows)
            out.append([self._topic, self._encode_header("events", fields), b""])
        return out

    def encode_end(self) -> Frames:
        """Return the message that ends the stream."""
        return [self._topic, self._encode_header("end", {"seq": self.seq, "start": self.stop}), b""]

    def _encode_header(self, kind: str, fields: Mapping[str, Any]) -> bytes:
        return msgspec.json.encode({"kind": kind} | self._common | dict(fields))
