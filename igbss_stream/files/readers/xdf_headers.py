"""Read the headers of the streams of an XDF file, which pyxdf cannot read without the samples."""

import itertools
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree

import numpy as np

from igbss_stream.errors import RecordingError
from igbss_stream.feeds.lsl_locations import AXES, parse_location
from igbss_stream.feeds.lsl_units import shorten_unit
from igbss_stream.files.messages import as_one_line

_MAGIC = b"XDF:"
_HEADER, _SAMPLES = 2, 3  # tags
_LENGTHS = {1: "<B", 4: "<I", 8: "<Q"}
_LONGEST_HEADER = 1 << 24  # bytes
_MOST_CHANNELS = 1 << 16
_DTYPES = {
    "float32": "f4", "double64": "f8", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8",
}  # fmt: skip


@dataclass(frozen=True)
class XdfStream:
    """Header of a stream in an XDF file.

    Parameters
    ----------
    id : int
    name, type : str
    rate : float
        Nominal rate in Hz; 0 for irregular samples.
    dtype : dtype or None
        None for text.
    n_channels, n_samples : int
    labels, types : tuple of str
        One per channel, or none.
    unit : str or None
        Unit, if it is the same for all channels.
    locations : tuple of tuple of float
        Coordinates of each channel in metres, or none; NaN where a channel has none.
    """

    id: int
    name: str
    type: str
    rate: float
    dtype: np.dtype[np.generic] | None
    n_channels: int
    labels: tuple[str, ...]
    types: tuple[str, ...]
    unit: str | None
    n_samples: int = 0
    locations: tuple[tuple[float, ...], ...] = ()

    @property
    def is_signal(self) -> bool:
        """Whether the stream has several regularly sampled channels."""
        return self.dtype is not None and self.rate > 0 and self.n_channels > 1 and self.n_samples > 0

    @property
    def is_marker_stream(self) -> bool:
        """Whether the stream has irregular texts, or whole numbers in one channel."""
        whole = self.dtype is not None and self.dtype.kind == "i" and self.n_channels == 1
        return self.rate == 0 and self.n_channels > 0 and (self.dtype is None or whole)


def list_streams(path: Path) -> tuple[list[XdfStream], tuple[str, ...]]:
    """Read the headers of all streams of a file, in their order, and count the samples.

    Returns
    -------
    list of XdfStream, and tuple of str
        The streams, and a note for each one whose header is damaged.

    Raises
    ------
    RecordingError
        If the file or every header is damaged.
    """
    found, counts, broken = dict[int, XdfStream](), dict[int, int](), dict[int, str]()
    try:
        with open(path, "rb") as file:
            for tag, number, length in _read_chunks(file):
                if tag == _HEADER:
                    try:
                        found[number] = _parse_header(number, file.read(min(length, _LONGEST_HEADER)))
                    except (ValueError, ElementTree.ParseError) as error:
                        broken[number] = as_one_line(error)
                else:
                    counts[number] = counts.get(number, 0) + (_read_length(file) or 0)
        if broken and not found:
            raise ValueError(next(iter(broken.values())))
    except (OSError, ValueError, struct.error) as error:
        raise RecordingError(
            f"{str(path)!r} is a damaged XDF file ({as_one_line(error)}); copy or record it again"
        ) from error
    streams = [replace(stream, n_samples=counts.get(number, 0)) for number, stream in found.items()]
    return streams, tuple(
        f"stream {number} has a damaged header ({reason}), so it is not read"
        for number, reason in broken.items()
    )


def _read_chunks(file: BinaryIO) -> Iterator[tuple[int, int, int]]:
    """Yield tag, stream and length of header and sample chunks, with the file at their content."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin with XDF:")
    while (length := _read_length(file)) is not None:
        stop = file.tell() + length
        head = file.read(2)
        tag = struct.unpack("<H", head)[0] if len(head) == 2 else 0
        if tag in (_HEADER, _SAMPLES):
            yield tag, struct.unpack("<I", file.read(4))[0], max(0, length - 6)
        file.seek(stop)


def _read_length(file: BinaryIO) -> int | None:
    """Read an integer of 1, 4 or 8 bytes; None at the end of the file or if it is truncated."""
    size = file.read(1)
    code = _LENGTHS.get(size[0]) if size else None
    if code is None:
        return None
    content = file.read(size[0])
    return int(struct.unpack(code, content)[0]) if len(content) == size[0] else None


def _find_text(channel: ElementTree.Element, *keys: str) -> str:
    """Return the first of several texts that is stated; some senders write labels as names."""
    return next(filter(None, ((channel.findtext(key) or "").strip() for key in keys)), "")


def _parse_header(number: int, xml: bytes) -> XdfStream:
    if b"<!ENTITY" in xml or b"<!DOCTYPE" in xml:
        raise ValueError(f"stream {number} declares entities")
    root = ElementTree.fromstring(xml.decode("utf-8", "replace"))
    fields = {key: (root.findtext(key) or "").strip() for key in ("name", "type", "channel_format")}
    n_channels, rate = int(root.findtext("channel_count") or 0), float(root.findtext("nominal_srate") or 0)
    if not (0 <= n_channels <= _MOST_CHANNELS and math.isfinite(rate)):
        raise ValueError(f"stream {number} has {n_channels} channels at {rate:g} Hz")
    if fields["channel_format"] not in (*_DTYPES, "string"):
        raise ValueError(f"stream {number} has numbers of the format {fields['channel_format']!r}")
    code = _DTYPES.get(fields["channel_format"])
    channels = root.findall("desc/channels/channel")
    labels, types, units = (
        tuple(_find_text(channel, *keys) for channel in channels)
        for keys in (("label", "name"), ("type",), ("unit",))
    )
    unit = units[0] if len(set(units)) == 1 else ""
    return XdfStream(
        number,
        fields["name"],
        fields["type"],
        max(0.0, rate),
        None if code is None else np.dtype(code),
        n_channels,
        labels,
        types if len(types) == n_channels and any(types) else (),
        shorten_unit(unit),
        locations=_read_locations(channels) if len(channels) == n_channels else (),
    )


def _read_locations(channels: list[ElementTree.Element]) -> tuple[tuple[float, ...], ...]:
    rows = [
        tuple(parse_location([_find_text(channel, f"location/{axis}") for axis in AXES]))
        for channel in channels
    ]
    return tuple(rows) if any(map(math.isfinite, itertools.chain(*rows))) else ()
