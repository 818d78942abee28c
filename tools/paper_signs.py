"""The paper's sign inversion: one mixture of images, separated again and again from other starts."""

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from paper_figures import picture_grid
from paper_methods import (
    LEARNED,
    PUBLISHED_EXP,
    PUBLISHED_MIN_MAX,
    Method,
    fast_ica,
    picard,
    picard_unmixing,
    unmixed,
)
from paper_mixtures import Mixture, picture_kind, picture_mixture, picture_set
from paper_report import Report
from paper_tables import assigned, signs

Array = NDArray[np.float64]

SHOWN = 6  # runs of FastICA in the figure, as in the paper


def sign_inversion(report: Report, images: Path | None, seeds: range) -> None:
    """Count right signs over starts, and show the first of them."""
    truth = picture_set(images, 1)
    mixture = picture_mixture(truth, 1, 0)
    rows = []
    for method, kind in (
        (fast_ica, "FastICA, another start each run"),
        (_raw_picard, "Picard, another start each run, signs as they come"),
        (picard, "Picard, another start each run, positive columns"),
    ):
        rows.append(
            _row(kind, mixture, [Method(kind, partial(method, seed=run)) for run in range(len(seeds))])
        )
    fixed = (PUBLISHED_EXP, PUBLISHED_MIN_MAX, LEARNED)
    rows += [_row(f"{method.name}: no start to choose", mixture, [method]) for method in fixed]
    header = [f"{picture_kind(images)} 1, order 1", "right signs, %", "runs with all signs right, %"]
    report.table("sign-inversion", "Sign inversion, one mixture again and again", header, rows)
    report.figure("sign-inversion", _figure(mixture))


def _raw_picard(x: Array, n_sources: int, order: int, seed: int) -> Array:
    return unmixed(x, picard_unmixing(x, n_sources, seed))


def _row(name: str, mixture: Mixture, methods: list[Method]) -> list[str]:
    upright = [signs(method(mixture.x, 3)[0], mixture.truth) > 0 for method in methods]
    every = [bool(each.all()) for each in upright]
    return [name, f"{100 * np.mean(upright):.0f}", f"{100 * np.mean(every):.0f}"]


def _figure(mixture: Mixture) -> Figure:
    shown = {"sources": mixture.truth, "mixture": mixture.x}
    learned, _ = LEARNED(mixture.x, 3)
    shown["learned"] = learned[:, assigned(learned, mixture.truth)]
    for run in range(SHOWN):
        sources = fast_ica(mixture.x, 3, seed=run)
        shown[f"FastICA\nrun {run + 1}"] = sources[:, assigned(sources, mixture.truth)]
    return picture_grid(shown)
