"""The command `batch` where samples stand alone: what it writes, from what."""

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import igbss_stream.batch.channels
from igbss_stream import __version__, separate
from igbss_stream.batch.separate import separate_recording
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.cli import main
from igbss_stream.errors import ParameterError
from igbss_stream.files.open import open_recording
from igbss_stream.separation.settings import ModelSettings
from tests.commands import SYSTEMATIC, Command
from tests.published import model_settings
from tests.recordings import (
    NAMES,
    RATE,
    Array,
    assert_equal_to_rounding,
    noise,
    read_output,
    systematic,
    unmixed,
    unmixed_by,
    write_recording,
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_channels", [2, 3, 4, 5, 8])
def test_sources_are_the_channels_unmixed(
    separated: Command, tmp_path: Path, n_channels: int, dtype: str
) -> None:
    x = noise(300, n_channels).astype(dtype)
    separated(write_recording(tmp_path / "in.h5", x))
    output = read_output(tmp_path / "out.h5")
    assert output.sources.shape == (300, n_channels)
    assert output.sources.dtype == np.dtype(dtype)
    assert_equal_to_rounding(output.sources, unmixed_by(output, x), x)
    np.testing.assert_array_equal(output.sources, separate(x).sources)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_channels", [2, 5, 8])
def test_sources_of_a_fixed_structure_are_those_of_the_formula(
    separated: Command, tmp_path: Path, n_channels: int, dtype: str
) -> None:
    x = noise(300, n_channels).astype(dtype)
    separated(write_recording(tmp_path / "in.h5", x), *SYSTEMATIC)
    output = read_output(tmp_path / "out.h5")
    assert sorted(output.datasets) == ["mixing", "sources", "unmixing"]
    np.testing.assert_array_equal(output.mixing, systematic(n_channels))
    np.testing.assert_allclose(output.unmixing, np.linalg.inv(systematic(n_channels)), atol=1e-15)
    assert_equal_to_rounding(output.sources, unmixed(x), x)


def test_output_says_what_it_is(separated: Command, recording: Path, tmp_path: Path) -> None:
    separated(recording)
    output = read_output(tmp_path / "out.h5")
    assert sorted(output.datasets) == [
        "contradictions", "learning", "mean", "mixing", "reliability", "sources", "unmixing",
    ]  # fmt: skip
    assert (output.rate, output.unit) == (RATE, None)  # sources are in standard deviations
    assert output.names["sources"] == ["source-0", "source-1", "source-2", "source-3"]
    assert output.names["mixing"] == output.names["unmixing"] == list(NAMES)
    np.testing.assert_allclose(output.sources.std(axis=0), 1.0)
    np.testing.assert_allclose(output.unmixing, np.linalg.inv(output.mixing), atol=1e-12)
    back = output.sources @ output.mixing.T + output.datasets["mean"]
    np.testing.assert_allclose(back, noise(), atol=1e-12)
    assert output.settings == json.loads(ModelSettings().to_json())
    assert output.attrs["solver"] == "closed-form"
    assert output.transform["name"] == "exp"
    assert output.attrs["igbss_stream_version"] == __version__
    assert (output.attrs["input"], output.attrs["dataset"]) == ("in.h5", "/data")


def test_output_leaves_out_what_the_recording_does_not_say(separated: Command, tmp_path: Path) -> None:
    separated(write_recording(tmp_path / "in.h5", noise()))
    output = read_output(tmp_path / "out.h5")
    assert (output.rate, output.unit) == (None, None)
    assert output.names["mixing"] == ["channel-0", "channel-1", "channel-2", "channel-3"]


def test_summary_tells_what_was_done(separated: Command, recording: Path, tmp_path: Path) -> None:
    line, learning = separated(recording).output.splitlines()
    assert learning.startswith("learned from ")
    assert "reliability" in learning
    for fact in (
        "4 channels",
        "60 samples",
        "0.2 s at 250 Hz",
        "4 sources",
        "closed-form",
        str(tmp_path / "out.h5"),
    ):
        assert fact in line
    assert "left out" not in line


def test_quiet_prints_nothing(separated: Command, recording: Path) -> None:
    assert separated(recording, "--quiet").output == ""


OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "n-sources": ("--n-sources 3 --structure cyclic", {"n_sources": 3, "structure": "cyclic"}),
    "fewer sources": ("--n-sources 3", {"n_sources": 3}),
    "scaling": ("--scaling back-projected", {"scaling": "back-projected"}),
    "latent mass": ("--latent-mass 0.02", {"latent_mass": 0.02}),
    "order": (
        "--structure systematic --order 2 --latent-mass 0.02",
        {"structure": "systematic", "order": 2, "latent_mass": 0.02},
    ),
    "min-max": (
        "--structure systematic --transform min-max",
        {"structure": "systematic", "transform": "min-max"},
    ),
    "closure": (
        "--structure systematic --closure full --solver joint",
        {"structure": "systematic", "closure": "full", "solver": "joint"},
    ),
    "random structure": (
        "--structure random --random-state 5",
        {"structure": "random", "random_state": 5},
    ),
    "random start": (
        "--structure systematic --init random --random-state 6 --solver blocked --max-iter 7",
        {
            "structure": "systematic",
            "init": "random",
            "random_state": 6,
            "solver": "blocked",
            "max_iter": 7,
        },
    ),
    "tol": (
        "--structure systematic --tol 0.1 --solver gradient",
        {"structure": "systematic", "tol": 0.1, "solver": "gradient"},
    ),
}


