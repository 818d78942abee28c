"""The positions of channels in our HDF5 files: `/positions`, of shape (channels, 3), in metres."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.positions import Positions

POSITIONS_NAME = "positions"
_UNIT = "m"


def make_positions_dataset(
    positions: Positions, channels: Sequence[str]
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return the coordinates and attributes of the positions of some channels.

    Parameters
    ----------
    positions : Positions
    channels : sequence of str
    """
    found = positions.select(channels)
    attributes = {
        "unit": _UNIT,
        "frame": found.frame,
        "source": found.source,
        "channels": list(channels),
        "unusable": found.unusable or None,
    }
    return found.xyz, attributes


def read_positions_dataset(handle: Any) -> Positions | None:
    """Return the positions in a dataset; None if it is not one of positions.

    Parameters
    ----------
    handle : h5py.Dataset or None
    """
    if handle is None or handle.ndim != 2 or handle.shape[1] != 3 or handle.dtype.kind != "f":
        return None
    stated = {name: handle.attrs.get(name) for name in ("unit", "frame", "source", "channels")}
    if any(value is None for value in stated.values()) or str(stated["unit"]) != _UNIT:
        return None
    names = tuple(map(str, np.ravel(stated["channels"]).tolist()))
    if len(names) != len(handle):
        return None
    frame, source = str(stated["frame"]), str(stated["source"])
    found = Positions.from_table(names, np.asarray(handle[()], np.float64), frame, source)
    return replace(found, unusable=str(handle.attrs.get("unusable", "")) or found.unusable)
