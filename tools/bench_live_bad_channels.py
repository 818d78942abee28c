#!/usr/bin/env python
"""Show what a stream loses while channels are bad, what the watch costs, and that good streams pass.

    .venv/bin/python tools/bench_live_bad_channels.py show      a channel dies, two rail: sources, gaps
    .venv/bin/python tools/bench_live_bad_channels.py cost      time for a message
    .venv/bin/python tools/bench_live_bad_channels.py clean FILE...   what is named in good recordings

`show` learns a model from 40 s of a simulated stream of 19 channels. It separates the next 20 s as they
are, and with one dead channel and two that swing to their limits. The limits are oracles: the regression of
the undisturbed sources on the remaining channels over the same 20 s, without and with earlier samples.
"""

import time
import warnings
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.files.open import open_recording
from igbss_stream.playback.simulate import Simulation
from igbss_stream.preparation.bad_channels.settings import BadChannelSettings
from igbss_stream.preparation.bad_channels.stage import BadChannelStage
from igbss_stream.preparation.repair.stage import RepairStage
from igbss_stream.sklearn import IGBSS

Array = NDArray[np.float64]

RATE, BAD = 250.0, ("Cz", "F4", "P7")
START, STOP, END = 10_000, 15_000, 17_500  # samples
LAGS = 4  # samples that the second oracle uses, as the stage does
REPLACE = BadChannelSettings(action="replace")


def spoil(x: NDArray[np.float32], channels: list[int]) -> NDArray[np.float32]:
    """Return samples in which the first channel is dead, and the others swing and are cut off."""
    x = x.copy()
    x[START:STOP, channels[0]] = np.nan
    for channel, sign in zip(channels[1:], (1, -1), strict=True):
        size = x[:START, channel].std()
        swing = 8 * x[START:STOP, channel] + 12 * sign * size
        x[START:STOP, channel] = np.clip(swing, -10 * size, 10 * size)
    return x


def pass_on(x: NDArray[np.float32], stream: Stream) -> tuple[Array, int]:
    """Return the samples after both stages, and how many are in gaps."""
    stage, repair, out = BadChannelStage(stream, REPLACE), RepairStage(stream), []
    for at in range(0, len(x), 25):
        out += repair.push(stage.push(Chunk(x[at : at + 25], at)))
        stage.settle()
    gaps = sum(item.n_samples for item in out if isinstance(item, Gap))
    return np.concatenate([item.data for item in out if isinstance(item, Chunk)]).astype(np.float64), gaps


def regress(given: Array, wanted: Array) -> Array:
    """Return the best linear estimate of some signals from others, over the same samples."""
    given = given - given.mean(axis=0)
    return np.asarray(given @ np.linalg.lstsq(given, wanted - wanted.mean(axis=0))[0])


def measure_ratio(found: Array, truth: Array) -> Array:
    """Return the signal-to-interference ratio of each signal, in dB."""
    r = np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(found.T, truth.T, strict=True)])
    return np.asarray(10 * np.log10(r**2 / (1 - r**2)))


@click.group()
def main() -> None:
    """Measure the watch over the channels of a stream."""


@main.command()
@click.option("--seeds", default=5, show_default=True)
def show(seeds: int) -> None:
    """Print what each source loses, in dB, against the undisturbed run and the limits."""
    warnings.filterwarnings("ignore")
    click.echo(
        "| seed | sources within 1 dB | median, largest loss | limit | with the past | gaps | flips |"
    )
    click.echo("|---|---|---|---|---|---|---|")
    for seed in range(seeds):
        click.echo(show_seed(9311 + seed))


