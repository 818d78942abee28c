#!/usr/bin/env python
"""Draw a mixture and its sources, for the README: what was there, what was received, and what was found.

.venv/bin/python tools/mixture_picture.py               docs/pictures/mixture.png
.venv/bin/python tools/mixture_picture.py --out /tmp
"""

from pathlib import Path

import click
import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

mpl.use("Agg")
from matplotlib import pyplot as plt

from igbss_stream import separate
from igbss_stream.playback.simulate import Simulation

Array = NDArray[np.float64]

_SHOWN = ("blink", "alpha", "mains", "muscle")
_RATE = 250.0
_LEARNED, _SEEN = round(60 * _RATE), slice(round(20 * _RATE), round(24 * _RATE))


def mixture() -> tuple[Array, Array]:
    """Return the true sources and the channels of a simulated head, a minute of it."""
    head = Simulation(19, _RATE, montage="10-20")
    of = [head.names.index(name) for name in _SHOWN]
    return head.sources(0, _LEARNED)[:, of], head.block(0, _LEARNED).astype(np.float64)


def found(truth: Array, channels: Array) -> tuple[Array, list[float]]:
    """Return the source that is most like each true one, sign as delivered, and their correlations."""
    sources = separate(channels, n_sources=13).sources
    like = np.corrcoef(truth.T, sources.T)[: truth.shape[1], truth.shape[1] :]
    best = np.abs(like).argmax(axis=1)
    return sources[:, best], [float(like[i, j]) for i, j in enumerate(best)]


def draw(path: Path) -> None:
    """Draw the picture."""
    truth, channels = mixture()
    sources, like = found(truth, channels)
    names = Simulation(19, _RATE, montage="10-20").stream("x").channels
    shown = [names.index(name) for name in ("Fp1", "T7", "Cz", "O1")]
    columns = (
        ("behind the channels", truth, list(_SHOWN), "tab:gray"),
        ("4 of the 19 channels", channels[:, shown], [names[i] for i in shown], "tab:blue"),
        ("found, sign as delivered", sources, [f"r = {r:.2f}" for r in like], "tab:green"),
    )
    seconds = np.arange(_LEARNED)[_SEEN] / _RATE
    figure, axes = plt.subplots(len(_SHOWN), 3, figsize=(10, 3.6), sharex=True, layout="constrained")
    for column, (title, data, labels, colour) in zip(axes.T, columns, strict=True):
        column[0].set_title(title, fontsize=10)
        for axis, trace, label in zip(column, data.T, labels, strict=True):
            axis.plot(seconds, trace[_SEEN], color=colour, linewidth=0.8)
            axis.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=9)
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
    figure.savefig(path, dpi=120, facecolor="white", metadata={"Software": None})
    plt.close(figure)


@click.command()
@click.option(
    "--out", default="docs/pictures", show_default=True, type=click.Path(path_type=Path, file_okay=False)
)
def main(out: Path) -> None:
    """Draw the picture of a mixture and its sources."""
    out.mkdir(parents=True, exist_ok=True)
    draw(out / "mixture.png")
    click.echo(f"{out / 'mixture.png'} is drawn")


if __name__ == "__main__":
    main()
