"""`--resume`: what is complete is kept, what is not is done, and the end is that of a run without a break."""

import random
import subprocess
import time
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest

from igbss_stream.files.writers.locking import claim
from tests.commands import Command, Refusal, Spawn, assert_says, contents
from tests.recordings import RATE, noise, read_output, write_recording
from tests.waiting import until

LONGEST = 600  # seconds that a run may take here
# The command has loaded all that it runs by when it says so: a kill then falls into its work.
UP = "import igbss_stream.cli.batch_many, igbss_stream.separation.structure_fit; print('up', flush=True)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with three recordings."""
    (tmp_path / "in").mkdir()
    for n in range(3):
        write_recording(tmp_path / "in" / f"r{n}.h5", noise(seed=n), rate=RATE)
    return tmp_path / "in"


@pytest.fixture
def batch(igbss: Command, folder: Path, tmp_path: Path) -> Command:
    return lambda *options: igbss("batch", folder, "-o", f"{tmp_path}/out/", *options)


def statuses(output: str) -> list[str]:
    return [line.split()[1] for line in output.splitlines()[1:-1]]


def test_complete_outputs_are_skipped_and_missing_ones_made(batch: Command, tmp_path: Path) -> None:
    batch()
    before = contents(tmp_path / "out")
    made = {path: path.stat().st_mtime_ns for path in before}
    (tmp_path / "out" / "r1.h5").unlink()
    result = batch("--resume")
    assert result.exit_code == 0
    assert statuses(result.stdout) == ["skipped", "done", "skipped"]
    assert result.stdout.splitlines()[1].split()[2:5] == ["4", "60", "4"]
    assert contents(tmp_path / "out") == before
    assert [path.stat().st_mtime_ns == then for path, then in made.items()].count(False) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--transform", "min-max"], ["settings.model.transform", '"exp"', '"min-max"']),
        (["--drop-flat"], ["settings.drop_flat was false, is true"]),
        (["--rate", 500], ["wanted.rate was null, is 500.0"]),
        (["--structure", "random", "--random-state", 1], ["settings.model.structure", "random_state"]),
    ],
)
def test_output_made_in_another_way_is_not_taken(
    batch: Command, tmp_path: Path, options: list[object], words: list[str]
) -> None:
    batch()
    before = contents(tmp_path / "out")
    result = batch("--resume", *options)
    assert result.exit_code == 2
    assert statuses(result.stdout) == ["failed"] * 3
    assert_says(result.stdout, *words, "--overwrite")
    assert contents(tmp_path / "out") == before
    assert statuses(batch("--resume", "--overwrite", *options).stdout) == ["done"] * 3
    assert statuses(batch("--resume", *options).stdout) == ["skipped"] * 3


def test_recording_that_changed_is_not_skipped(batch: Command, folder: Path, tmp_path: Path) -> None:
    batch()
    write_recording(folder / "r1.h5", noise(70), rate=RATE)
    result = batch("--resume")
    assert statuses(result.stdout) == ["skipped", "failed", "skipped"]
    assert_says(result.stdout, "input.size was", "input.mtime_ns was", "--overwrite")
    assert statuses(batch("--resume", "--overwrite").stdout) == ["skipped", "done", "skipped"]
    assert read_output(tmp_path / "out" / "r1.h5").sources.shape == (70, 4)


def test_recordings_and_outputs_may_be_moved(
    batch: Command, igbss: Command, folder: Path, tmp_path: Path
) -> None:
    batch()
    folder.rename(tmp_path / "there")
    (tmp_path / "out").rename(tmp_path / "sources")
    result = igbss("batch", tmp_path / "there", "-o", f"{tmp_path}/sources/", "--resume")
    assert statuses(result.stdout) == ["skipped"] * 3


def test_what_holds_the_samples_beside_a_head_counts_too(tmp_path: Path) -> None:
    from igbss_stream.batch.resume import fingerprint_file

    (tmp_path / "a.vhdr").write_text("head")
    (tmp_path / "a.eeg").write_bytes(b"1234")
    before = fingerprint_file(tmp_path / "a.vhdr")
    assert before["beside"][0]["name"] == "a.eeg"
    (tmp_path / "a.eeg").write_bytes(b"12345")
    assert fingerprint_file(tmp_path / "a.vhdr") != before


@pytest.mark.parametrize(
    ("name", "beside"),
    [("a.mff", "a.mff/signal1.bin"), ("a.lay", "a.dat"), ("a.cdt", "a.cdt.dpa"), ("a.hea", "a.atr")],
)
def test_fingerprints_include_the_other_files_of_a_recording(
    tmp_path: Path, name: str, beside: str
) -> None:
    from igbss_stream.batch.resume import fingerprint_file

    (tmp_path / name).mkdir() if name == "a.mff" else (tmp_path / name).touch()
    (tmp_path / beside).write_bytes(b"1")
    before = fingerprint_file(tmp_path / name)
    (tmp_path / beside).write_bytes(b"12")
    assert fingerprint_file(tmp_path / name) != before


