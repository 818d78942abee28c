"""Each decision of a reader is a note: in `inspect`, in the log of `batch`, in the output and in its report."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.commands import Command


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(300, 3))
    rows = [";".join(f"{v:.3f}".replace(".", ",") for v in row) for row in x]
    path = tmp_path / "in.csv"
    path.write_text("\n".join(["a;b;c", *rows, ""]))
    return path


def test_strict_inspection_exits_with_1_where_there_is_a_note(
    igbss: Command, noted: Path, tmp_path: Path
) -> None:
    result = igbss("inspect", noted, "--rate", "100", "--strict")
    assert result.exit_code == 1
    assert "note: the comma is taken as the decimal mark" in result.output
    assert igbss("inspect", noted, "--rate", "100").exit_code == 0
    assert igbss("inspect", noted, "--strict").exit_code == 1  # refused: no rate
    plain = tmp_path / "plain.csv"
    plain.write_text(noted.read_text().replace(",", "."))
    assert igbss("inspect", plain, "--rate", "100", "--strict", "--json").exit_code == 0


def test_notes_are_in_the_log_the_output_and_the_report(
    igbss: Command, noted: Path, tmp_path: Path
) -> None:
    note, output = "the comma is taken as the decimal mark", tmp_path / "out.h5"
    options = ("--rate", "100", "--structure", "systematic", "--report", "-o", output)
    result = igbss("batch", noted, *options)
    assert result.exit_code == 0, result.output
    assert note in result.output
    with h5py.File(output) as file:
        assert list(file.attrs["notes"]) == [note]
    assert note in next(tmp_path.glob("*.html")).read_text()
