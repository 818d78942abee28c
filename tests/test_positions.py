"""Positions on the head, compared with the montages of MNE and with the 10-20 system."""

import warnings

import mne
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream._util.electrodes import find_position, project_from_above
from igbss_stream.pages.plotting.scalp import find_montage
from igbss_stream.positions import HEAD, Positions, locate_channels


def read_template(name: str) -> Positions:
    """Return the positions of a montage of MNE, in the head frame."""
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # MNE renames montages
        montage = mne.channels.make_standard_montage(name)
    info = mne.create_info(montage.ch_names, 100.0, "eeg").set_montage(montage)
    return Positions.from_table(
        info.ch_names, np.array([c["loc"][:3] for c in info["chs"]]), HEAD, f"montage {name}"
    )


def apart_from_names(positions: Positions) -> NDArray[np.float64]:
    """Return the distance on the map between places by position and by name, where 1 is nose or ear."""
    named = {name: find_position(name) for name in positions.names}
    shared = [name for name, position in named.items() if position is not None]
    by_name = project_from_above(np.array([find_position(name) for name in shared]))
    by_position = project_from_above(positions.directions[[positions.names.index(n) for n in shared]])
    distance: NDArray[np.float64] = np.hypot(*(by_position - by_name).T)
    return distance


@pytest.mark.parametrize(
    ("template", "middle", "most"),
    [("biosemi64", 0.02, 0.05), ("easycap-M1", 0.02, 0.05), ("standard_1005", 0.08, 0.22)],
)
def test_maps_by_position_and_by_name_agree(template: str, middle: float, most: float) -> None:
    # the first two are on a sphere, the last one is the head of MNI, longer than wide
    apart = apart_from_names(read_template(template))
    assert len(apart) > 60
    assert np.median(apart) < middle
    assert apart.max() < most


@pytest.mark.parametrize(
    "names", [("Fz", "FC1", "FC2", "Cz", "C3", "C4", "CP1", "CP2"), ("F3", "F4", "P3", "P4")]
)
def test_a_part_of_the_head_keeps_its_place(names: tuple[str, ...]) -> None:
    every = read_template("standard_1005")
    apart = every.select(names).directions - every.directions[[every.names.index(n) for n in names]]
    assert np.degrees(np.abs(apart)).max() < 8


def test_units_of_the_sphere_do_not_move_the_map() -> None:
    cap = read_template("easycap-M1")
    rng = np.random.default_rng(31)
    moved = Positions.from_table(cap.names, 1.2 * cap.xyz + [0.01, -0.02, 0.03], "CTF", "a larger head")
    assert np.abs(project_from_above(moved.directions) - project_from_above(cap.directions)).max() < 0.02
    shaken = Positions.from_table(cap.names, cap.xyz + rng.normal(0, 0.003, cap.xyz.shape), HEAD, "pen")
    assert np.abs(shaken.directions - cap.directions).max() < 0.2


def test_channels_are_matched_by_name_however_it_is_spelled() -> None:
    cap = read_template("biosemi32")
    found = cap.select(["EEG FP1", "cz", "A1", "fz.", "P3-REF"])
    assert found.is_known.tolist() == [True, True, False, True, True]
    np.testing.assert_array_equal(found.xyz[1], cap.xyz[cap.names.index("Cz")])
    assert cap.pick([3, 1]).names == (cap.names[3], cap.names[1])


def test_names_a1_to_a32_get_a_map_by_position() -> None:
    cap = read_template("biosemi128")
    names = cap.names[:32]
    assert names[:2] == ("A1", "A2")
    found = find_montage(names, cap)
    assert found.has_map
    assert found.source == "montage biosemi128"
    assert len(found.channels) == 32
    assert np.hypot(*found.positions[0]) < 0.02, "A1 of BioSemi is the vertex, not an earlobe"
    without = find_montage(names)
    assert without.reason == "no positions are known, and 2 of 32 channels have names of the 10-20 system"


ROW = np.array(
    [[0.0, 0.1, 0.04], [0.07, 0.0, 0.04], [-0.07, 0.0, 0.04], [0.0, -0.1, 0.04], [0.0, 0.0, 0.12]]
)


@pytest.mark.parametrize(
    ("xyz", "why"),
    [
        (np.zeros((5, 3)), "of 5 positions, 5 are all zero"),
        (np.full((5, 3), np.nan), "no channel has a position"),
        (np.full((5, 3), 1e9), "of 5 positions, 5 are more than 2 m from the origin"),
        (np.full((5, 3), np.inf), "of 5 positions, 5 are not finite"),
        (np.full((5, 3), 0.05), "all 5 positions are equal"),
        (ROW * 1e-6, "the positions extend over 2e-07 m, and those on a head over 0.02 to 0.5 m"),
        (ROW * [1, 1, 0], "the positions are in a plane (z is 0), and a head is not"),
    ],
)
def test_impossible_positions_are_refused_with_the_reason(xyz: NDArray[np.float64], why: str) -> None:
    names = ["E1", "E2", "E3", "E4", "E5"]
    found = Positions.from_table(names, xyz, HEAD, "positions of the file")
    assert found.notes == (f"positions of the file are not used: {why}",)
    assert not find_montage(names, found).has_map
    by_name = "0 of 5 channels have names of the 10-20 system"
    assert find_montage(names, found).reason == f"positions of the file are not used: {why}; {by_name}"
    named = locate_channels(["Fp1", "Fp2", "C3", "C4", "Oz"], Positions.from_table(
        ["Fp1", "Fp2", "C3", "C4", "Oz"], xyz, HEAD, "positions of the file"
    ))  # fmt: skip
    assert named.source == "names of the 10-20 system"
    assert named.reason == f"positions of the file are not used: {why}"


def test_single_impossible_positions_are_left_out() -> None:
    names = ["E1", "E2", "E3", "E4", "E5", "EOG", "ECG"]
    xyz = np.vstack([ROW, np.array([[0, 0, 0], [0, 1e9, 0]])])
    found = Positions.from_table(names, xyz, HEAD, "the positions")
    assert found.is_known.tolist() == [True] * 5 + [False] * 2
    assert found.notes == (
        "the positions are used in part: of 7 positions, 1 is all zero, 1 is more than 2 m from the origin",
    )
    assert find_montage(names, found).channels.tolist() == [0, 1, 2, 3, 4]


def test_of_channels_at_one_place_the_first_is_drawn() -> None:
    names = [f"S1_D{i} {w}" for i in range(1, 6) for w in (760, 850)]
    found = find_montage(names, Positions.from_table(names, np.repeat(ROW, 2, axis=0), HEAD, "probe"))
    assert found.channels.tolist() == [0, 2, 4, 6, 8]


def test_positions_are_equal_by_value() -> None:
    one = Positions.from_table(["a", "b"], [[0, 0, 0.1], [np.nan] * 3], HEAD, "x")
    assert one == Positions.from_table(["a", "b"], [[0, 0, 0.1], [np.nan] * 3], HEAD, "x")
    assert one != Positions.from_table(["a", "b"], [[0, 0, 0.1], [0, 0, 0.2]], HEAD, "x")
    assert len({one, one.pick([0, 1])}) == 1
