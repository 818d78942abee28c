"""Decode messages. Bytes only, no sockets.

A message has three frames: ``topic | JSON header | raw little-endian C-order buffer``; docs/wire.md defines
all fields. `decode` decodes any message and trusts none: each size is checked against the received frames
and against `WireLimits` before memory is allocated. `encoder` encodes messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.dtypes import get_working_dtype
from igbss_stream.chunk import Stream
from igbss_stream.errors import WireError
from igbss_stream.events import Event, Events
from igbss_stream.feeds.cleaning_facts import CleaningFacts
from igbss_stream.feeds.event_rows import MAX_EVENTS, EventRow, find_long_text
from igbss_stream.feeds.model_facts import MAX_INTEGER, Count, Label, LearningFacts, Mixing, SensorPositions

VERSION = 1
EVENTS_VERSION = 2
"""Of messages of events, which clients that know version 1 only have to skip."""

Frames = list[Any]
"""Topic, header and buffer as bytes; a buffer to be sent may be an array, a received one a memoryview."""

Positive = Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Rate = Annotated[float, msgspec.Meta(ge=1e-6, le=1e9)]
Time = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
Scale = Annotated[float, msgspec.Meta(gt=0)]


class RejectReason(StrEnum):
    """Why a message is rejected."""

    FRAMES = "frames"  # not three
    SIZE = "size"  # a frame exceeds the limits
    HEADER = "header"  # not JSON, or not the fields of its kind
    VERSION = "version"
    TOPIC = "topic"  # differs from the name of the stream
    DTYPE = "dtype"
    CHANNELS = "channels"  # more than the limit
    LENGTH = "length"  # of the buffer, differs from the header
    INDEX = "index"  # of a sample, is 2^53 or more


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Limits of the messages that a receiver accepts.

    Parameters
    ----------
    message_bytes : int
        Largest size of a buffer.
    header_bytes : int
        Largest size of a header.
    channels : int
        Largest number of channels.
    """

    message_bytes: int = 1 << 26
    header_bytes: int = 1 << 20
    channels: int = 4096


_DEFAULT_LIMITS = WireLimits()


class _Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    version: int
    stream: Name
    run: Count | None = None
    seq: Count | None = None


class _StreamHeader(_Header, frozen=True, kw_only=True):
    rate: Rate
    dtype: str
    t0: Time | None = None
    unit: Label | None = None
    delay: Count = 0
    model: Count = 0


class DataHeader(_StreamHeader, frozen=True, kw_only=True, tag="data"):
    """Header of a message of samples; docs/wire.md defines the fields."""

    shape: tuple[Positive, Positive]
    start: Count | None = None
    scale: Scale | None = None


class DataMessage(msgspec.Struct, frozen=True):
    """A message of samples: its header, and the samples in their working dtype."""

    header: DataHeader
    data: NDArray[Any]


class MetaMessage(_StreamHeader, frozen=True, kw_only=True, tag="meta"):
    """A message that describes its stream."""

    channels: tuple[Label, ...]
    software: Label = ""
    extra: dict[str, Any] = {}
    mixing: Mixing | None = None
    learning: LearningFacts | None = None
    positions: SensorPositions | None = None
    bad_channels: tuple[Label, ...] = ()
    cleaning: CleaningFacts | None = None

    @property
    def description(self) -> Stream:
        """The description as a `Stream`."""
        return Stream(
            self.stream,
            self.rate,
            self.channels,
            self.unit,
            _SAMPLE_TYPES[self.dtype].working,
            self.t0,
            self.delay,
            None if self.positions is None else self.positions.as_positions(self.channels),
        )


class GapMessage(_Header, frozen=True, kw_only=True, tag="gap"):
    """A message that declares samples missing."""

    start: Count
    n_samples: Count
    reason: Name


class EndMessage(_Header, frozen=True, kw_only=True, tag="end"):
    """A message that ends a stream; `start` is the index after the last sample."""

    start: Count | None = None


class EventsMessage(_Header, frozen=True, kw_only=True, tag="events"):
    """A message of events; `number` counts the events of the run in earlier messages."""

    number: Count
    events: Annotated[tuple[EventRow, ...], msgspec.Meta(min_length=1, max_length=MAX_EVENTS)]

    @property
    def table(self) -> Events:
        """The events as a table, with the indices of the sender."""
        return Events.from_rows(
            Event(row.index, row.label, row.duration, row.source) for row in self.events
        )


Message = DataMessage | MetaMessage | GapMessage | EndMessage | EventsMessage
_AnyHeader = DataHeader | MetaMessage | GapMessage | EndMessage | EventsMessage


class _Version(msgspec.Struct):
    version: int
    kind: Any = None


_parse_header = msgspec.json.Decoder(_AnyHeader).decode
_parse_version = msgspec.json.Decoder(_Version).decode


class _SampleType(msgspec.Struct, frozen=True):
    """The dtype of samples in a buffer, and the dtype in which they are processed."""

    stored: np.dtype[Any]
    working: np.dtype[Any]


_SAMPLE_TYPES = {
    name: _SampleType(np.dtype(name).newbyteorder("<"), get_working_dtype(name))
    for name in ("float32", "float64", "float16", "int16", "int32")
}


