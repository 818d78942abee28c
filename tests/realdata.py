"""Where the real recordings are, and the mark of tests that need them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[2] / "shared" / "data"


def needs_data(test: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a test as one on real recordings; it is skipped where they are missing."""
    skip = pytest.mark.skipif(not DATA.is_dir(), reason=f"no recordings in {DATA}")
    marked: Callable[..., Any] = pytest.mark.realdata(skip(test))
    return marked
