"""Positions of electrodes and optodes: from files, montages or channel names, and their place on a head.

Axes are x towards the right ear, y towards the nose and z towards the vertex, in metres, whatever the axes
of the source. `locate_channels` returns directions on the sphere of the 10-20 system
(`igbss_stream._util.electrodes`), which maps are drawn on: from positions, or else from names.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from igbss_stream._util.electrodes import find_positions, simplify_name

Array = NDArray[np.float64]

HEAD = "head"
"""The head frame of MNE: the x axis passes through both ears, the y axis through the nasion."""

MIN_LOCATED = 4
"""Fewest channels with known places for a map."""

_FARTHEST = 2.0  # m from the origin; nothing on a head is farther, whatever the frame
_SMALLEST, _LARGEST = 0.02, 0.5  # m, extent of the positions
_RING = 0.8  # 72 / 90: the 10-20 system has the ring through Fpz and T7 72 degrees from the vertex
# Expected centre and radius of the sphere, and the weight of each against the distance of one sensor
_CENTRES = {HEAD: ((0.0, 0.005, 0.037), 0.5)}
_ANY_CENTRE = ((0.0, 0.0, 0.02), 0.15)
_RADIUS = 0.095
_N_STEPS = 20  # of the fit, which converges in a few


@dataclass(frozen=True, eq=False)
class Positions:
    """Positions of channels; `from_table` makes them of what a file states.

    Parameters
    ----------
    names : tuple of str
        Names of the channels.
    xyz : ndarray of shape (channels, 3)
        In metres, towards the right, the front and the top; NaN where the position is not known.
    frame : str
        `HEAD`, or the name of another frame, of which only the directions of the axes are known.
    source : str
        Where the positions are from, such as ``"positions of the file (EEGLAB chanlocs)"``.
    unusable : str
        Number of positions that were left out, and why; empty if none were.
    """

    names: tuple[str, ...]
    xyz: Array
    frame: str
    source: str
    unusable: str = ""

    @classmethod
    def from_table(cls, names: Sequence[str], xyz: ArrayLike, frame: str, source: str) -> "Positions":
        """Return the positions that are possible; others become NaN, and `unusable` counts them.

        Parameters
        ----------
        names : sequence of str
        xyz : array of shape (channels, 3)
            Rows of NaN are channels whose position the source does not state.
        frame, source : str
            See `Positions`.
        """
        kept = np.array(xyz, np.float64).reshape(len(names), 3)
        stated = ~np.isnan(kept).all(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.abs(kept).max(axis=1, initial=0.0)
        reasons = {
            "not finite": stated & ~np.isfinite(size),
            "all zero": size == 0,
            f"more than {_FARTHEST:g} m from the origin": np.isfinite(size) & (size > _FARTHEST),
        }
        for wrong in reasons.values():
            kept[wrong] = np.nan
        counts = [
            f"{n} {'is' if n == 1 else 'are'} {reason}"
            for reason, wrong in reasons.items()
            if (n := int(wrong.sum()))
        ]
        text = f"of {int(stated.sum())} positions, {', '.join(counts)}" if counts else ""
        return cls(tuple(names), kept, frame, source, text)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Positions)
            and (self.names, self.frame, self.source) == (other.names, other.frame, other.source)
            and np.array_equal(self.xyz, other.xyz, equal_nan=True)
        )

    def __hash__(self) -> int:
        return hash((self.names, self.frame, self.source))

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether the position of each channel is known, of shape (channels,)."""
        return np.asarray(np.isfinite(self.xyz).all(axis=1))

    @cached_property
    def problem(self) -> str:
        """Why the positions have no place on a head; empty if they have."""
        known = self.xyz[self.is_known]
        if not len(known):
            return self.unusable or "no channel has a position"
        if len(known) < 2:
            return ""
        extent = float(np.ptp(known, axis=0).max())
        if extent == 0:
            return f"all {len(known)} positions are equal"
        if not known[:, 2].any() and not _is_centred(known):
            return "the positions are in a plane (z is 0), and a head is not"
        if not _SMALLEST <= extent <= _LARGEST:
            return (
                f"the positions extend over {extent:.2g} m, and those on a head over {_SMALLEST:g} to "
                f"{_LARGEST:g} m"
            )
        return ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of the positions, as sentences without a full stop."""
        if self.problem:
            return (f"{self.source} are not used: {self.problem}",)
        return (f"{self.source} are used in part: {self.unusable}",) if self.unusable else ()

    def select(self, names: Sequence[str]) -> "Positions":
        """Return the positions of channels, matched by name; NaN for a name that is missing.

        Parameters
        ----------
        names : sequence of str
        """
        index = _index_names(self.names)
        rows = [_find_name(index, name) for name in names]
        xyz = np.full((len(rows), 3), np.nan)
        for i, row in enumerate(rows):
            if row is not None:
                xyz[i] = self.xyz[row]
        return replace(self, names=tuple(names), xyz=xyz)

    def pick(self, channels: Sequence[int]) -> "Positions":
        """Return the positions of channels at some indices, in that order."""
        return replace(
            self, names=tuple(self.names[i] for i in channels), xyz=self.xyz[np.asarray(channels, int)]
        )

    @cached_property
    def directions(self) -> Array:
        """Directions on the sphere of the 10-20 system, of shape (channels, 3); NaN where not known.

        The centre is that of a sphere that is fitted to the positions. Angles from its vertex are
        multiplied by 0.8, because the ring through Fpz, T7 and Oz is at about 90 degrees of such a sphere
        and at 72 degrees in the 10-20 system. Maps by position and by name then agree.
        """
        out = np.full_like(self.xyz, np.nan)
        if self.problem:
            return out
        known = self.is_known
        radial = self.xyz[known] - _fit_centre(self.xyz[known], self.frame)
        distance = np.sqrt(np.sum(radial**2, axis=1, keepdims=True))
        radial = np.divide(
            radial, distance, out=np.tile([0.0, 0.0, 1.0], (len(radial), 1)), where=distance > 0
        )
        angle = _RING * np.arccos(np.clip(radial[:, 2], -1.0, 1.0))
        turn = np.arctan2(radial[:, 1], radial[:, 0])
        out[known] = np.column_stack(
            [np.sin(angle) * np.cos(turn), np.sin(angle) * np.sin(turn), np.cos(angle)]
        )
        return out


@dataclass(frozen=True, eq=False)
class LocatedChannels:
    """The channels whose place on the head is known.

    Parameters
    ----------
    channels : ndarray of int, of shape (located,)
        Indices in the list of channels.
    directions : ndarray of shape (located, 3)
        On the unit sphere of the 10-20 system.
    source : str
        Where the places are from; empty if too few are known.
    reason : str
        Why there are none, or why positions were replaced by names; empty otherwise.
    """

    channels: NDArray[np.intp]
    directions: Array
    source: str
    reason: str = ""

    @property
    def sphere(self) -> Array:
        """Directions from the centre of the head, of shape (located, 3), with the ring at 90 degrees."""
        angle = np.arccos(np.clip(self.directions[:, 2], -1.0, 1.0)) / _RING
        turn = np.arctan2(self.directions[:, 1], self.directions[:, 0])
        return np.column_stack([np.sin(angle) * np.cos(turn), np.sin(angle) * np.sin(turn), np.cos(angle)])


def locate_channels(names: Sequence[str], positions: Positions | None = None) -> LocatedChannels:
    """Return the places of channels on the head: from positions, or else from names of the 10-20 system.

    Parameters
    ----------
    names : sequence of str
    positions : Positions, optional
        Of these channels, or of others as well; matched by name.

    Returns
    -------
    LocatedChannels
        Without channels if fewer than four channels, or fewer than half of them, can be located.
    """
    reason = ""
    if positions is not None:
        of_channels = positions.select(names)
        known = np.flatnonzero(np.isfinite(of_channels.directions).all(axis=1))
        if _are_enough(len(known), len(names)):
            return LocatedChannels(known, of_channels.directions[known], positions.source)
        problem = of_channels.problem or f"they cover {len(known)} of {len(names)} channels"
        reason = f"{positions.source} are not used: {problem}"
    found = find_positions(names)
    if _are_enough(len(found), len(names)):
        where = np.array([*found], np.intp)
        return LocatedChannels(where, np.array([*found.values()]), "names of the 10-20 system", reason)
    by_name = f"{len(found)} of {len(names)} channels have names of the 10-20 system"
    reason = f"{reason}; {by_name}" if reason else f"no positions are known, and {by_name}"
    return LocatedChannels(np.empty(0, np.intp), np.empty((0, 3)), "", reason)


def _are_enough(n_located: int, n_channels: int) -> bool:
    return n_located >= max(MIN_LOCATED, n_channels / 2)


def _index_names(names: Sequence[str]) -> dict[str, int]:
    """Return indices by name, and by simpler forms of it that no other channel has."""
    index = {name: i for i, name in reversed([*enumerate(names)])}
    for simplify in (str.casefold, simplify_name):
        simple = [simplify(name) for name in names]
        counts = Counter(simple)
        index |= {name: i for i, name in enumerate(simple) if name not in index and counts[name] == 1}
    return index


def _find_name(index: dict[str, int], name: str) -> int | None:
    forms = (name, name.casefold(), simplify_name(name))
    return next((index[form] for form in forms if form in index), None)


def _is_centred(xyz: Array) -> bool:
    """Return whether the positions are on a sphere around the origin."""
    distance = np.sqrt(np.sum(xyz**2, axis=1))
    return bool(np.ptp(distance) <= 0.02 * distance.max())


def _fit_centre(xyz: Array, frame: str) -> Array:
    """Return the centre of the sphere through positions, by least squares with an expected sphere.

    The expected sphere decides where positions cover only a part of the head.
    """
    if _is_centred(xyz):
        return np.zeros(3)
    expected, weight = _CENTRES.get(frame, _ANY_CENTRE)
    aim = np.array([*expected, _RADIUS])
    found = aim.copy()
    for _ in range(_N_STEPS):
        radial = xyz - found[:3]
        distance = np.sqrt(np.sum(radial**2, axis=1))
        slope = np.column_stack([-radial / np.maximum(distance, 1e-9)[:, None], -np.ones(len(xyz))])
        left = np.vstack([slope, weight * np.eye(4)])
        right = np.concatenate([found[3] - distance, weight * (aim - found)])
        step = np.linalg.solve(left.T @ left, left.T @ right)
        found += step
        if np.abs(step).max() < 1e-7:
            break
    return np.asarray(found[:3])
