"""Options and outputs that cannot be: the thing, its value and the remedy are named; nothing is left."""

from pathlib import Path

import numpy as np
import pytest

from tests.commands import Command, Refusal, assert_says, contents
from tests.recordings import noise, read_output, write_recording


def test_more_sources_than_channels(batch_refused: Refusal, recording: Path) -> None:
    message = batch_refused(recording, "--n-sources", 9)
    assert_says(message, "n_sources", "at most the number of channels, 4", "9")


def test_more_sources_than_channels_that_are_not_flat(batch_refused: Refusal, tmp_path: Path) -> None:
    x = noise()
    x[:, 0] = 1.0
    path = write_recording(tmp_path / "in.h5", x)
    assert_says(batch_refused(path, "--drop-flat", "--n-sources", 4), "n_sources", "3")


@pytest.mark.parametrize(
    ("output", "ends"), [("out.edf", "edf"), ("o/{stem}.CSV", "CSV"), ("o/{name}", "vhdr")]
)
def test_an_output_that_is_called_as_another_format(
    refused: Refusal, recording: Path, tmp_path: Path, output: str, ends: str
) -> None:
    path = recording.rename(tmp_path / "in.vhdr")  # formats are detected by content
    message = refused("batch", path, "--output", tmp_path / output)
    assert_says(message, f".{ends}", "batch writes HDF5", ".h5'", "`igbss-stream export`")
    assert list(tmp_path.iterdir()) == [path]


STRUCTURES: dict[str, tuple[str, list[str]]] = {
    "equal columns": (
        "1,1,0,0\n0,0,1,0\n1,1,0,1\n1,1,1,1\n",
        ["columns 0 and 1 are equal", "lower n_sources"],
    ),
    "columns that are equal up to a factor": (
        "1,0,2\n0,1,0\n1,1,2\n1,1,2\n",
        ["columns 0 and 2 are equal", "up to a factor", "Change one of them"],
    ),
    "columns that depend on each other": ("1,0,1\n0,1,1\n1,0,1\n0,1,1\n", ["3 columns have rank 2"]),
    "a row too few": ("1,0\n0,1\n1,1\n", ["4 channels", "(3, 2)"]),
    "more columns than rows": (
        "1,0,0,0,1\n0,1,0,0,1\n0,0,1,0,1\n0,0,0,1,1\n",
        ["between 1 and 4 columns", "5"],
    ),
    "a negative weight": ("1,0\n0,-2\n1,1\n1,1\n", ["weights >= 0", "-2", "row 1, column 1"]),
    "a weight that is not finite": ("1,0\n0,1\n1,nan\n1,1\n", ["finite", "nan", "row 2, column 1"]),
    "a column of zeros": ("1,0\n1,0\n1,0\n1,0\n", ["column 1", "reaches no channel"]),
    "words": ("a,b\nc,d\n", ["weights.csv", "cannot be read as a matrix"]),
    "rows of unequal length": ("1,0\n0\n", ["weights.csv", "cannot be read as a matrix"]),
}


@pytest.mark.parametrize(("text", "words"), STRUCTURES.values(), ids=STRUCTURES)
def test_structure_in_a_file(
    batch_refused: Refusal, recording: Path, tmp_path: Path, text: str, words: list[str]
) -> None:
    (tmp_path / "weights.csv").write_text(text)
    message = batch_refused(recording, "--structure", tmp_path / "weights.csv")
    assert_says(message, *words)


@pytest.mark.parametrize("name", ["nothing.csv", "nothing.npy", "folder.txt", "damaged.npy"])
def test_structure_in_a_file_that_cannot_be_read(
    batch_refused: Refusal, recording: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "damaged.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{")
    message = batch_refused(recording, "--structure", tmp_path / name)
    assert_says(message, "--structure", name, "cannot be read as a matrix")


@pytest.mark.parametrize(
    "name",
    [
        "empty.csv",
        "empty.npy",
        "complex.npy",
        "words.npy",
    ],
)
def test_structure_in_a_file_that_holds_no_real_numbers(
    batch_refused: Refusal, recording: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "empty.npy").touch()
    np.save(tmp_path / "complex.npy", 1j + np.eye(4))
    np.save(tmp_path / "words.npy", np.full((4, 4), "a"))
    assert_says(batch_refused(recording, "--structure", tmp_path / name), "structure", "matrix")


def test_structure_in_a_file_and_another_number_of_sources(
    batch_refused: Refusal, recording: Path, tmp_path: Path
) -> None:
    (tmp_path / "weights.csv").write_text("1,0\n0,1\n1,1\n2,1\n")
    message = batch_refused(recording, "--structure", tmp_path / "weights.csv", "--n-sources", 3)
    assert_says(message, "n_sources = 3", "2")


