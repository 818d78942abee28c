#!/usr/bin/env python
"""Make every table and figure of the IGBSS paper again, and those of what the paper leaves open.

    .venv/bin/python tools/reproduce_paper.py                     with photos that scikit-image ships
    .venv/bin/python tools/reproduce_paper.py --images DIR        with the paper's images, USC-SIPI TIFFs
    .venv/bin/python tools/reproduce_paper.py --recordings DIR    and real sources, sensor noise, windows
    .venv/bin/python tools/reproduce_paper.py --only series --only cloud --runs 3
    .venv/bin/python tools/reproduce_paper.py --seeds 50:60 --seeds 70:80    with other mixtures, twice

Tables go to the terminal and to tables.md in the folder --out, figures to PNG files beside it; --page puts
the tables, and the figures that it shows, where docs/method.md has them. Every method sees the same
mixtures, and linear algebra has one thread. Sources are assigned one to one to the true ones before they
are compared; their signs are as delivered, except for FastICA, dictionary learning and NMF ("oracle"),
which get the signs that fit the truth best, as in the paper.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
from paper_figures import cloud_figure, convergence_figure, picture_figures, series_figures
from paper_mixtures import Experiment, cloud_experiments, label, picture_experiments, series_experiments
from paper_overview import overview
from paper_real import real, windows
from paper_report import Report
from paper_signs import sign_inversion
from paper_tables import tables
from paper_time import run_times

from igbss_stream._util.blas_threads import limit_blas_threads

PARTS = ("series", "images", "cloud", "signs", "convergence", "real", "windows", "time")
FROM_RECORDINGS = ("real", "windows")

Folder = click.Path(path_type=Path, exists=True, file_okay=False)


def _parse_seeds(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[range, ...]:
    return tuple(map(_parse_range, values))


def _parse_range(value: str) -> range:
    first, _, last = value.partition(":")
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise click.BadParameter(
            f"must be FROM:TO, two whole numbers, FROM below TO. Got {value!r} instead."
        )
    return range(int(first), int(last))


@click.command()
@click.option("--images", type=Folder, help="Folder of the USC-SIPI TIFFs; photos if left out.")
@click.option("--recordings", type=Folder, help="Folder of the recordings with the real sources.")
@click.option(
    "--runs", type=click.IntRange(min=1), default=40, show_default=True, help="Mixtures an experiment."
)
@click.option(
    "--seeds",
    callback=_parse_seeds,
    multiple=True,
    metavar="FROM:TO",
    help="Seeds of the mixtures, TO excluded, in place of --runs; may be repeated, for rows side by side.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default="paper",
    show_default=True,
    help="Folder of the results.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count(),
    show_default="processors",
    help="Processes that separate mixtures; times are measured in one.",
)
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Part to make; may be repeated.")
@click.option(
    "--page",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    help="Page whose tables are replaced by those of this run; may be repeated.",
)
def main(
    images: Path | None,
    recordings: Path | None,
    runs: int,
    seeds: tuple[range, ...],
    out: Path,
    jobs: int,
    only: tuple[str, ...],
    page: tuple[Path, ...],
) -> None:
    """Make the tables and figures of the paper; those of real sources if their recordings are there."""
    for part in only:
        if part in FROM_RECORDINGS and recordings is None:
            raise click.UsageError(f"--only {part} needs --recordings DIR, the folder of recordings.")
    parts = [part for part in PARTS if part in (only or PARTS)]
    seeds = seeds or (range(runs),)
    drawn = [
        replace(each, seeds=label(some))
        for group in zip(*(_drawn(parts, images, some) for some in seeds), strict=True)
        for some, each in zip(seeds, group, strict=True)
    ]
    report = Report(out)
    if drawn:
        tables(report, drawn, jobs)
    os.environ.setdefault("NUMEXPR_NUM_THREADS", "1")  # NumExpr computes for Picard
    with limit_blas_threads():
        for part in parts:
            _make(part, report, images, recordings, seeds)
    overview(report)
    report.refresh(page)


def _drawn(parts: list[str], images: Path | None, seeds: range) -> Iterator[Experiment]:
    """Yield the experiments that share the rows of the tables."""
    if "series" in parts:
        yield from series_experiments(seeds)
    if "images" in parts:
        yield from picture_experiments(images, seeds)
    if "cloud" in parts:
        yield from cloud_experiments(seeds)


def _make(
    part: str, report: Report, images: Path | None, recordings: Path | None, seeds: tuple[range, ...]
) -> None:
    """Make the figures of a part, and the tables that are its own."""
    first = seeds[0].start  # the mixture that figures show
    match part:
        case "series":
            series_figures(report, first)
        case "images":
            picture_figures(report, images, first)
        case "cloud":
            cloud_figure(report, first)
        case "signs":
            sign_inversion(report, images, seeds)
        case "convergence":
            convergence_figure(report, first)
        case "time":
            run_times(report, seeds)
        case "real" if recordings:
            real(report, recordings, seeds)
        case "windows" if recordings:
            windows(report, recordings)


if __name__ == "__main__":
    main()