@pytest.mark.parametrize(("arguments", "parameters"), OPTIONS.values(), ids=OPTIONS)
def test_options_are_the_parameters_of_the_function(
    separated: Command,
    recording: Path,
    tmp_path: Path,
    arguments: str,
    parameters: dict[str, Any],
) -> None:
    separated(recording, *arguments.split())
    output, expected = read_output(tmp_path / "out.h5"), separate(noise(), **parameters)
    np.testing.assert_array_equal(output.sources, expected.sources)
    np.testing.assert_array_equal(output.mixing, expected.mixing)
    np.testing.assert_array_equal(output.unmixing, expected.unmixing)
    assert output.attrs["solver"] == expected.solver
    assert output.settings == json.loads(ModelSettings(**parameters).to_json())
    assert not np.array_equal(output.sources, separate(noise()).sources)


def test_every_parameter_is_an_option() -> None:
    options = {option.name for option in main.commands["batch"].params}
    assert {field.name for field in dataclasses.fields(ModelSettings)} <= options


@pytest.mark.parametrize(
    ("arguments", "transform"),
    [
        ("--scale 2.5", {"name": "exp", "scale": 2.5, "center": None}),
        (
            "--transform min-max --margin 0.5",
            {"name": "min-max", "margin": 0.5, "low": None, "span": None},
        ),
    ],
)
def test_options_of_a_transform_reach_the_settings(
    separated: Command, recording: Path, tmp_path: Path, arguments: str, transform: dict[str, Any]
) -> None:
    separated(recording, *arguments.split())
    assert read_output(tmp_path / "out.h5").settings["transform"] == transform


def by_min_max(x: Array, margin: float = 0.1) -> Array:
    """Return the sources with transform "min-max", from the formula alone."""
    gap = margin * (x.max() - x.min())
    low, span = x.min() - gap, x.max() - x.min() + gap
    return np.asarray(low + span * np.exp(unmixed(np.log((x - low) / span))))


def by_sum(x: Array) -> Array:
    """Return the sources with transform "sum", from the formula alone."""
    return np.asarray(x.mean() * np.exp(unmixed(np.log(x / x.mean()))))


@pytest.mark.parametrize(
    ("arguments", "formula"),
    [
        ("--transform min-max", by_min_max),
        ("--transform min-max --margin 0.5", lambda x: by_min_max(x, 0.5)),
        ("--transform sum", by_sum),
    ],
    ids=["min-max", "min-max with a margin", "sum"],
)
def test_other_transforms_unmix_the_logarithms(
    separated: Command, tmp_path: Path, arguments: str, formula: Callable[[Array], Array]
) -> None:
    x = np.abs(noise(seed=3)) + 0.1
    separated(write_recording(tmp_path / "in.h5", x), *SYSTEMATIC, *arguments.split())
    np.testing.assert_allclose(read_output(tmp_path / "out.h5").sources, formula(x), rtol=1e-12)


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".txt"])
def test_structure_from_a_file(separated: Command, recording: Path, tmp_path: Path, suffix: str) -> None:
    weights = np.random.default_rng(1).uniform(0.5, 1.5, (4, 4))
    path = tmp_path / f"weights{suffix}"
    if suffix == ".npy":
        np.save(path, weights)
    else:
        np.savetxt(path, weights, delimiter="," if suffix == ".csv" else " ")
    separated(recording, "--structure", path)
    output = read_output(tmp_path / "out.h5")
    assert output.attrs["solver"] == "closed-form"
    assert output.settings["structure"] == weights.tolist()
    np.testing.assert_array_equal(output.mixing, weights)
    np.testing.assert_allclose(output.sources, unmixed(noise(), weights), atol=1e-13)


