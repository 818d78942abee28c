"""Run times: against the number of samples and the order as in the paper, and on 64 channels.

All of them are those of the processor, so that other programs hardly count.
"""

import math
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from paper_methods import fast_ica, picard
from paper_report import COLOURS, MARKERS, Report
from scipy.signal import lfilter

from igbss_stream import separate
from igbss_stream.cli.demo import draw_mixing, make_time_series

Array = NDArray[np.float64]
Run = Callable[[Array], object]

SAMPLES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
ORDERS = (1, 2, 3, 4, 5, 6)
PATIENCE = 10.0  # seconds; a curve ends with the first point beyond
FIT = {"latent_mass": 1e-3, "tol": 1e-6, "max_iter": 100}


def fit(x: Array, solver: str, order: int = 1) -> object:
    """Return the published IGBSS by one of its iterative solvers, at most 100 iterations."""
    return separate(x, structure="systematic", solver=solver, order=order, **FIT)  # type: ignore[arg-type]


SOLVERS: dict[str, Callable[..., object]] = {
    "published, natural gradient (joint)": partial(fit, solver="joint"),
    "published, natural gradient (blocked, as in the paper)": partial(fit, solver="blocked"),
    "published, gradient descent": partial(fit, solver="gradient"),
}
CURVES: dict[str, Run] = {
    **SOLVERS,
    "published, closed form": partial(separate, structure="systematic", solver="closed-form"),
    "learned": partial(separate, structure="learned"),
    "FastICA": lambda x: fast_ica(x, x.shape[1]),
    "Picard": lambda x: picard(x, x.shape[1]),
}


def run_times(report: Report, seeds: Sequence[range]) -> None:
    """Measure and show how cost grows, and what 64 channels cost; the first of each range is drawn."""
    drawn = [some.start for some in seeds]
    by_samples = {seed: curves(CURVES, SAMPLES, partial(samples_problem, seed)) for seed in drawn}
    by_order = {seed: {name: order_curve(run, seed) for name, run in SOLVERS.items()} for seed in drawn}
    floors = {size: seconds(samples_problem(drawn[0], size).copy) for size in SAMPLES}
    floor = dict.fromkeys(ORDERS, seconds(order_problem(drawn[0]).copy))
    title = "Run time against the number of samples, 3 channels"
    header = ["", "seed", *(f"{size:,}" for size in SAMPLES)]
    report.table("time-samples", title, header, _rows(by_samples, floors, SAMPLES), UNIT)
    title = "Run time against the order of interaction, 6 channels x 500 samples"
    header = ["", "seed", *(f"order {k}" for k in ORDERS)]
    report.table("time-order", title, header, _rows(by_order, floor, ORDERS), UNIT)
    report.figure("run-time", _figure(by_samples[drawn[0]], by_order[drawn[0]], floors, floor))
    header = ["64 channels", "seed", "seconds", "ratio", "MB above samples and sources"]
    rows = sorted(chain(*map(many_channels, drawn)), key=lambda row: list(LINES).index(row[0]))
    report.table("time-64", "Learning 64 channels", header, rows, NOISY)


UNIT = (
    "Seconds of the processor; in brackets the ratio to one copy of the samples. Fits end at a relative\n"
    "gradient of 1e-6 or after 100 iterations: the joint natural gradient needs about ten, the other two\n"
    "use them up. Empty: a smaller size took over 10 s."
)
NOISY = "One run each; the ratio is to the line named Picard or FastICA of the same number of samples."


def samples_problem(seed: int, n_samples: int) -> Array:
    """Return the paper's time series, sampled so often, in three channels."""
    return make_time_series(n_samples) @ draw_mixing(seed).T


def order_problem(seed: int) -> Array:
    """Return six channels of Laplacian noise, mixed."""
    return np.random.default_rng(seed).laplace(size=(500, 6)) @ draw_mixing(seed, 6, 6).T


def curves(
    runs: dict[str, Run], sizes: tuple[int, ...], problem: Callable[[int], Array]
) -> dict[str, dict[int, float]]:
    """Time each run on problems of growing size, until one takes too long."""
    found: dict[str, dict[int, float]] = {}
    for name, run in runs.items():
        run(problem(sizes[0]))  # compiled and imported before the clock starts
        found[name] = {}
        for size in sizes:
            found[name][size] = seconds(partial(run, problem(size)))
            if found[name][size] > PATIENCE:
                break
    return found


def order_curve(run: Callable[..., object], seed: int) -> dict[int, float]:
    """Time a solver at each order of interaction."""
    return {k: seconds(partial(run, order_problem(seed), order=k)) for k in ORDERS}


