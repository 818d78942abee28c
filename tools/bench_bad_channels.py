#!/usr/bin/env python
"""Spoil channels of real recordings by known means, and count which are found, beside pyprep.

    .venv/bin/python tools/bench_bad_channels.py eeg.set
    PYTHONPATH=DIR_OF_PYPREP .venv/bin/python tools/bench_bad_channels.py a.set b.fif --draws 5

Each trial spoils one channel, or three at once
by different means. pyprep's `NoisyChannels` takes part where it can be imported, with RANSAC where channels
have names of the 10-20 system. Precision is the share of the channels named that were spoilt,
recall the share of the spoilt channels that were named. Of a copy and its original, either may be named.
"""

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.electrodes import find_position
from igbss_stream.bad_channels.findings import list_channels
from igbss_stream.bad_channels.survey import ChannelSurvey
from igbss_stream.files.open import open_recording

Array = NDArray[np.float64]

LEFT_OUT = ("EOG1", "EOG2")
NOISE = 5.0  # standard deviations of the channel
RAILED = 0.05  # share of samples at each limit
MAINS = 50.0  # Hz
ALONE = ("nothing", "noise of 5 SD", "copy of a neighbour", "rail", "50 Hz of 5 SD", "flat")
TOGETHER = "three at once"


@dataclass(frozen=True)
class Eeg:
    """A recording in memory, in the unit of its file."""

    x: Array
    names: tuple[str, ...]
    types: tuple[str, ...]
    rate: float
    unit: str | None


@dataclass
class Score:
    """Counts of the channels of one kind of trial."""

    named: int = 0
    spoilt: int = 0
    right: int = 0
    seconds: list[float] = field(default_factory=list)

    def add(self, named: set[str], spoilt: dict[str, str], seconds: float) -> None:
        """Count a trial; `spoilt` maps each spoilt channel to its original, if it is a copy."""
        hits = {name for name, like in spoilt.items() if name in named or like in named}
        wrong = named - spoilt.keys() - {spoilt[name] for name in hits}
        self.right += len(hits)
        self.named += len(hits) + len(wrong)
        self.spoilt += len(spoilt)
        self.seconds.append(seconds)

    def __str__(self) -> str:
        precision = f"{self.right / self.named:.2f}" if self.named else "-"
        recall = f"{self.right / self.spoilt:.2f}" if self.spoilt else "-"
        wrong = self.named - self.right
        return f"{precision} | {recall} | {wrong} | {np.median(self.seconds):.2f}"


def read(path: Path) -> Eeg:
    """Read a whole recording."""
    with open_recording(path) as file:
        keep = [i for i, name in enumerate(file.channels) if name not in LEFT_OUT]
        x = np.concatenate([block[:, keep].astype(np.float64) for _, block in file.read_blocks(1 << 14)])
        types = tuple(file.types[i] for i in keep) if file.types else ()
        return Eeg(x, tuple(file.channels[i] for i in keep), types, float(file.rate or 1.0), file.unit)


def spoil(eeg: Eeg, kinds: list[str], rng: np.random.Generator) -> tuple[Array, dict[str, str]]:
    """Return samples with one spoilt channel of each kind, and the spoilt channels."""
    x, spoilt = eeg.x.copy(), {}
    chosen = rng.permutation(len(eeg.names))
    for kind, channel in zip(kinds, chosen, strict=False):
        if kind == "nothing":
            continue
        y, deviation, like = eeg.x[:, channel], float(eeg.x[:, channel].std()), ""
        if kind.startswith("noise"):
            y = y + NOISE * deviation * rng.standard_normal(len(y))
        elif kind.startswith("50 Hz"):
            time_of = np.arange(len(y)) / eeg.rate
            y = y + NOISE * np.sqrt(2) * deviation * np.sin(2 * np.pi * MAINS * time_of + rng.uniform(0, 6))
        elif kind == "rail":
            y = np.clip(y, *np.quantile(y, (RAILED, 1 - RAILED)))
        elif kind == "flat":
            y = np.full_like(y, y[0])
        else:
            others = [i for i in range(len(eeg.names)) if i not in chosen[: len(kinds)]]
            near = max(others, key=lambda i: abs(float(np.corrcoef(y, eeg.x[:, i])[0, 1])))
            y, like = eeg.x[:, near], eeg.names[near]
        x[:, channel] = y
        spoilt[eeg.names[channel]] = like
    return x, spoilt


def find_by_us(eeg: Eeg, x: Array) -> set[str]:
    """Return the channels that `inspect` and `batch --bad-channels auto` name."""
    survey = ChannelSurvey(eeg.names, eeg.rate, len(x), types=eeg.types, unit=eeg.unit)
    survey.update(x)
    return set(list_channels(survey.finish()))


def find_by_pyprep(eeg: Eeg, x: Array) -> set[str]:
    """Return the channels that pyprep names with its defaults."""
    import mne

    noisy_channels = import_module("pyprep.find_noisy_channels").NoisyChannels
    info = mne.create_info(list(eeg.names), eeg.rate, "eeg", verbose="error")
    raw = mne.io.RawArray(1e-6 * x.T, info, verbose="error")
    places = {name: 0.095 * place for name in eeg.names if (place := find_position(name)) is not None}
    has_places = len(places) == len(eeg.names)
    if has_places:
        raw.set_montage(mne.channels.make_dig_montage(places, coord_frame="head"), verbose="error")
    noisy = noisy_channels(raw, random_state=0)
    noisy.find_all_bads(ransac=has_places)
    return set(noisy.get_bads())


@click.command()
@click.argument(
    "recordings", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--draws", default=10, show_default=True, help="Trials of each kind and recording.")
@click.option("--seed", default=9100, show_default=True)
def main(recordings: tuple[Path, ...], draws: int, seed: int) -> None:
    """Print a table of precision and recall for RECORDINGS of EEG."""
    warnings.filterwarnings("ignore")
    methods: dict[str, Callable[[Eeg, Array], set[str]]] = {"igbss-stream": find_by_us}
    if has_pyprep():
        import mne

        mne.set_log_level("error")
        methods["pyprep"] = find_by_pyprep
    click.echo("| recording | spoilt by | method | precision | recall | named wrongly | seconds |")
    click.echo("|---|---|---|---|---|---|---|")
    for path in recordings:
        eeg = read(path)
        for kind in (*ALONE, TOGETHER):
            for name, score in run_trials(eeg, kind, methods, draws, seed).items():
                click.echo(f"| {path.name} | {kind} | {name} | {score} |")
                sys.stdout.flush()


def has_pyprep() -> bool:
    """Return whether pyprep can be imported."""
    return find_spec("pyprep") is not None


def run_trials(
    eeg: Eeg, kind: str, methods: dict[str, Callable[[Eeg, Array], set[str]]], draws: int, seed: int
) -> dict[str, Score]:
    """Return the score of each method over trials of one kind."""
    scores: dict[str, Any] = {name: Score() for name in methods}
    for draw in range(1 if kind == "nothing" else draws):
        rng = np.random.default_rng([seed, draw])
        kinds = list(rng.permutation(ALONE[1:])[:3]) if kind == TOGETHER else [kind]
        x, spoilt = spoil(eeg, kinds, rng)
        for name, find in methods.items():
            began = time.perf_counter()
            named = find(eeg, x)
            scores[name].add(named, spoilt, time.perf_counter() - began)
    return scores


if __name__ == "__main__":
    main()