MISTAKEN: dict[str, list[str]] = {
    "--transform foo": ["transform", "'foo'", "exp, min-max, sum"],
    "--solver foo": ["solver", "'foo'", "auto, closed-form, joint, blocked, gradient"],
    "--structure foo": ["structure", "'foo'", "systematic, cyclic, random"],
    "--closure foo": ["closure", "'foo'", "strict, full"],
    "--init foo": ["init", "'foo'", "zero, random"],
    "--n-sources 0": ["n_sources", "0", ">= 1"],
    "--n-sources -1": ["n_sources", "-1", ">= 1"],
    "--order 0": ["order", "0", "between 2 and n_sources = 4", "For order 1"],
    "--order 5": ["order", "5", "between 2 and n_sources = 4", "For order 1"],
    "--structure systematic --order 0": ["order", "0", "between 1 and the number of sources, 4"],
    "--structure systematic --order 5": ["order", "5", "between 1 and the number of sources, 4"],
    "--latent-mass 1": ["latent_mass", "1.0", "[0, 1)"],
    "--latent-mass nan": ["latent_mass", "nan", "[0, 1)"],
    "--tol -1": ["tol", "-1.0", "[0, inf)"],
    "--max-iter 0": ["max_iter", "0", ">= 1"],
    "--scale 0": ["scale", "0.0", "above 0"],
    "--scale nan": ["scale", "nan", "above 0"],
    "--scale 1 --transform min-max": ["--scale", "transform exp", "min-max"],
    "--margin 1": ["--margin", "transform min-max", "exp"],
    "--margin -1 --transform min-max": ["margin", "-1.0", "above 0"],
    "--rate 0": ["rate", "0.0", "positive"],
    "--rate nan": ["rate", "nan", "positive"],
    "--axis 2": ["axis", "2", "0 or 1"],
    "--solver closed-form --latent-mass 0.1": ["solver 'closed-form'", "0.1", "solver 'joint'"],
    "--structure systematic --solver closed-form --n-sources 3": [
        "solver 'closed-form'",
        "3",
        "solver 'joint'",
    ],
}


@pytest.mark.parametrize(("options", "words"), MISTAKEN.items(), ids=MISTAKEN)
@pytest.mark.filterwarnings("ignore::igbss_stream.errors.IgbssWarning")
def test_option_that_cannot_be(
    batch_refused: Refusal, recording: Path, options: str, words: list[str]
) -> None:
    assert_says(batch_refused(recording, *options.split()), *words)


@pytest.mark.parametrize("options", ["--structure random", "--init random --solver joint"])
def test_negative_seed(batch_refused: Refusal, recording: Path, options: str) -> None:
    message = batch_refused(recording, *options.split(), "--random-state", -1)
    assert_says(message, "random_state", "-1", ">= 0")


def test_option_that_is_no_number(igbss: Command, recording: Path, tmp_path: Path) -> None:
    result = igbss("batch", recording, "-o", tmp_path / "out.h5", "--rate", "fast")
    assert result.exit_code == 2
    assert_says(result.output, "--rate", "'fast'", "float", "--help")


def test_output_must_be_named(igbss: Command, recording: Path) -> None:
    result = igbss("batch", recording)
    assert result.exit_code == 2
    assert_says(result.output, "Missing option", "--output")


def test_output_that_exists(refused: Refusal, recording: Path, tmp_path: Path) -> None:
    (tmp_path / "out.h5").write_text("older")
    message = refused("batch", recording, "-o", tmp_path / "out.h5")
    assert_says(message, "out.h5", "already exists", "--overwrite")


def test_older_output_stays_when_the_new_one_fails(refused: Refusal, tmp_path: Path) -> None:
    (tmp_path / "out.h5").write_text("older")
    x = noise()
    x[59, 2] = np.nan
    path = write_recording(tmp_path / "in.h5", x)
    refused("batch", path, "-o", tmp_path / "out.h5", "--overwrite")


@pytest.mark.parametrize("through", ["name", "link"])
def test_output_that_is_the_input(refused: Refusal, recording: Path, tmp_path: Path, through: str) -> None:
    output = recording
    if through == "link":
        output = tmp_path / "link.h5"
        output.symlink_to(recording)
    message = refused("batch", recording, "-o", output, "--overwrite")
    assert_says(message, output.name, "is the input", "choose another output")


def test_folder_of_the_output_is_missing(refused: Refusal, recording: Path, tmp_path: Path) -> None:
    message = refused("batch", recording, "-o", tmp_path / "new" / "out.h5")
    assert_says(message, "out.h5", "no directory", "create it")


@pytest.mark.parametrize("output", [".", "", "/"])
def test_output_that_is_a_folder(refused: Refusal, recording: Path, output: str) -> None:
    assert_says(refused("batch", recording, "-o", output), "is a directory", "add a file name")


def test_file_that_cannot_be_inspected(refused: Refusal, tmp_path: Path) -> None:
    (tmp_path / "notes.h5").write_text("no recording")
    assert_says(refused("inspect", tmp_path / "nothing.h5"), "nothing.h5", "does not exist", "check")
    assert_says(refused("inspect", tmp_path / "notes.h5"), "notes.h5", "not an HDF5 file", "convert")


def test_mixture_too_short_to_demonstrate(refused: Refusal) -> None:
    assert_says(refused("demo", "--samples", 1), "--samples", "at least 50", "1")


def test_negative_seed_of_the_demonstration(refused: Refusal) -> None:
    assert_says(refused("demo", "--seed", -1), "--seed", "-1")


def test_good_run_after_a_bad_one(
    refused: Refusal, separated: Command, recording: Path, tmp_path: Path
) -> None:
    refused("batch", recording, "-o", tmp_path / "out.h5", "--n-sources", 9)
    assert list(contents(tmp_path)) == [recording]
    separated(recording)
    assert read_output(tmp_path / "out.h5").sources.shape == (60, 4)
