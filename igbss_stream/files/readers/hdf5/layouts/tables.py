"""Tables of pandas and timeflux in HDF5: compound rows of a time and blocks of values.

Column names are in pickled attributes, which are parsed but never unpickled.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS, name_dataset
from igbss_stream.files.readers.hdf5.layouts.pickled_names import read_pickled_names
from igbss_stream.files.readers.hdf5.layouts.values import get_dataset, read_text_attribute, walk_groups
from igbss_stream.files.readers.hdf5.signal import LayoutMatch, Signal
from igbss_stream.files.timing import Times

LAYOUT = "pandas table"
_INDEX = "index"
_PER_SECOND = {
    "datetime64": 1e9,
    "datetime64[ns]": 1e9,
    "datetime64[us]": 1e6,
    "datetime64[ms]": 1e3,
    "datetime64[s]": 1.0,
}


def find(file: Any, path: Path) -> LayoutMatch | None:
    """Describe every table, if the file has any."""
    if read_text_attribute(file, "PYTABLES_FORMAT_VERSION") is None:
        return None
    found = [
        group
        for group in walk_groups(file)
        if read_text_attribute(group, "pandas_type") in ("frame_table", "appendable_frame")
        and _is_table(group)
    ]
    if not found:
        return None
    why = f"attribute pandas_type of {found[0].name} is {read_text_attribute(found[0], 'pandas_type')!r}"
    return LayoutMatch(LAYOUT, why, tuple(_describe_signal(group["table"], path) for group in found))


def _is_table(group: Any) -> bool:
    table = get_dataset(group, "table")
    return table is not None and table.ndim == 1 and _INDEX in (table.dtype.names or ())


def _describe_signal(table: Any, path: Path) -> Signal:
    name, what = table.name, name_dataset(table.name, path)
    fields = tuple(f for f in table.dtype.names if f != _INDEX and table.dtype[f].base.kind in "iuf")
    widths = {field: math.prod(table.dtype[field].shape) for field in fields}
    omitted = tuple(f for f in table.dtype.names if f != _INDEX and f not in fields)
    notes: tuple[str, ...] = (
        (f"columns that are not numbers are omitted: {', '.join(omitted)}",) if omitted else ()
    )
    channels: tuple[str, ...] = ()
    for field in fields:
        names = _read_names(table, field)
        if len(names) != widths[field]:
            names = ("",) * widths[field]
            notes += (
                f"the names of {field} could not be read without unpickling; its columns are numbered",
            )
        channels += names
    times, problem = _get_times(table, what)
    return Signal(
        dataset=name,
        shape=(len(table), len(channels)),
        fields=fields,
        channels=channels,
        times=times,
        notes=notes,
        problem=problem,
        needs_rate=bool(problem),
    )


def _read_names(table: Any, field: str) -> tuple[str, ...]:
    try:
        return read_pickled_names(table.attrs.get(f"{field}_kind"))
    except LIBRARY_ERRORS:
        return ()


def _get_times(table: Any, what: str) -> tuple[Times | None, str]:
    """Return the column of timestamps, or why it cannot be used."""
    per_second = _PER_SECOND.get(read_text_attribute(table, "index_kind") or "")
    if per_second is None or table.dtype[_INDEX].kind != "i":
        return None, f"{what} has an index that is not a time; pass --rate"
    index = table.fields(_INDEX)
    return Times(lambda a, b: np.asarray(index[a:b]), len(table), per_second), ""
