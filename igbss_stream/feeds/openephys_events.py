"""Decode the events of the ZMQ Interface plugin of Open Ephys: TTL lines, and text messages."""

import msgspec

from igbss_stream.errors import WireError
from igbss_stream.events import cut_text
from igbss_stream.feeds.event_rows import EventRow
from igbss_stream.feeds.model_facts import Count
from igbss_stream.feeds.wire import Name, RejectReason

_TTL, _TEXT = ("3", "ttl"), ("5", "message")  # as numbers, or as words
_MOST_BYTES = 1 << 16


class _EventContent(msgspec.Struct, frozen=True):
    type: int | str
    sample_num: Count
    stream: Name | None = None


class _EventEnvelope(msgspec.Struct, frozen=True):
    content: _EventContent


_parse_event = msgspec.json.Decoder(_EventEnvelope).decode


def decode_event(head: bytes, body: bytes | memoryview, stream: str) -> EventRow | None:
    """Return the event of a message.

    Parameters
    ----------
    head : bytes
        Header of the message.
    body : bytes or memoryview
        Of a TTL event: the line, the state, and the word of all lines; otherwise text.
    stream : str
        Name of the stream of the samples.

    Returns
    -------
    EventRow or None
        None if a line goes off, for other kinds, and for other streams.

    Raises
    ------
    WireError
        If the message is not valid.
    """
    if len(head) > _MOST_BYTES or len(body) > _MOST_BYTES:
        raise WireError(RejectReason.SIZE, f"an event has more than {_MOST_BYTES} bytes.")
    try:
        content = _parse_event(head).content
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise WireError(RejectReason.HEADER, str(error)) from None
    if content.stream != stream:
        return None
    kind = str(content.type).lower()
    if kind in _TTL:
        if len(body) < 2:
            raise WireError(
                RejectReason.LENGTH, f"a TTL event has 2 bytes or more. Got {len(body)} instead."
            )
        line, state = body[0], body[1]
        return EventRow(content.sample_num, f"TTL {line}", 0.0, "TTL") if state else None
    if kind in _TEXT:
        text = bytes(body).split(b"\0")[0].decode(errors="replace").strip()
        return EventRow(content.sample_num, cut_text(text), 0.0, "message") if text else None
    return None
