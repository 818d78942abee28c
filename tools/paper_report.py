"""Where the results go: Markdown tables, PNG files, and the page of the documentation that shows them."""

import re
from collections.abc import Sequence
from pathlib import Path

import click
import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito
MARKERS = "osD^vPX"
mpl.rcParams.update(
    {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=COLOURS),
        "legend.frameon": False,
        "savefig.dpi": 110,
    }
)


class Report:
    """A folder that results are written to as they come.

    Parameters
    ----------
    folder : Path
        Made if it is missing. Tables go to tables.md in it, figures to PNG files beside.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.tables: dict[str, str] = {}

    def table(
        self, name: str, title: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
    ) -> None:
        """Write a table and print it."""
        lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
        lines.insert(1, "|" + "---|" * len(header))
        text = "\n".join(["", *lines, *([""] if note else []), *note.splitlines(), ""])
        self.tables[name] = text
        click.echo(f"\n## {title}\n{text}")
        with (self.folder / "tables.md").open("a" if len(self.tables) > 1 else "w") as file:
            file.write(f"## {title}\n{text}\n")

    def figure(self, name: str, figure: Figure) -> None:
        """Write a figure as a PNG file, the same to the bit in each run."""
        figure.savefig(self.folder / f"{name}.png", metadata={"Software": None})
        click.echo(f"{self.folder / name}.png")

    def refresh(self, page: Path) -> None:
        """Put the tables of this run where a page has them: after `<!-- name -->`, up to `<!-- end -->`."""
        text = page.read_text()
        for name, table in self.tables.items():
            block = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
            text = block.sub(lambda found, new=table: f"{found[1]}{new}\n{found[2]}", text)  # type: ignore[misc]
        page.write_text(text)


def mean_and_deviation(values: Sequence[float], digits: int = 3) -> str:
    """Return "mean ± standard deviation", or a dash for no values."""
    if len(values) == 0:
        return "-"
    n = len(values)
    mean = sum(values) / n
    deviation = (sum((value - mean) ** 2 for value in values) / n) ** 0.5
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def with_best_in_bold(cells: Sequence[str], scores: Sequence[float], largest: bool = False) -> list[str]:
    """Return the cells with the best in bold."""
    best = max(scores) if largest else min(scores)
    return [f"**{cell}**" if score == best else cell for cell, score in zip(cells, scores, strict=True)]
