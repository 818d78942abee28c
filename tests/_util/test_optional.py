"""A library that is not there is told together with the extra that brings it."""

import sys
from importlib import import_module

import pytest

from igbss_stream._util.optional import needed
from igbss_stream.errors import RecordingError


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [("sklearn", "sklearn.base", "sklearn"), ("mne", "mne", "mne")],
)
def test_a_module_that_needs_one_names_its_extra(
    module: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, f"igbss_stream.{module}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'igbss-stream\[{extra}\]'"):
        import_module(f"igbss_stream.{module}")


def test_a_reader_that_needs_one_names_its_extra() -> None:
    with pytest.raises(RecordingError, match=r"^a is read by b, .*pip install 'igbss-stream\[c\]'$"):
        needed("no_such_library", "c", "a is read by b")
