"""`batch` over many recordings: all are tried, and each result is reported."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igbss_stream.batch import job as jobs
from igbss_stream.batch.separate import separate_recording
from igbss_stream.cli import console
from tests.commands import SYSTEMATIC, Command, Refusal, assert_says, contents
from tests.recordings import RATE, noise, read_output, write_recording

NAMES = ["a.h5", "bad.h5", "sub/c.h5"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two good recordings and one with a NaN."""
    (tmp_path / "in" / "sub").mkdir(parents=True)
    for seed, name in enumerate(NAMES):
        x = noise(seed=seed)
        if name.startswith("bad"):
            x[7, 2] = np.nan
        write_recording(tmp_path / "in" / name, x, rate=RATE)
    return tmp_path / "in"


def outputs(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in contents(folder))


def test_bad_file_stops_nothing_and_is_told_at_the_end(
    igbss: Command, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = igbss("batch", folder, "-o", f"{out}/{{path}}.h5")
    assert result.exit_code == 2
    assert outputs(out) == ["a.h5", "sub/c.h5"]
    table = result.stdout.splitlines()
    assert table[0].split() == ["file", "status", "channels", "samples", "sources", "seconds", "x", "real", "time", "message"]  # fmt: skip
    assert [line.split()[1] for line in table[1:4]] == ["done", "failed", "done"]
    assert_says(table[2], "bad.h5", "1 samples are NaN", "from sample 7")
    assert_says(table[4], "3 recordings: 2 done, 0 skipped, 1 failed in ")
    assert_says(result.stderr, "1 of 3: ", "a.h5: done (", "2 of 3: ", "3 of 3: ")


def test_output_of_each_is_that_of_a_run_of_its_own(igbss: Command, folder: Path, tmp_path: Path) -> None:
    igbss("batch", folder, "-o", f"{tmp_path}/out/{{path}}.h5")
    for name in "a.h5", "sub/c.h5":
        assert igbss("batch", folder / name, "-o", tmp_path / "one.h5", "--overwrite").exit_code == 0
        assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_good_files_alone_give_code_0(igbss: Command, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "list").write_text(f"{folder}/sub\n")
    result = igbss("batch", folder / "a.h5", "--list", tmp_path / "list", "-o", f"{tmp_path}/out/")
    assert result.exit_code == 0, result.output
    assert outputs(tmp_path / "out") == ["a.h5", "c.h5"]


def test_second_run_does_not_take_outputs_for_recordings(igbss: Command, folder: Path) -> None:
    for more in [], ["--overwrite"]:
        result = igbss("batch", folder, "-o", f"{folder}/out-{{stem}}.h5", *more)
        assert "3 recordings: 2 done, 0 skipped, 1 failed" in result.stdout


def test_one_file_may_go_into_a_folder_that_is_made(igbss: Command, folder: Path, tmp_path: Path) -> None:
    result = igbss("batch", folder / "a.h5", "-o", f"{tmp_path}/new/er/")
    assert result.exit_code == 0
    assert_says(result.stdout, "4 channels x 60 samples", "new/er/a.h5")
    assert read_output(tmp_path / "new" / "er" / "a.h5").sources.shape == (60, 4)


def test_quiet_tells_errors_alone(igbss: Command, folder: Path, tmp_path: Path) -> None:
    result = igbss("batch", folder, "-o", f"{tmp_path}/out/", "-q")
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert_says(result.stderr, "Error: ", "bad.h5: 1 samples are NaN")


def as_rows(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    if path.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(text)))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    rows: list[dict[str, Any]] = json.loads(text)["files"]
    return rows


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl"])
def test_summary_for_programs(igbss: Command, folder: Path, tmp_path: Path, ending: str) -> None:
    summary = tmp_path / f"summary.{ending}"
    assert igbss("batch", folder, "-o", f"{tmp_path}/out/", "--summary", summary, "-q").exit_code == 2
    rows = as_rows(summary)
    assert [row["status"] for row in rows] == ["done", "failed", "done"]
    assert [row["input"] for row in rows] == [str(folder / name) for name in NAMES]
    assert rows[2]["output"] == str(tmp_path / "out" / "c.h5")
    assert [str(rows[0][key]) for key in ("n_channels", "n_samples", "n_sources", "rate")] == ["4", "60", "4", "250.0"]  # fmt: skip
    assert "NaN" in rows[1]["message"]
    assert not rows[1]["n_samples"]
    assert float(rows[0]["speed"]) == pytest.approx(60 / RATE / float(rows[0]["seconds"]), rel=0.05)


