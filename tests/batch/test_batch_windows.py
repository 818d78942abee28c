"""The command `batch` where a fit is needed: windows, and what it says of each."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import igbss_stream.batch.channels
from igbss_stream import separate
from igbss_stream.errors import IgbssWarning
from igbss_stream.model.poset import make_incidence
from igbss_stream.separation.transform import Exp, MinMax, Transform
from tests import reference
from tests.commands import SYSTEMATIC, Command, Refusal
from tests.recordings import Output, noise, read_output, write_recording

FITTED: dict[str, tuple[str, dict[str, Any]]] = {
    "fewer sources": ("--n-sources 3 --structure systematic", {"n_sources": 3, "structure": "systematic"}),
    "cyclic": ("--n-sources 3 --structure cyclic", {"n_sources": 3, "structure": "cyclic"}),
    "latent mass": (
        "--structure systematic --latent-mass 0.02",
        {"structure": "systematic", "latent_mass": 0.02},
    ),
    "solver": ("--structure systematic --solver joint", {"structure": "systematic", "solver": "joint"}),
    "min-max": (
        "--structure systematic --n-sources 2 --transform min-max",
        {"structure": "systematic", "n_sources": 2, "transform": "min-max"},
    ),
}
# Windows of these are not learned from alone.
LEARNED: dict[str, tuple[str, dict[str, Any]]] = {
    "learned, latent mass": ("--latent-mass 0.02", {"latent_mass": 0.02}),
    "learned, solver": ("--solver joint", {"solver": "joint"}),
}


def fitted_transform(output: Output) -> Transform:
    """Return the transform that a run used, with its state, from what it wrote."""
    state = dict(output.transform)
    kinds: dict[str, type[Transform]] = {"exp": Exp, "min-max": MinMax}
    return kinds[state.pop("name")](**state)


@pytest.mark.parametrize(
    ("arguments", "parameters"), [*FITTED.values(), *LEARNED.values()], ids=[*FITTED, *LEARNED]
)
@pytest.mark.filterwarnings("ignore::igbss_stream.errors.IgbssWarning")
def test_one_window_is_the_separation_of_the_whole(
    separated: Command, recording: Path, tmp_path: Path, arguments: str, parameters: dict[str, Any]
) -> None:
    separated(recording, *arguments.split())
    output, expected = read_output(tmp_path / "out.h5"), separate(noise(), **parameters)
    np.testing.assert_array_equal(output.sources, expected.sources)
    np.testing.assert_array_equal(output.mixing, expected.mixing)
    np.testing.assert_array_equal(output.unmixing, expected.unmixing)
    assert output.attrs["solver"] == expected.solver == "joint"
    assert output.fits.dtype.names == ("start", "n_samples", "n_iter", "kl", "kl_row", "converged")
    assert output.fits.tolist() == [(0, 60, expected.n_iter, expected.kl[-1], 0, True)]
    np.testing.assert_array_equal(output.fits_kl, expected.kl)


def windows(fits: NDArray[Any]) -> list[tuple[int, int]]:
    """Return (start, end) of each window."""
    return [(int(fit["start"]), int(fit["start"] + fit["n_samples"])) for fit in fits]


@pytest.mark.parametrize(("arguments", "parameters"), FITTED.values(), ids=FITTED)
@pytest.mark.parametrize("window", [5, 7, 12, 41])
@pytest.mark.filterwarnings("ignore::igbss_stream.errors.IgbssWarning")
def test_windows_follow_each_other_and_are_fitted_alone(
    separated: Command,
    recording: Path,
    tmp_path: Path,
    arguments: str,
    parameters: dict[str, Any],
    window: int,
) -> None:
    separated(recording, *arguments.split(), "--window", window / 250)
    output = read_output(tmp_path / "out.h5")
    cut = windows(output.fits)
    assert [start for start, _ in cut] == [0] + [end for _, end in cut[:-1]]
    assert cut[-1][1] == 60
    lengths = [end - start for start, end in cut]
    periods = len(make_incidence(parameters["structure"], 4, parameters.get("n_sources")))
    assert max(lengths) <= 1.5 * window + periods
    assert len(set(lengths[:-1])) <= 1
    same = parameters | {"transform": fitted_transform(output)}
    for fit, (start, end) in zip(output.fits, cut, strict=True):
        assert start % periods == 0
        expected = separate(noise()[start:end], **same)
        np.testing.assert_array_equal(output.sources[start:end], expected.sources)
        assert (fit["n_iter"], fit["kl"]) == (expected.n_iter, expected.kl[-1])
        assert fit["converged"] == expected.converged
        last = fit["kl_row"] + fit["n_iter"]
        np.testing.assert_array_equal(output.fits_kl[fit["kl_row"] : last + 1], expected.kl)
    assert len(output.fits_kl) == last + 1


@pytest.mark.parametrize("solver", ["joint", "blocked"])
def test_divergence_of_each_iteration_is_that_of_the_dense_model(
    separated: Command, tmp_path: Path, solver: str
) -> None:
    """The reference lists all states of the sample space, and solves with the whole of its matrices."""
    x = np.abs(noise(11, 3)) + 0.1
    write_recording(tmp_path / "in.h5", x, rate=250.0)
    arguments = f"--structure systematic --transform sum --latent-mass 0.1 --window 0.024 --solver {solver} --max-iter 7"
    separated(tmp_path / "in.h5", *arguments.split())
    output = read_output(tmp_path / "out.h5")
    assert windows(output.fits) == [(0, 6), (6, 11)]
    dense_of = {"joint": reference.joint_iterates, "blocked": reference.blocked_iterates}[solver]
    for fit, (start, stop) in zip(output.fits, windows(output.fits), strict=True):
        weights = reference.systematic(3, 3)
        poset = reference.Poset(3, 3, stop - start, 1, "strict", weights.reshape(-1, 3, 3))
        p_hat = reference.target(poset, x[start:stop], 0.1)
        n_iter, first = int(fit["n_iter"]), int(fit["kl_row"])
        dense = dense_of(poset, p_hat, np.zeros(3 * 3 + (stop - start) * 3), n_iter)
        assert n_iter > 2
        wanted = [iterate.kl for iterate in dense]
        np.testing.assert_allclose(
            output.fits_kl[first : first + n_iter + 1], wanted, rtol=1e-9, atol=1e-12
        )


FEW_STEPS = "--structure systematic --n-sources 3 --init random --random-state 0 --max-iter 3"


@pytest.mark.parametrize(
    "option",
    [
        "--structure cyclic",
        "--order 2",
        "--transform min-max",
        "--scale 5",
        "--closure full",
        "--solver blocked",
        "--latent-mass 0.2",
        "--init zero",
        "--random-state 1",
        "--max-iter 2",
        "--tol 1e9",
        "--window 0.1",
    ],
)
def test_every_option_has_an_effect_on_a_fit(
    separated: Command, recording: Path, tmp_path: Path, option: str
) -> None:
    separated(recording, *FEW_STEPS.split())
    without = read_output(tmp_path / "out.h5").sources
    separated(recording, *FEW_STEPS.split(), *option.split(), "--overwrite")
    assert np.abs(read_output(tmp_path / "out.h5").sources - without).max() > 1e-3


@pytest.mark.jit
def test_size_of_the_blocks_does_not_matter_for_a_median_over_some_of_the_samples(
    monkeypatch: pytest.MonkeyPatch, separated: Command, tmp_path: Path
) -> None:
    path = write_recording(tmp_path / "in.h5", noise(700_000, 4).astype(np.float32))
    states = []
    for block_bytes in 1 << 22, 1_234_567:
        monkeypatch.setattr(igbss_stream.batch.channels, "BLOCK_BYTES", block_bytes)
        separated(path, "--solver", "joint", "--tol", 1e9, "--overwrite")
        states.append(read_output(tmp_path / "out.h5").transform)
    assert states[0] == states[1]
    np.testing.assert_allclose(states[0]["center"], 0.0, atol=0.01)


def test_default_window_is_4096_samples(separated: Command, tmp_path: Path) -> None:
    path = write_recording(tmp_path / "in.h5", noise(9000, 2, seed=1))
    separated(path, "--solver", "joint", "--max-iter", 1, "--tol", 1e9)
    assert windows(read_output(tmp_path / "out.h5").fits) == [(0, 4500), (4500, 9000)]


def test_incidence_of_every_period_is_written(separated: Command, recording: Path, tmp_path: Path) -> None:
    separated(recording, "--n-sources", 3, "--structure", "cyclic")
    output = read_output(tmp_path / "out.h5")
    expected = np.ones((4, 4, 3))
    for period in range(4):
        for source in range(3):
            expected[period, (3 * period + source) % 4, source] = 0.0
    np.testing.assert_array_equal(output.mixing, expected)
    np.testing.assert_allclose(output.unmixing, np.linalg.pinv(expected), atol=1e-14)
    assert output.names["sources"] == ["source-0", "source-1", "source-2"]


def test_fit_that_does_not_converge_is_a_warning(
    separated: Command, recording: Path, tmp_path: Path
) -> None:
    said = separated(
        recording, "--n-sources", 3, "--structure", "cyclic", "--max-iter", 1, "--window", 20 / 250
    ).output
    assert "Warning: 3 of 3 windows did not converge" in said
    assert "/fits" in said
    assert "--max-iter" in said
    fits = read_output(tmp_path / "out.h5").fits
    assert fits["converged"].tolist() == [False] * 3
    assert fits["n_iter"].tolist() == [1] * 3


def test_some_windows_that_do_not_converge_are_counted(
    separated: Command, recording: Path, tmp_path: Path
) -> None:
    options = ("--n-sources", 3, "--structure", "cyclic", "--window", 8 / 250)
    separated(recording, *options)
    iterations = read_output(tmp_path / "out.h5").fits["n_iter"]
    limit = int(np.median(iterations))
    said = separated(recording, *options, "--max-iter", limit, "--overwrite").output
    failed = int(np.sum(iterations > limit))
    assert 0 < failed < len(iterations)
    assert f"{failed} of {len(iterations)} windows" in said
    converged = read_output(tmp_path / "out.h5").fits["converged"]
    assert converged.tolist() == (iterations <= limit).tolist()


def test_quiet_leaves_warnings_out_of_its_silence(separated: Command, recording: Path) -> None:
    said = separated(recording, *SYSTEMATIC, "--quiet", "--n-sources", 2, "--max-iter", 1).output
    first, second = said.splitlines()
    assert first.startswith("Warning: ")
    assert "rows 2, 3" in first
    assert second.startswith("Warning: 1 of 1 windows did not converge")


def test_structure_that_cannot_tell_channels_apart_is_a_warning(
    separated: Command, recording: Path, tmp_path: Path
) -> None:
    said = separated(recording, *SYSTEMATIC, "--n-sources", 2).output
    warning = said.splitlines()[0]
    assert warning.startswith("Warning: ")
    assert "does not distinguish channels" in warning
    assert "rows 2, 3" in warning
    assert ".py" not in said
    assert read_output(tmp_path / "out.h5").sources.shape == (60, 2)


def test_settings_and_state_of_the_transform_are_written(
    separated: Command, recording: Path, tmp_path: Path
) -> None:
    separated(recording, *SYSTEMATIC, "--solver", "joint", "--latent-mass", 0.05, "--scale", 2.0)
    output = read_output(tmp_path / "out.h5")
    assert output.settings["latent_mass"] == 0.05
    assert output.settings["transform"] == {"name": "exp", "scale": 2.0, "center": None}
    assert output.transform == {
        "name": "exp",
        "scale": 2.0,
        "center": np.median(noise(), axis=0).tolist(),
    }
    json.dumps(output.transform, allow_nan=False)


@pytest.mark.parametrize(
    "factor",
    [
        1e6,
        1e-19,
        1e-200,
        1e200,
    ],
)
def test_unit_of_the_recording_does_not_matter(
    separated: Command, recording: Path, tmp_path: Path, factor: float
) -> None:
    options = ("--n-sources", 3, "--structure", "cyclic", "--overwrite")
    separated(recording, *options)
    expected = read_output(tmp_path / "out.h5").sources
    separated(write_recording(tmp_path / "other.h5", noise() * factor), *options)
    np.testing.assert_allclose(read_output(tmp_path / "out.h5").sources / factor, expected, atol=1e-7)


def test_window_needs_a_rate(refused: Refusal, separated: Command, tmp_path: Path) -> None:
    path = write_recording(tmp_path / "in.h5", noise())
    options = ("--n-sources", 3, "--structure", "cyclic", "--window", 0.1)
    said = refused("batch", path, "-o", tmp_path / "out.h5", *options)
    assert "--window is in seconds" in said
    assert "pass --rate" in said
    separated(path, *options, "--rate", 200)
    assert windows(read_output(tmp_path / "out.h5").fits) == [(0, 20), (20, 40), (40, 60)]


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "-1", "0.001"])
def test_window_that_cannot_be(refused: Refusal, recording: Path, tmp_path: Path, seconds: str) -> None:
    assert "window" in refused(
        "batch", recording, "-o", tmp_path / "out.h5", "--solver", "joint", "--window", seconds
    )


def test_window_of_more_samples_than_a_number_can_count(
    igbss: Command, recording: Path, tmp_path: Path
) -> None:
    result = igbss("batch", recording, "-o", tmp_path / "out.h5", "--solver", "joint", "--window", "1e308")
    assert result.exit_code in (0, 2)


@pytest.mark.parametrize("n_samples", [59, 60, 61])
@pytest.mark.parametrize("options", ["--solver joint", "--n-sources 3 --structure cyclic"])
def test_smallest_windows_cover_every_sample(
    separated: Command, tmp_path: Path, n_samples: int, options: str
) -> None:
    path = write_recording(tmp_path / "in.h5", noise(n_samples), rate=1.0)
    separated(path, "--window", 2, *options.split())
    output = read_output(tmp_path / "out.h5")
    cut = windows(output.fits)
    assert [sample for start, end in cut for sample in range(start, end)] == list(range(n_samples))
    assert output.fits["converged"].all()
    assert np.isfinite(output.sources).all()


def test_window_longer_than_the_recording_is_the_recording(
    separated: Command, recording: Path, tmp_path: Path
) -> None:
    separated(recording, "--solver", "joint", "--window", 1e6)
    assert windows(read_output(tmp_path / "out.h5").fits) == [(0, 60)]


def test_warning_comes_once_however_many_windows(separated: Command, recording: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always", IgbssWarning)
        said = separated(recording, *SYSTEMATIC, "--n-sources", 2, "--window", 4 / 250).output
    assert said.count("Warning:") == 1
