"""The figures of the paper: signals, images and points, before and after, and how a fit converges."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from paper_methods import FAST_ICA, LEARNED, PRINCIPAL, PUBLISHED_EXP, PUBLISHED_MIN_MAX, WEAK, Method
from paper_mixtures import (
    Mixture,
    as_picture,
    cloud_mixture,
    picture_kind,
    picture_mixture,
    picture_set,
    round_to_8_bits,
    series_mixture,
)
from paper_report import COLOURS, Report
from paper_tables import with_best_signs

from igbss_stream import separate
from igbss_stream.separation.metrics import match_sources, standardise

Array = NDArray[np.float64]


def series_figures(report: Report, seed: int) -> None:
    """Draw one mixture of time series of each order."""
    for order in (1, 2, 3):
        report.figure(f"time-series-order-{order}", make_time_series(series_mixture(order, seed)))


def picture_figures(report: Report, images: Path | None, seed: int) -> None:
    """Show one mixture of each set of pictures, of orders 1 and 3 as in the paper."""
    for number in (1, 2, 3):
        truth = picture_set(images, number)
        for order in (1, 3):
            name = f"{picture_kind(images)}-{number}-order-{order}"
            report.figure(name, pictures(round_to_8_bits(picture_mixture(truth, order, seed))))


def cloud_figure(report: Report, seed: int) -> None:
    """Show one mixture of points."""
    report.figure("point-cloud", point_cloud(cloud_mixture(seed)))


def convergence_figure(report: Report, seed: int) -> None:
    """Show how fits of the published structure converge."""
    report.figure("convergence", convergence(seed))


def separated(method: Method, mixture: Mixture) -> Array:
    """Return sources in the order of the truth, and where an oracle is allowed, with its signs."""
    sources, _ = method(mixture.x, mixture.truth.shape[1], mixture.order)
    if method.oracle:
        sources = with_best_signs(sources, mixture.truth)
    return np.asarray(sources[:, match_sources(sources, mixture.truth)])


def columns(mixture: Mixture, methods: Sequence[Method]) -> dict[str, Array]:
    """Return what the columns of a figure show: truth, mixture, then each method's sources."""
    return {
        "sources": mixture.truth,
        "mixture": mixture.x,
        **{method.name: separated(method, mixture) for method in methods},
    }


def make_time_series(mixture: Mixture) -> Figure:
    """Draw signals over time, a source a row."""
    shown = columns(mixture, (PUBLISHED_EXP, PUBLISHED_MIN_MAX, LEARNED, FAST_ICA))
    figure = Figure(figsize=(11.0, 3.6), layout="constrained")
    panels = figure.subplots(3, len(shown), sharex=True, sharey=True)
    panels[0, 0].set_xticks(range(0, 9, 2))
    seconds = np.linspace(0.0, 8.0, len(mixture.x))
    for column, (name, signals) in enumerate(shown.items()):
        panels[0, column].set_title(name)
        panels[-1, column].set_xlabel("time (s)")
        for axes, signal in zip(panels[:, column], standardise(signals).T, strict=True):
            axes.plot(seconds, signal, color=COLOURS[0] if column else "black", linewidth=1.0)
    figure.supylabel("amplitude (standard deviations)", fontsize=9)
    return figure


def pictures(mixture: Mixture) -> Figure:
    """Show pictures, a source a row, each scaled from black to white."""
    shown = columns(mixture, (PUBLISHED_MIN_MAX, LEARNED, FAST_ICA, *WEAK[1:]))
    return picture_grid(shown)


def picture_grid(shown: dict[str, Array]) -> Figure:
    """Show columns of pictures under their names."""
    figure = Figure(figsize=(1.35 * len(shown), 4.4), layout="constrained")
    panels = figure.subplots(3, len(shown))
    for column, (name, sources) in enumerate(shown.items()):
        panels[0, column].set_title(name.replace(", ", ",\n").replace(" (", "\n("), fontsize=9)
        for axes, source in zip(panels[:, column], sources.T, strict=True):
            axes.imshow(as_picture(source), interpolation="nearest")
            axes.set_axis_off()
    return figure


def point_cloud(mixture: Mixture) -> Figure:
    """Show points in the plane of the two sources."""
    shown = columns(mixture, (PUBLISHED_MIN_MAX, LEARNED, FAST_ICA, PRINCIPAL))
    figure = Figure(figsize=(9.0, 6.2), layout="constrained")
    for axes, (name, points) in zip(figure.subplots(2, 3).flat, shown.items(), strict=True):
        _scatter(axes, np.asarray(points))
        axes.set_title(name)
        ends = ("channel 1", "channel 2") if name == "mixture" else ("source 1", "source 2")
        axes.set_xlabel(f"{ends[0]} (interquartile ranges)")
        axes.set_ylabel(f"{ends[1]} (interquartile ranges)")
    return figure


def _scatter(axes: Axes, points: Array) -> None:
    """Show points by the spread of their middle half; the few furthest out lie beyond the frame."""
    low, middle, high = np.percentile(points, (25, 50, 75), axis=0)
    scaled = (points - middle) / (high - low)
    axes.plot(*scaled.T, "o", markersize=2.0, alpha=0.5, markeredgewidth=0)
    axes.set(xlim=(-15, 15), ylim=(-15, 15), aspect="equal")
    axes.axhline(0.0, color="grey", linewidth=0.5, zorder=0)
    axes.axvline(0.0, color="grey", linewidth=0.5, zorder=0)


def convergence(seed: int, n_iter: int = 60) -> Figure:
    """Draw how far the divergence is from its minimum, iteration by iteration, for orders 1 and 3."""
    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    for axes, order in zip(figure.subplots(1, 2, sharey=True), (1, 3), strict=True):
        x = series_mixture(order, seed).x
        least = separate(x, structure="systematic", order=order, latent_mass=1e-3, tol=1e-12).kl[-1]
        for solver in ("joint", "blocked", "gradient"):
            fit = separate(
                x,
                structure="systematic",
                order=order,
                solver=solver,
                latent_mass=1e-3,
                tol=1e-12,
                max_iter=n_iter,
            )
            gap = np.asarray(fit.kl) - least
            axes.semilogy(np.flatnonzero(gap > 1e-16), gap[gap > 1e-16], label=solver)
        axes.set(title=f"order {order}", xlabel="iteration", ylim=(1e-15, None))
        axes.grid(alpha=0.3)
        axes.legend()
    figure.axes[0].set_ylabel("KL divergence above its minimum (nats)")
    return figure
