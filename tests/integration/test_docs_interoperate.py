"""The code in docs/interoperate.md runs as it stands."""

import re
from pathlib import Path

import pytest

DOC = Path(__file__).parents[2] / "docs" / "interoperate.md"


@pytest.mark.jit
def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mne = pytest.importorskip("mne")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with mne.use_log_level("ERROR"):
        for block in re.findall(r"```python\n(.*?)```", DOC.read_text(), re.S):
            exec(compile(block, str(DOC), "exec"), names)
    assert (tmp_path / "clean-ica.fif").exists()
