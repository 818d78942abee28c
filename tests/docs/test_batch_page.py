"""The commands of docs/batch.md run as they stand, and its table of keys is that of the summary."""

import json
import re
from pathlib import Path

import pytest

from igbss_stream.files.open import ENDINGS
from tests.commands import Command
from tests.doc_pages import commands, text_of
from tests.recordings import RATE, noise, write_recording

PAGE = text_of("docs/batch.md")
RECORDINGS = ["eeg", "night/a", "night/b", "day/1/c", "day/2/d", "subjects/s1/rest", "subjects/s2/rest"]


@pytest.fixture(autouse=True)
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the recordings of the page, in the folder that is then the current one."""
    for seed, name in enumerate(RECORDINGS):
        path = tmp_path / f"{name}.h5"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_recording(path, noise(seed=seed), rate=RATE)
    (tmp_path / "files.txt").write_text("subjects/s1\nsubjects/s2/*.h5\n")
    monkeypatch.chdir(tmp_path)


def test_commands_run(igbss: Command, tmp_path: Path) -> None:
    for line in commands("docs/batch.md"):
        assert line.words[0] == "igbss-stream"
        result = igbss(*line.words[1:])
        assert result.exit_code == 0, line.text + result.output
    assert len(list((tmp_path / "out").iterdir())) == 5
    assert (tmp_path / "separated" / "s1-rest.h5").exists()
    assert (tmp_path / "separated" / "s1" / "rest.h5").exists()
    assert [path.name[:10] for path in (tmp_path / "grouped").glob("model-*")] == ["model-4ch-"]


def test_keys_and_endings_are_told(igbss: Command, tmp_path: Path) -> None:
    assert igbss("batch", "night", "-o", "out/", "--summary", "s.csv").exit_code == 0
    keys = (tmp_path / "s.csv").read_text().splitlines()[0].split(",")
    reported = PAGE.split("with keys ")[1].split(".\n")[0]
    assert re.findall(r"`(\w+)`", reported) == keys
    assert all(f"`{ending}`" in PAGE for ending in ENDINGS)


@pytest.mark.parametrize("inputs", [["eeg.h5"], ["night"]], ids=["one", "many"])
def test_json_is_the_summary(igbss: Command, tmp_path: Path, inputs: list[str]) -> None:
    """The same objects as in a file; a recording that fails is one of them, with the exit code for it."""
    (tmp_path / "night" / "z.h5").write_text("no HDF5")
    failed = 2 if inputs == ["night"] else 0
    result = igbss("batch", *inputs, "-o", "out/", "--json", "--quiet", "--summary", "s.jsonl")
    assert (result.exit_code, result.stderr) == (failed, "")
    assert result.stdout == (tmp_path / "s.jsonl").read_text()
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["status"] for row in rows] == (["done", "done", "failed"] if failed else ["done"])


def test_json_of_one_recording_tells_why_it_failed(igbss: Command, tmp_path: Path) -> None:
    result = igbss("batch", "eeg.h5", "-o", "one.h5", "--json", "--channels", "0")
    assert result.exit_code == 2
    row = json.loads(result.stdout)
    assert (row["status"], row["output"]) == ("failed", "one.h5")
    assert "at least 2" in row["message"]
    assert not (tmp_path / "one.h5").exists()
