"""Pages of the documentation as tests read them: the blocks of code in README.md and docs/."""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.S | re.M)


@dataclass(frozen=True)
class Block:
    """A block of code, and where it begins."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Line:
    """A command in a `console` block: its words, without the comment behind it, and where it stands."""

    place: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def blocks(page: str, language: str | None = None) -> list[Block]:
    """Return the blocks of a page, or those in one language."""
    text = text_of(page)
    found = [
        Block(page, text.count("\n", 0, match.start()) + 1, match[2], match[3])
        for match in _BLOCK.finditer(text)
    ]
    return [block for block in found if language in (None, block.language)]


def commands(page: str) -> list[Line]:
    """Return the commands of a page, in order: what a user types behind the prompt, joined where it wraps."""
    return [
        Line(f"{block.place}: {line}", line.removeprefix("$ "))
        for block in blocks(page, "console")
        for line in block.text.replace("\\\n", " ").splitlines()
        if line.startswith("$ ")
    ]


def run_python(page: str, addresses: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """Run the Python of a page, block after block with the same names, in the current folder; return the names.

    Addresses of the page are replaced by those that a test has.
    """
    names: dict[str, Any] = {}
    for block in blocks(page, "python"):
        code = "\n" * block.line + block.text  # so that a traceback has the line of the page
        for old, new in addresses.items():
            code = code.replace(old, new)
        exec(compile(code, os.fspath(ROOT / page), "exec"), names)
    return names
