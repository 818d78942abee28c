"""Read the table of electrodes of an NWB file: names and positions of the channels of a series."""

from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np

from igbss_stream.files.coordinates import METRES
from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS, read_attribute
from igbss_stream.files.readers.hdf5.layouts.values import (
    get_dataset,
    get_member,
    keep_if_complete,
    read_numbers,
    read_texts,
)
from igbss_stream.positions import Positions

_SOURCE = "positions of the file (NWB electrodes)"


def read_electrode_names(group: Any, n_channels: int) -> tuple[tuple[str, ...], str]:
    """Return the electrode names of a series, or why there are none.

    Parameters
    ----------
    group : h5py.Group
        An ElectricalSeries.
    n_channels : int
    """
    rows, table = read_numbers(group, "electrodes"), _find_electrodes(group)
    if rows is None or table is None:
        return (), "there is no electrode table with channel names; channels are numbered"
    if len(rows) != n_channels:
        return (), f"{len(rows)} electrodes are listed for {n_channels} channels; channels are numbered"
    for column in ("label", "channel_name", "electrode_name"):
        labels = read_texts(table, column)
        if labels and rows.min() >= 0 and rows.max() < len(labels):
            chosen = tuple(labels[int(row)] for row in rows)
            if len(set(chosen)) == n_channels:
                return keep_if_complete(chosen, n_channels), ""
    ids = read_numbers(table, "id")
    if ids is not None and rows.min() >= 0 and rows.max() < len(ids):
        return tuple(f"electrode-{ids[int(row)]}" for row in rows), ""
    return (), "the electrode table does not name the channels; channels are numbered"


def read_electrode_positions(group: Any, names: Sequence[str]) -> Positions | None:
    """Return the positions of the channels of a series; None if the table has none.

    NWB defines the axes as x to the back, y to the bottom and z to the right, in micrometres.

    Parameters
    ----------
    group : h5py.Group
        An ElectricalSeries.
    names : sequence of str
        Of its channels.
    """
    rows, table = read_numbers(group, "electrodes"), _find_electrodes(group)
    if rows is None or table is None or len(rows) != len(names) or rows.min() < 0:
        return None
    columns = [read_numbers(table, axis) for axis in ("x", "y", "z")]
    if any(column is None or rows.max() >= len(column) for column in columns):
        return None
    back, bottom, right = (np.asarray(column, np.float64)[rows.astype(np.int64)] for column in columns)
    xyz = METRES["um"] * np.column_stack([right, -back, -bottom])
    if not np.any(np.isfinite(xyz) & (xyz != 0)):
        return None
    return Positions.from_table(tuple(names), xyz, "unknown", _SOURCE)


def _find_electrodes(group: Any) -> Any:
    """Return the electrode table of a series."""
    reference = (
        read_attribute(get_dataset(group, "electrodes"), "table")
        if get_dataset(group, "electrodes")
        else None
    )
    if isinstance(reference, h5py.Reference):
        try:
            found = group.file[reference]
        except LIBRARY_ERRORS:
            return None
        return found if isinstance(found, h5py.Group) else None
    return get_member(group.file, "/general/extracellular_ephys/electrodes")
