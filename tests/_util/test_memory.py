"""Available memory, and the check of an allocation."""

import os
from pathlib import Path

import pytest

from igbss_stream._util.memory import check_memory, get_available_memory
from igbss_stream.errors import RecordingError


def test_available_memory_is_at_most_the_installed_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = get_available_memory()
    assert available is not None
    assert 2**20 < available <= installed
    monkeypatch.setattr("igbss_stream._util.memory._MEMINFO", tmp_path / "none")
    fallback = get_available_memory()
    assert fallback is not None
    assert 2**20 < fallback <= installed


def test_an_allocation_that_does_not_fit_is_refused_with_a_remedy() -> None:
    check_memory(1, "this", "do that")
    with pytest.raises(RecordingError, match=r"^this takes \S+ GB .* \S+ GB are free; do that$"):
        check_memory(2**60, "this", "do that")
