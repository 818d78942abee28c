"""Help as a manual has it: a page, examples for each command, codes of exit, and completion by the shell."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import commands_page
import pytest
from click.shell_completion import get_completion_class

from igbss_stream.cli import main
from igbss_stream.cli.console import EXIT_INTERRUPTED, EXIT_MISTAKE
from igbss_stream.separation.parameters import PARAMETERS
from igbss_stream.separation.settings import ModelSettings
from tests.commands import Command, assert_says

MODEL_NAMES = {"structure", "transform", "closure", "solver", "init", "scaling"}


def test_the_page_is_that_of_the_command() -> None:
    reported = "run: .venv/bin/python tools/commands_page.py"
    assert commands_page.PAGE.read_text() == commands_page.page(), reported


@pytest.mark.parametrize("name", sorted(main.commands))
def test_a_command_has_examples_of_its_own(igbss: Command, name: str) -> None:
    """At least two; that they can be typed is tested where docs/commands.md is, which has them all."""
    examples = commands_page.sections(main.commands[name].epilog or "")["Examples"]
    assert len(examples) >= 2
    assert all(example.startswith(f"igbss-stream {name}") for example in examples)
    shown = igbss(name, "--help").output
    assert_says(shown, "Examples:", *examples)  # not wrapped


def test_exit_codes_are_told() -> None:
    reported = commands_page.sections(main.epilog or "")["Exit codes"]
    assert [int(line.split()[0]) for line in reported] == [0, 1, EXIT_MISTAKE, EXIT_INTERRUPTED]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_completion_is_made(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"_IGBSS_STREAM_COMPLETE={shell}_source" in (main.epilog or "")
    found = get_completion_class(shell)
    assert found is not None
    monkeypatch.setattr(found, "_check_version", lambda self: None, raising=False)  # of the shell, if any
    script = found(main, {}, "igbss-stream", "_IGBSS_STREAM_COMPLETE").source()
    assert_says(script, f"{shell}_complete", "igbss-stream")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("sim", "simulate"),
        ("batch --exclude-li", "--exclude-like"),
        ("init --source lsl --sink hd", "hdf5"),
        ("batch in.h5 --structure sys", "systematic"),
        ("batch in.h5 --compression gz", "gzip"),
    ],
)
def test_bash_completes(typed: str, completed: str) -> None:
    words = ["igbss-stream", *typed.split()]
    script = (
        'eval "$(_IGBSS_STREAM_COMPLETE=bash_source igbss-stream)"\n'
        f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}\n"
        '_igbss_stream_completion igbss-stream; echo "${COMPREPLY[@]}"'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [completed], done.stderr


def test_values_that_are_completed_are_those_of_the_model() -> None:
    """Each is taken, and named in the help of its option; a file is completed where one may be given."""
    batch, completed = main.commands["batch"], dict[str, list[str]]()
    context = click.Context(batch)
    for option in batch.params:
        if isinstance(option, click.Option) and option.name in MODEL_NAMES:
            values = [item.value for item in option.shell_complete(context, "")]
            assert_says(option.help or "", *values)
            completed[option.name] = values
    assert set(completed) == MODEL_NAMES
    for name, values in completed.items():
        assert tuple(values) == PARAMETERS[name].choices
        for value in values:
            structure = "learned" if name == "scaling" else "systematic"
            options: dict[str, Any] = {"structure": structure} | {name: value}
            ModelSettings(**options)
    (option,) = (option for option in batch.params if option.name == "structure")
    (item,) = option.shell_complete(context, "weights.c")
    assert (item.value, item.type) == ("weights.c", "file")
