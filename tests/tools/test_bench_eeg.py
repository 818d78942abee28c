"""The tool that compares methods on a recording of EEG: its measures, against what is known, and the command."""

import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from bench_eeg import main
from click.testing import CliRunner, Result
from eeg_artefacts import ARTEFACTS, list_artefacts, spoil
from eeg_measures import (
    compute_mir,
    compute_pairwise_information,
    estimate_entropy,
    find_largest_correlation,
    match_maps,
    measure_dipoles,
    place_channels,
)
from eeg_methods import METHODS, Decomposer, compute_whitening, count_sources, fit_quietly
from eeg_recording import read_eeg

from igbss_stream._util.electrodes import find_position
from igbss_stream.playback.simulate import Simulation
from tests.realdata import DATA, needs_data

CAP = [
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
    "Oz",
    "O2",
]


def bench(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [*map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve electrodes of the 10-20 system for 24 s, one of them flat."""
    path = tmp_path_factory.mktemp("eeg") / "simulated.h5"
    simulation = Simulation(12, 125.0, seed=3, montage="10-20")
    x = np.column_stack([simulation.block(0, 3000), np.full(3000, 7.0)])
    names = [*simulation.stream("x").channels, "A1"]
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", data=x.astype(np.float32))
        data.attrs.update({"rate": 125.0, "unit": "uV", "channels": names})
    return path


def test_entropies_of_known_densities() -> None:
    rng = np.random.default_rng(0)
    assert estimate_entropy(rng.uniform(0.0, 3.0, 40_000)) == pytest.approx(np.log(3.0), abs=0.02)
    expected = 0.5 * np.log(2.0 * np.pi * np.e)
    assert estimate_entropy(rng.standard_normal(40_000)) == pytest.approx(expected, abs=0.02)
    assert np.isfinite(estimate_entropy(np.round(rng.standard_normal(1000), 1)))  # equal values


def test_information_removed_is_that_of_correlated_gaussians() -> None:
    """Two Gaussian channels with correlation r share -log(1 - r^2) / 2 nats a sample."""
    r, rng = 0.9, np.random.default_rng(1)
    root = np.linalg.cholesky([[1.0, r], [r, 1.0]])
    x = rng.standard_normal((60_000, 2)) @ root.T
    unmixing = np.linalg.inv(root)
    y = x @ unmixing.T
    expected = -0.5 * np.log2(1.0 - r**2) * 250.0 / 1000.0
    assert compute_mir(x, y, unmixing, 250.0) == pytest.approx(expected, rel=0.02)
    assert compute_mir(1e6 * x, y, 1e-6 * unmixing, 250.0) == pytest.approx(expected, rel=0.02)
    assert compute_mir(x, y[:, :1], unmixing[:1], 250.0) is None
    assert compute_pairwise_information(x) == pytest.approx(-0.5 * np.log(1.0 - r**2), rel=0.06)
    assert abs(compute_pairwise_information(y)) < 1e-3  # four standard errors
    assert find_largest_correlation(x) == pytest.approx(r, abs=0.01)


def test_pairwise_information_sees_more_than_correlation() -> None:
    a = np.random.default_rng(2).uniform(-1.0, 1.0, 20_000)
    square = np.column_stack([a, a**2])
    assert find_largest_correlation(square) < 0.02
    assert compute_pairwise_information(square) > 1.0


def test_matched_maps_agree_whatever_their_order_and_sign() -> None:
    maps = np.random.default_rng(3).standard_normal((9, 5))
    assert match_maps(maps, maps[:, [3, 1, 0, 4, 2]] * [-2.0, 1.0, 0.1, -1.0, 5.0]) == pytest.approx(1.0)
    assert match_maps(np.eye(4)[:, :2], np.eye(4)[:, 2:]) == 0.0


def test_the_map_of_a_dipole_is_told_from_one_of_none() -> None:
    """The far field of a dipole in an unbounded medium, which a sphere changes little for a deep radial one."""
    pytest.importorskip("mne")
    positions = {i: 0.095 * p for i, p in enumerate(map(find_position, CAP)) if p is not None}
    assert len(positions) == len(CAP)
    at, moment = np.array([0.0, 0.01, 0.03]), np.array([0.0, 0.3, 1.0])
    away = np.array(list(positions.values())) - at
    dipole = away @ moment / np.linalg.norm(away, axis=1) ** 3
    two = np.where(np.arange(len(CAP)) % 2, 1.0, -1.0)
    left = measure_dipoles(np.column_stack([dipole, two]), positions)
    assert left[0] < 0.05
    assert left[1] > 0.3


def test_an_artefact_is_removed_by_the_true_separation_and_by_no_other() -> None:
    rng = np.random.default_rng(4)
    sources = rng.laplace(size=(5000, 4))
    sources -= sources.mean(axis=0)
    mixing = rng.standard_normal((5, 4))
    positions = {i: p for i, p in enumerate(map(find_position, CAP[:5])) if p is not None}
    blink = spoil(sources @ mixing.T, 125.0, positions, ARTEFACTS[0], seed=1)
    weights = (blink.x - blink.before).T @ blink.wave / (blink.wave @ blink.wave)
    assert weights[:2].min() > weights[2:].max() > 0.0, "frontal electrodes see most of a blink"
    assert weights.max() == pytest.approx(3.0 * np.median(blink.before.std(axis=0)))
    assert blink.left_in > 0.5
    true = np.linalg.inv(np.column_stack([mixing, weights]))
    assert blink.measure_removal(true) < 1e-9
    assert blink.measure_removal(np.eye(5)) > 0.1
    assert [each.name for each in list_artefacts(64.0)] == ["blink", "heart"]


def test_weights_do_not_need_positions() -> None:
    x = np.random.default_rng(5).standard_normal((1000, 6))
    one, again, other = (spoil(x, 125.0, {}, ARTEFACTS[1], seed).x for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    some = spoil(x, 125.0, {0: np.array([-0.6, 0.0, -0.8]), 3: np.array([1.0, 0.0, 0.0])}, ARTEFACTS[1], 1)
    added = (some.x - some.before).std(axis=0)
    assert added[0] > added[1] > added[3], "a channel at an unknown place has a weight between the others"


def test_whitening_and_rank() -> None:
    x = np.random.default_rng(6).standard_normal((4000, 3)) @ np.array(
        [[9.0, 1, 0, 2], [0, 1, 1, 1], [3, 0, 2, 5]]
    )
    x -= x.mean(axis=0)
    assert count_sources(x) == 3
    z = x @ compute_whitening(x, 3).T
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(3), atol=1e-9)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.jit
def test_each_method_separates(name: str) -> None:
    method = METHODS[name]
    if not method.is_installed:
        pytest.skip(f"{method.package} is not installed")
    rng = np.random.default_rng(7)
    x = rng.laplace(size=(4000, 3)) @ rng.standard_normal((3, 3)).T
    x -= x.mean(axis=0)
    rng = np.random.default_rng(7)
    rng.laplace(size=(4000, 3))
    found = np.abs(fit_quietly(method, x, 3)[0] @ rng.standard_normal((3, 3)))
    assert (np.sort(found / found.max(axis=1, keepdims=True), axis=1)[:, 1] < 0.15).all()


@pytest.mark.jit
def test_the_command(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        METHODS, "amica", Decomposer("AMICA (jamica)", METHODS["amica"].fit, "no_such", "jamica")
    )
    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text("Before.\n<!-- eeg simulated.h5 -->\nold\n<!-- end -->\nAfter.\n")
    result = bench(recording, "--methods", "igbss,fastica,amica", "--json", figures, "--page", page)
    assert result.exit_code == 0, result.output
    said = plain(result.output)
    assert "simulated.h5: 12 channels x 3,000 samples at 125 Hz, 12 sources" in said
    assert "left out, bad or flat: A1" in said
    assert "positions of electrodes: 12 of 12: standard ones, by name" in said
    assert "AMICA (jamica) is not installed: pip install jamica" in said
    found = json.loads(figures.read_text())
    assert list(found["methods"]) == ["igbss", "fastica"]
    for values in found["methods"].values():
        assert values["mir"] > 0.5
        assert 0.0 <= values["dipoles_5"] <= values["dipoles_10"] <= 1.0
        assert 0.3 < values["halves"] <= 1.0
        assert values["blink"] < 0.5 * found["left_in"]["blink"]
        assert values["seconds"] > values["seconds"] / values["passes"] > 0.0
    assert found["methods"]["fastica"]["largest_correlation"] < 1e-6
    text = page.read_text()
    assert "old" not in text
    assert f"| {found['methods']['fastica']['mir']:.3f}" in text.replace("*", "")
    assert text.startswith("Before.\n")
    assert text.endswith("<!-- end -->\nAfter.\n")


def test_what_a_file_marks_as_bad_is_left_out(tmp_path: Path) -> None:
    mne = pytest.importorskip("mne")
    x = 1e-5 * np.random.default_rng(8).standard_normal((4, 2000))
    raw = mne.io.RawArray(x, mne.create_info(["Fz", "Cz", "Pz", "Oz"], 100.0, "eeg"), verbose="error")
    raw.info["bads"] = ["Cz"]
    raw.set_annotations(mne.Annotations([2.0], [3.0], ["BAD_jaw"]))
    raw.save(tmp_path / "bad_raw.fif", verbose="error")
    eeg = read_eeg(tmp_path / "bad_raw.fif", 0.0, None)
    assert eeg.channels == ("Fz", "Pz", "Oz")
    assert len(eeg.x) == 1700
    whole = 1e6 * np.delete(x[[0, 2, 3]].T, range(200, 500), axis=0)
    np.testing.assert_allclose(eeg.x, whole - whole.mean(axis=0), atol=1e-4)
    assert eeg.notes[1:] == (
        "left out, bad or flat: Cz",
        "1 stretches that the file marks as bad are left out",
    )
    assert len(read_eeg(tmp_path / "bad_raw.fif", 1.0, 4.0).x) == 200


@needs_data
def test_positions_of_a_file_come_first() -> None:
    pytest.importorskip("mne")
    eeg = read_eeg(DATA / "eeg" / "eeglab_data.set", 1.0, 10.0)
    assert eeg.x.shape == (1280, 32)
    positions, source = place_channels(eeg.path, eeg.channels)
    assert (len(positions), source) == (32, "of the file")
    front, back = (positions[eeg.channels.index(name)] for name in ("FPz", "Oz"))
    assert front[1] > 0.05 > 0 > back[1]
    named = read_eeg(DATA / "eeg" / "test.edf", 1.0, 10.0)
    assert place_channels(named.path, named.channels)[1] == "standard ones, by name"


@needs_data
@pytest.mark.jit
def test_a_real_recording(tmp_path: Path) -> None:
    path, figures = DATA / "hdf5" / "eeg32_128hz.h5", tmp_path / "figures.json"
    options = ["--methods", "igbss,fastica", "--measures", "separation,artefacts", "--seconds", 60]
    result = bench(path, *options, "--json", figures)
    assert result.exit_code == 0, result.output
    found = json.loads(figures.read_text())
    assert found["n_samples"] == 60 * 128
    ours, theirs = found["methods"].values()
    assert abs(ours["mir"] / theirs["mir"] - 1.0) < 0.1
    for values in ours, theirs:
        assert 0.0 < values["information_left"] < 0.1
        assert values["blink"] < 0.7 * found["left_in"]["blink"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["nowhere.h5"], "nowhere.h5' does not exist"),
        (
            ["--methods", "igbss,pca"],
            "must be of igbss, picard, fastica, infomax, amica, with commas. Got 'pca' inst",
        ),
        (
            ["--measures", "blinks"],
            "must be of separation, dipoles, halves, artefacts, with commas. Got 'blinks'",
        ),
        (
            ["--n-sources", "13"],
            "--n-sources must be at most the rank of the channels, 12. Got 13 instead.",
        ),
        (
            ["--seconds", "1"],
            "has 125 samples of 12 channels, too few to compare methods: there must be 240",
        ),
        (["--highpass", "70"], "highpass"),
    ],
)
def test_refused(recording: Path, options: list[str], said: str) -> None:
    result = bench(*(options if options[0] == "nowhere.h5" else [recording, *options]))
    assert result.exit_code == 2
    assert said in plain(result.output)
