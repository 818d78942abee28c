"""Read and filter the recording that tools/bench_eeg.py compares methods on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.batch.channels import find_flat_channels, prepare_recording
from igbss_stream.errors import InputError
from igbss_stream.files.open import open_with_options
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.recording import Recording
from igbss_stream.preparation.settings import Preparation

Array = NDArray[np.float64]

_BLOCK = 1 << 15  # samples


@dataclass(frozen=True)
class Eeg:
    """A recording in memory.

    Parameters
    ----------
    path : Path
    x : ndarray of shape (samples, channels)
        High-passed and centred; in uV if the file states volts.
    channels : tuple of str
    rate : float
        In Hz.
    notes : tuple of str
        What was left out or done to the samples.
    """

    path: Path
    x: Array
    channels: tuple[str, ...]
    rate: float
    notes: tuple[str, ...]


def read_eeg(path: Path, highpass: float, seconds: float | None, **reading: Any) -> Eeg:
    """Read a recording, without its bad and its flat channels, high-passed with zero phase.

    Parameters
    ----------
    path : Path
    highpass : float
        Edge in Hz; 0 for none.
    seconds : float or None
        How much of the start to keep; all by default.
    **reading
        See `ReadOptions`.
    """
    with open_with_options(path, ReadOptions(**reading)) as recording:
        if recording.rate is None:
            raise InputError(f"{path.name} states no sampling rate; pass --rate.")
        flat = find_flat_channels(recording, lambda step, done, total: None)
        prepared, kept = prepare_recording(recording, Preparation(highpass=highpass or None), flat)
        keep = [i for i in kept if prepared.channels[i] not in recording.bad]
        names = tuple(prepared.channels[i] for i in keep)
        x = _read(prepared, None if seconds is None else round(seconds * recording.rate))[:, keep]
        notes = [f"high-pass at {highpass:g} Hz" if highpass else "no high-pass"]
        omitted = [name for name in recording.channels if name not in names]
        if omitted:
            notes.append(f"left out, bad or flat: {', '.join(omitted)}")
        if recording.gaps:
            notes.append(f"{len(recording.gaps)} gaps, whose ends are joined")
        x *= 1e6 if recording.unit == "V" else 1.0
        return Eeg(path, x - x.mean(axis=0), names, float(recording.rate), tuple(notes))


def _read(recording: Recording, most: int | None) -> Array:
    """Return the first samples, (samples, channels), in float64."""
    most = min(most or recording.n_samples, recording.n_samples)
    x = np.empty((most, recording.n_channels))
    for start, block in recording.read_blocks(_BLOCK):
        wanted = block[: most - start]
        x[start : start + len(wanted)] = wanted
        if start + len(block) >= most:
            break
    return x
