"""How much memory there is, by the system's own account, and what that does not suffice for."""

import builtins
import os
from typing import Any

import pytest

from igbss_stream.errors import InputError
from igbss_stream.memory import available_memory, check_memory


def test_it_is_less_than_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    told = available_memory()
    assert told is not None
    assert 2**20 < told <= installed
    opened = builtins.open

    def without_proc(path: Any, *args: Any, **kwargs: Any) -> Any:
        if path == "/proc/meminfo":
            raise FileNotFoundError(path)
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", without_proc)
    other = available_memory()
    assert other is not None
    assert 2**20 < other <= installed


def test_too_much_is_refused_with_a_remedy() -> None:
    check_memory(1, "this", "Do that.")
    with pytest.raises(InputError, match=r"^this takes \d+ MiB .* \d+ MiB are available. Do that.$"):
        check_memory(2**60, "this", "Do that.")
