"""README.md and docs/: what they show can be typed, loaded and run, and their links lead somewhere.

Every block in a page is looked at here: commands are parsed by the real command, YAML by the loader of
configurations, shell by bash, Python by its compiler. Python and commands are also run: here, or by the
test of a page that knows what must come of it; a page whose Python no test runs is found.
"""

import configparser
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from igbss_stream.cli import main
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.config.schema import Config, StreamSection
from tests.configurations import stream
from tests.doc_pages import PAGES, ROOT, Block, Line, blocks, commands, text_of

SINK = {"kind": "zmq", "address": "5560"}
ALL = [block for page in PAGES for block in blocks(page)]
LINES = [line for page in PAGES for line in commands(page)]
TESTS = "".join(path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py")))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# Other programs than ours: their lines are only looked at by bash.
OTHERS = {
    "cp",
    "curl",
    "dask",
    "docker",
    "export",
    "find",
    "journalctl",
    "kill",
    "podman",
    "promtool",
    "source",
    "ssh",
    "sudo",
    "systemctl",
}
OF_SHELL = {"&", "|", ">", "2>", ">>", "2>>", "&&"}
LANGUAGES = {"", "bash", "console", "ini", "json", "matlab", "nginx", "python", "yaml"}


def parsed(words: list[str]) -> None:
    """Parse words as the command does, without doing anything."""
    name, *rest = words
    main.commands[name].make_context(name, rest)


def of_language(*languages: str) -> pytest.MarkDecorator:
    found = [block for block in ALL if block.language in languages]
    return pytest.mark.parametrize("block", found, ids=lambda block: block.place)


def test_blocks_say_what_they_are() -> None:
    assert {block.language for block in ALL} <= LANGUAGES
    for page in PAGES:
        assert text_of(page).count("```") == 2 * len(blocks(page)), page


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.place)
def test_a_command_can_be_typed(line: Line) -> None:
    subprocess.run(["bash", "-n"], input=line.text, text=True, check=True)
    words = line.words
    if words[0] == "igbss-stream":
        parsed(words[1 : next((i for i, word in enumerate(words) if word in OF_SHELL), None)])
    elif words[0] == "docker" and words[1] in ("run", "exec"):
        assert "igbss-stream" in words
        if inside := words[words.index("igbss-stream") + 1 :]:
            parsed(inside)
    elif words[:2] == ["pip", "install"]:
        (extras,) = re.fullmatch(r"igbss-stream(?:\[([\w,]+)\])?", words[2]).groups()  # type: ignore[union-attr]
        assert set((extras or "dev").split(",")) <= set(EXTRAS)
    elif words[0].startswith("tools/"):
        assert (ROOT / words[0]).stat().st_mode & 0o111
    elif words[0].endswith("python") and words[1] != "-c":
        assert words[1] in ("-m", "-") or (ROOT / words[1]).exists()
    else:
        assert words[0] in OTHERS or words[0].endswith("python") or "=" in words[0], words[0]


@of_language("bash")
def test_scripts_are_whole(block: Block) -> None:
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)


@of_language("ini")
def test_settings_can_be_read(block: Block) -> None:
    configparser.ConfigParser(interpolation=None, strict=False).read_string(block.text)


@of_language("python")
def test_python_is_whole_and_run_by_a_test(block: Block) -> None:
    compile(block.text, block.place, "exec")
    page = re.escape(block.page)
    runs = rf'run_python\("{page}"|blocks\("{page}", "python"\)|^PAGE = "{page}"$'
    assert re.search(runs, TESTS, re.M), f"no test runs the Python of {block.page}"


@of_language("yaml")
def test_a_configuration_can_be_loaded(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole file, keys of a file, or keys of a stream: the rest is that of any test."""
    monkeypatch.setenv("IGBSS_KEY", "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6")
    found = yaml.safe_load(block.text)
    if not isinstance(found, dict) or not set(found) & (of_struct(Config) | of_struct(StreamSection)):
        assert of_another_program(found)
        return
    whole = stream(**found) if set(found) <= of_struct(StreamSection) else stream(sinks=[SINK]) | found
    path = tmp_path / "page.yaml"
    path.write_text(yaml.safe_dump(whole))
    assert load(path).streams


def of_another_program(found: Any) -> bool:
    """Return whether this is a manifest of Kubernetes, or rules or settings of Prometheus."""
    return bool({"apiVersion", "groups", "scrape_configs"} & set(found))


def of_struct(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_in_the_text_exist(page: str) -> None:
    text = text_of(page)
    for name in re.findall(r"`igbss-stream ([a-z]+)", text):
        assert name in main.commands, name
    for tool in re.findall(r"`(?:\.venv/bin/python )?(tools/[\w.]+)", text):
        assert (ROOT / tool).exists(), tool
    for path in re.findall(r"`((?:configs|tests)/[\w./@-]+)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Files that are linked exist, and so do headings in them."""
    folder = (ROOT / page).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if target.startswith(("http:", "https:")):
            continue
        path, _, anchor = target.partition("#")
        there = folder / path if path else ROOT / page
        assert there.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", there.read_text(), re.M)
            assert anchor in {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}, target
