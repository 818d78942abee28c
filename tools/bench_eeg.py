#!/usr/bin/env python
"""Compare igbss_stream with the ICA methods of the field on a recording of EEG, by the field's measures.

    .venv/bin/python tools/bench_eeg.py eeg.set
    .venv/bin/python tools/bench_eeg.py eeg.edf --highpass 1 --json eeg.json
    .venv/bin/python tools/bench_eeg.py eeg.h5 --methods igbss,picard --measures separation,artefacts

Any format that the package reads will do. Methods that are not installed are named and skipped:
`tools/setup bench` installs all of them. Seconds are those of the processor, with one thread of linear
algebra, and as a ratio to one pass of ICA over the samples in the same run. AMICA takes many times longer
than the others; --amica-iterations limits it.

separation   the mutual information that the separation removes (MIR), the mutual information left between
             two sources, and the largest correlation between two
dipoles      the share of source maps that one dipole in a sphere explains all but 5 or 10 % of; needs MNE
             and the positions of ten electrodes, from the file or by their names
halves       how well the maps from two halves of the recording agree: the mean |cosine| of matched maps
artefacts    blinks, a heart and a muscle are added to the recording with a smooth map, and sources are
             removed again: the RMS of the error, as a share of the recording's
"""

import json
import logging
import os
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from eeg_artefacts import list_artefacts, spoil
from eeg_measures import (
    LEAST_ELECTRODES,
    compute_mir,
    compute_pairwise_information,
    find_largest_correlation,
    find_maps,
    match_maps,
    measure_dipoles,
    place_channels,
)
from eeg_methods import METHODS, Decomposer, count_sources, fit_amica, fit_quietly, warm_up
from eeg_recording import Eeg, read_eeg
from eeg_table import Outcome, format_for_page, print_outcomes
from numpy.typing import NDArray
from page_tables import refresh_pages

from igbss_stream._util.blas_threads import limit_blas_threads
from igbss_stream.cli.console import reading_options, report_errors
from igbss_stream.errors import InputError, ParameterError

Array = NDArray[np.float64]

_ROUNDS = 5  # passes that are timed before a method, and after it
MEASURES = ("separation", "dipoles", "halves", "artefacts")


class Bench:
    """A recording, and what is measured of each method on it.

    Parameters
    ----------
    eeg : Eeg
    n_sources : int
    measures : tuple of str
        Of `MEASURES`.
    seed : int
        Seed of the artefacts.
    """

    def __init__(self, eeg: Eeg, n_sources: int, measures: tuple[str, ...], seed: int) -> None:
        self.eeg, self.n_sources, self.measures = eeg, n_sources, measures
        self.positions, self.placed = place_channels(eeg.path, eeg.channels)
        self._shared = compute_pairwise_information(eeg.x) if "separation" in measures else 0.0
        kinds = list_artefacts(eeg.rate) if "artefacts" in measures else []
        self.spoilt = [spoil(eeg.x, eeg.rate, self.positions, each, seed) for each in kinds]

    def measure(self, name: str, method: Decomposer) -> Outcome:
        """Run a method on the recording, and on what else the measures need; time the first run."""
        warm_up(method)
        passes = [self._time_pass() for _ in range(_ROUNDS)]
        began = time.process_time()
        unmixing, said = fit_quietly(method, self.eeg.x, self.n_sources)
        seconds = time.process_time() - began
        passes += [self._time_pass() for _ in range(_ROUNDS)]
        values: dict[str, float | None] = {}
        y, maps = self.eeg.x @ unmixing.T, find_maps(unmixing)
        if "separation" in self.measures:
            values |= self._measure_separation(y, unmixing)
        if "dipoles" in self.measures and len(self.positions) >= LEAST_ELECTRODES:
            left = measure_dipoles(maps, self.positions)
            values |= {f"dipoles_{share}": float(np.mean(left < share / 100.0)) for share in (5, 10)}
        if "halves" in self.measures:
            middle = len(y) // 2
            halves = [
                fit_quietly(method, x - x.mean(axis=0), self.n_sources)[0] for x in self._halves(middle)
            ]
            values["halves"] = match_maps(*map(find_maps, halves))
        for each in self.spoilt:
            unmixing = fit_quietly(method, each.x, self.n_sources)[0]
            values[each.artefact.name] = each.measure_removal(unmixing)
        values |= {"seconds": seconds, "passes": seconds / median(passes)}
        return Outcome(name, method.title, values, said)

    def _halves(self, middle: int) -> tuple[Array, Array]:
        return self.eeg.x[:middle], self.eeg.x[middle:]

    def _measure_separation(self, y: Array, unmixing: Array) -> dict[str, float | None]:
        return {
            "mir": compute_mir(self.eeg.x, y, unmixing, self.eeg.rate),
            "information_left": compute_pairwise_information(y) / self._shared,
            "largest_correlation": find_largest_correlation(y),
        }

    def _time_pass(self) -> float:
        """Return the seconds of a pass of ICA over the samples: to sources, tanh, and to a gradient."""
        x, unmixing = self.eeg.x, np.eye(self.n_sources, self.eeg.x.shape[1])
        began = time.process_time()
        y = x @ unmixing.T
        np.tanh(y).T @ y
        return time.process_time() - began

    def describe(self) -> dict[str, Any]:
        """Return what was measured, and the error of removing nothing."""
        return {
            "recording": self.eeg.path.name,
            "n_samples": len(self.eeg.x),
            "n_channels": self.eeg.x.shape[1],
            "n_sources": self.n_sources,
            "rate": self.eeg.rate,
            "notes": list(self.eeg.notes),
            "positions": f"{len(self.positions)} of {self.eeg.x.shape[1]}: {self.placed}",
            "left_in": {each.artefact.name: each.left_in for each in self.spoilt},
        }


