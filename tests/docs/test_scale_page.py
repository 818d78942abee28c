"""The Python of docs/scale.md makes of segments what one process makes of the whole."""

from pathlib import Path

import pytest

from tests.batch.test_segments import assert_same
from tests.commands import Command
from tests.doc_pages import run_python
from tests.recordings import RATE, noise, write_recording


def test_python_makes_one_file(igbss: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_recording(tmp_path / "in.h5", noise(), rate=RATE)
    for name, more in ("out.h5", ("--segment", 0.1)), ("whole.h5", ()):
        assert igbss("batch", "in.h5", "-o", name, *more).exit_code == 0
    run_python("docs/scale.md")
    assert_same(tmp_path / "one.h5", tmp_path / "whole.h5")
