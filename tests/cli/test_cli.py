"""The command itself: help, version, `inspect`, `demo`, and how it ends."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import h5py
import numpy as np
import pytest

import igbss_stream.cli.batch_single
import igbss_stream.separation.engine
from igbss_stream import __version__, separate
from igbss_stream.cli import main
from tests.commands import Command, assert_says, contents
from tests.recordings import (
    NAMES,
    Array,
    noise,
    read_output,
    systematic,
    unmixed,
    write_recording,
)


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_the_commands(igbss: Command, flag: str) -> None:
    result = igbss(flag)
    assert result.exit_code == 0
    assert_says(result.output, "Usage: igbss-stream", *main.commands, "--version")
    assert set(main.commands) >= {"batch", "inspect", "demo"}


@pytest.mark.parametrize("command", sorted(main.commands))
def test_help_of_a_command_lists_its_options(igbss: Command, command: str) -> None:
    result = igbss(command, "--help")
    assert result.exit_code == 0
    assert f"igbss-stream {command}" in result.output
    for parameter in main.commands[command].params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert_says(result.output, *parameter.opts)
            assert parameter.help


def test_version(igbss: Command) -> None:
    result = igbss("--version")
    assert result.exit_code == 0
    assert result.output == f"igbss-stream, version {__version__}\n"


def test_unknown_command_is_a_mistake(igbss: Command) -> None:
    result = igbss("separate")
    assert result.exit_code == 2
    assert_says(result.output, "No such command", "separate", "--help")


@pytest.mark.parametrize(
    "arguments",
    [
        "--help",
        "--version",
        "batch --help",
        "demo --help",
        "inspect --help",
        "replay --help",
        "simulate --help",
        "listen --help",
        "check --help",
        "init --help",
        "schema --help",
    ],
)
def test_help_does_not_wait_for_heavy_imports(arguments: str) -> None:
    script = (
        "import sys\n"
        "from igbss_stream.cli import main\n"
        f"main({arguments.split()}, standalone_mode=False)\n"
        "print('loaded:', *sorted({'numba', 'numpy', 'h5py', 'scipy', 'sklearn', 'rich', 'zmq', 'msgspec', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("3", "3")])
def test_linear_algebra_has_one_thread_unless_told_otherwise(
    igbss: Command, monkeypatch: pytest.MonkeyPatch, before: str | None, after: str
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if before is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", before)
    assert igbss("schema").exit_code == 0
    assert os.environ["OPENBLAS_NUM_THREADS"] == after


def test_inspect_lists_what_a_file_holds(igbss: Command, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        data = file.create_dataset("data", data=noise(), chunks=(30, 4), compression="gzip")
        data.attrs.update(rate=250.0, unit="uV", channels=NAMES)
        file["raw/turned"] = np.zeros((4, 60), ">i2")
        file["notes"] = "eyes closed"
    result = igbss("inspect", tmp_path / "in.h5")
    assert result.exit_code == 0
    table, facts = result.output.rsplit("\n\n", 1)
    title, _, _, *rows = table.splitlines()
    assert_says(facts, "layout: plain", "60 samples of 4 channels, 250 Hz, unit uV", "rank: 4 of 4")
    assert_says(title, str(tmp_path / "in.h5"), f"{(tmp_path / 'in.h5').stat().st_size} bytes")
    data_row, notes, turned = (re.split(r"\s{2,}", row) for row in rows)
    assert data_row == [
        "/data", "60 x 4", "float64", "30 x 4", "gzip", "250", "uV", "Fz, Cz, Pz, ... (4)", "yes", "-",
    ]  # fmt: skip
    assert (notes[0], notes[8]) == ("/notes", "no")
    assert "text" in notes[9]
    assert (turned[:3], turned[8]) == (["/raw/turned", "4 x 60", ">i2"], "no")
    assert "--axis 1" in turned[9]


def test_inspect_of_a_file_without_datasets(igbss: Command, tmp_path: Path) -> None:
    h5py.File(tmp_path / "in.h5", "w").close()
    result = igbss("inspect", tmp_path / "in.h5")
    assert result.exit_code == 0
    assert "no datasets" in result.output


def test_inspect_of_an_output(igbss: Command, separated: Command, recording: Path, tmp_path: Path) -> None:
    separated(recording)
    result = igbss("inspect", tmp_path / "out.h5")
    assert result.exit_code == 0
    assert_says(result.output, "/sources", "60 x 4", "/mixing", "/unmixing", "250", "source-0")


def errors(sources: Array, truth: Array) -> float:
    """Return the smallest RMSE of standardised columns over all orders of the columns."""

    def standardised(x: Array) -> Array:
        return np.asarray((x - x.mean(axis=0)) / x.std(axis=0))

    orders = itertools.permutations(range(truth.shape[1]))
    gaps = [standardised(sources)[:, list(order)] - standardised(truth) for order in orders]
    return min(float(np.sqrt(np.mean(gap**2))) for gap in gaps)


def printed(output: str) -> dict[str, float]:
    """Return the RMSE in each row of the table of `demo`."""
    rows = re.findall(r"^(\S.*?) {2,}(\d\.\d+) +-?\S+ dB", output, re.MULTILINE)
    return {name: float(value) for name, value in rows}


@pytest.mark.parametrize(("seed", "n_samples"), [(0, 500), (1, 300)])
def test_demo_prints_how_close_the_sources_came(igbss: Command, seed: int, n_samples: int) -> None:
    result = igbss("demo", "--seed", seed, "--samples", n_samples)
    assert result.exit_code == 0
    assert_says(result.output, f"{n_samples} samples", "RMSE")
    t = np.linspace(0, 8, n_samples)
    truth = np.stack([np.sin(2 * t), np.sign(np.sin(3 * t)), 2 * (t % 1.0) - 1], axis=1)
    received = truth @ np.random.default_rng(seed).uniform(0.5, 2.0, (3, 3)).T
    low = received.min() - 0.1 * np.ptp(received)
    by_min_max = np.exp(np.log(received - low) @ np.linalg.inv(systematic(3)).T)
    rows = printed(result.output)
    assert rows.pop("learned") < 0.1
    assert rows == {
        "channels as received": pytest.approx(errors(received, truth), abs=6e-4),
        "published, exp": pytest.approx(errors(unmixed(received), truth), abs=6e-4),
        "published, min-max": pytest.approx(errors(by_min_max, truth), abs=6e-4),
    }


def test_demo_as_json_is_the_table(igbss: Command) -> None:
    found = json.loads(igbss("demo", "--samples", 300, "--seed", 1, "--json").stdout)
    table = printed(igbss("demo", "--samples", 300, "--seed", 1).stdout)
    assert {score["name"]: round(score["rmse"], 3) for score in found["scores"]} == table
    assert (found["seed"], found["samples"]) == (1, 300)


def test_demo_is_better_than_the_channels_by_default(igbss: Command) -> None:
    rows = printed(igbss("demo").output)
    assert rows["channels as received"] == pytest.approx(0.80, abs=0.005)
    assert rows["published, exp"] < 0.75
    assert rows["published, min-max"] < 0.75
    assert rows["learned"] < 0.01


def test_debug_shows_where_an_error_comes_from(igbss: Command, recording: Path, tmp_path: Path) -> None:
    for args, error in (
        (("inspect", tmp_path / "nothing.h5"), "RecordingError"),
        (("batch", recording, "-o", tmp_path / "out.h5", "--n-sources", 9), "ParameterError"),
    ):
        result = igbss(*args, "--debug")
        assert result.exit_code == 2
        assert_says(result.output, "Traceback", f"igbss_stream.errors.{error}", "\nError: ")
    assert list(contents(tmp_path)) == [recording]


def test_interrupt_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, igbss: Command, recording: Path, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> None:
        assert (tmp_path / "out.h5.partial").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(igbss_stream.separation.engine.Separator, "separate_samples", interrupted)
    result = igbss("batch", recording, "-o", tmp_path / "out.h5")
    assert result.exit_code == 130
    assert_says(result.output, "Interrupted", "no incomplete output is left")
    assert list(contents(tmp_path)) == [recording]


def test_older_output_stays_when_the_run_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, igbss: Command, recording: Path, tmp_path: Path
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "out.h5").write_text("older")
    monkeypatch.setattr(igbss_stream.separation.engine.Separator, "separate_window", interrupted)
    options = ("--solver", "joint", "--overwrite")
    assert igbss("batch", recording, "-o", tmp_path / "out.h5", *options).exit_code == 130
    assert (tmp_path / "out.h5").read_text() == "older"
    assert not (tmp_path / "out.h5.partial").exists()


def test_interrupt_after_the_output_was_written_does_not_deny_it(
    monkeypatch: pytest.MonkeyPatch, igbss: Command, recording: Path, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(igbss_stream.cli.batch_single, "_format_outcome", interrupted)
    result = igbss("batch", recording, "-o", tmp_path / "out.h5")
    assert result.exit_code == 130
    assert (tmp_path / "out.h5").exists()
    assert "no output" not in result.output


def test_bug_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, igbss: Command, recording: Path, tmp_path: Path
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(igbss_stream.separation.engine.Separator, "separate_samples", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        igbss("batch", recording, "-o", tmp_path / "out.h5")
    assert list(contents(tmp_path)) == [recording]


def test_name_of_a_file_may_be_any_bytes(separated: Command, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"in\xff.h5")
    try:
        write_recording(tmp_path / "in.h5", noise()).rename(path)
    except OSError:
        pytest.skip("the file system wants names in UTF-8")
    separated(path)
    np.testing.assert_array_equal(read_output(tmp_path / "out.h5").sources, separate(noise()).sources)


def test_recording_is_only_read(separated: Command, tmp_path: Path) -> None:
    path = write_recording(tmp_path / "in.h5", noise())
    before = path.read_bytes(), path.stat().st_mtime_ns
    path.chmod(0o400)
    separated(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
