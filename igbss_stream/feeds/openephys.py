r"""Decode messages of the ZMQ Interface plugin of Open Ephys.

The plugin sends each channel of a block separately: ``b"DATA\0" | JSON | raw float32``, in microvolts. The
channels of a block have the same ``sample_num``. A block is returned when all its channels have arrived. It
is dropped when a later block is complete first; the sample index then shows the gap.

No message contains the number of channels. The decoder determines it at the start: two consecutive blocks
must have the same channels, which excludes a block whose beginning was missed. TTL events and text
messages are returned as events; spikes are skipped.
"""

from collections import Counter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import WireError
from igbss_stream.feeds.model_facts import Count
from igbss_stream.feeds.openephys_events import decode_event
from igbss_stream.feeds.wire import (
    EVENTS_VERSION,
    VERSION,
    DataHeader,
    DataMessage,
    EventsMessage,
    Frames,
    Message,
    MetaMessage,
    Name,
    Rate,
    RejectReason,
    WireLimits,
)

_MAX_PENDING = 8  # blocks that may be incomplete at the same time
_UNIT = "uV"
_STORED = np.dtype("<f4")


class _Content(msgspec.Struct, frozen=True):
    stream: Name
    channel_num: Count
    num_samples: Count
    sample_num: Count
    sample_rate: Rate


class _Envelope(msgspec.Struct, frozen=True):
    type: str
    content: msgspec.Raw


class _DataEnvelope(msgspec.Struct, frozen=True):
    content: _Content


_parse_type = msgspec.json.Decoder(_Envelope).decode
_parse_data = msgspec.json.Decoder(_DataEnvelope).decode

_Block = dict[int, NDArray[np.float32]]
"""The channels of a block that have arrived, by number."""


