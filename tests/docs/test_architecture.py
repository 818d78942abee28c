"""docs/architecture.md and CONTRIBUTING.md name files that exist, and the layers that are enforced."""

import re
import tomllib

import pytest

from tests.doc_pages import ROOT, text_of


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_named_files_exist(page: str) -> None:
    named = set(re.findall(r"`((?:[\w.]+/)*[\w]+\.py|(?:[\w.]+/)+)`", text_of(page)))
    assert len(named) > 5
    for name in named:
        assert any((ROOT / base / name).exists() for base in ("", "igbss_stream", *_siblings(named))), name


def _siblings(named: set[str]) -> set[str]:
    """Return the folders of the files that a page names, for names that follow them without a folder."""
    return {f"igbss_stream/{name.rpartition('/')[0]}" for name in named}


def test_the_table_of_layers_is_that_of_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = re.findall(r"^\| \d+ \| (.*?) \|", text_of("docs/architecture.md"), re.M)
    shown = [sorted(re.findall(r"`(?:igbss_stream\.)?(\w+)`", row)) for row in rows]
    assert shown == [sorted(re.split(r" [|:] ", layer)) for layer in layers]
