#!/usr/bin/env python
"""Separate the mixtures of the IGBSS paper by several methods and print tables in Markdown.

    .venv/bin/python tools/reproduce_paper.py                       time series and point cloud
    .venv/bin/python tools/reproduce_paper.py --images DIR          and the paper's images, USC-SIPI TIFFs

Every method sees the same mixtures. Errors are root mean squares between signals after the best assignment
of one to the other; signs are as delivered, except for FastICA, dictionary learning and NMF ("oracle"),
which get the signs that fit the truth best, as in the paper. With the images it takes eight minutes.
"""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF, FastICA, MiniBatchDictionaryLearning

from igbss_stream import separate
from igbss_stream.demo import mixing_matrix, time_series
from igbss_stream.metrics import match, rmse, standardised

Array = NDArray[np.float64]
Method = Callable[[Array], Array]
Error = Callable[[Array, Array], float]

# The paper's tables: RMSE of IGBSS (exp for the series), FastICA, dictionary learning, NMF.
PAPER = {
    "time series, order 1": (0.703, 0.414, None, None),
    "time series, order 2": (0.921, 1.700, None, None),
    "time series, order 3": (0.961, 1.388, None, None),
    "images 1, order 1": (0.252, 0.300, 0.394, 0.622),
    "images 1, order 2": (0.260, 0.285, 0.441, 0.662),
    "images 1, order 3": (0.252, 0.260, 0.362, 0.612),
    "images 2, order 1": (0.133, 0.284, 0.474, 0.591),
    "images 2, order 2": (0.256, 0.263, 0.576, 0.684),
    "images 2, order 3": (0.282, 0.239, 0.593, 0.665),
    "images 3, order 1": (0.155, 0.699, 0.478, 0.628),
    "images 3, order 2": (0.200, 0.280, 0.515, 0.709),
    "images 3, order 3": (0.203, 0.239, 0.536, 0.682),
    "point cloud": (1.421, 1.445, None, None),
}
IMAGES = (
    ("4.2.05", "4.2.06", "4.2.07"),  # airplane, lake, peppers
    ("4.2.03", "4.2.01", "4.1.07"),  # mandrill, splash, jelly beans
    ("4.2.03", "4.2.06", "4.2.07"),  # mandrill, lake, peppers
)


def published(transform: str) -> Method:
    """Return IGBSS as the paper has it."""
    return lambda x: separate(x, structure="systematic", transform=transform).sources


def learned(x: Array) -> Array:
    """Return IGBSS with a learned structure."""
    return separate(x).sources


def fast_ica(x: Array) -> Array:
    """Return independent components by scikit-learn."""
    return np.asarray(
        FastICA(x.shape[1], random_state=0, whiten="unit-variance", max_iter=1000).fit_transform(x)
    )


def dictionary(x: Array) -> Array:
    """Return the codes of a learned dictionary."""
    return np.asarray(
        MiniBatchDictionaryLearning(x.shape[1], random_state=0).fit_transform(x - x.mean(axis=0))
    )


def nmf(x: Array) -> Array:
    """Return the activations of a non-negative factorisation of the channels less their minimum."""
    return np.asarray(NMF(x.shape[1], init="nndsvda", max_iter=1000).fit_transform(x - x.min()))


METHODS: dict[str, tuple[Method, bool]] = {  # and whether an oracle gives the signs
    "channels": (lambda x: x, False),
    "published, exp": (published("exp"), False),
    "published, min-max": (published("min-max"), False),
    "learned": (learned, False),
    "FastICA (oracle)": (fast_ica, True),
    "dictionary (oracle)": (dictionary, True),
    "NMF (oracle)": (nmf, True),
}


def with_best_signs(sources: Array, truth: Array) -> Array:
    """Turn each source so that it agrees with the true one most like it."""
    similar = standardised(truth).T @ standardised(sources)
    most = np.abs(similar).argmax(axis=0)
    return sources * np.where(similar[most, np.arange(sources.shape[1])] < 0, -1.0, 1.0)