def _parse_names(
    known: tuple[str, ...], context: click.Context, option: click.Parameter, value: str
) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    for name in names:
        if name not in known:
            raise click.BadParameter(f"must be of {', '.join(known)}, with commas. Got {name!r} instead.")
    return names


def _find_sources(eeg: Eeg, n_sources: int | None) -> int:
    """Return the number of sources, at most the rank."""
    rank = count_sources(eeg.x)
    if n_sources is not None and n_sources > rank:
        raise ParameterError(
            f"--n-sources must be at most the rank of the channels, {rank}. Got {n_sources} instead."
        )
    if len(eeg.x) < 20 * eeg.x.shape[1]:
        raise InputError(
            f"{eeg.path.name} has {len(eeg.x)} samples of {eeg.x.shape[1]} channels, too few to compare "
            f"methods: there must be {20 * eeg.x.shape[1]} at least."
        )
    return n_sources or rank


def compare(
    bench: Bench, chosen: tuple[str, ...], amica_iterations: int
) -> tuple[list[Outcome], list[str]]:
    """Measure the methods that are installed; return the outcomes, and why others have none."""
    outcomes, skipped = [], []
    for name in chosen:
        method = METHODS[name]
        if name == "amica":
            method = Decomposer(
                method.title, partial(fit_amica, max_iter=amica_iterations), method.needs, method.package
            )
        if not method.is_installed:
            skipped.append(f"{method.title} is not installed: pip install {method.package}")
            continue
        click.echo(f"{method.title} ...", err=True)
        try:
            outcomes.append(bench.measure(name, method))
        except (ArithmeticError, RuntimeError, ValueError) as error:  # what methods raise on their own
            skipped.append(f"{method.title} failed: {error}")
    return outcomes, skipped


@click.command()
@click.argument("recording", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--methods",
    default=",".join(METHODS),
    show_default=True,
    callback=partial(_parse_names, tuple(METHODS)),
    help="Methods, separated by commas.",
)
@click.option(
    "--measures",
    default=",".join(MEASURES),
    show_default=True,
    callback=partial(_parse_names, MEASURES),
    help="What to measure, separated by commas.",
)
@click.option("--highpass", type=float, default=1.0, show_default=True, help="Edge in Hz; 0 for none.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Use this much of the start.")
@click.option("--n-sources", type=click.IntRange(min=2), help="[default: the rank of the channels]")
@click.option(
    "--seed", type=click.IntRange(min=0), default=9100, show_default=True, help="Of the artefacts."
)
@click.option("--amica-iterations", type=click.IntRange(min=1), default=500, show_default=True)
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path, dir_okay=False), help="Write all figures."
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Page whose table, between <!-- eeg NAME OF THE RECORDING --> and <!-- end -->, is replaced.",
)
@reading_options
@report_errors
def main(
    recording: Path,
    methods: tuple[str, ...],
    measures: tuple[str, ...],
    highpass: float,
    seconds: float | None,
    n_sources: int | None,
    seed: int,
    amica_iterations: int,
    json_path: Path | None,
    page: Path | None,
    **reading: Any,
) -> None:
    """Compare methods on RECORDING, which may be of any format that igbss-stream reads."""
    logging.disable(logging.INFO)
    os.environ.setdefault("NUMEXPR_NUM_THREADS", "1")  # NumExpr computes for Picard
    with limit_blas_threads():
        eeg = read_eeg(recording, highpass, seconds, **reading)
        bench = Bench(eeg, _find_sources(eeg, n_sources), measures, seed)
        outcomes, skipped = compare(bench, methods, amica_iterations)
    facts = bench.describe()
    print_outcomes(facts, outcomes, skipped)
    if json_path:
        found = {each.name: {**each.values, "warnings": each.warnings} for each in outcomes}
        json_path.write_text(json.dumps({**facts, "skipped": skipped, "methods": found}, indent=1) + "\n")
    if page:
        refresh_pages([page], {f"eeg {recording.name}": format_for_page(facts, outcomes)})
    if not outcomes:
        raise InputError("no method could be measured; the lines above say why.")


if __name__ == "__main__":
    main()
