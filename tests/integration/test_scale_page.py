"""What docs/scale.md shows can be typed as it stands: options exist, its Python runs, its scripts are whole."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from igbss_stream.batch.command import batch
from tests.integration.conftest import Command
from tests.integration.test_segments import assert_same
from tests.recordings import RATE, noise, write_recording

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_commands_have_options_that_there_are() -> None:
    lines = [
        line
        for text in blocks("console") + blocks("bash")
        for line in text.replace("\\\n", " ").splitlines()
    ]
    found = [line.split("igbss-stream batch ")[1] for line in lines if "igbss-stream batch " in line]
    assert len(found) >= 4
    for words in found:
        context = batch.make_context("batch", shlex.split(words, comments=True))
        assert context.params["output"]


def test_scripts_are_whole() -> None:
    for script in blocks("bash"):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    for manifest in blocks("yaml"):
        assert yaml.safe_load(manifest)["kind"] == "Job"


def test_python_makes_one_file(igbss: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_recording(tmp_path / "in.h5", noise(), rate=RATE)
    for name, more in ("out.h5", ("--segment", 0.1)), ("whole.h5", ()):
        assert igbss("batch", "in.h5", "-o", name, *more).exit_code == 0
    (code,) = blocks("python")
    exec(compile(code, "docs/scale.md", "exec"), {})
    assert_same(tmp_path / "one.h5", tmp_path / "whole.h5")
