"""The error for a missing optional library names the extra that installs it."""

import sys
from importlib import import_module

import pytest

from igbss_stream._util.optional import require
from igbss_stream.errors import RecordingError


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [("sklearn", "sklearn.base", "sklearn"), ("mne", "mne", "mne")],
)
def test_import_error_of_a_module_names_the_extra(
    module: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, f"igbss_stream.{module}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'igbss-stream\[{extra}\]'"):
        import_module(f"igbss_stream.{module}")


def test_error_of_a_reader_names_the_extra() -> None:
    with pytest.raises(RecordingError, match=r"^a is read by b, .*pip install 'igbss-stream\[c\]'$"):
        require("no_such_library", "c", "a is read by b")
