"""Markdown tables, and the pages of the documentation that have a place for them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """Return a table, and a note under it, with blank lines around."""
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    lines.insert(1, "|" + "---|" * len(header))
    return "\n".join(["", *lines, *([""] if note else []), *note.splitlines(), ""])


def refresh_pages(pages: Sequence[Path], tables: Mapping[str, str]) -> None:
    """Put tables where pages have them, after `<!-- name -->` up to `<!-- end -->`; name the others."""
    placed = set()
    for page in pages:
        text = page.read_text()
        for name, table in tables.items():
            block = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
            text, n_found = block.subn(lambda found, new=table: f"{found[1]}{new}\n{found[2]}", text)  # type: ignore[misc]
            placed |= {name} if n_found else set()
        page.write_text(text)
    for name in tables.keys() - placed if pages else ():
        click.echo(f"No page has a place for a table: <!-- {name} --> is missing.", err=True)


def with_best_in_bold(cells: Sequence[str], scores: Sequence[float], largest: bool = False) -> list[str]:
    """Return the cells with the best in bold."""
    best = max(scores) if largest else min(scores)
    return [f"**{cell}**" if score == best else cell for cell, score in zip(cells, scores, strict=True)]
