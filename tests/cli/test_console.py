"""What terminals show: nothing that moves on one that cannot go back, nothing cut off on a narrow one."""

import io
import os
import pty
import re
import subprocess
import sys

import pytest

from igbss_stream.cli.console import show_table
from tests.commands import read_terminal
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
