"""Available memory, and the check of an allocation."""

import os
from pathlib import Path

import pytest

from igbss_stream._util import memory
from igbss_stream._util.memory import check_memory, get_available_memory, may_cache
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


@pytest.mark.parametrize(
    ("own", "limits", "largest"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "1000\n"}, 200),
        ("0::/a\n", {"memory.max": "1000\n"}, 200),  # a container, which does not show a/memory.max
        ("4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": "1000\n"}, 200),
        ("4:cpu,memory:/a\n", {"memory/memory.limit_in_bytes": "10000\n"}, 1000),
        ("0::/\n", {}, 1000),
        (None, {}, 1000),
    ],
)
def test_a_cache_takes_a_fifth_of_the_memory_that_a_process_may_take(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    own: str | None,
    limits: dict[str, str],
    largest: int,
) -> None:
    if own is not None:
        (tmp_path / "own").write_text(own)
    for name, text in limits.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(text)
    monkeypatch.setattr(memory, "_OWN_GROUP", tmp_path / "own")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory, "get_available_memory", lambda: 5000)
    assert may_cache(largest)
    assert not may_cache(largest + 1)
    monkeypatch.setattr(memory, "get_available_memory", lambda: None)
    assert not may_cache(1)


def test_an_allocation_that_does_not_fit_is_refused_with_a_remedy() -> None:
    check_memory(1, "this", "do that")
    with pytest.raises(RecordingError, match=r"^this takes \S+ GB .* \S+ GB are free; do that$"):
        check_memory(2**60, "this", "do that")