def seconds(run: Callable[[], object]) -> float:
    """Return how long a call keeps the processor: the median of seven, or of those within a second."""
    spent: list[float] = []
    while len(spent) < 7 and sum(spent) < 1.0:
        began = time.process_time()
        run()
        spent.append(time.process_time() - began)
    return median(spent)


LINES = (
    "60,000 samples, learned",
    "60,000 samples, learned, warm start",
    "60,000 samples, Picard",
    "600,000 samples, learned",
    "600,000 samples, FastICA",
)


def many_channels(seed: int) -> Iterator[list[str]]:
    """Yield the lines of the table of 64 channels: every method goes from channels to sources."""
    x = channels_64(seed, 60_000)
    result = separate(x, structure="learned")
    spent = [
        once(lambda: separate(x, structure="learned")),
        once(lambda: separate(x, previous=result)),
        once(lambda: picard(x, 64)),
    ]
    for name, each in zip(LINES[:3], spent, strict=True):
        yield [name, str(seed), f"{each:.1f}", f"{each / spent[-1]:.2f}", ""]
    x = channels_64(seed, 600_000)
    learning, rival = once(lambda: separate(x, structure="learned")), once(lambda: fast_ica(x, 64))
    yield [LINES[3], str(seed), f"{learning:.1f}", f"{learning / rival:.2f}", f"{peak(x):.0f}"]
    yield [LINES[4], str(seed), f"{rival:.1f}", "1", ""]


def channels_64(seed: int, n_samples: int) -> Array:
    """Return 64 resonances driven by noise of various shapes, mixed by weights of 0.5 to 2."""
    rng = np.random.default_rng(seed)
    sources = np.empty((n_samples, 64))
    for i in range(64):
        radius, angle = rng.uniform(0.5, 0.98), rng.uniform(0.1, 2.8)
        drive = rng.laplace(size=n_samples) if i % 2 else rng.uniform(-1.0, 1.0, n_samples)
        sources[:, i] = lfilter([1.0], [1.0, -2.0 * radius * math.cos(angle), radius**2], drive)
    return np.asarray((sources / sources.std(axis=0)) @ draw_mixing(seed, 64, 64).T)


def once(run: Callable[[], object]) -> float:
    """Return how long one call keeps the processor."""
    began = time.process_time()
    run()
    return time.process_time() - began


def peak(x: Array) -> float:
    """Return the most memory that separation takes beyond its samples and sources, in MB."""
    tracemalloc.start()
    separate(x, structure="learned")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (most - x.nbytes) / 2**20


def _rows(found: dict[int, "Curves"], floor: dict[int, float], sizes: Sequence[int]) -> list[list[str]]:
    """Return rows: each curve for every seed, the seeds of a curve one after the other."""
    rows = []
    for name in next(iter(found.values())):
        for seed, by_name in found.items():
            points = by_name[name]
            cells = (
                f"{points[size]:.2g} ({_short(points[size] / floor[size])})" if size in points else ""
                for size in sizes
            )
            rows.append([name, str(seed), *cells])
    return rows


def _short(ratio: float) -> str:
    """Return a ratio with two digits that count."""
    return f"{float(f'{ratio:.2g}'):,.0f}"


Curves = dict[str, dict[int, float]]


def _figure(
    by_samples: Curves, by_order: Curves, floors: dict[int, float], floor: dict[int, float]
) -> Figure:
    figure = Figure(figsize=(9.0, 7.4), layout="constrained")
    ((top_left, top_right), (bottom_left, bottom_right)) = figure.subplots(2, 2)
    for axes, found, against in (
        (top_left, by_samples, dict.fromkeys(floors, 1.0)),
        (top_right, by_order, dict.fromkeys(floor, 1.0)),
        (bottom_left, by_samples, floors),
        (bottom_right, by_order, floor),
    ):
        _draw(axes, found, against)
    for axes in (top_left, top_right):
        axes.set_ylabel("run time (s)")
    for axes in (bottom_left, bottom_right):
        axes.set_ylabel("run time / one copy of the samples")
    for axes in (top_left, bottom_left):
        axes.set_xlabel("samples (3 channels)")
    for axes in (top_right, bottom_right):
        axes.set_xlabel("highest order of interaction (6 channels x 500 samples)")
        axes.set_xticks(ORDERS, [str(k) for k in ORDERS])
        axes.xaxis.minorticks_off()
    figure.legend(*top_left.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return figure


def _draw(axes: Axes, found: Curves, against: dict[int, float]) -> None:
    for (name, points), colour, marker in zip(found.items(), COLOURS, MARKERS, strict=False):
        heights = [spent / against[size] for size, spent in points.items()]
        axes.loglog(list(points), heights, marker=marker, markersize=4, color=colour, label=name)
    low, high = axes.get_ylim()
    axes.set_ylim(10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high)))
    axes.grid(which="major", alpha=0.3)
