"""Real sources, with and without sensor noise, and an EEG separated window after window."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from page_tables import with_best_in_bold
from paper_methods import LEARNED, STRONG, Method, fast_ica, learned, projected
from paper_mixtures import Mixture, label
from paper_recordings import SOURCES, eeg, real_sources
from paper_report import COLOURS, Report, mean_and_deviation
from paper_tables import assigned, signs, with_best_signs

from igbss_stream.model.structure import learn_structure
from igbss_stream.separation.metrics import sir, standardise

Array = NDArray[np.float64]

DRAWS = 10  # at most: the sources are the same, and what separates them depends little on the mixing
NOISE = 0.1  # standard deviation, as a share of each channel's
FEW = ("heart, lead II", "eye", "ground motion", "gait")
RATE = 128  # Hz
PROJECTED = Method("learned, KL projection", projected)
WINDOW, HOP, N_WINDOWS = 4 * RATE, RATE, 200


def real(report: Report, folder: Path, seeds: Sequence[range]) -> None:
    """Separate real sources mixed by weights of 0.5 to 2."""
    sources = real_sources(folder)
    few = sources[:, [list(SOURCES).index(name) for name in FEW]]
    drawn = [some[:DRAWS] for some in seeds]
    counts = ", ".join(str(count) for count in sorted({len(some) for some in drawn}))
    note = f"{counts} mixing matrices; SIR in dB, signs as delivered but for FastICA; the best in bold."
    for name, title, truth, n_channels, noise, what in (
        ("real", "Real sources", sources, 8, 0.0, "8 real sources in 8 channels"),
        ("noise", "Real sources and sensor noise", few, 8, NOISE, NOISY),
    ):
        header = [what]
        rows: list[list[str]] = []
        for some in drawn:
            mixtures = [mixed(truth, n_channels, noise, seed) for seed in some]
            found = compared(mixtures, with_bound=noise > 0)
            header += [f"{each} ({label(some)})" for each in ("mean SIR", "worst SIR", "right signs, %")]
            rows = [[*row, *more[1:]] for row, more in zip(rows, found, strict=True)] if rows else found
        report.table(name, title, header, rows, note)


NOISY = "4 real sources in 8 channels, 10 % white noise"


def mixed(truth: Array, n_channels: int, noise: float, seed: int) -> tuple[Mixture, Array]:
    """Mix sources, add white noise as a share of each channel's deviation; return the matrix as well."""
    rng = np.random.default_rng(seed)
    mixing = rng.uniform(0.5, 2.0, (n_channels, truth.shape[1]))
    x = truth @ mixing.T
    return Mixture(x + noise * x.std(axis=0) * rng.standard_normal(x.shape), truth), mixing


def compared(mixtures: list[tuple[Mixture, Array]], with_bound: bool = False) -> list[list[str]]:
    """Return rows: mean and worst SIR over the sources, and the share of right signs, a method a row."""
    truth = mixtures[0][0].truth
    methods = (LEARNED, *((PROJECTED,) if with_bound else ()), *STRONG)
    found = {m.name: [_delivered(m, mixture) for mixture, _ in mixtures] for m in methods}
    ratios = {name: np.array([sir(sources, truth) for sources, _ in each]) for name, each in found.items()}
    cells = []
    for figure in (np.mean, np.min):
        values = [figure(each, axis=1) for each in ratios.values()]
        texts = [mean_and_deviation(each, 1) for each in values]
        cells.append(with_best_in_bold(texts, [float(each.mean()) for each in values], largest=True))
    upright = [f"{100 * np.mean([right for _, right in each]):.0f}" for each in found.values()]
    rows = [list(row) for row in zip(found, *cells, upright, strict=True)]
    if with_bound:
        bound = np.array([sir(mixture.x @ np.linalg.pinv(mixing).T, truth) for mixture, mixing in mixtures])
        texts = [mean_and_deviation(each, 1) for each in (bound.mean(axis=1), bound.min(axis=1))]
        rows.append(["pseudo-inverse of the true matrix", *texts, ""])
    return rows


def _delivered(method: Method, mixture: Mixture) -> tuple[Array, NDArray[np.bool_]]:
    """Return sources as they are scored, and which signs were right before an oracle."""
    sources, _ = method(mixture.x, mixture.truth.shape[1])
    upright = signs(sources, mixture.truth) > 0
    return with_best_signs(sources, mixture.truth) if method.oracle else sources, upright


def windows(report: Report, folder: Path) -> None:
    """Separate windows of an EEG, each on its own or from the structure before."""
    x = eeg(folder)
    cut = [x[at * HOP : at * HOP + WINDOW] for at in range(N_WINDOWS)]
    rows, delivered = [], {}
    for name, way in WAYS.items():
        began = time.process_time()
        delivered[name] = way(cut)
        spent = (time.process_time() - began) / len(cut)
        turned, moved = changes(delivered[name])
        rows.append([name, f"{100 * turned:.1f}", f"{100 * moved:.1f}", f"{1e3 * spent:.0f} ms"])
    header = [
        f"{N_WINDOWS} windows of 4 s, one each second",
        "change sign, %",
        "change place, %",
        "a window",
    ]
    report.table("windows", "Sources from window to window, EEG of 32 channels", header, rows, WINDOWS_NOTE)
    report.figure("windows", _figure(delivered))


WINDOWS_NOTE = (
    "A source is followed over the three seconds that two successive windows share, by the most\n"
    "correlated assignment of the one window's sources to the other's. Times are those of the processor."
)


def _warm(cut: Sequence[Array]) -> list[Array]:
    """Learn the first window from scratch, each other from the one before."""
    sources, last, view = [], None, None
    for window in cut:
        structure = learn_structure(window, window.shape[1], previous=last, view=view)
        last, view = structure.unmixing, structure.learning.view
        sources.append((window - structure.mean) @ last.T)
    return sources


def _each(method: Callable[[Array, int, int], Array], cut: Sequence[Array]) -> list[Array]:
    """Separate each window on its own."""
    each = Method("each", method)
    return [each(window, window.shape[1])[0] for window in cut]


WAYS: dict[str, Callable[[Sequence[Array]], list[Array]]] = {
    "learned, warm-started": _warm,
    "learned, each window on its own": partial(_each, learned),
    "FastICA, each window on its own": partial(_each, fast_ica),
}


def changes(delivered: Sequence[Array]) -> tuple[float, float]:
    """Return the shares of sources that change sign, and place, from one window to the next."""
    turned, moved = [], []
    for before, after in pairwise(delivered):
        shared, again = before[HOP:], after[:-HOP]
        turned.append(signs(again, shared) < 0)
        moved.append(assigned(again, shared) != np.arange(shared.shape[1]))
    return float(np.mean(turned)), float(np.mean(moved))


def _figure(delivered: dict[str, list[Array]], n_windows: int = 40) -> Figure:
    """Show the first source as it is delivered: the newest second of each window."""
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    panels = figure.subplots(len(delivered), 1, sharex=True, sharey=True)
    for axes, (name, sources) in zip(panels, delivered.items(), strict=True):
        newest = np.concatenate([standardise(each)[-HOP:, 0] for each in sources[:n_windows]])
        axes.plot(3.0 + np.arange(len(newest)) / RATE, newest, color=COLOURS[0], linewidth=0.7)
        axes.set_title(name, loc="left")
        axes.grid(axis="x", alpha=0.3)
    panels[-1].set_xlabel("time (s); each second comes from the window that ends with it")
    figure.supylabel("source 1 (standard deviations)", fontsize=9)
    return figure
