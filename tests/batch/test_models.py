"""Models learned once and applied to many, one a file, or one a group of files."""

import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream.batch import shared_models
from igbss_stream.files.writers.recording_layout import GAP
from tests.commands import SYSTEMATIC, Command, Refusal, assert_says, contents
from tests.recordings import RATE, Array, read_output, write_recording

LEARN = "--structure learned"
# Its state, where zero lies and the range, is cheap to learn, and is taken from all samples as well.
SHARED = "--transform min-max"
NAMES = ["a", "b", "c"]


def mixture(n_samples: int = 600, n_channels: int = 3, seed: int = 0) -> Array:
    """Return channels that mix sources by the same weights, whatever the seed."""
    sources = np.random.default_rng(seed).laplace(size=(n_samples, n_channels))
    return np.asarray(
        sources @ (np.eye(n_channels) + np.random.default_rng(99).normal(size=(n_channels, n_channels)))
    )


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Return the recording that a model is learned from."""
    (tmp_path / "in").mkdir()
    return write(tmp_path / "in" / "first.h5", mixture())


@pytest.fixture
def model(first: Path, tmp_path: Path, igbss: Command) -> Path:
    """Return the output of the run that made the model."""
    result = igbss("batch", first, "-o", tmp_path / "first.h5", *SHARED.split())
    assert result.exit_code == 0, result.output
    return tmp_path / "first.h5"


def write(path: Path, x: Array, **attrs: Any) -> Path:
    facts: dict[str, Any] = {"rate": RATE, "unit": "uV", "channels": NAMES} | attrs
    return write_recording(path, x, **facts)


def applied(igbss: Command, recording: Path, model: Path, *options: object) -> Any:
    """Apply a model to a recording; return the output."""
    output = recording.with_name("applied-" + recording.name)
    result = igbss("batch", recording, "-o", output, "--model", model, "--overwrite", *options)
    assert result.exit_code == 0, result.output
    return read_output(output)


KINDS = {
    "fitted in windows": "--transform min-max --solver joint --window 0.4",
    "another matrix each sample": "--structure cyclic --n-sources 2 --window 0.4",
    "random, without a seed": "--structure random",
    "sum, latent mass": "--transform sum --latent-mass 0.01 --window 0.4",
    "learned": LEARN,
    "learned, min-max": f"{LEARN} --transform min-max",
    "learned, back-projected": f"{LEARN} --scaling back-projected",
    "learned, fitted": f"{LEARN} --latent-mass 0.01 --window 0.4",
}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(value, id=key, marks=[pytest.mark.jit] if LEARN in value else [])
        for key, value in KINDS.items()
    ],
)
def test_model_gives_the_sources_of_the_run_that_made_it(
    igbss: Command, tmp_path: Path, options: str
) -> None:
    recording = write(tmp_path / "in.h5", np.abs(mixture(300)) + 0.1)
    words = options.split()
    assert igbss("batch", recording, "-o", tmp_path / "out.h5", *words).exit_code == 0
    output, expected = (
        applied(igbss, recording, tmp_path / "out.h5", *words),
        read_output(tmp_path / "out.h5"),
    )
    assert set(output.datasets) == set(expected.datasets)
    for name, data in expected.datasets.items():
        np.testing.assert_array_equal(output.datasets[name], data)
    for name in "settings", "transform", "solver", "input_unit":
        assert output.attrs[name] == expected.attrs[name]


@pytest.mark.jit
def test_an_output_names_what_its_model_was_made_of(igbss: Command, model: Path, tmp_path: Path) -> None:
    reported = [{"file": "first.h5", "recordings": ["first.h5"], "n_recordings": 1}]
    second = write(tmp_path / "in" / "second.h5", mixture(seed=1))
    assert json.loads(applied(igbss, second, model).attrs["model"]) == reported[0]
    # handed on twice, it is still of the first recording
    third, handed = write(tmp_path / "third.h5", mixture(seed=2)), tmp_path / "in" / "applied-second.h5"
    reported.append(reported[0] | {"file": handed.name})
    assert json.loads(applied(igbss, third, handed).attrs["model"]) == reported[1]
    assert "model" not in read_output(model).attrs
    for n in range(4):
        write(tmp_path / "in" / f"{n}.h5", mixture(seed=n))
    handed.unlink()
    words = (tmp_path / "in", "-o", f"{tmp_path}/out/", "--model-per", "all", *SHARED.split())
    result = igbss("batch", *words)
    assert result.exit_code == 0, result.output
    shared = json.loads(read_output(tmp_path / "out" / "0.h5").attrs["model"])
    assert shared == {
        "file": "model-all.h5",
        "recordings": ["0.h5", "1.h5", "2.h5"],
        "n_recordings": 6,
    }


@pytest.mark.jit
def test_model_unmixes_another_recording(igbss: Command, first: Path, tmp_path: Path) -> None:
    igbss("batch", first, "-o", tmp_path / "first.h5", *LEARN.split())
    x, model = mixture(500, seed=5), read_output(tmp_path / "first.h5")
    output = applied(igbss, write(tmp_path / "later.h5", x), tmp_path / "first.h5", *LEARN.split())
    expected = (x - model.datasets["mean"]) @ model.unmixing.T
    np.testing.assert_allclose(output.sources, expected, atol=1e-12)
    np.testing.assert_array_equal(output.mixing, model.mixing)


def test_channels_in_another_order_are_put_in_order(igbss: Command, model: Path, tmp_path: Path) -> None:
    turned = write(tmp_path / "turned.h5", mixture()[:, [2, 0, 1]], channels=["c", "a", "b"])
    output = applied(igbss, turned, model)
    np.testing.assert_array_equal(output.sources, read_output(model).sources)
    assert output.names["mixing"] == NAMES


UNFIT: dict[str, tuple[list[str], str, list[str]]] = {
    "missing": (["a", "b", "x"], "uV", ["c is missing", "x is not in the model", "--channels"]),
    "more": (["a", "b", "c", "d"], "uV", ["d is not in the model"]),
    "unit": (NAMES, "V", ["in V", "in uV", "--factor"]),
}


@pytest.mark.parametrize(("channels", "unit", "words"), UNFIT.values(), ids=UNFIT)
def test_recording_that_does_not_go_with_the_model(
    refused: Refusal, model: Path, tmp_path: Path, channels: list[str], unit: str, words: list[str]
) -> None:
    x = mixture(200, n_channels=len(channels))
    recording = write(tmp_path / "other.h5", x, channels=channels, unit=unit)
    message = refused("batch", recording, "-o", tmp_path / "out.h5", "--model", model)
    assert_says(message, *words)


def test_bad_samples_are_refused_and_flat_channels_told(
    igbss: Command, refused: Refusal, model: Path, tmp_path: Path
) -> None:
    x = mixture()[:200]
    x[:, 1] = 0.1
    recording = write(tmp_path / "in.h5", x)
    batch = ("batch", recording, "-o", tmp_path / "out.h5", "--model", model)
    assert_says(igbss(*batch).output, "Warning: b is flat")
    x[9, 0] = np.inf
    write(recording, x)
    assert_says(refused(*batch, "--overwrite"), "1 samples are NaN or infinite", "a has 1")


def test_options_that_contradict_the_model(
    refused: Refusal, first: Path, model: Path, tmp_path: Path
) -> None:
    batch = ("batch", first, "-o", tmp_path / "out.h5", "--model", model)
    assert_says(refused(*batch, "--structure", "cyclic"), "--structure", "'learned'", "leave the option")
    assert_says(refused(*batch, "--scale", 2), "--scale", "transform 'min-max'")
    assert_says(refused(*batch, "--model-per", "all"), "--model-per all", "--model")
    itself = ("batch", first, "-o", f"{tmp_path}/", "--model", model, "--overwrite")
    assert_says(refused(*itself), "first.h5", "is --model itself")


PREPARED = ("--bandpass", "2:40", "--notch", 50, "--reference", "c", "--resample", 125)


def test_model_brings_how_its_samples_were_prepared(
    igbss: Command, refused: Refusal, first: Path, tmp_path: Path
) -> None:
    result = igbss("batch", first, "-o", tmp_path / "out.h5", "--transform", "min-max", *PREPARED)
    assert result.exit_code == 0, result.output
    expected, output = read_output(tmp_path / "out.h5"), applied(igbss, first, tmp_path / "out.h5")
    assert output.rate == 125.0
    assert output.attrs["preparation"] == expected.attrs["preparation"]
    np.testing.assert_array_equal(output.sources, expected.sources)
    other = ("batch", first, "-o", tmp_path / "x.h5", "--model", tmp_path / "out.h5")
    assert_says(refused(*other, "--bandpass", "2:45"), "--bandpass", "lowpass 40.0", "leave the option out")
    assert_says(refused(*other, "--resample", 250), "--resample", "resample 125.0")


def test_group_is_learned_from_prepared_samples(igbss: Command, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for n in range(2):
        x = mixture(seed=n)
        x[:, 1] = 0.0  # flat, and no part of the reference
        write(tmp_path / "in" / f"{n}.h5", x + np.array([10.0 * n, 0.0, 0.0]))
    prepared = ("--reference", "average", "--highpass", 1, "--drop-flat")
    options = (*SYSTEMATIC, "--transform", "min-max", *prepared)
    result = igbss("batch", tmp_path / "in", "-o", f"{tmp_path}/out/", *options, "--model-per", "all")
    assert result.exit_code == 0, result.output
    shared = read_output(tmp_path / "out" / "0.h5")
    assert shared.names["mixing"] == ["a", "c"]
    own = []
    for n in range(2):
        igbss("batch", tmp_path / "in" / f"{n}.h5", "-o", tmp_path / f"own{n}.h5", *options)
        low, span = (read_output(tmp_path / f"own{n}.h5").transform[key] for key in ("low", "span"))
        own.append((low + 0.1 * span / 1.1, low + span))  # the extremes of the samples, less the margin
    low, high = min(pair[0] for pair in own), max(pair[1] for pair in own)
    span = 1.1 * (high - low)
    assert shared.transform["span"] == pytest.approx(span, rel=1e-12)
    assert shared.transform["low"] == pytest.approx(high - span, rel=1e-12)


def test_what_is_no_model(refused: Refusal, first: Path, model: Path, tmp_path: Path) -> None:
    batch = ("batch", first, "-o", tmp_path / "out.h5", "--model")
    assert_says(refused(*batch, first), "first.h5", "not written by `igbss-stream batch`")
    assert_says(refused(*batch, tmp_path / "gone.h5"), "gone.h5", "does not exist")
    with h5py.File(model, "r+") as file:
        described = file.attrs["settings"]
        learned = described.replace('"systematic"', '"learned"').replace('"min-max"', '"exp"')
        file.attrs["settings"] = learned.replace('"order": 1', '"order": 2')
    assert_says(refused(*batch, model), "order 2", "cannot be applied to other recordings")
    with h5py.File(model, "r+") as file:
        file.attrs["settings"] = "[]"
    assert_says(refused(*batch, model), "first.h5", "cannot be read")


@pytest.fixture
def kinds(tmp_path: Path) -> Path:
    """Return a folder with recordings of two kinds, one of them turned, and a bad one."""
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.h5", mixture(seed=1))
    write(tmp_path / "in" / "b.h5", mixture(seed=2)[:, ::-1].astype(np.float32), channels=NAMES[::-1])
    write(tmp_path / "in" / "c.h5", mixture(seed=3)[:, :2], channels=NAMES[:2])
    bad = mixture(seed=4)
    bad[3, 1] = np.nan
    write(tmp_path / "in" / "d.h5", bad)
    return tmp_path / "in"


def joined(kinds: Path) -> Array:
    """Return the recordings of the first kind as one, as a reader on its own has them."""
    with h5py.File(kinds / "a.h5") as a, h5py.File(kinds / "b.h5") as b:
        return np.concatenate([a["data"][()], b["data"][()][:, ::-1].astype(np.float64)])


@pytest.mark.jit
@pytest.mark.parametrize("options", [SHARED, pytest.param(LEARN, marks=pytest.mark.jit)])
def test_group_learns_what_its_files_in_one_would(
    igbss: Command, kinds: Path, tmp_path: Path, options: str
) -> None:
    out = tmp_path / "out"
    result = igbss("batch", kinds, "-o", f"{out}/", *options.split(), "--model-per", "group")
    assert result.exit_code == 2
    assert_says(result.stdout, "3 done, 0 skipped, 1 failed", "1 samples are NaN")
    models = sorted(path.name for path in out.glob("model-*"))
    assert [name[:16] for name in models] == ["model-2ch-250hz-", "model-3ch-250hz-"]
    assert sorted(path.name for path in out.iterdir()) == ["a.h5", "b.h5", "c.h5", *models]
    whole = write(tmp_path / "whole.h5", joined(kinds))
    with h5py.File(whole, "r+") as file:
        file["gaps"] = np.array([(600, 600, 0, b"restart")], GAP)
    assert igbss("batch", whole, "-o", tmp_path / "whole-out.h5", *options.split()).exit_code == 0
    expected = read_output(tmp_path / "whole-out.h5")
    with h5py.File(out / models[1]) as file:
        np.testing.assert_array_equal(file["mixing"], expected.mixing)
        assert file.attrs["transform"] == expected.attrs["transform"]
        assert list(file.attrs["learned_from"]) == ["a.h5", "b.h5"]
    parts = [read_output(out / name).sources for name in ("a.h5", "b.h5")]
    np.testing.assert_array_equal(parts[0], expected.sources[:600])
    assert parts[1].dtype == np.float32
    np.testing.assert_allclose(parts[1], expected.sources[600:], rtol=1e-5, atol=1e-5)


def test_all_share_one_model_or_are_told_why_not(igbss: Command, kinds: Path, tmp_path: Path) -> None:
    write(kinds / "e.h5", mixture(seed=1), rate=500.0)
    result = igbss("batch", kinds, "-o", f"{tmp_path}/out/", *SHARED.split(), "--model-per", "all")
    assert result.exit_code == 2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.h5", "b.h5", "model-all.h5"]
    rows = {Path(line.split()[0]).name: line for line in result.stdout.splitlines()[1:-1]}
    assert_says(rows["c.h5"], "failed", "cannot share the model", "c is missing", "--model-per group")
    assert_says(rows["e.h5"], "failed", "rate is 500.0, not 250.0")


@pytest.mark.parametrize("per", ["group", "all"])
def test_recordings_of_a_model_that_is_learned_are_not_read_for_it_again(
    igbss: Command, kinds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per: str
) -> None:
    batch = ("batch", kinds, "-o", f"{tmp_path}/out/", *SHARED.split(), "--model-per", per, "--resume")
    igbss(*batch)
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "a.h5").unlink()
    (tmp_path / "out" / "model-all.h5.partial").touch()
    read = []

    def checked(job: Any, watch: Any) -> Any:
        read.append(job.input.name)
        return groups_check_recording(job, watch)

    groups_check_recording = shared_models._check_recording
    monkeypatch.setattr(shared_models, "_check_recording", checked)
    result = igbss(*batch)
    # With one model for all, the recording that cannot share it may be one that is new: all are looked at.
    assert read == (["d.h5"] if per == "group" else ["c.h5", "d.h5", "a.h5", "b.h5", "c.h5", "d.h5"])
    assert "1 done" in result.stdout
    (tmp_path / "out" / "model-all.h5.partial").unlink(missing_ok=True)
    assert contents(tmp_path / "out") == before


def test_recordings_that_look_alike_are_read(igbss: Command, kinds: Path, tmp_path: Path) -> None:
    for name in "d.h5", "c.h5":
        (kinds / name).unlink()
    (kinds / "other").mkdir()
    write(kinds / "other" / "a.h5", mixture(seed=7))
    for path in kinds / "a.h5", kinds / "other" / "a.h5":
        os.utime(path, ns=(1, 1))
    batch = ("batch", kinds, "-o", f"{tmp_path}/out/{{parent}}-{{stem}}.h5", *SHARED.split())
    group = (*batch, "--model-per", "group", "--resume")
    assert igbss(*group).exit_code == 0
    before = contents(tmp_path / "out")
    assert "0 done, 3 skipped" in igbss(*group).stdout
    assert contents(tmp_path / "out") == before


@pytest.mark.jit
def test_group_is_resumed(igbss: Command, kinds: Path, tmp_path: Path) -> None:
    (kinds / "d.h5").unlink()
    batch = ("batch", kinds, "-o", f"{tmp_path}/out/", *SHARED.split(), "--model-per", "group", "--resume")
    assert igbss(*batch).exit_code == 0
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "b.h5").unlink()
    model = next((tmp_path / "out").glob("model-3ch*"))
    model_made = model.stat().st_mtime_ns
    assert "1 done, 2 skipped" in igbss(*batch).stdout
    assert contents(tmp_path / "out") == before
    assert model.stat().st_mtime_ns == model_made
    write(kinds / "f.h5", mixture(seed=6))
    result = igbss(*batch)
    assert "0 done, 1 skipped, 3 failed" in result.stdout
    assert_says(result.stdout, model.name, "differs from what would be written now", "input", "--overwrite")
    assert "3 done, 1 skipped" in igbss(*batch, "--overwrite").stdout


def test_flat_channels_make_groups_of_their_own(igbss: Command, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for n in range(3):
        x = mixture(300, 4, seed=n)
        x[:, 2] = 0.0 if n else x[:, 2]
        write(tmp_path / "in" / f"{n}.h5", x, channels=[*NAMES, "d"])
    batch = ("batch", tmp_path / "in", "-o", f"{tmp_path}/out/", *SHARED.split(), "--model-per", "group")
    result = igbss(*batch, "--drop-flat")
    assert result.exit_code == 0, result.output
    assert read_output(tmp_path / "out" / "0.h5").names["mixing"] == [*NAMES, "d"]
    mixings = [read_output(tmp_path / "out" / f"{n}.h5") for n in (1, 2)]
    assert mixings[0].names["mixing"] == ["a", "b", "d"]
    np.testing.assert_array_equal(mixings[0].mixing, mixings[1].mixing)


def test_group_that_cannot_be_learned_fails_alone(igbss: Command, kinds: Path, tmp_path: Path) -> None:
    for name in "a.h5", "b.h5":
        write(kinds / name, np.abs(mixture()))
    batch = ("batch", kinds, "-o", f"{tmp_path}/out/", "--transform", "sum", "--model-per", "group")
    result = igbss(*batch)
    assert_says(result.stdout, "2 done, 0 skipped, 2 failed", "needs samples >= 0")
    assert not list((tmp_path / "out").glob("*2ch*"))


def test_products_are_not_shared(refused: Refusal, kinds: Path, tmp_path: Path) -> None:
    batch = ("batch", kinds, "-o", f"{tmp_path}/out/", *LEARN.split(), "--model-per", "group")
    assert_says(
        refused(*batch, "--order", 2),
        "--model-per group",
        "order 2",
        "cannot be applied to other recordings",
    )
