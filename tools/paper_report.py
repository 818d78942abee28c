"""Where the results go: Markdown tables, PNG files, and the page of the documentation that shows them."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import click
import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure
from page_tables import format_table, refresh_pages

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
        self.cells: dict[str, tuple[Sequence[str], Sequence[Sequence[str]]]] = {}
        self.figures: set[str] = set()

    def table(
        self, name: str, title: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
    ) -> None:
        """Write a table and print it."""
        text = format_table(header, rows, note)
        self.tables[name], self.cells[name] = text, (header, rows)
        click.echo(f"\n## {title}\n{text}")
        with (self.folder / "tables.md").open("a" if len(self.tables) > 1 else "w") as file:
            file.write(f"## {title}\n{text}\n")

    def figure(self, name: str, figure: Figure) -> None:
        """Write a figure as a PNG file, the same to the bit in each run."""
        figure.savefig(self.folder / f"{name}.png", metadata={"Software": None})
        self.figures.add(name)
        click.echo(f"{self.folder / name}.png")

    def refresh(self, pages: Sequence[Path]) -> None:
        """Put the tables of this run where pages have them, and the figures that they show beside them."""
        refresh_pages(pages, self.tables)
        for page in pages:
            for shown in re.findall(r"\]\(([\w/]*pictures/[\w-]+\.png)\)", page.read_text()):
                if Path(shown).stem in self.figures:
                    shutil.copyfile(self.folder / Path(shown).name, page.parent / shown)


def mean_and_deviation(values: Sequence[float], digits: int = 3) -> str:
    """Return "mean ± standard deviation", or a dash for no values."""
    if len(values) == 0:
        return "-"
    n = len(values)
    mean = sum(values) / n
    deviation = (sum((value - mean) ** 2 for value in values) / n) ** 0.5
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"
