"""What each compression of sources costs and saves, on noise and on recordings that are given."""

import math
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import h5py
import numpy as np
from bench_figure import Figure
from bench_files import Job
from numpy.typing import NDArray

from igbss_stream._util.compression import COMPRESSIONS
from igbss_stream.batch.separate import separate_recording
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.files.open import open_recording
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from igbss_stream.separation.settings import ModelSettings

MOST_LEARNED = 16  # channels whose structure is learned: sources are then as they usually are


def compression(job: Job) -> Iterator[Figure]:
    """Compare all compressions with none."""
    noise = job.folder / "bench-noise.h5"
    x = np.random.default_rng(0).standard_normal((job.megabytes * 10**6 // 256, 64), dtype=np.float32)
    with h5py.File(noise, "w") as file:
        file["data"] = x
    for path in (noise, *job.recordings):
        yield from _each(path, "noise" if path == noise else path.name, job)


def _each(path: Path, name: str, job: Job) -> Iterator[Figure]:
    sources = _sources(path, job)
    sources = np.tile(sources, (math.ceil(job.megabytes * 10**6 / sources.nbytes), 1))
    out = job.folder / "bench-out.h5"
    for how in COMPRESSIONS:
        taken = [(_written(sources, out, how), _read(out)) for _ in range(job.rounds + 1)][1:]
        write, read = (sources.nbytes / 1e6 / median(column) for column in zip(*taken, strict=True))
        whole = _batch(path, out, how)
        detail = f"writes {write:.0f} MB/s, reads {read:.0f} MB/s; batch as a whole {whole:.2f} s"
        _written(sources, out, how)
        yield Figure(f"{name}, {how}: size", out.stat().st_size / sources.nbytes, "", math.inf, detail)


def _settings(n_channels: int, how: str = "none") -> BatchSettings:
    structure = "learned" if n_channels <= MOST_LEARNED else "systematic"
    return BatchSettings(model=ModelSettings(structure=structure), compression=how)


def _batch(path: Path, out: Path, how: str) -> float:
    out.unlink(missing_ok=True)
    began = perf_counter()
    with open_recording(path) as recording:
        separate_recording(recording, out, _settings(recording.n_channels, how))
    return perf_counter() - began


def _sources(path: Path, job: Job) -> NDArray[Any]:
    _batch(path, job.folder / "bench-out.h5", "none")
    with h5py.File(job.folder / "bench-out.h5") as file:
        return np.asarray(file["sources"][:])


def _written(sources: NDArray[Any], out: Path, how: str) -> float:
    out.unlink(missing_ok=True)
    began = perf_counter()
    with Hdf5Sink(out) as sink:
        sink.create("sources", sources.shape, sources.dtype, compression=how)
        for at in range(0, len(sources), 8192):
            sink.append("sources", sources[at : at + 8192])
    return perf_counter() - began


def _read(out: Path) -> float:
    began = perf_counter()
    with open_recording(out, "sources") as recording:
        for _ in recording.read_blocks(8192):
            pass
    return perf_counter() - began
