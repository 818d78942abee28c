"""The paper's sign inversion: one mixture of images, separated again and again from other starts."""

from collections.abc import Sequence
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
from paper_mixtures import Mixture, label, picture_kind, picture_mixture, picture_set, round_to_8_bits
from paper_report import Report
from paper_tables import assigned, signs

Array = NDArray[np.float64]

SHOWN = 6  # runs of FastICA in the figure, as in the paper


def sign_inversion(report: Report, images: Path | None, seeds: Sequence[range]) -> None:
    """Count right signs over starts, and show the first of them."""
    truth = picture_set(images, 1)
    rows: dict[str, list[str]] = {}
    for some in seeds:
        mixture = round_to_8_bits(picture_mixture(truth, 1, some.start))
        for method, kind in (
            (fast_ica, "FastICA, another start each run"),
            (_raw_picard, "Picard, another start each run, signs as they come"),
            (picard, "Picard, another start each run, positive columns"),
        ):
            methods = [Method(kind, partial(method, seed=run)) for run in some]
            rows[kind] = rows.get(kind, []) + _count(mixture, methods)
        for fixed in (PUBLISHED_EXP, PUBLISHED_MIN_MAX, LEARNED):
            kind = f"{fixed.name}: no start to choose"
            rows[kind] = rows.get(kind, []) + _count(mixture, [fixed])
    header = [f"{picture_kind(images)} 1, order 1"]
    for some in seeds:
        header += [f"right signs, % ({label(some)})", f"runs with all signs right, % ({label(some)})"]
    cells = [[name, *counts] for name, counts in rows.items()]
    report.table("sign-inversion", "Sign inversion, one mixture again and again", header, cells, NOTE)
    first = seeds[0]
    report.figure("sign-inversion", _figure(round_to_8_bits(picture_mixture(truth, 1, first.start)), first))


NOTE = "Of each range of seeds, the first draws the mixture, and all of them the starts."


def _raw_picard(x: Array, n_sources: int, order: int, seed: int) -> Array:
    return unmixed(x, picard_unmixing(x, n_sources, seed))


def _count(mixture: Mixture, methods: list[Method]) -> list[str]:
    """Return the shares of right signs, and of runs with right signs only, per cent."""
    upright = [signs(method(mixture.x, 3)[0], mixture.truth) > 0 for method in methods]
    every = [bool(each.all()) for each in upright]
    return [f"{100 * np.mean(upright):.0f}", f"{100 * np.mean(every):.0f}"]


def _figure(mixture: Mixture, starts: range) -> Figure:
    shown = {"sources": mixture.truth, "mixture": mixture.x}
    learned, _ = LEARNED(mixture.x, 3)
    shown["learned"] = learned[:, assigned(learned, mixture.truth)]
    for run, seed in enumerate(starts[:SHOWN], 1):
        sources = fast_ica(mixture.x, 3, seed=seed)
        shown[f"FastICA\nrun {run}"] = sources[:, assigned(sources, mixture.truth)]
    return picture_grid(shown)
