"""Code that leaves memory comes back where it is needed."""

import sys

import llvmlite.binding  # type: ignore[import-untyped]  # it has no types
import pytest

from igbss_stream.daemon.resident import give_back_library

MODULE = "define i32 @f() { ret i32 7 }\ndefine i32 @g() { %x = call i32 @f()\nret i32 %x }"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes pages out")
def test_a_library_works_after_its_code_was_taken_out() -> None:
    before = str(llvmlite.binding.parse_assembly(MODULE))
    assert give_back_library("llvmlite") > 1 << 20
    assert str(llvmlite.binding.parse_assembly(MODULE)) == before
    assert "call i32 @f()" in before


def test_what_is_not_loaded_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert give_back_library("no such library") == 0
    monkeypatch.setattr(sys, "platform", "win32")
    assert give_back_library("llvmlite") == 0
