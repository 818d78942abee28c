"""Where electrodes lie that are named by the 10-20 system and its extension, 10-10.

The head is the unit sphere: x to the right ear, y to the nose, z to the vertex. On it the system is
geometry. The midline is cut into tenths of the way from nasion to inion, 18 degrees each. The ring through
Fpz, T8, Oz and T7, 72 degrees from the vertex, is cut into tenths of half a turn. Each row runs from its
place on the ring, over its place on the midline, to the other side, along a circle, and is cut into
eighths. Electrodes 9 and 10 lie a tenth below the ring.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_TENTH = np.pi / 10
_RING = 4 * _TENTH  # from the vertex
# tenths from the vertex towards the nose, tenths along the ring from the nose, and the name on the ring
_ROWS = {
    "AF": (3, 2, "AF"),
    "F": (2, 3, "F"),
    "FC": (1, 4, "FT"),
    "C": (0, 5, "T"),
    "CP": (-1, 6, "TP"),
    "P": (-2, 7, "P"),
    "PO": (-3, 8, "PO"),
}
# with few electrodes those of the caps in use come first
_FIRST = """
    Fp1 Fp2 C3 C4 P7 P8 O1 O2 F7 F8 F3 F4 T7 T8 P3 P4 Fz Cz Pz Fpz Oz FC5 FC6 FC1 FC2 CP5 CP6 CP1 CP2 AFz
    POz FCz CPz AF3 AF4 PO3 PO4 FT7 FT8 TP7 TP8 AF7 AF8 PO7 PO8 F5 F6 F1 F2 FC3 FC4 C5 C6 C1 C2 CP3 CP4 P5
    P6 P1 P2 Iz
"""
_OTHER_NAMES = {
    "T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8", "M1": "TP9", "M2": "TP10", "A1": "T9", "A2": "T10"
}  # fmt: skip
_WRAPPING = re.compile(
    r"^(?:EEG|MEG)[\s_:-]+|[\s_:-]+(?:REF|LE|AVG|AV|AR|M1|M2|A1|A2|CZ|0|1)$", re.IGNORECASE
)


def position(name: str) -> Array | None:
    """Return where an electrode lies on the unit sphere.

    Parameters
    ----------
    name : str
        As files have it: in any case, with blanks, dots, a leading ``EEG`` or a trailing reference.

    Returns
    -------
    ndarray of shape (3,), or None
        None if the name is none of the system.
    """
    plain = _WRAPPING.sub("", name.strip().strip("."))
    plain = _OTHER_NAMES.get(plain.upper(), plain).upper()
    return _positions().get(plain)


def positions(names: Sequence[str]) -> dict[int, Array]:
    """Return where the electrodes among channels lie, by their place in the list.

    Parameters
    ----------
    names : sequence of str

    Returns
    -------
    dict of int to ndarray of shape (3,)
    """
    found = ((i, position(name)) for i, name in enumerate(names))
    return {i: place for i, place in found if place is not None}


def names() -> tuple[str, ...]:
    """Return the names of the system, as they are written: Fp1, Fpz and so on."""
    return tuple(_written(name) for name in _positions())


def spread(n: int) -> tuple[str, ...]:
    """Return the names of so many electrodes that cover the head, from the front to the back.

    Parameters
    ----------
    n : int
        At most as many as `names`.

    Returns
    -------
    tuple of str
    """
    first = _FIRST.split()
    taken = [*first, *(name for name in names() if name not in first)][:n]
    return tuple(name for name in names() if name in taken)


def flat(places: Array) -> Array:
    """Return positions seen from above, the angle from the vertex being the distance from the middle.

    Parameters
    ----------
    places : ndarray of shape (n, 3)
        On the unit sphere.

    Returns
    -------
    ndarray of shape (n, 2)
        Right and front; 1 is 90 degrees from the vertex, where nasion, inion and ears are.
    """
    angle = np.arccos(np.clip(places[:, 2], -1.0, 1.0))
    across = np.hypot(places[:, 0], places[:, 1])
    stretch = np.divide(angle / (np.pi / 2), across, out=np.zeros_like(across), where=across > 1e-9)
    return np.asarray(places[:, :2] * stretch[:, None])


@cache
def _positions() -> dict[str, Array]:
    return {name.upper(): place for name, place in _all()}


def _all() -> Iterator[tuple[str, Array]]:
    """Yield every electrode, from the front to the back."""
    for name, tenths in (("Nz", 5), ("Fpz", 4)):
        yield name, _midline(tenths)
    yield from _pair("Fp", 1, 1, _RING)
    for row, (up, along, outer) in _ROWS.items():
        yield f"{row}z", _midline(up)
        yield from _row(row, up, along)
        yield from _pair(outer, 7, along, _RING)
        yield from _pair(outer, 9, along, _RING + _TENTH)
    for name, tenths in (("Oz", -4), ("Iz", -5)):
        yield name, _midline(tenths)
    yield from _pair("O", 1, 9, _RING)


def _midline(tenths: int) -> Array:
    angle = tenths * _TENTH
    return np.array([0.0, np.sin(angle), np.cos(angle)])


def _pair(prefix: str, number: int, along: int, down: float) -> Iterator[tuple[str, Array]]:
    """Yield the electrodes left and right that are so many tenths of half a turn from the nose."""
    turn = along * _TENTH
    x, y, z = np.sin(down) * np.sin(turn), np.sin(down) * np.cos(turn), np.cos(down)
    yield f"{prefix}{number}", np.array([-x, y, z])
    yield f"{prefix}{number + 1}", np.array([x, y, z])


def _row(prefix: str, up: int, along: int) -> Iterator[tuple[str, Array]]:
    """Yield electrodes 1 to 6 of a row, in eighths of the circle through its two ends and its middle."""
    middle = _midline(up)
    (_, left), (_, right) = _pair("", 7, along, _RING)
    normal = np.cross(left - middle, right - middle)
    normal /= np.sqrt(normal @ normal)
    centre = normal * (normal @ middle)  # of the circle, which lies in a plane
    first, second = middle - centre, right - centre
    size = np.sqrt(first @ first)
    across = np.cross(normal, first / size)
    whole = np.arctan2(second @ across, second @ first / size)
    for step in (1, 2, 3):
        for side, number in ((-1, 2 * step - 1), (1, 2 * step)):
            angle = side * whole * step / 4
            yield f"{prefix}{number}", centre + np.cos(angle) * first + np.sin(angle) * size * across


def _written(name: str) -> str:
    return name.replace("Z", "z") if name[0] != "F" or name[1] != "P" else "Fp" + name[2:].lower()
