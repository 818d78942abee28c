#!/usr/bin/env python
"""Draw an evoked response before and after eye movements are removed, from an output of `batch`.

.venv/bin/python tools/erp_picture.py                docs/pictures/erp.png
.venv/bin/python tools/erp_picture.py --out /tmp
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import click
import h5py
import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

mpl.use("Agg")
from matplotlib import pyplot as plt

Array = NDArray[np.float64]

_RECORDING = Path(__file__).parents[2] / "shared/data/eeg/eeglab_data.set"
_OPTIONS = ("--highpass", "1", "--n-sources", "20", "--exclude-like", "EOG1", "--exclude-like", "EOG2")
_LABEL, _CHANNELS = "square", ("FPz", "Fz", "Pz")
_BEFORE, _AFTER = 0.2, 0.8  # seconds around an event


def separate(recording: Path, output: Path) -> None:
    """Separate a recording, and remove the sources that resemble the eyes."""
    command = str(Path(sys.executable).parent / "igbss-stream")
    subprocess.run([command, "batch", recording, "-o", output, *_OPTIONS, "--quiet"], check=True)


def read_epochs(output: Path) -> tuple[Array, dict[str, tuple[Array, Array]]]:
    """Return times, and for each channel the epochs before and after cleaning, in microvolts.

    The channels before cleaning are those after it and what was removed.
    """
    with h5py.File(output) as file:
        cleaned, events, rate = file["cleaned"], file["events"][:], file["cleaned"].attrs["rate"]
        taken = np.unique(file["excluded"]["source"])
        removed = file["sources"][:][:, taken] @ file["mixing"][:][:, taken].T
        rows = np.round(events["row"][events["label"] == _LABEL.encode()]).astype(int)
        span = np.arange(-round(_BEFORE * rate), round(_AFTER * rate))
        rows = rows[(rows + span[0] >= 0) & (rows + span[-1] < len(cleaned))]
        names, factor = list(cleaned.attrs["channels"]), 1e6 if cleaned.attrs["unit"] == "V" else 1.0
        found = {}
        for name in _CHANNELS:
            after = cleaned[:, names.index(name)] * factor
            before = after + removed[:, names.index(name)] * factor
            found[name] = _cut(before, rows, span), _cut(after, rows, span)
    return span / rate, found


def _cut(x: Array, rows: Array, span: Array) -> Array:
    """Return epochs, (events, samples), without their mean before the event."""
    epochs = x[rows[:, None] + span]
    return np.asarray(epochs - epochs[:, span < 0].mean(axis=1, keepdims=True))


def draw(path: Path, times: Array, found: dict[str, tuple[Array, Array]]) -> None:
    """Draw mean and standard error of each channel, before and after."""
    figure, axes = plt.subplots(1, len(found), figsize=(10, 3.0), sharey=True, layout="constrained")
    for axis, (name, both) in zip(axes, found.items(), strict=True):
        looks = ("before", "tab:gray"), ("after", "tab:green")
        for epochs, (label, colour) in zip(both, looks, strict=True):
            mean, error = epochs.mean(axis=0), epochs.std(axis=0) / np.sqrt(len(epochs))
            axis.fill_between(times, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)
            axis.plot(times, mean, color=colour, linewidth=1.2, label=f"{label} cleaning")
        axis.axvline(0, color="black", linewidth=0.6)
        axis.set_title(f"{name}, {len(both[0])} events", fontsize=10)
        axis.set_xlabel(f"seconds after {_LABEL}", fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("uV", fontsize=9)
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120, facecolor="white", metadata={"Software": None})
    plt.close(figure)


@click.command()
@click.option(
    "--out", default="docs/pictures", show_default=True, type=click.Path(path_type=Path, file_okay=False)
)
@click.option("--recording", default=_RECORDING, type=click.Path(path_type=Path, exists=True))
def main(out: Path, recording: Path) -> None:
    """Draw the evoked response before and after cleaning, and state the standard errors."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        separate(recording, Path(folder) / "cleaned.h5")
        times, found = read_epochs(Path(folder) / "cleaned.h5")
    for name, both in found.items():
        errors = [float((x.std(axis=0) / np.sqrt(len(x))).mean()) for x in both]
        click.echo(f"{name}: {len(both[0])} epochs, standard error {errors[0]:.2f} -> {errors[1]:.2f} uV")
    draw(out / "erp.png", times, found)
    click.echo(f"{out / 'erp.png'} is drawn")


if __name__ == "__main__":
    main()
