"""Positions of the 10-20 system, compared with the montages of MNE."""

import mne
import numpy as np
import pytest

from igbss_stream._util import electrodes


@pytest.mark.parametrize("montage", ["biosemi64", "easycap-M1"])
def test_positions_agree_with_idealised_caps(montage: str) -> None:
    # these montages have the ring through Fpz and Oz 92 degrees from the vertex; the 10-20 system has 72
    montages = mne.channels.make_standard_montage(montage).get_positions()["ch_pos"]
    shared = [name for name in electrodes.list_names() if name in montages]
    assert len(shared) > 60
    theirs = np.array([montages[name] for name in shared])
    angle = 72 / 92 * np.arccos(theirs[:, 2] / np.linalg.norm(theirs, axis=1))
    turn = np.arctan2(theirs[:, 1], theirs[:, 0])
    theirs = np.column_stack([np.sin(angle) * np.cos(turn), np.sin(angle) * np.sin(turn), np.cos(angle)])
    ours = np.array([*electrodes.find_positions(shared).values()])
    apart = np.degrees(np.arccos(np.clip(np.sum(ours * theirs, axis=1), -1, 1)))
    assert np.median(apart) < 0.1
    # between the midline and the ring, the system is interpreted in different ways
    assert apart.max() < 4.0


def test_names_are_recognised_as_files_spell_them() -> None:
    for name, plain in (
        ("EEG Fp1", "Fp1"),
        ("fc5.", "FC5"),
        ("F3-REF", "F3"),
        ("T3", "T7"),
        (" EEG O2-LE ", "O2"),
    ):
        assert np.array_equal(electrodes.find_positions([name])[0], electrodes.find_positions([plain])[0])
    assert electrodes.find_positions(["E1", "EOG1", "Fp1", "0", ""]).keys() == {2}


def test_few_electrodes_cover_the_head() -> None:
    assert electrodes.pick_spread(8) == ("Fp1", "Fp2", "C3", "C4", "P7", "P8", "O1", "O2")
    for n in range(2, len(electrodes.list_names()) + 1):
        names = electrodes.pick_spread(n)
        assert len(set(names)) == n
        assert len(electrodes.find_positions(names)) == n


def test_projection_preserves_the_angle_from_the_vertex() -> None:
    flat = electrodes.project_from_above(
        np.array([*electrodes.find_positions(["Cz", "Fpz", "T8", "Nz"]).values()])
    )
    np.testing.assert_allclose(flat, np.array([[0, 0], [0, 0.8], [0.8, 0], [0, 1]]), atol=1e-12)
