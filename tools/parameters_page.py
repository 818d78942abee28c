#!/usr/bin/env python
"""Write the table of docs/parameters.md from the declaration of the model parameters.

.venv/bin/python tools/parameters_page.py
"""

import re
from collections.abc import Iterator
from pathlib import Path

from igbss_stream.separation.parameters import PARAMETERS, as_markdown

PAGE = Path(__file__).parents[1] / "docs" / "parameters.md"

_TABLE = re.compile(r"^\| name \| .*\n(?:\|.*\n)+", re.M)


def build_page() -> str:
    """Return the page with an up-to-date table."""
    table = "".join(f"{row}\n" for row in _iter_rows())
    page, n_tables = _TABLE.subn(lambda _: table, PAGE.read_text())
    if n_tables != 1:
        raise RuntimeError(f"{PAGE} must have one table of parameters. Found {n_tables} instead.")
    return page


def _iter_rows() -> Iterator[str]:
    yield from ("| name | default | |", "|---|---|---|")
    for name, parameter in PARAMETERS.items():
        default = (
            f"`{parameter.default}`" if parameter.default is not None else parameter.default_text or "none"
        )
        doc = as_markdown(parameter.python_doc).replace("|", "\\|")
        yield f"| `{name}` | {default} | {doc} |"


if __name__ == "__main__":
    PAGE.write_text(build_page())
