"""The code in the README runs as it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.S)


@pytest.mark.jit
def test_python_blocks_run_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, str(README), "exec"), names)
    assert "converged: the gradient is below" in capsys.readouterr().out


def test_parameters_are_those_of_the_function() -> None:
    import inspect

    from igbss_stream import separate

    table = README.read_text().split("## Parameters")[1].split("## ")[0]
    listed = re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.M)
    signature = inspect.signature(separate).parameters
    assert [name for name, _ in listed] == [name for name in signature if name not in {"x", "previous"}]
    for name, default in listed:
        if default.startswith("`"):
            assert default.strip("`") == signature[name].default


def test_every_page_is_linked() -> None:
    linked = set(re.findall(r"\(docs/(\w+\.md)\)", README.read_text()))
    assert linked == {page.name for page in (README.parent / "docs").glob("*.md")}


def test_commands_of_the_readme_exist() -> None:
    from igbss_stream.cli import main

    used = {
        line.split()[2]
        for block in blocks("console")
        for line in block.splitlines()
        if "igbss-stream" in line[:16]
    }
    assert used == {"inspect", "batch", "report", "simulate", "init", "check", "run", "listen", "view"}
    assert used <= set(main.commands)
    for tool in re.findall(r"\$ (tools/\w+)", README.read_text()):
        assert (README.parent / tool).stat().st_mode & 0o111
