#!/usr/bin/env python
"""Measure what igbss_stream costs, each figure as a ratio to a floor of the same run where it can be.

    .venv/bin/python tools/bench.py             all of it, about ten minutes
    .venv/bin/python tools/bench.py fit batch   some of it
    .venv/bin/python tools/bench.py blinks --recordings DIR    what is left of blinks, beside MNE's ICA
    .venv/bin/python tools/bench.py throughput  what takes long, by name alone; see --help

Each figure is the median over rounds that alternate what is measured with its floor; the table shows the
limit that the project sets itself. Exit code 1 if a figure misses its limit. Nothing here is a test: noise
must not fail one.
"""

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import bench_workers
import click
import h5py
import numpy as np
from bench_blinks import blinks
from bench_compression import compression
from bench_figure import Figure
from bench_files import Job
from bench_memory import memory
from bench_throughput import throughput

from igbss_stream import separate
from igbss_stream.chunk import Chunk
from igbss_stream.cli.demo import draw_mixing, make_time_series
from igbss_stream.model import loglinear
from igbss_stream.model.kernels import samples
from igbss_stream.model.poset import Poset, make_incidence
from igbss_stream.model.solve import solve
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.streaming.separators import WindowSeparator
from igbss_stream.streaming.stream_model import StreamModel

COMMAND = [str(Path(sys.executable).parent / "igbss-stream")]
published = partial(separate, structure="systematic")
PUBLISHED = ("--overwrite", "--structure", "systematic")  # needs no time to learn
SEPARATION = (
    "import numpy, igbss_stream; igbss_stream.separate(numpy.random.rand(1000, 8), structure='systematic')"
)
SLICE = 16384  # rows of a slice of the plain copy


def seconds(run: Callable[[], object]) -> float:
    """Return how long one call takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def paired(run: Callable[[], object], floor: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the medians of both, measured in turn after one round that does not count."""
    pairs = [(seconds(run), seconds(floor)) for _ in range(rounds + 1)][1:]
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)


