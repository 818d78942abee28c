"""Positions of the electrodes of the 10-20 system and its extension, the 10-10 system.

The head is the unit sphere, with x towards the right ear, y towards the nose and z towards the vertex.
Positions follow from geometry. The midline from nasion to inion is divided into tenths of 18 degrees. The
ring through Fpz, T8, Oz and T7, 72 degrees from the vertex, is divided into tenths of half a turn. Each row
is an arc of a circle from its position on the ring, through its position on the midline, to the other side
of the ring; it is divided into eighths. Electrodes 9 and 10 are a tenth below the ring.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_TENTH = np.pi / 10
_RING = 4 * _TENTH  # from the vertex
# tenths from the vertex towards the nose, tenths from the nose along the ring, prefix on the ring
_ROWS = {
    "AF": (3, 2, "AF"),
    "F": (2, 3, "F"),
    "FC": (1, 4, "FT"),
    "C": (0, 5, "T"),
    "CP": (-1, 6, "TP"),
    "P": (-2, 7, "P"),
    "PO": (-3, 8, "PO"),
}
# order in which electrodes are added, as in common caps
_PREFERRED = """
    Fp1 Fp2 C3 C4 P7 P8 O1 O2 F7 F8 F3 F4 T7 T8 P3 P4 Fz Cz Pz Fpz Oz FC5 FC6 FC1 FC2 CP5 CP6 CP1 CP2 AFz
    POz FCz CPz AF3 AF4 PO3 PO4 FT7 FT8 TP7 TP8 AF7 AF8 PO7 PO8 F5 F6 F1 F2 FC3 FC4 C5 C6 C1 C2 CP3 CP4 P5
    P6 P1 P2 Iz
"""
_SYNONYMS = {
    "T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8", "M1": "TP9", "M2": "TP10", "A1": "T9", "A2": "T10"
}  # fmt: skip
_AFFIXES = re.compile(
    r"^(?:EEG|MEG)[\s_:-]+|[\s_:-]+(?:REF|LE|AVG|AV|AR|M1|M2|A1|A2|CZ|0|1)$", re.IGNORECASE
)


def find_position(name: str) -> Array | None:
    """Return the position of an electrode on the unit sphere.

    Parameters
    ----------
    name : str
        Channel name as found in files: in upper or lower case, with blanks, dots, a leading ``EEG`` or a
        trailing reference.

    Returns
    -------
    ndarray of shape (3,), or None
        None if the system has no electrode of this name.
    """
    plain = simplify_name(name)
    return _index_positions().get(_SYNONYMS.get(plain, plain).upper())


def simplify_name(name: str) -> str:
    """Return a channel name in capitals, without blanks, dots, a leading ``EEG`` or a reference."""
    return _AFFIXES.sub("", name.strip().strip(".")).upper()


def find_positions(names: Sequence[str]) -> dict[int, Array]:
    """Return the positions of those channels that are electrodes of the system.

    Parameters
    ----------
    names : sequence of str

    Returns
    -------
    dict of int to ndarray of shape (3,)
        Keys are indices into `names`.
    """
    found = ((i, find_position(name)) for i, name in enumerate(names))
    return {i: position for i, position in found if position is not None}


def list_names() -> tuple[str, ...]:
    """Return the names of all electrodes in their usual spelling: Fp1, Fpz etc."""
    return tuple(_format_name(name) for name in _index_positions())


def pick_spread(n: int) -> tuple[str, ...]:
    """Return the names of `n` electrodes that cover the head, from front to back.

    Parameters
    ----------
    n : int
        At most the number of electrodes of the system.

    Returns
    -------
    tuple of str
    """
    preferred = _PREFERRED.split()
    picked = [*preferred, *(name for name in list_names() if name not in preferred)][:n]
    return tuple(name for name in list_names() if name in picked)


def project_from_above(positions: Array) -> Array:
    """Project positions onto a plane seen from above, by the azimuthal equidistant projection.

    Parameters
    ----------
    positions : ndarray of shape (n, 3)
        On the unit sphere.

    Returns
    -------
    ndarray of shape (n, 2)
        Coordinates towards the right and the front. The distance from the origin is proportional to the
        angle from the vertex; 1 is 90 degrees, where nasion, inion and ears are.
    """
    angle = np.arccos(np.clip(positions[:, 2], -1.0, 1.0))
    radius = np.hypot(positions[:, 0], positions[:, 1])
    scale = np.divide(angle / (np.pi / 2), radius, out=np.zeros_like(radius), where=radius > 1e-9)
    return np.asarray(positions[:, :2] * scale[:, None])


@cache
def _index_positions() -> dict[str, Array]:
    return {name.upper(): position for name, position in _iterate_all()}


def _iterate_all() -> Iterator[tuple[str, Array]]:
    """Yield the name and position of every electrode, from front to back."""
    for name, tenths in (("Nz", 5), ("Fpz", 4)):
        yield name, _place_on_midline(tenths)
    yield from _place_pair("Fp", 1, 1, _RING)
    for row, (up, along, outer) in _ROWS.items():
        yield f"{row}z", _place_on_midline(up)
        yield from _place_row(row, up, along)
        yield from _place_pair(outer, 7, along, _RING)
        yield from _place_pair(outer, 9, along, _RING + _TENTH)
    for name, tenths in (("Oz", -4), ("Iz", -5)):
        yield name, _place_on_midline(tenths)
    yield from _place_pair("O", 1, 9, _RING)


def _place_on_midline(tenths: int) -> Array:
    angle = tenths * _TENTH
    return np.array([0.0, np.sin(angle), np.cos(angle)])


def _place_pair(prefix: str, number: int, along: int, down: float) -> Iterator[tuple[str, Array]]:
    """Yield a left and a right electrode, `along` tenths of half a turn from the nose."""
    turn = along * _TENTH
    x, y, z = np.sin(down) * np.sin(turn), np.sin(down) * np.cos(turn), np.cos(down)
    yield f"{prefix}{number}", np.array([-x, y, z])
    yield f"{prefix}{number + 1}", np.array([x, y, z])


def _place_row(prefix: str, up: int, along: int) -> Iterator[tuple[str, Array]]:
    """Yield electrodes 1 to 6 of a row, in eighths of the arc through its two ends and its middle."""
    middle = _place_on_midline(up)
    (_, left), (_, right) = _place_pair("", 7, along, _RING)
    normal = np.cross(left - middle, right - middle)
    normal /= np.sqrt(normal @ normal)
    centre = normal * (normal @ middle)  # of the circle, in its plane
    first, second = middle - centre, right - centre
    size = np.sqrt(first @ first)
    across = np.cross(normal, first / size)
    whole = np.arctan2(second @ across, second @ first / size)
    for step in (1, 2, 3):
        for side, number in ((-1, 2 * step - 1), (1, 2 * step)):
            angle = side * whole * step / 4
            yield f"{prefix}{number}", centre + np.cos(angle) * first + np.sin(angle) * size * across


def _format_name(name: str) -> str:
    return name.replace("Z", "z") if name[0] != "F" or name[1] != "P" else "Fp" + name[2:].lower()
