"""A plain file: samples in a dataset of numbers, with attributes ``rate``, ``unit`` and ``channels``.

Also what igbss-stream records: the table ``/gaps`` beside ``/data`` says where samples are missing.
"""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.readers.hdf5.contents import datasets
from igbss_stream.files.readers.hdf5.file import naming, stated_channels, stated_rate, stated_unit
from igbss_stream.files.readers.hdf5.layouts.values import dataset, member, numeric
from igbss_stream.files.readers.hdf5.signal import Contents, Signal

LAYOUT = "plain"
_DATA = "/data"
_GAP_FIELDS = ("row", "start", "n_samples", "reason")
_MOST_GAPS = 1 << 20


def find(file: Any, path: Path) -> Contents:
    """Describe `/data`, or else every dataset that could hold a recording; every file has this layout."""
    data = member(file, _DATA)
    if isinstance(data, h5py.Dataset):
        return Contents(LAYOUT, "it has a dataset /data", (described(data, _DATA, path, file),))
    found = [
        described(handle, name, path, file)
        for name, handle in datasets(file)
        if handle.shape is not None and len(handle.shape) == 2 and numeric(handle)
    ]
    signals = tuple(signal for signal in found if signal.several)
    why = "it has the marks of no other layout"
    if len(signals) == 1:
        why += f", and {signals[0].dataset} alone holds numbers on two axes"
    return Contents(LAYOUT, why, signals, f"{str(path)!r} has no dataset '/data'")


def described(handle: Any, name: str, path: Path, file: Any) -> Signal:
    """Describe a dataset of an open file, taken as plain numbers."""
    rate, trouble = None, ""
    try:
        rate = stated_rate(handle, naming(name, path))
    except RecordingError as error:
        trouble = str(error)
    shape = handle.shape or ()
    return Signal(
        dataset=name,
        shape=shape,
        axis=None,
        rate=rate,
        unit=stated_unit(handle),
        channels=stated_channels(handle),
        gaps=gaps_beside(file, shape[0]) if name == _DATA and shape else (),
        trouble=trouble,
        untimed=bool(trouble),
    )


def gaps_beside(file: Any, n_samples: int) -> tuple[Gap, ...]:
    """Return the gaps that the table /gaps of an open file tells of, for samples that it goes with."""
    table = dataset(file, "/gaps")
    if table is None or table.dtype.names != _GAP_FIELDS or table.size > _MOST_GAPS:
        return ()
    rows = np.asarray(table[()])
    return make_gaps(
        (int(row), int(count), reason.decode("utf-8", "replace") or "missing")
        for row, _, count, reason in rows.tolist()
        if 0 < row < n_samples and count >= 0
    )