def decode(frames: Sequence[Any], limits: WireLimits = _DEFAULT_LIMITS) -> Message:
    """Decode a message.

    Parameters
    ----------
    frames : sequence of bytes
        Topic, header and buffer; the buffer may be a read-only memoryview.
    limits : WireLimits

    Returns
    -------
    DataMessage, MetaMessage, GapMessage, EndMessage or EventsMessage
        Samples of dtype float32 and float64 are a read-only view of their frame. Others are converted to
        the float dtype that represents all their values, and multiplied by the scale if the header has one.

    Raises
    ------
    WireError
        If the message is not valid; its `reason` is one of `RejectReason`.
    """
    if len(frames) != 3:
        raise WireError(RejectReason.FRAMES, f"a message has 3 frames. Got {len(frames)} instead.")
    topic, head, buffer = frames
    _check_size("header", head, limits.header_bytes)
    _check_size("buffer", buffer, limits.message_bytes)
    header = _read_header(head)
    if header.stream.encode() != topic:
        raise WireError(
            RejectReason.TOPIC, f"the topic {topic[:64]!r} is not the stream {header.stream!r}."
        )
    if isinstance(header, DataHeader):
        _check_last_index(header.start, header.shape[0])
        return DataMessage(header, _read_samples(header, buffer, limits))
    if isinstance(header, GapMessage):
        _check_last_index(header.start, header.n_samples)
    if len(buffer):
        raise WireError(
            RejectReason.LENGTH, f"{len(buffer)} bytes follow a header of a kind without samples."
        )
    if isinstance(header, EventsMessage) and (misfit := find_long_text(header.events)):
        raise WireError(RejectReason.HEADER, misfit)
    if isinstance(header, MetaMessage):
        _get_sample_type(header.dtype)
        _check_channels(len(header.channels), limits)
        _check_model(header, limits)
    return header


def _check_last_index(start: int | None, n_samples: int) -> None:
    if start is not None and start + n_samples > MAX_INTEGER:
        raise WireError(
            RejectReason.INDEX, f"{n_samples} samples from index {start} on end at 2^53 or beyond."
        )


def _check_size(what: str, frame: bytes | memoryview, limit: int) -> None:
    if len(frame) > limit:
        raise WireError(
            RejectReason.SIZE, f"the {what} has {len(frame)} bytes; at most {limit} are allowed."
        )


def _read_header(head: bytes) -> _AnyHeader:
    try:
        header: _AnyHeader = _parse_header(head)
        header.stream.encode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        _check_version(_read_version(head))
        raise WireError(RejectReason.HEADER, str(error)) from None
    _check_version(_Version(header.version, "events" if isinstance(header, EventsMessage) else ""))
    return header


def _read_version(head: bytes) -> _Version:
    """Return the version of a header that cannot be parsed; the expected one if it has none."""
    try:
        return _parse_version(head)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _Version(VERSION)


def _check_version(stated: _Version) -> None:
    needed = EVENTS_VERSION if stated.kind == "events" else VERSION
    if stated.version != needed:
        raise WireError(
            RejectReason.VERSION, f"version {stated.version} of the format; {needed} is needed."
        )


def _get_sample_type(name: str) -> _SampleType:
    sample_type = _SAMPLE_TYPES.get(name)
    if sample_type is None:
        remedy = "; send little-endian samples under the plain name" if name[:1] in "<>=|" else ""
        raise WireError(
            RejectReason.DTYPE,
            f"dtype must be one of {', '.join(_SAMPLE_TYPES)}. Got {name[:64]!r}{remedy}.",
        )
    return sample_type


def _check_channels(n_channels: int, limits: WireLimits) -> None:
    if not 1 <= n_channels <= limits.channels:
        raise WireError(
            RejectReason.CHANNELS,
            f"there must be 1 to {limits.channels} channels. Got {n_channels} instead.",
        )


def _check_model(header: MetaMessage, limits: WireLimits) -> None:
    """Check that what a description states on a model fits the sources."""
    if header.mixing is not None:
        _check_channels(len(header.mixing.channels), limits)
    for part in (header.mixing, header.learning):
        misfit = None if part is None else part.find_misfit(len(header.channels))
        if misfit is not None:
            raise WireError(RejectReason.HEADER, misfit)


def _read_samples(header: DataHeader, buffer: bytes | memoryview, limits: WireLimits) -> NDArray[Any]:
    sample_type = _get_sample_type(header.dtype)
    n_samples, n_channels = header.shape
    _check_channels(n_channels, limits)
    n_bytes = n_samples * n_channels * sample_type.stored.itemsize  # Python integers do not overflow
    if n_bytes != len(buffer):
        raise WireError(
            RejectReason.LENGTH,
            f"{n_samples} x {n_channels} {header.dtype} are {n_bytes} bytes. Got {len(buffer)} instead.",
        )
    samples: NDArray[Any] = np.ndarray(header.shape, sample_type.stored, buffer)
    if header.scale is None and sample_type.stored == sample_type.working:
        return samples
    with np.errstate(all="ignore"):  # the repair stage handles values that are not finite
        scaled: NDArray[Any] = np.multiply(samples, header.scale or 1.0, dtype=sample_type.working)
    return scaled
