"""How much memory there is, by the system's own account, and what that does not suffice for."""

import os
from pathlib import Path

import pytest

from igbss_stream._util.memory import available_memory, check_memory
from igbss_stream.errors import RecordingError


def test_it_is_less_than_all_there_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    told = available_memory()
    assert told is not None
    assert 2**20 < told <= installed
    monkeypatch.setattr("igbss_stream._util.memory._MEMINFO", tmp_path / "none")
    other = available_memory()
    assert other is not None
    assert 2**20 < other <= installed


def test_too_much_is_refused_with_a_remedy() -> None:
    check_memory(1, "this", "do that")
    with pytest.raises(RecordingError, match=r"^this takes \S+ GB .* \S+ GB are free; do that$"):
        check_memory(2**60, "this", "do that")
