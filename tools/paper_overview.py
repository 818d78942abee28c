"""The table of README.md: the rows of docs/method.md that say most, a value for each range of seeds."""

import re
from collections.abc import Sequence
from statistics import fmean

from page_tables import with_best_in_bold
from paper_report import Report

METHODS = {
    "channels": "channels",
    "published": "published, exp",
    "learned": "learned",
    "FastICA": "FastICA (oracle)",
    "Picard": "Picard",
    "innovations + Picard": "innovations + Picard",
}
ERRORS = {
    "time series of the paper": ("time series, order 1",),
    "the same with products of two sources": ("time series, order 2",),
    "images of the paper, 8 bits, mean of three sets": tuple(f"images {n}, order 1" for n in (1, 2, 3)),
    "the same, not rounded to 8 bits": tuple(f"images {n}, order 1, not rounded" for n in (1, 2, 3)),
    "Student-t point cloud of the paper": ("point cloud",),
}
RATIOS = {
    "real": "8 real sources in 8 channels, mean SIR in dB",
    "noise": "4 real sources in 8 channels, 10 % noise, mean SIR in dB",
}


def overview(report: Report) -> None:
    """Write the table, if the run made all that it shows."""
    if not {"rmse-ours", *RATIOS} <= report.cells.keys():
        return
    header, rows = report.cells["rmse-ours"]
    errors = {(row[0], row[1]): dict(zip(header, row, strict=True)) for row in rows}
    seeds = list(dict.fromkeys(row[1] for row in rows))
    shown = []
    for title, names in ERRORS.items():
        if any((name, seeds[0]) not in errors for name in names):
            return  # photos in place of the images of the paper
        found = [
            [fmean(_mean(errors[name, some][method]) for name in names) for some in seeds]
            for method in METHODS.values()
        ]
        shown.append([title, *_cells(found, 3)])
    for table, title in RATIOS.items():
        header, rows = report.cells[table]
        by_method = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
        found = [
            [_mean(by_method[method][f"mean SIR ({some})"]) for some in seeds]
            for method in METHODS.values()
            if method in by_method
        ]
        shown.append([title, "", "", *_cells(found, 1, largest=True)])
    report.table("overview", "The table of README.md", ["", *METHODS], shown)


def _cells(found: Sequence[Sequence[float]], digits: int, largest: bool = False) -> list[str]:
    """Return a cell for each method, its ranges side by side, the best mean over ranges in bold."""
    texts = [" / ".join(f"{value:.{digits}f}" for value in values) for values in found]
    return with_best_in_bold(texts, [round(fmean(values), digits) for values in found], largest)


def _mean(cell: str) -> float:
    match = re.match(r"\**(-?[\d.]+) ±", cell)
    return float(match[1]) if match else float("nan")