def test_structure_from_a_file_says_how_many_sources(
    separated: Command, recording: Path, tmp_path: Path
) -> None:
    path = tmp_path / "weights.csv"
    path.write_text("1,0\n0,1\n1,2\n2,1\n")
    separated(recording, "--structure", path)
    output = read_output(tmp_path / "out.h5")
    expected = separate(noise(), structure=[[1, 0], [0, 1], [1, 2], [2, 1]])
    np.testing.assert_array_equal(output.sources, expected.sources)
    assert output.sources.shape == (60, 2)


def test_dataset_axis_and_rate(separated: Command, recording: Path, tmp_path: Path) -> None:
    separated(recording)
    expected = read_output(tmp_path / "out.h5").sources
    turned = write_recording(tmp_path / "turned.h5", noise().T, dataset="/raw/adc", rate=1.0)
    separated(turned, "--dataset", "/raw/adc", "--axis", 1, "--rate", 1000, "--overwrite")
    output = read_output(tmp_path / "out.h5")
    np.testing.assert_array_equal(output.sources, expected)
    assert output.rate == 1000.0
    assert output.attrs["dataset"] == "/raw/adc"


LAYOUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "int16": ("<i2", {}),
    "int16, big-endian": (">i2", {}),
    "float32": ("<f4", {}),
    "float32, big-endian": (">f4", {}),
    "float32, gzip": ("<f4", {"compression": "gzip", "shuffle": True}),
    "float32, chunks of one channel": ("<f4", {"chunks": (7, 1)}),
    "float32, chunks of one sample": ("<f4", {"chunks": (1, 4)}),
    "float64": ("<f8", {}),
    "float64, big-endian": (">f8", {}),
    "float64, gzip": ("<f8", {"chunks": (17, 3), "compression": "gzip"}),
    "int32": ("<i4", {}),
    "int64, big-endian": (">i8", {"chunks": (60, 2)}),
}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("dtype", "storage"), LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("transform", ["learned", "exp", "min-max"])
def test_layout_of_the_recording_does_not_matter(
    separated: Command, tmp_path: Path, dtype: str, storage: dict[str, Any], transform: str, axis: int
) -> None:
    x = np.round(1000 * noise())
    stored = x.astype(dtype)
    if axis == 1:
        stored = stored.T
        storage = storage | ({"chunks": storage["chunks"][::-1]} if "chunks" in storage else {})
    path = write_recording(tmp_path / "in.h5", stored, storage=storage)
    options = () if transform == "learned" else (*SYSTEMATIC, "--transform", transform)
    separated(path, "--axis", axis, *options)
    output = read_output(tmp_path / "out.h5")
    sources = output.sources
    wide = dtype in ("<f8", ">f8", "<i4", ">i8")
    assert sources.dtype == (np.float64 if wide else np.float32)
    plain = write_recording(tmp_path / "plain.h5", x.astype(sources.dtype))
    separated(plain, *options, "--overwrite")
    np.testing.assert_array_equal(sources, read_output(tmp_path / "out.h5").sources)
    formulas: dict[str, Callable[[Array], Array]] = {
        "learned": partial(unmixed_by, output), "exp": unmixed, "min-max": by_min_max,
    }  # fmt: skip
    by_formula = formulas[transform](x)
    np.testing.assert_allclose(sources, by_formula, rtol=float(np.finfo(sources.dtype).eps), atol=1e-10)


