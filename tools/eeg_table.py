"""The table that tools/bench_eeg.py prints, and the same in Markdown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from page_tables import format_table, with_best_in_bold
from rich.console import Console
from rich.markup import escape
from rich.table import Table


@dataclass(frozen=True)
class Outcome:
    """What was measured of one method.

    Parameters
    ----------
    name, title : str
    values : dict of str to float or None
    warnings : list of str
        What the method said while it was timed.
    """

    name: str
    title: str
    values: dict[str, float | None]
    warnings: list[str]


@dataclass(frozen=True)
class Measure:
    """A row of the table.

    Parameters
    ----------
    name : str
        Key of the values.
    title : str
    digits : int
    more_is_better : bool
    """

    name: str
    title: str
    digits: int
    more_is_better: bool = False


_WIDTH = 124  # columns; a narrower terminal wraps the lines
MEASURED = (
    Measure("mir", "mutual information removed, kbit/s", 3, True),
    Measure("information_left", "pairwise information left / channels", 4),
    Measure("largest_correlation", "largest correlation of two sources", 3),
    Measure("dipoles_5", "maps within 5 % of a dipole", 3, True),
    Measure("dipoles_10", "maps within 10 % of a dipole", 3, True),
    Measure("halves", "agreement of the halves", 3, True),
    Measure("blink", "blinks: error", 3),
    Measure("heart", "heart: error", 3),
    Measure("muscle", "muscle: error", 3),
    Measure("seconds", "seconds", 2),
    Measure("passes", "seconds / one pass over the samples", 0),
)


def _describe(facts: dict[str, Any]) -> str:
    return (
        f"{facts['recording']}: {facts['n_channels']} channels x {facts['n_samples']:,} samples "
        f"at {facts['rate']:g} Hz, {facts['n_sources']} sources"
    )


def _rows(
    facts: dict[str, Any], outcomes: Sequence[Outcome], emphasise: Callable[..., list[str]]
) -> list[list[str]]:
    """Return rows: a measure that any method has, what nothing done gives, and each method."""
    rows = []
    for measure in MEASURED:
        values = [each.values.get(measure.name) for each in outcomes]
        if all(value is None for value in values):
            continue
        cells = ["-" if value is None else f"{value:.{measure.digits}f}" for value in values]
        worst = float("-inf") if measure.more_is_better else float("inf")
        shown = [worst if value is None else round(value, measure.digits) for value in values]
        nothing = facts["left_in"].get(measure.name)
        title = f"{measure.title} {'↑' if measure.more_is_better else '↓'}"
        cells = emphasise(cells, shown, measure.more_is_better)
        rows.append([title, "" if nothing is None else f"{nothing:.{measure.digits}f}", *cells])
    return rows


def _bold_for_rich(cells: Sequence[str], scores: Sequence[float], largest: bool) -> list[str]:
    best = max(scores) if largest else min(scores)
    return [
        f"[bold]{cell}[/bold]" if score == best else cell for cell, score in zip(cells, scores, strict=True)
    ]


def print_outcomes(facts: dict[str, Any], outcomes: Sequence[Outcome], skipped: Sequence[str]) -> None:
    """Print the table, what was done to the recording, and what the methods said."""
    console = Console(width=max(_WIDTH, Console().width))
    table = Table("", "nothing done", *(each.title for each in outcomes), title=escape(_describe(facts)))
    for column in table.columns[1:]:
        column.justify = "right"
    for row in _rows(facts, outcomes, _bold_for_rich):
        table.add_row(*row)
    if outcomes:
        console.print(table)
    done = (*facts["notes"], f"positions of electrodes: {facts['positions']}")
    for line in (*done, *skipped, *_list_warnings(outcomes)):
        console.print(escape(line), style="dim", highlight=False)


def _list_warnings(outcomes: Sequence[Outcome]) -> list[str]:
    """Return what the methods said while they were timed."""
    return [f"{each.title}: {line}" for each in outcomes for line in each.warnings]


def format_for_page(facts: dict[str, Any], outcomes: Sequence[Outcome]) -> str:
    """Return the table in Markdown, the best in bold."""
    rows = _rows(facts, outcomes, with_best_in_bold)
    done = [*facts["notes"], f"positions of electrodes: {facts['positions']}"]
    note = f"↑ more is better, ↓ less is better; {', '.join(done)}."
    note += "".join(f"\n{line}" for line in _list_warnings(outcomes))
    header = [_describe(facts), "nothing done", *(each.title for each in outcomes)]
    return format_table(header, rows, note)