def scaling() -> Iterator[Figure]:
    """Follow the cost of one joint step over the number of samples."""
    poset = Poset(make_incidence("systematic", 3))
    costs = {}
    for n_samples in (1_000, 10_000, 100_000, 1_000_000):
        values = np.random.default_rng(0).uniform(0.1, 1.0, (n_samples, 3))
        goal = loglinear.make_target(poset, values, 1e-3)
        start = np.zeros((n_samples, 3)), np.zeros((3, 3))

        def fit(
            steps: int, goal: loglinear.Target = goal, start: tuple[np.ndarray, np.ndarray] = start
        ) -> None:
            solve(poset, goal, *start, tol=0.0, max_iter=steps)

        rounds = max(3, 50_000 // n_samples)
        long, short = paired(lambda f=fit: f(6), lambda f=fit: f(1), rounds)  # type: ignore[misc]
        costs[n_samples] = (long - short) / 5
    exponent = np.log(costs[1_000_000] / costs[1_000]) / np.log(1_000)
    detail = ", ".join(f"{n:,}: {cost * 1e3:.3g} ms" for n, cost in costs.items())
    yield Figure("natural-gradient step, exponent in samples", float(exponent), "", 1.1, detail)


def fit() -> Iterator[Figure]:
    """Time a whole fit of the paper's time series, from theta = 0."""
    poset = Poset(make_incidence("systematic", 3))
    x = make_time_series(500) @ draw_mixing(0).T
    goal = loglinear.make_target(poset, np.exp(x - x.max()), 1e-3)
    start = np.zeros((500, 3)), np.zeros((3, 3))
    runs = [solve(poset, goal, *start, tol=1e-9) for _ in range(20)]
    spent = median(seconds(lambda: solve(poset, goal, *start, tol=1e-9)) for _ in range(200))
    yield Figure(
        "fit of L = N = 3, M = 500 to 1e-9", spent * 1e3, "ms", 3.0, f"{runs[0].n_iter} iterations"
    )


def windows() -> Iterator[Figure]:
    """Count the iterations that a fit takes if it starts from the window before, shifted by the hop."""
    x = make_time_series(5_000) @ draw_mixing(0).T
    plan = SeparationPlan(ModelSettings(structure="systematic", latent_mass=1e-3), x.shape[1])
    separator = plan.prepare_for(x, ["a", "b", "c"])
    length = 500
    for hop in (length // 2, length // 10):
        taken = []
        for warm in (True, False):
            windowed = WindowSeparator(length, hop, warm=warm)
            windowed.activate(StreamModel(1, separator, 0))
            windowed.push(Chunk(x, 0))
            taken.append(windowed.counts.iterations / windowed.counts.fits)
        name = f"windows of {length}, hop {hop}: iterations, warm / cold"
        detail = f"{taken[0]:.1f} a window, {taken[1]:.1f} from zero"
        yield Figure(name, taken[0] / taken[1], "", 0.7, detail)


def closed_form() -> Iterator[Figure]:
    """Compare the closed form on a million samples with a copy of the array."""
    for n_channels in (3, 16, 64):
        x = np.random.default_rng(0).standard_normal((1_000_000, n_channels), dtype=np.float32)
        out, in_order = np.empty_like(x), np.arange(n_channels)
        weight = 1.0 / (n_channels - 1)
        name = f"closed form, 1,000,000 x {n_channels} float32"
        for what, limit, run in (
            ("kernel", 2.0, partial(samples.unmix_complement, x, in_order, True, weight, out)),
            ("separate", 4.0, partial(published, x)),
            (
                "separate, min-max",
                math.inf,
                partial(published, x, transform="min-max"),
            ),
        ):
            spent, floor = paired(run, x.copy, 15 if limit < math.inf else 3)
            detail = f"{spent * 1e3:.2f} ms, copy {floor * 1e3:.2f} ms"
            yield Figure(f"{name}: {what} / copy", spent / floor, "", limit, detail)


def record(path: Path, n_samples: int) -> Path:
    """Write a recording of 64 channels at 1 kHz, float32, stored in one piece."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", (n_samples, 64), "f4")
        data.attrs["rate"] = 1000.0
        for at in range(0, n_samples, 60_000):
            rows = min(60_000, n_samples - at)
            data[at : at + rows] = rng.standard_normal((rows, 64), dtype=np.float32)
    return path


def plain_copy(source: Path, target: Path) -> None:
    """Copy the dataset slice by slice with h5py alone."""
    with h5py.File(source) as old, h5py.File(target, "w") as new:
        data = old["data"]
        copy = new.create_dataset("data", data.shape, data.dtype)
        for at in range(0, len(data), SLICE):
            copy[at : at + SLICE] = data[at : at + SLICE]


class Run(NamedTuple):
    """What a process took: seconds, seconds that it computed, and its peak memory in MB."""

    seconds: float
    cpu: float
    peak: float


def spawn(*arguments: str, command: Sequence[str] = COMMAND, **environment: str) -> Run:
    """Run a command; return what it took."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | environment,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join([*command, *arguments])} failed")
    return Run(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def batch() -> Iterator[Figure]:
    """Compare the command on half an hour of 64 channels, less its start-up, with a plain copy."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        big, small = record(at / "big.h5", 1_800_000), record(at / "small.h5", 1_000)
        out = at / "out.h5"

        def copied(source: Path) -> float:
            out.unlink(missing_ok=True)  # each run makes a new file, so that none has its pages ready
            os.sync()
            return seconds(lambda: plain_copy(source, out))

        def separated(source: Path) -> float:
            out.unlink(missing_ok=True)
            return spawn("batch", str(source), "--output", str(out), *PUBLISHED).seconds

        rounds = [(separated(big), separated(small), copied(big)) for _ in range(10)][1:]
        whole, start_up, floor = (median(column) for column in zip(*rounds, strict=True))
        detail = f"{whole:.2f} s less {start_up:.2f} s of start-up, copy {floor:.2f} s"
        yield Figure("batch, 64 channels x 30 min / copy", (whole - start_up) / floor, "", 2.0, detail)
        big.unlink()
        peaks = []
        for minutes in (5, 60):
            source = record(at / "long.h5", minutes * 60_000)
            peaks.append(spawn("batch", str(source), "--output", str(out), *PUBLISHED).peak)
        detail = f"{peaks[0]:.0f} MB for 5 minutes, {peaks[1]:.0f} MB for 60"
        yield Figure("batch, peak memory", max(peaks), "MB", 400.0, detail)
        yield Figure("batch, memory that 55 minutes more take", peaks[1] - peaks[0], "MB", 10.0, detail)


def start() -> Iterator[Figure]:
    """Time how long the command takes to begin, and the function of the package."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        small, large = str(record(at / "small.h5", 1_000)), str(record(at / "large.h5", 200_000))
        for name, source, options, limit in (
            ("a small file", small, PUBLISHED, 0.6),
            ("51 MB", large, PUBLISHED, math.inf),
            ("a small file, learned", small, ("--overwrite",), math.inf),
        ):
            command = "batch", source, "--output", str(at / "out.h5"), *options
            caches = [str(at / f"cache {name} {n}") for n in range(3)]
            cold = [spawn(*command, NUMBA_CACHE_DIR=cache) for cache in caches]
            warm = [spawn(*command, NUMBA_CACHE_DIR=caches[0]) for _ in range(9)]
            yield _quickest(f"first call after installation, {name}", cold, 8.0)
            yield _quickest(f"batch on {name}, warm cache", warm, limit)
        yield _quickest("--help", [spawn("--help") for _ in range(9)], 0.3)
        runs = [spawn(command=(sys.executable, "-c", SEPARATION)) for _ in range(9)]
        yield _quickest("import igbss_stream; separate", runs, 0.6)


def _quickest(name: str, runs: Sequence[Run], limit: float) -> Figure:
    """Return the shortest time of runs: other programs only make them longer."""
    detail = f"CPU {min(run.cpu for run in runs):.2f} s"
    return Figure(name, min(run.seconds for run in runs), "s", limit, detail)


# Those that start the command come first, while this process is small.
PARTS = {
    "start": start,
    "batch": batch,
    "fit": fit,
    "windows": windows,
    "scaling": scaling,
    "closed-form": closed_form,
    "workers": bench_workers.speed_up,
    "tasks": bench_workers.tasks,
    "hours": bench_workers.hours,
}
BLINKS = "blinks"


# Those that take long run only if they are named.
LONG = {"memory": memory, "throughput": throughput, "compression": compression}


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice([*PARTS, *LONG, BLINKS]))
@click.option(
    "with_blinks",
    "--recordings",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of the recordings that docs/method.md lists, for blinks.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where long parts make their files.  [default: that of temporary files]",
)
@click.option("--megabytes", default=1000, show_default=True, help="Size of the recordings of long parts.")
@click.option("--gigabytes", default=10, show_default=True, help="Size of the recording of `memory`.")
@click.option("--rounds", default=5, show_default=True, help="Rounds of long parts.")
@click.option(
    "recordings",
    "--recording",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A real recording for `compression`; can be given several times.",
)
def main(parts: tuple[str, ...], with_blinks: Path | None, folder: Path | None, **sizes: Any) -> None:
    """Measure PARTS, or all that do not take long; blinks only with their recording."""
    if BLINKS in parts and with_blinks is None:
        raise click.UsageError("blinks needs --recordings DIR, the folder of recordings.")
    measured = PARTS if with_blinks is None else PARTS | {BLINKS: partial(blinks, with_blinks)}
    figures = [measured[part]() for part in measured if part in (parts or measured)]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        figures += [LONG[part](Job(folder=Path(place), **sizes)) for part in LONG if part in parts]
        missed = [figure for figure in chain(*figures) if not shown(figure).within]
    sys.exit(1 if missed else 0)


def shown(figure: Figure) -> Figure:
    """Print a figure, and return it."""
    limit = "" if math.isinf(figure.limit) else f"<= {figure.limit:g}"
    verdict = "" if figure.within else "  MISSED"
    print(
        f"{figure.name:60}{figure.value:9.2f} {figure.unit:3}{limit:>9}{verdict}   {figure.detail}",
        flush=True,
    )
    return figure


if __name__ == "__main__":
    main()