class OpenEphysDecoder:
    """Collect the channels of each block.

    Parameters
    ----------
    limits : WireLimits

    Attributes
    ----------
    counts : Counter
        ``incomplete``: blocks dropped because channels were missing; ``learning``: blocks skipped until
        the channels were known; ``events``: other messages than samples.
    """

    def __init__(self, limits: WireLimits) -> None:
        self.counts: Counter[str] = Counter()
        self._limits = limits
        self._stream: tuple[str, float] | None = None
        self._channels: tuple[int, ...] | None = None
        self._pending: dict[int, _Block] = {}
        self._previous_channels: tuple[int, ...] | None = None  # of the previous block
        self._n_events = 0

    def decode(self, frames: Frames) -> list[Message]:
        """Decode a message.

        Parameters
        ----------
        frames : list of bytes
            The last one may be a memoryview.

        Returns
        -------
        list of MetaMessage, DataMessage and EventsMessage
            An event, or the block that the message completes, if any; the first block comes after a
            description of the stream.

        Raises
        ------
        WireError
            If the message is not valid.
        """
        content = self._check_frames(frames)
        if content is None:
            return self._decode_event(frames)
        samples = np.frombuffer(frames[2], _STORED)
        if self._channels is None:
            return self._detect_channels(content, samples)
        block = self._pending.get(content.sample_num, {})
        self._add_channel(block, content, samples)
        self._pending[content.sample_num] = block
        if len(block) == len(self._channels):
            return [self._complete(content, block)]
        if len(self._pending) > _MAX_PENDING:
            self._drop(next(iter(self._pending)))
        return []

    def _decode_event(self, frames: Frames) -> list[Message]:
        """Return the event of a message that has one, once the stream is known."""
        if self._stream is None or not frames[0].startswith(b"EVENT"):
            return []
        row = decode_event(frames[1], frames[2] if len(frames) > 2 else b"", self._stream[0])
        if row is None:
            return []
        number, self._n_events = self._n_events, self._n_events + 1
        return [EventsMessage(version=EVENTS_VERSION, stream=self._stream[0], number=number, events=(row,))]

    def _check_frames(self, frames: Frames) -> _Content | None:
        """Return the header of a data message; None for other messages and empty ones."""
        if len(frames) < 2:
            raise WireError(RejectReason.FRAMES, f"a message has 3 frames. Got {len(frames)} instead.")
        if not frames[0].startswith(b"DATA"):
            self.counts["events"] += 1
            return None
        if len(frames) != 3:
            raise WireError(RejectReason.FRAMES, f"a data message has 3 frames. Got {len(frames)} instead.")
        content = _parse_content(frames[1], self._limits)
        size = len(frames[2])
        if size > self._limits.message_bytes:
            raise WireError(
                RejectReason.SIZE,
                f"the buffer has {size} bytes; at most {self._limits.message_bytes} are allowed.",
            )
        if size != content.num_samples * _STORED.itemsize:
            raise WireError(
                RejectReason.LENGTH, f"{content.num_samples} float32 announced. Got {size} bytes instead."
            )
        if content.channel_num >= self._limits.channels:
            raise WireError(
                RejectReason.CHANNELS,
                f"channel {content.channel_num} is beyond the limit of {self._limits.channels}.",
            )
        if self._stream is None:
            self._stream = content.stream, content.sample_rate
        elif self._stream != (content.stream, content.sample_rate):
            raise WireError(RejectReason.TOPIC, f"stream {content.stream!r} is not the first one received.")
        return content if content.num_samples else None

    def _detect_channels(self, content: _Content, samples: NDArray[np.float32]) -> list[Message]:
        """Determine the channels from consecutive blocks."""
        if content.sample_num in self._pending:
            self._add_channel(self._pending[content.sample_num], content, samples)
            return []
        previous, self._pending = self._pending, {content.sample_num: {content.channel_num: samples}}
        if not previous:
            return []
        self.counts["learning"] += 1
        channels = tuple(sorted(next(iter(previous.values()))))
        if channels != self._previous_channels:
            self._previous_channels = channels
            return []
        self._channels = channels
        return [self._make_meta(content, channels), *self._get_first_block(content)]

    def _get_first_block(self, content: _Content) -> list[Message]:
        """Return the block that was pending when the channels became known, if it is complete."""
        block = self._pending[content.sample_num]
        is_complete = len(block) == len(self._channels or ())
        return [self._complete(content, block)] if is_complete else []

    def _add_channel(self, block: _Block, content: _Content, samples: NDArray[np.float32]) -> None:
        number = content.channel_num
        if self._channels is not None and number not in self._channels:
            raise WireError(RejectReason.CHANNELS, f"channel {number} was not present at the start.")
        if number in block:
            raise WireError(RejectReason.CHANNELS, f"channel {number} arrived twice.")
        if any(len(other) != len(samples) for other in block.values()):
            raise WireError(RejectReason.LENGTH, f"channel {number} differs in length from the others.")
        block[number] = samples

    def _complete(self, content: _Content, block: _Block) -> DataMessage:
        for earlier in list(self._pending):
            if earlier == content.sample_num:
                break
            self._drop(earlier)
        del self._pending[content.sample_num]
        data: NDArray[Any] = np.stack([block[number] for number in self._channels or ()], axis=1)
        header = DataHeader(
            version=VERSION,
            stream=content.stream,
            rate=content.sample_rate,
            dtype="float32",
            unit=_UNIT,
            shape=(len(data), data.shape[1]),
            start=content.sample_num,
        )
        return DataMessage(header, np.ascontiguousarray(data, np.float32))

    def _drop(self, sample_num: int) -> None:
        del self._pending[sample_num]
        self.counts["incomplete"] += 1

    @staticmethod
    def _make_meta(content: _Content, channels: tuple[int, ...]) -> MetaMessage:
        return MetaMessage(
            version=VERSION,
            stream=content.stream,
            rate=content.sample_rate,
            dtype="float32",
            unit=_UNIT,
            channels=tuple(f"channel-{number}" for number in channels),
            software="Open Ephys",
        )


def _parse_content(head: bytes, limits: WireLimits) -> _Content:
    if len(head) > limits.header_bytes:
        raise WireError(
            RejectReason.SIZE,
            f"the header has {len(head)} bytes; at most {limits.header_bytes} are allowed.",
        )
    try:
        if _parse_type(head).type != "data":
            raise WireError(RejectReason.HEADER, "the envelope is DATA, but the header has another type.")
        content = _parse_data(head).content
        content.stream.encode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise WireError(RejectReason.HEADER, str(error)) from None
    return content