@pytest.mark.parametrize("block_bytes", [1, 100, 777, 1 << 30])
@pytest.mark.parametrize(
    "options",
    [
        "--transform exp",
        "--structure systematic --transform min-max",
        "--drop-flat",
        "--structure random --random-state 1",
        "--solver joint --window 0.08",
        "--structure systematic --solver joint --window 0.08",
        "--transform min-max --n-sources 3 --structure cyclic --window 0.08",
    ],
)
def test_size_of_the_blocks_does_not_matter(
    monkeypatch: pytest.MonkeyPatch,
    separated: Command,
    recording: Path,
    tmp_path: Path,
    options: str,
    block_bytes: int,
) -> None:
    separated(recording, *options.split())
    expected = (tmp_path / "out.h5").read_bytes()
    monkeypatch.setattr(igbss_stream.batch.channels, "BLOCK_BYTES", block_bytes)
    separated(recording, *options.split(), "--overwrite")
    assert (tmp_path / "out.h5").read_bytes() == expected


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--structure random",
        "--n-sources 3 --structure cyclic",
        "--structure systematic --solver joint --init random",
    ],
)
def test_second_run_writes_the_same_bytes(
    igbss: Command, recording: Path, tmp_path: Path, options: str
) -> None:
    for name in "first.h5", "second.h5":
        result = igbss("batch", recording, "-o", tmp_path / name, "--random-state", 0, *options.split())
        assert result.exit_code == 0, result.output
    assert (tmp_path / "first.h5").read_bytes() == (tmp_path / "second.h5").read_bytes()


def test_overwrite_replaces_the_output(separated: Command, recording: Path, tmp_path: Path) -> None:
    (tmp_path / "out.h5").write_text("older")
    separated(recording, "--overwrite")
    np.testing.assert_array_equal(read_output(tmp_path / "out.h5").sources, separate(noise()).sources)


def test_partial_file_of_a_killed_run_is_no_obstacle(
    separated: Command, recording: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.h5.partial").write_bytes(b"left behind" * 1000)
    separated(recording)
    np.testing.assert_array_equal(read_output(tmp_path / "out.h5").sources, separate(noise()).sources)


def test_flat_channels_are_left_out_on_request(separated: Command, tmp_path: Path) -> None:
    x = noise(60, 5)
    x[:, [1, 3]] = 7.0, 0.0
    path = write_recording(tmp_path / "in.h5", x, channels=["a", "b", "c", "d", "e"])
    line = separated(path, "--drop-flat").output
    assert "left out" in line
    assert "b, d" in line
    assert "3 channels" in line
    output = read_output(tmp_path / "out.h5")
    assert output.names["mixing"] == output.names["unmixing"] == ["a", "c", "e"]
    np.testing.assert_array_equal(output.sources, separate(x[:, [0, 2, 4]]).sources)


def test_option_to_leave_out_flat_channels_changes_nothing_where_there_are_none(
    separated: Command, recording: Path, tmp_path: Path
) -> None:
    line = separated(recording, "--drop-flat").output
    assert "left out" not in line
    output = read_output(tmp_path / "out.h5")
    assert output.names["mixing"] == list(NAMES)
    np.testing.assert_array_equal(output.sources, separate(noise()).sources)


@pytest.mark.parametrize(
    ("settings", "phases"),
    [
        (model_settings(), ["separating"]),
        (model_settings(transform="min-max"), ["surveying", "separating"]),
        (model_settings(solver="joint"), ["surveying", "separating"]),
    ],
)
def test_progress_reaches_the_end_of_each_pass(
    monkeypatch: pytest.MonkeyPatch,
    recording: Path,
    tmp_path: Path,
    settings: ModelSettings,
    phases: list[str],
) -> None:
    monkeypatch.setattr(igbss_stream.batch.channels, "BLOCK_BYTES", 700)
    reported: dict[str, list[tuple[int, int]]] = {}
    with open_recording(recording) as source:
        outcome = separate_recording(
            source,
            tmp_path / "out.h5",
            BatchSettings(model=settings, window=20 / RATE),
            progress=lambda doing, done, total: reported.setdefault(doing, []).append((done, total)),
        )
    assert list(reported) == phases
    for steps in reported.values():
        assert len(steps) > 2
        assert steps == sorted(set(steps))
        assert steps[-1] == (60, 60)
    assert (outcome.n_samples, outcome.n_channels, outcome.n_sources, outcome.rate) == (60, 4, 4, RATE)


def test_window_of_one_sample_is_refused(recording: Path, tmp_path: Path) -> None:
    with (
        open_recording(recording) as source,
        pytest.raises(ParameterError, match=r"window must be at least 2 samples"),
    ):
        separate_recording(
            source, tmp_path / "out.h5", BatchSettings(model=model_settings(), window=1 / RATE)
        )
    assert not (tmp_path / "out.h5").exists()
