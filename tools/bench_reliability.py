"""How far the predicted reliability of sources is from the truth, on mixtures whose sources are known.

    .venv/bin/python tools/bench_reliability.py --seeds FROM:TO [--recordings DIR]

Sources are autoregressive with sparse innovations; with a folder of the recordings that docs/method.md
lists, real ones as well. Each seed draws a mixing matrix with normal weights, and white noise as a share of
the deviation of each channel. The truth is the ratio of the best matching source to all others in the
noise-free part of a learned source.
"""

import warnings
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from paper_recordings import real_sources
from rich.console import Console
from rich.table import Table
from scipy.signal import lfilter

from igbss_stream.model.structure import learn_structure

Array = NDArray[np.float64]

CASES = ((8, 0.0), (8, 0.003), (8, 0.01), (8, 0.03), (4, 0.01), (4, 0.03))
N_SAMPLES = 10_000


def parse_seeds(ctx: click.Context, param: click.Parameter, value: str) -> range:
    """Return the range of a text, FROM:TO."""
    first, _, stop = value.partition(":")
    if not (first.isdecimal() and stop.isdecimal() and int(first) < int(stop)):
        raise click.BadParameter(f"must be FROM:TO, such as 100:110. Got {value!r} instead.")
    return range(int(first), int(stop))


def draw_sources(rng: np.random.Generator, n_sources: int) -> Array:
    """Return autoregressive sources with sparse innovations, (samples, sources)."""
    poles = rng.uniform(0.3, 0.97, n_sources)
    innovations = rng.laplace(size=(n_sources, N_SAMPLES))
    rows = [lfilter([1.0], [1.0, -pole], row) for pole, row in zip(poles, innovations, strict=True)]
    return np.column_stack(rows)


def measure_gaps(sources: Array, noise: float, rng: np.random.Generator) -> Array:
    """Return the predicted reliability of each learned source less its true ratio, in dB."""
    n_sources = sources.shape[1]
    mixing = rng.normal(size=(n_sources, n_sources))
    clean = sources @ mixing.T
    x = clean + noise * clean.std(axis=0) * rng.normal(size=clean.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learned = learn_structure(x, n_sources)
    power = (learned.unmixing @ mixing) ** 2 * sources.var(axis=0)
    largest = power.max(axis=1)
    truth = 10.0 * np.log10(largest / np.maximum(power.sum(axis=1) - largest, 1e-12 * largest))
    return np.asarray(learned.learning.reliability - truth)


def share(values: NDArray[np.bool_]) -> str:
    """Return the share of true values in percent."""
    return f"{100.0 * values.mean():.0f}"


@click.command()
@click.option("--seeds", callback=parse_seeds, default="0:10", help="Seeds of the mixtures, FROM:TO.")
@click.option(
    "--recordings",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the recordings whose sources are mixed as well.",
)
def main(seeds: range, recordings: Path | None) -> None:
    """Print how often the truth lies within 6 dB of the reliability, and how often far below it."""
    table = Table(title=f"Reliability and truth, seeds {seeds.start}:{seeds.stop}")
    for name in ("sources", "noise, %", "within 6 dB, %", "more than 10 dB too high, %", "median, dB"):
        table.add_column(name, justify="right" if table.columns else "left")
    real = None if recordings is None else real_sources(recordings)
    for kind in ("simulated",) if real is None else ("simulated", "real"):
        for n_sources, noise in CASES:
            gaps = []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                some = draw_sources(rng, n_sources)
                if kind == "real" and real is not None:
                    some = real[:, rng.permutation(real.shape[1])[:n_sources]]
                gaps.append(measure_gaps(some, noise, rng))
            found = np.concatenate(gaps)
            row = share(np.abs(found) < 6.0), share(found > 10.0), f"{np.median(found):+.1f}"
            table.add_row(f"{n_sources} {kind}", f"{100.0 * noise:g}", *row)
    Console().print(table)


if __name__ == "__main__":
    main()
