"""What terminals show: nothing that moves on one that cannot go back, nothing cut off on a narrow one."""

import io
import logging
import os
import pty
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from igbss_stream.cli.console import (
    FilesProgress,
    report_errors,
    say,
    say_lines,
    show_table,
    warn,
    warn_lines,
)
from igbss_stream.errors import IgbssWarning, RecordingError
from tests.commands import SYSTEMATIC, Command, read_terminal
from tests.recordings import RATE, noise, write_recording
from tests.waiting import DEADLINE

HEADER = ("file", "status", "samples", "message")
ROWS = (
    ("night/a_recording_of_the_first_night.h5", "done", "12345678", "-"),
    ("day/b.h5", "failed", "-", "it has no dataset '/data'; pass --dataset with one of its datasets"),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def table(monkeypatch: pytest.MonkeyPatch, columns: int) -> list[str]:
    """Return the lines of the table on a terminal of a given width."""
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    show_table(HEADER, ROWS, text=("file", "status", "message"))
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()


def test_a_table_on_a_wide_terminal_breaks_no_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 15 + 6 + 8 + 15 + 3 * 2  # columns: text folds, numbers do not
    for columns in (90, needed):
        lines = table(monkeypatch, columns)
        assert lines[0].split() == list(HEADER)
        assert max(map(len, lines)) <= columns
    assert table(monkeypatch, needed - 1)[0] == ROWS[0][0]


def test_a_table_on_a_narrow_terminal_is_a_paragraph_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = table(monkeypatch, 45)
    assert max(map(len, lines)) <= 45
    assert lines[:3] == [ROWS[0][0], "  done", "  samples 12345678"]
    assert lines[3:5] == ["day/b.h5", "  failed"]
    assert " ".join(" ".join(lines[5:]).split()) == ROWS[1][3]


CODE = """
import logging, warnings
import click
from igbss_stream.errors import IgbssWarning
from igbss_stream.cli.console import files_progress, progress_bar, report_errors
@click.command()
@click.option("--quiet", is_flag=True)
@report_errors
def command(quiet):
    logging.getLogger("igbss_stream").info("a note")
    with progress_bar(quiet) as progress:
        if progress is not None:
            progress("reading", 1, 2)
            warnings.warn("look", IgbssWarning)
            logging.getLogger("igbss_stream").warning("logged")
    with files_progress(quiet, 1) as files:
        report = files.begin("a_very_long_name_of_a_recording_of_the_first_night.h5")
        if report is not None:
            report("learning", 1, 2)
        files.end("in.h5: done")
command()
"""


# A shell that has the terminal, and begins a command with `&`.
SHELL = """
import fcntl, subprocess, sys, termios
fcntl.ioctl(2, termios.TIOCSCTTY, 0)
sys.exit(subprocess.run([sys.executable, "-c", *sys.argv[1:]], process_group=0).returncode)
"""


def seen(term: str, *options: str, shell: tuple[str, ...] = ()) -> str:
    """Return what a terminal of this kind, 60 columns wide, receives from a command with both kinds of bars."""
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": term, "COLUMNS": "60", "LINES": "24"}
    command = [sys.executable, "-c", *shell, CODE, *options]
    process = subprocess.Popen(command, stderr=theirs, env=env, start_new_session=bool(shell))
    os.close(theirs)
    text = read_terminal(ours)
    assert process.wait(DEADLINE) == 0, text
    return text


def test_bars_show_what_is_done_with_which_file() -> None:
    text = seen("xterm")
    for words in (
        "a note",
        "reading",
        "50%",
        "recordings 0 of 1",
        "night.h5: learning",
        "recordings 1 of 1",
    ):
        assert words in text


@pytest.mark.parametrize("said", ["Warning: look", "logged"])
def test_what_is_said_meanwhile_is_a_line_of_its_own_above_the_bars(said: str) -> None:
    before, after = seen("xterm").split(said)
    assert before.endswith(("\r", "\n")), before  # not behind the row of a bar
    assert after.startswith("\r\n")


def test_a_terminal_that_cannot_go_back_has_lines() -> None:
    assert seen("dumb").split("\r\n") == ["a note", "1 of 1: in.h5: done", ""]


def test_in_the_background_there_are_lines() -> None:
    assert seen("xterm", shell=(SHELL,)).split("\r\n") == ["a note", "1 of 1: in.h5: done", ""]


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_quiet_is_quiet(term: str) -> None:
    assert seen(term, "--quiet") == ""


HOSTILE = "a\x1b[2J\nError: forged\x9b\u202e\udcff"
ESCAPED = r"a\x1b[2J\nError: forged\x9b\u202e\udcff"


def test_nothing_that_is_printed_controls_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    say_lines(HOSTILE)
    show_table(("file",), ((HOSTILE,),), text=("file",))
    first, *rest = r"a\x1b[2J", r"Error: forged\x9b\u202e\udcff"
    assert capsys.readouterr().out.splitlines() == [ESCAPED, first, *rest, "file", ESCAPED]
    say(HOSTILE, err=True)
    warn(HOSTILE)
    warn_lines(HOSTILE)
    FilesProgress(2).end(HOSTILE)
    assert capsys.readouterr().err.splitlines() == [ESCAPED, ESCAPED, first, *rest, f"1 of 2: {ESCAPED}"]


@pytest.mark.parametrize("columns", [20, 200])
def test_no_table_controls_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROWS", ((HOSTILE, "done", "1", HOSTILE),))
    lines = table(monkeypatch, columns)
    assert all(line.isprintable() for line in lines)
    assert ESCAPED.split("\\n")[0] in lines[columns == 200]


@pytest.mark.parametrize("kind", [RecordingError, IgbssWarning, logging.Logger])
def test_errors_warnings_and_log_records_are_one_line(kind: Any) -> None:
    @click.command()
    @report_errors
    def command() -> None:
        if kind is RecordingError:
            raise RecordingError(HOSTILE)
        if kind is IgbssWarning:
            warnings.warn(HOSTILE, IgbssWarning, stacklevel=1)
        else:
            logging.getLogger("igbss_stream").warning("%s", HOSTILE)

    root, show = logging.getLogger(), warnings.showwarning
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            printed = CliRunner().invoke(command).stderr
    finally:
        root.handlers[:], warnings.showwarning = handlers, show
        root.setLevel(level)
    before = {RecordingError: "Error: ", IgbssWarning: "Warning: "}.get(kind, "")
    assert printed == f"{before}{ESCAPED}\n"


def test_files_of_any_name_are_inspected_and_separated(igbss: Command, tmp_path: Path) -> None:
    """Names of files and channels, and of stored texts, appear escaped wherever they are printed."""
    names = tuple(f"{HOSTILE[:-1]}{i}" for i in range(4))
    path = tmp_path / f"{HOSTILE[:-1]}.h5"
    write_recording(path, noise(600), rate=RATE, unit="uV", channels=names)
    (tmp_path / "other.h5").write_bytes(path.read_bytes())
    output = tmp_path / f"out{HOSTILE[:-1]}.h5"
    for words in (
        ("inspect", path),
        ("batch", path, "-o", output, *SYSTEMATIC),
        ("batch", path, "-o", output, *SYSTEMATIC),  # refused, because it exists
        ("batch", path, tmp_path / "other.h5", "-o", tmp_path / "{stem}-out.h5", *SYSTEMATIC),
        ("report", output),
        ("export", output, "-o", tmp_path / "out.bdf"),
        ("inspect", tmp_path / f"missing{HOSTILE[:-1]}.h5"),
        ("check", tmp_path / f"missing{HOSTILE[:-1]}.yaml"),
    ):
        result = igbss(*words)
        assert result.output.strip() != ""
        assert all(line.isprintable() for line in result.output.splitlines()), words
        assert not re.search("^Error: forged", result.output, re.M)
