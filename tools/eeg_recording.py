"""Read and filter the recording that tools/bench_eeg.py compares methods on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.batch.channels import find_left_out, get_excluded_rows, prepare_recording
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.errors import InputError
from igbss_stream.files.open import open_with_options
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.recording import Recording
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.settings import ModelSettings

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
        preparation = Preparation(highpass=highpass or None)
        settings = BatchSettings(model=ModelSettings(), preparation=preparation, drop_flat=True)
        left_out = find_left_out(recording, settings, lambda step, done, total: None)
        prepared, keep = prepare_recording(recording, preparation, left_out)
        names = tuple(prepared.channels[i] for i in keep)
        x = _read(prepared, None if seconds is None else round(seconds * recording.rate))[:, keep]
        bad_rows = get_excluded_rows(recording, settings)
        x = np.delete(x, [i for each in bad_rows for i in range(*each) if i < len(x)], axis=0)
        notes = [f"high-pass at {highpass:g} Hz" if highpass else "no high-pass"]
        if left_out.positions:
            omitted = ", ".join(recording.channels[i] for i in left_out.positions)
            notes.append(f"left out, bad or flat: {omitted}")
        if bad_rows:
            notes.append(f"{len(bad_rows)} stretches that the file marks as bad are left out")
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
