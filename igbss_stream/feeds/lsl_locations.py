"""Positions of channels in the description of an LSL stream: ``channels/channel/location``, in mm."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from igbss_stream.chunk import Stream
from igbss_stream.positions import Positions

_MILLIMETRE = 1e-3
AXES = ("X", "Y", "Z")
"""Elements of a location: to the right, to the front and to the top."""
_DIGITS = 4  # of a millimetre


def read_locations(info: Any, names: tuple[str, ...]) -> Positions | None:
    """Return the positions that the description of a stream states; None if it states none.

    Parameters
    ----------
    info : pylsl.StreamInfo
        X is to the right, Y to the front and Z to the top, as the description of EEG streams defines them.
    names : tuple of str
        Of the channels.
    """
    xyz = np.full((len(names), 3), np.nan)
    channel = info.desc().child("channels").child("channel")
    for row in xyz:
        if channel.empty():
            break
        location = channel.child("location")
        row[:] = parse_location([location.child_value(axis) for axis in AXES])
        channel = channel.next_sibling("channel")
    if np.isnan(xyz).all():
        return None
    return Positions.from_table(names, xyz, "unknown", "positions of the stream (LSL)")


def write_locations(info: Any, stream: Stream) -> None:
    """Add the known positions of a stream to its description, whose channels have labels already.

    Parameters
    ----------
    info : pylsl.StreamInfo
    stream : Stream
    """
    if stream.positions is None:
        return
    found = stream.positions.select(stream.channels)
    channel = info.desc().child("channels").child("channel")
    for at, is_known in zip(found.xyz.tolist(), found.is_known.tolist(), strict=True):
        if is_known:
            location = channel.append_child("location")
            for axis, metres in zip(AXES, at, strict=True):
                location.append_child_value(axis, f"{round(metres / _MILLIMETRE, _DIGITS):g}")
        channel = channel.next_sibling("channel")


def parse_location(texts: Sequence[str]) -> list[float]:
    """Return coordinates in metres, from texts in millimetres; NaN where a text is no number.

    Parameters
    ----------
    texts : sequence of str
        One per axis of `AXES`.
    """
    return [_MILLIMETRE * _parse(text) for text in texts]


def _parse(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
