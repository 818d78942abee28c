"""Spherical splines, against MNE's and against potentials that are known everywhere."""

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream._util.electrodes import find_position
from igbss_stream.bad_channels.splines import SphericalSplines, compute_spline_weights
from igbss_stream.positions import HEAD, Positions

NAMES = [
    "Fp1",
    "Fp2",
    "F7",
    "F3",
    "Fz",
    "F4",
    "F8",
    "T7",
    "C3",
    "Cz",
    "C4",
    "T8",
    "P7",
    "P3",
    "Pz",
    "P4",
    "P8",
    "O1",
    "O2",
]
WANTED, KNOWN = np.array([4, 8, 15]), np.setdiff1d(np.arange(19), [4, 8, 15])


def place() -> NDArray[np.float64]:
    """Return directions with the ring of the 10-20 system at 90 degrees, by its definition."""
    rows = np.array([find_position(name) for name in NAMES])
    angle = np.arccos(rows[:, 2]) * 90 / 72
    flat = rows[:, :2] / np.maximum(np.linalg.norm(rows[:, :2], axis=1, keepdims=True), 1e-12)
    return np.column_stack([flat * np.sin(angle)[:, None], np.cos(angle)])


def test_weights_are_those_of_mne() -> None:
    interpolation = pytest.importorskip("mne.channels.interpolation")
    xyz = place()
    expected = interpolation._make_interpolation_matrix(xyz[KNOWN], xyz[WANTED]).T
    np.testing.assert_allclose(compute_spline_weights(xyz[KNOWN], xyz[WANTED]), expected, rtol=1e-8)
    np.testing.assert_allclose(SphericalSplines(NAMES).compute_weights(WANTED, KNOWN), expected, rtol=1e-8)


def test_smooth_potentials_are_interpolated() -> None:
    xyz = place()
    potential = 3.0 + xyz @ [1.0, -2.0, 0.5] + xyz[:, 0] * xyz[:, 1]
    weights = compute_spline_weights(xyz[KNOWN], xyz[WANTED])
    np.testing.assert_allclose(potential[KNOWN] @ weights, potential[WANTED], atol=0.05)
    np.testing.assert_allclose(weights.sum(axis=0), 1.0)


def test_positions_in_metres_give_nearly_the_weights_of_the_directions() -> None:
    """The centre of the head is found by a fit: these positions are on a sphere around another point."""
    xyz = 0.093 * place() + [0.0, 0.004, 0.041]
    names = [f"e{i}" for i in range(19)]
    splines = SphericalSplines(names, Positions.from_table(names, xyz, HEAD, "positions of the file"))
    assert splines.source == "positions of the file"
    expected = compute_spline_weights(place()[KNOWN], place()[WANTED])
    np.testing.assert_allclose(splines.compute_weights(WANTED, KNOWN), expected, atol=0.02)


def test_channels_without_a_place_take_no_part() -> None:
    names = [*NAMES, "EOG"]
    splines = SphericalSplines(names)
    known = np.append(KNOWN, 19)
    assert splines.can_interpolate(WANTED, known)
    assert not splines.can_interpolate(np.array([19]), KNOWN)
    weights = splines.compute_weights(WANTED, known)
    assert (weights[-1] == 0).all()
    np.testing.assert_array_equal(weights[:-1], SphericalSplines(NAMES).compute_weights(WANTED, KNOWN))


def test_without_places_the_reason_is_stated() -> None:
    splines = SphericalSplines(["a", "b", "c", "d"])
    assert not splines.can_interpolate(np.array([0]), np.array([1, 2, 3]))
    assert splines.reason == "no positions are known, and 0 of 4 channels have names of the 10-20 system"