def show_seed(seed: int) -> str:
    """Return a row of the table of one simulation."""
    simulation = Simulation(19, RATE, seed=seed, montage="10-20")
    stream, during = simulation.stream("eeg"), slice(START, STOP)
    bad = [stream.channels.index(name) for name in BAD]
    left = np.setdiff1d(np.arange(19), bad)
    x, truth = simulation.block(0, END), simulation.sources(0, END)[during]
    model = IGBSS().fit(x[:START].astype(np.float64))
    held, gaps = pass_on(spoil(x, bad), stream)
    found = model.transform(x.astype(np.float64))[during]
    pairs = [int(np.argmax([abs(np.corrcoef(f, t)[0, 1]) for f in found.T])) for t in truth.T]
    undisturbed, replaced = found[:, pairs], model.transform(held)[during][:, pairs]
    earlier = [x[START - k : STOP - k][:, left].astype(np.float64) for k in range(LAGS)]
    estimates = replaced, regress(earlier[0], undisturbed), regress(np.hstack(earlier), undisturbed)
    ratio = measure_ratio(undisturbed, truth)
    loss, limit, past = (ratio - measure_ratio(estimate, truth) for estimate in estimates)
    n_flips = sum((a * b).sum() < 0 for a, b in zip(undisturbed.T, replaced.T, strict=True))
    columns = [f"{np.median(lost):.2f}, {lost.max():.2f}" for lost in (loss, limit, past)]
    within = f"{(loss < 1).sum()} of {len(loss)} (limits {(limit < 1).sum()}, {(past < 1).sum()})"
    return f"| {seed} | {within} | {' | '.join(columns)} | {gaps} | {n_flips} |"


@main.command()
@click.option("--seconds", default=60, show_default=True)
def cost(seconds: int) -> None:
    """Print the CPU time that a message waits for, and that of the work after it, once a second."""
    click.echo(
        "| channels | samples | Hz | bad channels | message: median, 99 % | once a second, after it |"
    )
    click.echo("|---|---|---|---|---|---|")
    for n_channels, n, rate, n_bad in (
        (64, 20, 1000, 0), (64, 200, 1000, 0), (19, 25, 250, 0), (8, 320, 32_000, 0), (64, 20, 1000, 1)
    ):  # fmt: skip
        rng = np.random.default_rng(0)
        x = rng.laplace(size=(rate * seconds, n_channels)) @ rng.normal(size=(n_channels, n_channels))
        x[len(x) // 3 :, :n_bad] = 0.0
        spent, after = time_messages(x.astype(np.float32), rate, n)
        half, most = 1e3 * np.percentile(spent, [50, 99])
        times = f"{half:.3f} ms, {most:.3f} ms | {1e3 * after:.1f} ms"
        click.echo(f"| {n_channels} | {n} | {rate} | {n_bad} | {times} |")


def time_messages(x: NDArray[np.float32], rate: float, n: int) -> tuple[Array, float]:
    """Return the CPU time of each message of the second half, and the mean of that of judging a cell."""
    names = tuple(f"c{i}" for i in range(x.shape[1]))
    stage = BadChannelStage(Stream("s", rate, names, "uV"), REPLACE)
    spent, after = list[float](), list[float]()
    for at in range(0, len(x) - n + 1, n):
        chunk = Chunk(x[at : at + n].copy(), at)
        began = time.thread_time()
        stage.push(chunk)
        pushed = time.thread_time()
        stage.settle()
        spent.append(pushed - began)
        after.append(time.thread_time() - pushed)
    half = len(spent) // 2
    judged = sorted(after[half:])[-int(len(x) / rate / 2) :]
    return np.array(spent[half:]), float(np.mean(judged))


@main.command()
@click.argument(
    "recordings", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--rate", type=float, help="In Hz, for recordings that do not state it.")
def clean(recordings: tuple[Path, ...], rate: float | None) -> None:
    """Print which channels of RECORDINGS would be named in a stream, and how many values replaced."""
    warnings.filterwarnings("ignore")
    click.echo("| recording | channels | Hz | s | named | values replaced |")
    click.echo("|---|---|---|---|---|---|")
    for path in recordings:
        with open_recording(path, rate=rate) as file:
            hz = float(file.rate or 1.0)
            stage = BadChannelStage(Stream("s", hz, file.channels, file.unit, file.dtype), REPLACE)
            for start, block in file.read_blocks(max(1, round(hz / 25))):
                stage.push(Chunk(block.copy(), start))
        named = ", ".join(sorted({event.channel for event in stage.pop_events()})) or "none"
        facts = f"{file.n_channels} | {hz:g} | {file.n_samples / hz:.0f}"
        click.echo(f"| {path.name} | {facts} | {named} | {stage.counts.values} |")


if __name__ == "__main__":
    main()
