"""Tables of pandas and timeflux in HDF5: compound rows of a time and blocks of values.

Names of columns are in pickled attributes, which are taken apart and never unpickled.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS, naming
from igbss_stream.files.readers.hdf5.layouts.pickled_names import pickled_names
from igbss_stream.files.readers.hdf5.layouts.values import dataset, groups, kind_of
from igbss_stream.files.readers.hdf5.signal import Contents, Signal
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


def find(file: Any, path: Path) -> Contents | None:
    """Describe every table, if the file has any."""
    if kind_of(file, "PYTABLES_FORMAT_VERSION") is None:
        return None
    found = [
        group
        for group in groups(file)
        if kind_of(group, "pandas_type") in ("frame_table", "appendable_frame") and _is_table(group)
    ]
    if not found:
        return None
    why = f"attribute pandas_type of {found[0].name} is {kind_of(found[0], 'pandas_type')!r}"
    return Contents(LAYOUT, why, tuple(_signal(group["table"], path) for group in found))


def _is_table(group: Any) -> bool:
    table = dataset(group, "table")
    return table is not None and table.ndim == 1 and _INDEX in (table.dtype.names or ())


def _signal(table: Any, path: Path) -> Signal:
    name, what = table.name, naming(table.name, path)
    fields = tuple(f for f in table.dtype.names if f != _INDEX and table.dtype[f].base.kind in "iuf")
    widths = {field: math.prod(table.dtype[field].shape) for field in fields}
    left_out = tuple(f for f in table.dtype.names if f != _INDEX and f not in fields)
    notes: tuple[str, ...] = (
        (f"columns that are not numbers are left out: {', '.join(left_out)}",) if left_out else ()
    )
    channels: tuple[str, ...] = ()
    for field in fields:
        names = _names(table, field)
        if len(names) != widths[field]:
            names = ("",) * widths[field]
            notes += (
                f"the names of {field} could not be read without unpickling; its columns are numbered",
            )
        channels += names
    times, trouble = _times(table, what)
    return Signal(
        dataset=name,
        shape=(len(table), len(channels)),
        fields=fields,
        channels=channels,
        times=times,
        notes=notes,
        trouble=trouble,
        untimed=bool(trouble),
    )


def _names(table: Any, field: str) -> tuple[str, ...]:
    try:
        return pickled_names(table.attrs.get(f"{field}_kind"))
    except LIBRARY_ERRORS:
        return ()


def _times(table: Any, what: str) -> tuple[Times | None, str]:
    """Return the column of times, or what is wrong with it."""
    per_second = _PER_SECOND.get(kind_of(table, "index_kind") or "")
    if per_second is None or table.dtype[_INDEX].kind != "i":
        return None, f"{what} has an index that is not a time; pass --rate"
    index = table.fields(_INDEX)
    return Times(lambda a, b: np.asarray(index[a:b]), len(table), per_second), ""
