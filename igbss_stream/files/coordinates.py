"""Convert the coordinates of files to metres with x to the right, y to the front and z to the top."""

import numpy as np
from numpy.typing import NDArray

from igbss_stream.positions import HEAD

Array = NDArray[np.float64]

METRES = {"m": 1.0, "dm": 1e-1, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "µm": 1e-6, "μm": 1e-6}
"""Metres per unit. The last two differ: micro sign and Greek letter."""

# Units whose number of a head's radius is below the limit, as MNE decides for EEGLAB sets; else mm
_LIMITS = ((0.25, "m"), (2.5, "dm"), (25.0, "cm"))


def guess_unit(xyz: Array) -> str:
    """Return the unit that makes the mean distance from the origin that of a head.

    Parameters
    ----------
    xyz : ndarray of shape (n, 3)
        NaN where not known.

    Returns
    -------
    str
        Key of `METRES`. A sphere of radius 1 is in decimetres.
    """
    known = xyz[np.isfinite(xyz).all(axis=1)]
    with np.errstate(over="ignore"):
        size = float(np.sqrt(np.sum(known**2, axis=1)).mean()) if len(known) else 0.0
    return next((unit for limit, unit in _LIMITS if size < limit), "mm")


def turn_front_left(xyz: Array) -> Array:
    """Return coordinates towards the front, the left and the top with our axes.

    Parameters
    ----------
    xyz : ndarray of shape (..., 3)
        With x to the nose and y to the left ear, as in EEGLAB and CTF.
    """
    return np.stack([-xyz[..., 1], xyz[..., 0], xyz[..., 2]], axis=-1)


def move_to_head(xyz: Array, nasion: Array, left: Array, right: Array) -> Array | None:
    """Return coordinates in the head frame, which three points of the same frame define.

    Parameters
    ----------
    xyz : ndarray of shape (n, 3)
    nasion, left, right : ndarray of shape (3,)
        Nasion and the points in front of the ears.

    Returns
    -------
    ndarray of shape (n, 3) or None
        None if the points are on a line or not known.
    """
    across = right - left
    width = np.sqrt(across @ across)
    if not (np.isfinite(width) and np.isfinite(nasion).all()) or width == 0:
        return None
    x = across / width
    origin = left + ((nasion - left) @ x) * x  # the point between the ears that is nearest to the nasion
    ahead = nasion - origin
    depth = np.sqrt(ahead @ ahead)
    if not depth > 1e-6 * width:
        return None
    y = ahead / depth
    return np.asarray((xyz - origin) @ np.column_stack([x, y, np.cross(x, y)]))


def place_in_head(xyz: Array, fiducials: "dict[str, Array]", frame: str) -> tuple[Array, str]:
    """Return coordinates in the head frame if the points that define it are known, and the frame.

    Parameters
    ----------
    xyz : ndarray of shape (n, 3)
    fiducials : dict
        Points by name: ``"nasion"``, ``"left"`` and ``"right"``, or some of them.
    frame : str
        Frame of `xyz`.
    """
    if fiducials.keys() >= {"nasion", "left", "right"}:
        moved = move_to_head(xyz, fiducials["nasion"], fiducials["left"], fiducials["right"])
        if moved is not None:
            return moved, HEAD
    return xyz, frame
