"""The mixtures of the paper: time series, images, point cloud, with interactions of up to three sources."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from igbss_stream.cli.demo import draw_mixing, make_time_series

Array = NDArray[np.float64]

PICTURES_WITH_PRODUCTS = 4  # of a range of seeds, the first: they take half a minute to learn
SIDE = 32  # pixels of an image, as in the paper
SIPI = (
    ("4.2.05", "4.2.06", "4.2.07"),  # airplane, lake, peppers
    ("4.2.03", "4.2.01", "4.1.07"),  # mandrill, splash, jelly beans
    ("4.2.03", "4.2.06", "4.2.07"),  # mandrill, lake, peppers
)
PHOTOS = (
    ("astronaut", "coffee", "chelsea"),
    ("rocket", "immunohistochemistry", "chelsea"),
    ("astronaut", "rocket", "hubble_deep_field"),
)


@dataclass(frozen=True)
class Mixture:
    """Channels and the sources behind them.

    Parameters
    ----------
    x : ndarray of shape (samples, channels)
    truth : ndarray of shape (samples, sources)
    order : int
        Largest number of sources that interact.
    """

    x: Array
    truth: Array
    order: int = 1


@dataclass(frozen=True)
class Experiment:
    """A row of a table: mixtures of one kind, one a run.

    Parameters
    ----------
    name : str
    mixtures : list of Mixture
    min_max : bool
        Whether the paper scales sources from 0 to 1 before it compares, or to unit variance.
    seeds : str
        Those of the mixtures, FROM:TO.
    """

    name: str
    mixtures: list[Mixture]
    min_max: bool = False
    seeds: str = ""


def series_experiments(seeds: range) -> Iterator[Experiment]:
    """Yield the experiments on time series."""
    for order in (1, 2, 3):
        yield Experiment(f"time series, order {order}", [series_mixture(order, seed) for seed in seeds])


def picture_experiments(images: Path | None, seeds: range) -> Iterator[Experiment]:
    """Yield the experiments on images; without a folder of the paper's, on photos instead."""
    for number in (1, 2, 3):
        truth = picture_set(images, number)
        for order in (1, 2, 3):
            few = seeds if order == 1 else seeds[:PICTURES_WITH_PRODUCTS]
            drawn = [picture_mixture(truth, order, seed) for seed in few]
            name = f"{picture_kind(images)} {number}, order {order}"
            yield Experiment(name, [round_to_8_bits(mixture) for mixture in drawn], True)
            if order == 1:
                yield Experiment(f"{name}, not rounded", drawn, True)


def cloud_experiments(seeds: range) -> Iterator[Experiment]:
    """Yield the experiment on a point cloud."""
    yield Experiment("point cloud", [cloud_mixture(seed) for seed in seeds])


def series_mixture(order: int, seed: int) -> Mixture:
    """Return the paper's time series, mixed by weights of 0.5 to 2."""
    truth = make_time_series()
    x = truth @ draw_mixing(seed).T if order == 1 else interact(truth, order, 0.5, 2.0, seed)
    return Mixture(x, truth, order)


def picture_mixture(truth: Array, order: int, seed: int) -> Mixture:
    """Return pictures mixed by weights of 1 to 6."""
    return Mixture(interact(truth, order, 1.0, 6.0, seed), truth, order)


def round_to_8_bits(mixture: Mixture) -> Mixture:
    """Return a mixture of pictures as pictures, with values from 0 to 255, as the paper has them."""
    return replace(mixture, x=np.round(mixture.x * (255.0 / mixture.x.max())))


def cloud_mixture(seed: int, n_samples: int = 1000) -> Mixture:
    """Return the paper's point cloud: Student's t with 1.3 degrees of freedom, mixed in two channels."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_t(1.3, (n_samples, 2)) * [0.2, 0.1]
    return Mixture(truth @ rng.uniform(0.5, 2.0, (2, 2)).T, truth)


def interact(truth: Array, order: int, low: float, high: float, seed: int) -> Array:
    """Mix sources and the products of up to `order` of them, by weights between two bounds."""
    rng = np.random.default_rng(seed)
    x = np.zeros_like(truth)
    for size in range(1, order + 1):
        sets = list(combinations(range(truth.shape[1]), size))
        products = np.column_stack([truth[:, members].prod(axis=1) for members in sets])
        x += products @ rng.uniform(low, high, (truth.shape[1], len(sets))).T
    return x


def label(seeds: range) -> str:
    """Return seeds as the option has them, FROM:TO."""
    return f"{seeds.start}:{seeds.stop}"


def picture_kind(images: Path | None) -> str:
    """Return what the rows of pictures are called."""
    return "images" if images else "photos"


def picture_set(images: Path | None, number: int) -> Array:
    """Return a set of three pictures, counted from 1, as sources (pixels of three planes, 3)."""
    names = (SIPI if images else PHOTOS)[number - 1]
    pictures = [tiff(images / f"sipi_{name}.tiff") if images else photo(name) for name in names]
    return np.column_stack([pixels(picture) for picture in pictures])


def pixels(picture: Image.Image) -> Array:
    """Return a picture as 32 x 32 pixels between 0 and 1, one colour plane after the other."""
    small = picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return np.asarray(small, dtype=np.float64).transpose(2, 0, 1).reshape(-1) / 255.0


def as_picture(source: Array) -> Array:
    """Return a source as a picture to look at, (32, 32, 3), scaled from 0 to 1."""
    scaled = (source - source.min()) / np.ptp(source)
    return np.asarray(scaled.reshape(3, SIDE, SIDE).transpose(1, 2, 0))


def photo(name: str) -> Image.Image:
    """Return a photo that scikit-image ships, so that no network is needed."""
    from skimage import data

    return Image.fromarray(getattr(data, name)())


def tiff(path: Path) -> Image.Image:
    """Open an image of the paper."""
    try:
        return Image.open(path)
    except FileNotFoundError:
        raise click.BadParameter(
            f"{path.name} is missing in {path.parent}. The folder must hold the USC-SIPI images as "
            f"{', '.join(sorted({f'sipi_{name}.tiff' for names in SIPI for name in names}))}.",
            param_hint="'--images'",
        ) from None
    except OSError as error:
        raise click.BadParameter(
            f"{path} cannot be read as an image: {error}.", param_hint="'--images'"
        ) from None