def test_summary_that_cannot_be(refused: Refusal, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("mine")
    batch = ("batch", folder, "-o", f"{tmp_path}/out/", "--summary")
    assert_says(refused(*batch, tmp_path / "old.csv"), "old.csv", "already exists", "--overwrite")
    assert_says(refused(*batch, tmp_path / "new.xml"), "new.xml", ".csv, .json, .jsonl")
    assert_says(refused(*batch, tmp_path / "no" / "new.csv"), "no directory")
    (folder / "text.csv").write_text("1,2\n")
    text = ("batch", folder / "text.csv", "-o", tmp_path / "out.h5", "--overwrite", "--summary")
    assert_says(refused(*text, folder / "text.csv"), "text.csv", "is one of the recordings")


@pytest.mark.parametrize("inputs", [["in"], ["in/*.h5"], ["in/a.h5", "in/sub/c.h5"]])
def test_many_need_more_than_a_plain_name(
    refused: Refusal, folder: Path, monkeypatch: pytest.MonkeyPatch, inputs: list[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    assert_says(refused("batch", *inputs, "-o", "out.h5"), "'out.h5' is one file", "{stem}")


def test_input_must_be_named(igbss: Command, tmp_path: Path) -> None:
    result = igbss("batch", "-o", tmp_path / "out.h5")
    assert result.exit_code == 2
    assert_says(result.output, "Missing argument 'INPUT...'")


def breaking(at: int, error: BaseException) -> Any:
    """Return what separates recordings until one raises."""
    calls = []

    def separate(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == at:
            raise error
        return separate_recording(*args, **options)

    return separate


def test_fault_of_the_program_gives_code_1_and_a_trace(
    igbss: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "separate_recording", breaking(1, ZeroDivisionError("oh")))
    result = igbss("batch", folder, "-o", f"{tmp_path}/out/")
    assert result.exit_code == 1
    assert outputs(tmp_path / "out") == ["c.h5"]
    assert_says(result.stdout, "ZeroDivisionError: oh", "1 done, 0 skipped, 2 failed")
    assert_says(result.stderr, "Fault of the program in", "Traceback", "a.h5")


def test_interrupt_tells_what_was_done(
    igbss: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "separate_recording", breaking(2, KeyboardInterrupt()))
    summary = tmp_path / "summary.json"
    result = igbss("batch", folder, "-o", f"{tmp_path}/out/", "--summary", summary)
    assert result.exit_code == 130
    assert_says(result.stdout, "a.h5", "3 recordings: 1 done, 0 skipped, 0 failed, 2 not started")
    assert [row["status"] for row in as_rows(summary)] == ["done"]
    assert outputs(tmp_path / "out") == ["a.h5"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_shows_bars_and_a_table(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from igbss_stream.batch.inputs import find_recordings
    from igbss_stream.batch.outputs import plan_outputs
    from igbss_stream.batch.settings import BatchSettings
    from igbss_stream.cli.batch_many import ManyRun, separate_many
    from tests.published import model_settings

    screen, bars = Terminal(), Terminal()
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", bars)
    write_recording(folder / "[red]x.h5", noise())
    found = find_recordings([str(folder)])
    settings = BatchSettings(model=model_settings())
    todo = [
        jobs.Job(input=item.path, output=place, settings=settings, make_folders=True)
        for item, place in zip(found, plan_outputs(f"{tmp_path}/out/", found), strict=True)
    ]
    assert separate_many(ManyRun(jobs=todo, model_per="file", folder=tmp_path)) == 2
    assert_says(screen.getvalue(), "x real time", "[red]x.h5", "4 recordings: 3 done")
    assert "recordings 4 of 4" in bars.getvalue()


def test_bar_of_the_current_file_tells_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    bars = Terminal()
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", bars)
    with console.files_progress(False, 2) as progress:
        report = progress.begin("[b]a.h5")
        assert report is not None
        report("surveying", 30, 60)
        progress.end("done")
    assert_says(bars.getvalue(), "[b]a.h5: surveying", "50%", "recordings 1 of 2")


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", " =", "\t="])
def test_a_spreadsheet_takes_no_name_for_a_formula(
    igbss: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: str
) -> None:
    name = f"{begins}cmd|' !A1.h5"
    monkeypatch.chdir(tmp_path)
    x = noise()
    x[:, 1] = 0  # is left out, and named
    for one in name, "other.h5":
        write_recording(Path(one), x, rate=RATE, channels=("a", "-2+3", "c", "d"))
    result = igbss(
        "batch",
        "--drop-flat",
        "-o",
        "out/{stem}.h5",
        "--summary",
        "sum.csv",
        *SYSTEMATIC,
        "--",
        "other.h5",
        name,
    )
    assert result.exit_code == 0, result.output
    rows = as_rows(Path("sum.csv"))
    assert [row["input"] for row in rows] == ["other.h5", f"'{name}"]
    assert {row["left_out"] for row in rows} == {"'-2+3"}
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.strip().startswith(("=", "+", "-", "@"))]