@pytest.mark.parametrize("what", ["text", "other HDF5", "older version"])
def test_file_that_does_not_say_what_it_is_made_of(batch: Command, tmp_path: Path, what: str) -> None:
    batch()
    output = tmp_path / "out" / "r1.h5"
    if what == "text":
        output.write_text("mine")
    elif what == "other HDF5":
        write_recording(output, noise())
    else:
        with h5py.File(output, "r+") as file:
            del file.attrs["job"]
    before = output.read_bytes()
    result = batch("--resume")
    assert statuses(result.stdout) == ["skipped", "failed", "skipped"]
    assert_says(result.stdout, "r1.h5", "differs from what would be written now", "--overwrite")
    assert output.read_bytes() == before


def test_what_killed_runs_left_is_taken_over_or_removed(batch: Command, tmp_path: Path) -> None:
    batch()
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "r1.h5").unlink()
    for name in "r0.h5.partial", "r1.h5.partial":
        (tmp_path / "out" / name).write_bytes(b"left behind" * 1000)
    assert statuses(batch("--resume").stdout) == ["skipped", "done", "skipped"]
    assert contents(tmp_path / "out") == before


def test_output_that_another_run_is_writing_is_left_to_it(batch: Command, tmp_path: Path) -> None:
    batch()
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "r1.h5").unlink()
    for name in "r0.h5.partial", "r1.h5.partial":
        (tmp_path / "out" / name).touch()
    with claim(tmp_path / "out" / "r1.h5.partial"), claim(tmp_path / "out" / "r0.h5.partial"):
        result = batch("--resume")
        assert result.exit_code == 2
        assert statuses(result.stdout) == ["skipped", "failed", "skipped"]
        assert "is being written by another run" in result.stdout
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
            "r0.h5", "r0.h5.partial", "r1.h5.partial", "r2.h5",
        ]  # fmt: skip
    assert statuses(batch("--resume").stdout) == ["skipped", "done", "skipped"]
    assert contents(tmp_path / "out") == before


def test_one_file_is_resumed_as_well(
    igbss: Command, refused: Refusal, recording: Path, tmp_path: Path
) -> None:
    batch = ("batch", recording, "-o", tmp_path / "out.h5", "--resume")
    assert "4 channels x 60 samples" in igbss(*batch).stdout
    assert igbss(*batch).stdout == f"skipped: {tmp_path}/out.h5 is complete\n"
    assert_says(refused(*batch, "--order", 2), "out.h5", "settings.model.order was 1, is 2", "--overwrite")


def run_to_its_end(process: "subprocess.Popen[str]") -> float:
    """Wait for a run; return the seconds that its work took."""
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    began = time.monotonic()
    out, err = process.communicate(timeout=LONGEST)
    assert process.returncode == 0, out + err
    return time.monotonic() - began


def is_at_work(process: "subprocess.Popen[str]", folder: Path) -> bool:
    """Whether a run writes an output, or has ended."""
    return any(folder.glob("*.partial")) or process.poll() is not None


@pytest.mark.parametrize(
    ("n_files", "n_kills", "per"),
    [
        pytest.param(3, 2, "group", marks=pytest.mark.jit),
        pytest.param(20, 30, "file", marks=pytest.mark.slow),
        pytest.param(20, 30, "group", marks=pytest.mark.slow),
    ],
)
def test_killed_at_any_moment(spawn: Spawn, tmp_path: Path, n_files: int, n_kills: int, per: str) -> None:
    (tmp_path / "in").mkdir()
    rng = np.random.default_rng(0)
    for n in range(n_files):
        x = rng.laplace(size=(6000, 6)) @ rng.normal(size=(6, 6))
        write_recording(tmp_path / "in" / f"r{n:02d}.h5", x[:, : 6 - n % 2], rate=RATE)
    out, whole = tmp_path / "out", tmp_path / "whole"
    options = (
        "--structure",
        "learned",
        "--latent-mass",
        0.05,
        "--window",
        4,
        "--model-per",
        per,
        "--resume",
    )

    def start(folder: Path) -> "subprocess.Popen[str]":
        return spawn("batch", tmp_path / "in", "-o", f"{folder}/", *options, before=UP)

    seconds = run_to_its_end(start(whole))
    expected = {path.name: path.read_bytes() for path in whole.iterdir()}
    assert len(expected) == n_files + (2 if per == "group" else 0)
    while_working = 0
    for kill in range(n_kills):
        process = start(out)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        if kill == 0:  # for certain while it works
            until(partial(is_at_work, process, out))
        else:  # much shorter than a run, so that kills fall into work until little is left
            time.sleep(random.uniform(0, seconds * (0.1 if n_kills > 10 else 0.4)))
        process.kill()
        process.communicate()
        while_working += process.returncode < 0
        results = {path.name: path for path in out.glob("*") if path.suffix != ".partial"}
        assert all(path.read_bytes() == expected[name] for name, path in results.items())
    assert while_working > 0
    run_to_its_end(start(out))
    assert {path.name: path.read_bytes() for path in out.iterdir()} == expected


@pytest.mark.jit
def test_two_runs_at_once_make_what_one_makes(
    spawn: Spawn, batch: Command, folder: Path, tmp_path: Path
) -> None:
    runs = [spawn("batch", folder, "-o", f"{tmp_path}/out/", "--resume", before=UP) for _ in range(2)]
    for run in runs:
        err = run.communicate(timeout=LONGEST)[1]
        assert run.returncode in (0, 2), err
        assert "Traceback" not in err
    assert batch("--resume").exit_code == 0
    made = contents(tmp_path / "out")
    assert batch("--overwrite").exit_code == 0
    assert contents(tmp_path / "out") == made
    assert len(made) == 3
