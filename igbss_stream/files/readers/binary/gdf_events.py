"""Read the table of events at the end of a GDF file."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from igbss_stream.events import Events

NEW_SEGMENT = str(0x7FFE)
"""Code of the event at the first sample after a break of unknown length."""

_END = 0x8000  # bit of a code: the event with the other bits ends
_SIZED = 1.94  # versions from here on state the number of events before their rate
_WITH_DURATIONS = 3  # mode of a table


def read_gdf_events(path: Path, version: float, at: int, rate: float, n_samples: int) -> Events:
    """Return the events of a GDF file, labelled by their codes.

    Parameters
    ----------
    path : Path
    version : float
        Of GDF.
    at : int
        Position of the table, in bytes.
    rate : float
        Of the samples, in Hz.
    n_samples : int
        Number of samples; an event that has no end lasts until the last one.
    """
    with open(path, "rb") as file:
        file.seek(at)
        content = file.read()
    if len(content) < 8:
        return Events()
    if version < _SIZED:
        n, stated = int.from_bytes(content[4:8], "little"), float(int.from_bytes(content[1:4], "little"))
    else:
        n, stated = int.from_bytes(content[1:4], "little"), float(np.frombuffer(content, "<f4", 1, 4)[0])
    if not (np.isfinite(stated) and stated > 0):
        stated = rate
    with_durations = content[0] & _WITH_DURATIONS == _WITH_DURATIONS
    n = min(n, (len(content) - 8) // (12 if with_durations else 6))
    positions = np.frombuffer(content, "<u4", n, 8).astype(np.float64) - 1  # they count from 1
    codes = np.frombuffer(content, "<u2", n, 8 + 4 * n).astype(np.int64)
    durations = np.zeros(n)
    if with_durations:
        durations += np.frombuffer(content, "<u4", n, 8 + 8 * n)
    durations = _apply_ends(positions, codes, durations, n_samples * stated / rate)
    is_event = codes & _END == 0
    return Events(
        positions[is_event] * rate / stated,
        map(str, codes[is_event].tolist()),
        durations[is_event] / stated,
        "events",
    )


def _apply_ends(
    positions: NDArray[np.float64],
    codes: NDArray[np.int64],
    durations: NDArray[np.float64],
    n_samples: float,
) -> NDArray[np.float64]:
    """Return the durations, where events that mark the end of others are applied to these."""
    ends = {int(code) & ~_END for code in codes if code & _END}
    durations = durations.copy()
    for code in ends:
        stops = np.sort(positions[codes == code | _END])
        for i in np.flatnonzero((codes == code) & (durations == 0)):
            later = stops[stops >= positions[i]]
            durations[i] = (later[0] if len(later) else n_samples) - positions[i]
    return durations
