"""Real sources: one signal each of eight devices, read from the folder of public recordings."""

from collections.abc import Callable
from pathlib import Path

import click
import h5py
import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from igbss_stream.files.open import open_recording

Array = NDArray[np.float64]

FIRST, N_SAMPLES = 500, 10_000
EEG = "hdf5/eeg32_128hz.h5"


def real_sources(folder: Path) -> Array:
    """Return eight independent sources of unit variance, (10000, 8); what they are is in `SOURCES`."""
    columns = [_stretch(_opened(folder / name, read)) for name, read in SOURCES.values()]
    return np.column_stack([(column - column.mean()) / column.std() for column in columns])


def eeg(folder: Path) -> Array:
    """Return the EEG, (samples, 32)."""
    return _opened(folder / EEG, _recording)


def _stretch(signal: Array) -> Array:
    return signal[FIRST : FIRST + N_SAMPLES]


def _opened(path: Path, read: Callable[[Path], Array]) -> Array:
    """Read a file, or say which one of the recordings is missing."""
    if not path.is_file():
        raise click.BadParameter(
            f"{path} is missing. The folder must hold the recordings that docs/method.md lists.",
            param_hint="'--recordings'",
        )
    return np.asarray(read(path), dtype=np.float64)


def _recording(path: Path) -> Array:
    """Return the samples of a recording that the package reads, (samples, channels)."""
    with open_recording(path) as recording:
        _, samples = next(recording.read_blocks(recording.n_samples))
        return np.array(samples, dtype=np.float64)


def _eye(path: Path) -> Array:
    return _recording(path)[:, 1]  # EOG1


def _occipital(path: Path) -> Array:
    return _recording(path)[20_000:, 30]  # Oz, a separate segment


def _alpha(path: Path) -> Array:
    return _recording(path)[:, 6]


def _strain(path: Path) -> Array:
    with h5py.File(path) as file:
        return np.asarray(file["strain/Strain"])


def _lead_ii(path: Path) -> Array:
    return np.fromfile(path, "<i2").reshape(-1, 12)[:, 1]


def _pulse(path: Path) -> Array:
    return np.asarray(loadmat(path)["val"][2])


def _gait(path: Path) -> Array:
    return np.loadtxt(path, delimiter=",", skiprows=1, usecols=1)


def _seismogram(path: Path) -> Array:
    """Return the first component of a miniSEED file: its records of one channel, joined."""
    raw = path.read_bytes()
    records = [raw[at : at + RECORD] for at in range(0, len(raw), RECORD)]
    first = records[0][8:20]  # station, location, channel, network
    return np.concatenate([steim2(record) for record in records if record[8:20] == first])


RECORD = 4096  # bytes of a miniSEED record
# How words of a frame hold differences: (code, first two bits) -> (how many, bits each); -1: any bits.
PACKED = {(1, -1): (4, 8), (2, 1): (1, 30), (2, 2): (2, 15), (2, 3): (3, 10)}
PACKED |= {(3, 0): (5, 6), (3, 1): (6, 5), (3, 2): (7, 4)}


def steim2(record: bytes) -> Array:
    """Return the samples of a big-endian miniSEED record with Steim's second compression.

    Frames of sixteen 32-bit words; the first word states, in two bits per word, how each word holds
    differences of successive samples. The first frame also holds the first and the last sample.

    Raises
    ------
    ValueError
        If the last sample is not what the record says it is.
    """
    n_samples, begins = (int.from_bytes(record[at : at + 2], "big") for at in (30, 44))
    frames = np.frombuffer(record[begins:], ">u4").reshape(-1, 16)
    first, last = (int(word) for word in frames[0, 1:3].astype(np.int32))
    steps: list[int] = []
    for frame in frames.tolist():
        for place in range(1, 16):
            steps += _differences(frame[0] >> 2 * (15 - place) & 3, frame[place])
    samples = first + np.cumsum([0, *steps[1:n_samples]])
    if len(samples) != n_samples or samples[-1] != last:
        raise ValueError("damaged record: the samples do not end as it says")
    return np.asarray(samples, dtype=np.float64)


def _differences(code: int, word: int) -> list[int]:
    """Return the signed differences that a word holds, the earliest first."""
    if code == 0:
        return []
    count, bits = PACKED[code, -1 if code == 1 else word >> 30]
    fields = (word >> bits * (count - 1 - k) & (1 << bits) - 1 for k in range(count))
    return [field - (1 << bits) if field >> bits - 1 else field for field in fields]


SOURCES: dict[str, tuple[str, Callable[[Path], Array]]] = {
    "heart, lead II": ("ecg/s0010_re.dat", _lead_ii),
    "pulse at the finger": ("ecg/a103l.mat", _pulse),
    "eye": (EEG, _eye),
    "occipital EEG": (EEG, _occipital),
    "alpha waves": ("hdf5/openbci8_250hz.h5", _alpha),
    "ground motion": ("seismic/obspy_2005-07-23-1452-04S.CER___030.mseed", _seismogram),
    "gait": ("sensors/mobgap_HA001_TimeMeasure1_Test11_Trial1.csv", _gait),
    "gravitational-wave strain": ("hdf5/ligo_H-H1_LOSC_4_V2-1126259446-32.hdf5", _strain),
}
