"""Read the positions of optodes from the probe of a SNIRF file."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.files.coordinates import METRES, place_in_head
from igbss_stream.files.readers.hdf5.layouts.values import (
    get_dataset,
    is_numeric,
    read_number,
    read_numbers,
    read_text,
    read_texts,
)
from igbss_stream.positions import HEAD, Positions

Array = NDArray[np.float64]

_MOST = 1 << 20  # numbers in a table
_POINTS = {"nasion": ("nz", "nasion"), "left": ("lpa", "al"), "right": ("rpa", "ar")}
_HEAD_CODE = 4  # of the head frame in FIF, as MNE writes it


def read_probe_positions(
    run: Any, names: Sequence[str], pairs: Sequence[tuple[float | None, float | None]]
) -> Positions | None:
    """Return the positions of channels, halfway between source and detector.

    Parameters
    ----------
    run : h5py.Group
    names : sequence of str
        Of the channels.
    pairs : sequence of (source, detector)
        Numbers of the optodes of each channel, from 1; None if not known.

    Returns
    -------
    Positions or None
        None if the probe has no optodes. In the head frame if the landmarks have nasion and ears.
    """
    sources, detectors = (_read_optodes(run, f"{what}Pos") for what in ("source", "detector"))
    if sources is None or detectors is None:
        return None
    unit = read_text(run, "metaDataTags/LengthUnit") or "mm"
    source = "positions of the file (SNIRF probe)"
    if unit not in METRES:
        nowhere = np.full((len(names), 3), np.nan)
        return Positions(
            tuple(names), nowhere, "unknown", source, f"LengthUnit is {unit!r}, not m, cm or mm"
        )
    middle = np.array([(_get_row(sources, s) + _get_row(detectors, d)) / 2 for s, d in pairs])
    points = {key: METRES[unit] * point for key, point in _read_landmarks(run).items()}
    xyz, frame = place_in_head(METRES[unit] * middle.reshape(-1, 3), points, _get_frame(run))
    return Positions.from_table(names, xyz, frame, source)


def _read_optodes(run: Any, name: str) -> Array | None:
    """Return the coordinates of optodes, of shape (optodes, 3); z is 0 where only a layout is stated."""
    found = _read_table(run, f"probe/{name}3D", 3)
    if found is None:
        flat = _read_table(run, f"probe/{name}2D", 2)
        found = None if flat is None else np.column_stack([flat, np.zeros(len(flat))])
    return found


def _read_table(run: Any, name: str, n_columns: int) -> Array | None:
    found = get_dataset(run, name)
    if found is None or found.ndim != 2 or found.size > _MOST or not is_numeric(found):
        return None
    return np.asarray(found[:, :n_columns], np.float64) if found.shape[1] >= n_columns else None


def _get_row(table: Array, number: float | None) -> Array:
    if number is None or not 1 <= number <= len(table):
        return np.full(3, np.nan)
    return np.asarray(table[int(number) - 1])


def _read_landmarks(run: Any) -> dict[str, Array]:
    """Return nasion, left and right, if the landmarks have them."""
    table, labels = _read_table(run, "probe/landmarkPos3D", 3), read_texts(run, "probe/landmarkLabels")
    if table is None or not 0 < len(labels) <= len(table):
        return {}
    lower = [label.casefold() for label in labels]
    found = {
        key: next((lower.index(name) for name in names if name in lower), None)
        for key, names in _POINTS.items()
    }
    return {key: table[row] for key, row in found.items() if row is not None}


def _get_frame(run: Any) -> str:
    code = read_number(run, "metaDataTags/MNE_coordFrame")
    if code is None:
        codes = read_numbers(run, "metaDataTags/MNE_coordFrame")
        code = float(codes[0]) if codes is not None and len(codes) else None
    return HEAD if code == _HEAD_CODE else "unknown"
