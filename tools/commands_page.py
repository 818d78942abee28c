#!/usr/bin/env python
"""Generate docs/commands.md from the commands.

.venv/bin/python tools/commands_page.py
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from igbss_stream.cli import main

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"

_HEAD = """# Commands

`.venv/bin/python tools/commands_page.py` generates this page from the commands;
`igbss-stream COMMAND --help` prints the same. Results go to standard output, everything else to standard
error. Commands that take longer than a second show progress, speed and remaining time if standard error is
a terminal; `--quiet` disables this. With the option `--json`, standard output contains only JSON.

## Exit codes

{exit_codes}
`listen`, `replay` and `simulate` exit with 143 on SIGTERM. `batch` and `export` never leave an
incomplete file under the name of an output, whatever the exit code.

## Completion

The tab key completes commands, options and file names after you add the line for your shell to its start-up
file: `~/.bashrc` (bash 4.4 or later), `~/.zshrc` (below `autoload -U compinit; compinit`), or
`~/.config/fish/completions/igbss-stream.fish`:

{completion}
"""


def sections(epilog: str) -> dict[str, list[str]]:
    """Return the parts of an epilog, lines by title."""
    found: dict[str, list[str]] = {}
    for part in epilog.split("\b\n")[1:]:
        title, *lines = part.strip("\n").splitlines()
        found[title.rstrip(":")] = [line.removeprefix("  ") for line in lines]
    return found


def page() -> str:
    """Return the page."""
    parts = sections(main.epilog or "")
    codes = [re.split(r"\s+", line, maxsplit=1) for line in parts["Exit codes"]]
    (completion,) = (lines for title, lines in parts.items() if title.startswith("Completion"))
    head = _HEAD.format(
        exit_codes="| | |\n|---|---|\n" + "".join(f"| {code} | {text} |\n" for code, text in codes),
        completion="\n".join(f"    {line}" for line in completion),
    )
    return "\n".join((head, *(_of(name, command) for name, command in sorted(main.commands.items()))))


def _of(name: str, command: click.Command) -> str:
    """Return the section of a command."""
    context = click.Context(command, info_name=f"igbss-stream {name}", help_option_names=["--help", "-h"])
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    about = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.help or ""))
    parts = [f"## {name}", f"    {usage}", about, "\n".join(_options(command, context))]
    examples = sections(command.epilog or "").get("Examples", [])
    parts.append("\n".join(["```console", *(f"$ {line}" for line in examples), "```"]))
    return "\n\n".join(parts) + "\n"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from ("| option | |", "|---|---|")
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1] and "--help" not in record[0]:
            option, text = (" ".join(part.split()).replace("|", "\\|") for part in record)
            yield f"| `{option}` | {text} |"


if __name__ == "__main__":
    PAGE.write_text(page())
