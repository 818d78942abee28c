"""Run times: against the number of samples and the order as in the paper, and on 64 channels."""

import math
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from paper_methods import fast_ica, learned, picard, picard_unmixing
from paper_report import COLOURS, MARKERS, Report
from scipy.signal import lfilter

from igbss_stream import separate
from igbss_stream.cli.demo import draw_mixing, make_time_series
from igbss_stream.model.structure import learn_structure

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
    "published, closed form": separate,
    "learned": lambda x: learned(x, x.shape[1], 1),
    "FastICA": lambda x: fast_ica(x, x.shape[1]),
    "Picard": lambda x: picard(x, x.shape[1]),
}


def run_times(report: Report) -> None:
    """Measure and show how cost grows, and what 64 channels cost."""
    by_samples = curves(CURVES, SAMPLES, samples_problem)
    by_order = {name: order_curve(run) for name, run in SOLVERS.items()}
    floors = {size: seconds(samples_problem(size).copy) for size in SAMPLES}
    rows = [_row(name, points, floors, SAMPLES) for name, points in by_samples.items()]
    title = "Run time against the number of samples, 3 channels"
    report.table("time-samples", title, ["", *(f"{size:,}" for size in SAMPLES)], rows, UNIT)
    floor = dict.fromkeys(ORDERS, seconds(order_problem().copy))
    rows = [_row(name, points, floor, ORDERS) for name, points in by_order.items()]
    title = "Run time against the order of interaction, 6 channels x 500 samples"
    report.table("time-order", title, ["", *(f"order {k}" for k in ORDERS)], rows, UNIT)
    report.figure("run-time", _figure(by_samples, by_order, floors, floor))
    header = ["64 channels", "seconds", "ratio", "MB above samples and sources"]
    report.table("time-64", "Learning 64 channels", header, list(many_channels()), NOISY)


UNIT = (
    "Seconds; in brackets the ratio to one copy of the samples. Fits end at a relative gradient of 1e-6\n"
    "or after 100 iterations: the joint natural gradient needs about ten, the other two use them up.\n"
    "Empty: a smaller size took over 10 s."
)
NOISY = "One run each; the ratio is to the line named Picard or FastICA of the same number of samples."


def samples_problem(n_samples: int) -> Array:
    """Return the paper's time series, sampled so often, in three channels."""
    return make_time_series(n_samples) @ draw_mixing(0).T


def order_problem() -> Array:
    """Return six channels of Laplacian noise, mixed."""
    return np.random.default_rng(0).laplace(size=(500, 6)) @ draw_mixing(0, 6, 6).T


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


def order_curve(run: Callable[..., object]) -> dict[int, float]:
    """Time a solver at each order of interaction."""
    return {k: seconds(partial(run, order_problem(), order=k)) for k in ORDERS}


def seconds(run: Callable[[], object]) -> float:
    """Return how long a call takes: the median of seven calls, or of those that fit into a second."""
    spent: list[float] = []
    while len(spent) < 7 and sum(spent) < 1.0:
        began = time.perf_counter()
        run()
        spent.append(time.perf_counter() - began)
    return median(spent)


def many_channels() -> Iterator[list[str]]:
    """Yield the lines of the table of 64 channels."""
    x = channels_64(60_000)
    structure = learn_structure(x, 64)
    rival = once(lambda: picard_unmixing(x, 64))
    for name, run in (
        ("learned", lambda: learn_structure(x, 64)),
        ("learned, warm start", lambda: learn_structure(x, 64, previous=structure.unmixing)),
    ):
        spent = once(run)
        yield [f"60,000 samples, {name}", f"{spent:.1f}", f"{spent / rival:.2f}", ""]
    yield ["60,000 samples, Picard", f"{rival:.1f}", "1", ""]
    x = channels_64(600_000)
    rival, spent = once(lambda: fast_ica(x, 64)), once(lambda: separate(x, structure="learned"))
    yield ["600,000 samples, learned", f"{spent:.1f}", f"{spent / rival:.2f}", f"{peak(x):.0f}"]
    yield ["600,000 samples, FastICA", f"{rival:.1f}", "1", ""]


def channels_64(n_samples: int) -> Array:
    """Return 64 resonances driven by noise of various shapes, mixed by weights of 0.5 to 2."""
    rng = np.random.default_rng(0)
    sources = np.empty((n_samples, 64))
    for i in range(64):
        radius, angle = rng.uniform(0.5, 0.98), rng.uniform(0.1, 2.8)
        drive = rng.laplace(size=n_samples) if i % 2 else rng.uniform(-1.0, 1.0, n_samples)
        sources[:, i] = lfilter([1.0], [1.0, -2.0 * radius * math.cos(angle), radius**2], drive)
    return np.asarray((sources / sources.std(axis=0)) @ draw_mixing(0, 64, 64).T)


def once(run: Callable[[], object]) -> float:
    """Return how long one call takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def peak(x: Array) -> float:
    """Return the most memory that separation takes beyond its samples and sources, in MB."""
    tracemalloc.start()
    separate(x, structure="learned")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (most - x.nbytes) / 2**20


def _row(name: str, points: dict[int, float], floor: dict[int, float], sizes: Sequence[int]) -> list[str]:
    cells = (
        f"{points[size]:.2g} ({_short(points[size] / floor[size])})" if size in points else ""
        for size in sizes
    )
    return [name, *cells]


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