def min_max_rmse(sources: Array, truth: Array) -> float:
    """Return the error between images scaled from 0 to 1."""

    def scaled(x: Array) -> Array:
        return np.asarray((x - x.min(axis=0)) / np.ptp(x, axis=0))

    return float(np.sqrt(np.mean((scaled(sources[:, match(sources, truth)]) - scaled(truth)) ** 2)))


def interact(truth: Array, order: int, low: float, high: float, seed: int) -> Array:
    """Mix sources and their products of up to `order` of them."""
    rng = np.random.default_rng(seed)
    x = truth @ rng.uniform(low, high, (3, 3)).T
    if order >= 2:
        pairs = np.column_stack([truth[:, i] * truth[:, j] for i, j in ((0, 1), (0, 2), (1, 2))])
        x = x + pairs @ rng.uniform(low, high, (3, 3)).T
    if order >= 3:
        x = x + truth.prod(axis=1, keepdims=True) @ rng.uniform(low, high, (3, 1)).T
    return np.asarray(x)


def mixtures(images: Path | None, runs: int) -> Iterator[tuple[str, Error, list[tuple[Array, Array]]]]:
    """Yield the name, the error and the (channels, sources) of each experiment."""
    series = time_series()
    first = [series @ mixing_matrix(seed).T for seed in range(runs)]
    yield "time series, order 1", rmse, [(x, series) for x in first]
    for order in (2, 3):
        drawn = [(interact(series, order, 0.5, 2.0, seed), series) for seed in range(runs)]
        yield f"time series, order {order}", rmse, drawn
    for number, names in enumerate(IMAGES if images else (), 1):
        truth = np.column_stack([pixels(images / f"sipi_{name}.tiff") for name in names])  # type: ignore[operator]
        for order in (1, 2, 3):
            drawn = [(interact(truth, order, 1.0, 6.0, seed), truth) for seed in range(runs)]
            yield f"images {number}, order {order}", min_max_rmse, drawn
    clouds = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        truth = rng.standard_t(1.3, (1000, 2)) * [0.2, 0.1]
        clouds.append((truth @ rng.uniform(0.5, 2.0, (2, 2)).T, truth))
    yield "point cloud", rmse, clouds


def pixels(path: Path) -> Array:
    """Return an image as 32 x 32 pixels between 0 and 1, one colour plane after the other."""
    try:
        from PIL import Image
    except ImportError:
        raise click.ClickException("--images needs Pillow: .venv/bin/pip install -e .[paper]") from None
    if not path.is_file():
        raise click.ClickException(
            f"{path} is missing: --images needs the USC-SIPI TIFFs, sipi_4.2.05.tiff ..."
        )
    image = Image.open(path).convert("RGB").resize((32, 32), Image.Resampling.BICUBIC)
    return np.asarray(image, dtype=np.float64).transpose(2, 0, 1).reshape(-1) / 255.0


def score(method: Method, oracle: bool, error: Error, drawn: list[tuple[Array, Array]]) -> str:
    """Return mean and standard deviation of the error over mixtures."""
    errors = []
    for x, truth in drawn:
        sources = method(x)
        errors.append(error(with_best_signs(sources, truth) if oracle else sources, truth))
    return f"{np.mean(errors):.3f} ± {np.std(errors):.3f}"


@click.command()
@click.option(
    "--images", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of TIFFs."
)
@click.option("--runs", default=40, show_default=True, help="Mixtures an experiment.")
def main(images: Path | None, runs: int) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")  # of baselines that do not converge
    header = ["RMSE", *METHODS, "paper: IGBSS", "paper: FastICA", "paper: DL", "paper: NMF"]
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for name, error, drawn in mixtures(images, runs):
        cells = [score(method, oracle, error, drawn) for method, oracle in METHODS.values()]
        told = ["" if value is None else f"{value:.3f}" for value in PAPER[name]]
        print("| " + " | ".join([name, *cells, *told]) + " |", flush=True)


if __name__ == "__main__":
    main()
