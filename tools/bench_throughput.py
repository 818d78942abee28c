"""How fast `batch` is, beside the floor of the same run: a copy, or decompression, with h5py alone.

Floor and run alternate. The input lies in the page cache for both, so that the disk is only written to, and
both end when their output is on the disk. What learning a structure takes does not grow with the recording:
it is measured in the first round, which does not count, and reported separately.
"""

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
from bench_figure import Figure
from bench_files import Job, Stored, plain_copy, read_through

import igbss_stream.separation.structure_fit
from igbss_stream.batch.separate import separate_recording
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.files.open import open_recording
from igbss_stream.separation.settings import ModelSettings

GZIP: dict[str, Any] = {"compression": "gzip"}
COPY, LEARNED, WIDE = 2.0, 2.5, 3.0  # limits, in copies
UNPACK, UNPACK_LEARNED = 1.3, 1.5  # limits, in reads of a compressed file


@dataclass(frozen=True)
class Row:
    """A recording, and the most that `batch` may take for it: floors, by the name of the structure."""

    stored: Stored
    limits: dict[str, float]
    n_samples: int | None = None  # as many as `--megabytes` has by default

    def write(self, path: Path, megabytes: int) -> Path:
        """Write the recording."""
        n_bytes = megabytes * 10**6
        if self.n_samples is not None:
            n_bytes = self.n_samples * self.stored.n_channels * np.dtype(self.stored.dtype).itemsize
        return self.stored.write(path, n_bytes)


ROWS = (
    Row(
        Stored("64 channels float32, chunks of 4096", 64, storage={"chunks": (4096, 64)}),
        {"systematic": COPY, "given": COPY, "learned": LEARNED},
    ),
    *(
        Row(Stored(f"{n} channels float32", n), {"systematic": COPY, "given": COPY, "learned": LEARNED})
        for n in (8, 32, 64)
    ),
    Row(Stored("256 channels float32", 256), {"given": WIDE}),
    Row(Stored("64 channels int16", 64, "i2"), {"given": COPY, "learned": LEARNED}),
    *(
        Row(
            Stored(f"{n:,} x 64 float32, gzip in chunks of 1", 64, storage=GZIP | {"chunks": (1, 64)}),
            {"given": COPY},
            n,
        )
        for n in (40_000, 200_000)
    ),
    Row(
        Stored("64 channels float32, gzip", 64, storage=GZIP), {"given": UNPACK, "learned": UNPACK_LEARNED}
    ),
    Row(
        Stored("64 channels int16, gzip, shuffled", 64, "i2", GZIP | {"shuffle": True}),
        {"given": UNPACK, "learned": UNPACK_LEARNED},
    ),
)


def throughput(job: Job) -> Iterator[Figure]:
    """Compare runs on recordings of some size with their floors."""
    for row in ROWS:
        source = row.write(job.folder / "bench-in.h5", job.megabytes)
        try:
            for structure, limit in row.limits.items():
                yield _compared(row.stored, structure, limit, source, job)
        finally:
            source.unlink(missing_ok=True)


def _compared(case: Stored, structure: str, limit: float, source: Path, job: Job) -> Figure:
    settings, out = _settings(structure, case.n_channels), job.folder / "bench-out.h5"
    is_packed = "compression" in case.storage

    def floor() -> None:
        read_through(source) if is_packed else plain_copy(source, out)

    def run() -> None:
        with open_recording(source) as recording:
            separate_recording(recording, out, settings)

    with _learning_once() as learning:
        taken = [(_afresh(out, floor), _afresh(out, run)) for _ in range(job.rounds + 1)][1:]
    out.unlink()
    ratios = [ran[0] / floored[0] for floored, ran in taken]
    (floored, its_work), (ran, work) = (
        (min(t[0] for t in column), min(t[1] for t in column)) for column in zip(*taken, strict=True)
    )
    detail = (
        f"{ran:.2f} s (CPU {work:.2f} s), {'decompression' if is_packed else 'copy'} {floored:.2f} s "
        f"(CPU {its_work:.2f} s); rounds {min(ratios):.2f} to {max(ratios):.2f}"
    )
    if learning:
        detail += f"; learning {learning[0]:.1f} s more: {(ran + learning[0]) / floored:.1f}"
    return Figure(f"batch / floor, {case.name}, {structure}", ran / floored, "", limit, detail)


def _settings(structure: str, n_channels: int) -> BatchSettings:
    weights = np.random.default_rng(1).random((n_channels, n_channels))
    return BatchSettings(model=ModelSettings(structure=weights if structure == "given" else structure))


def _afresh(out: Path, run: Callable[[], None]) -> tuple[float, float]:
    """Time a run that finds no output, and nothing of an earlier one on its way to the disk.

    Returns its seconds, and those that all cores together computed for it.
    """
    out.unlink(missing_ok=True)
    os.sync()
    began, before = perf_counter(), _cpu_seconds()
    run()
    return perf_counter() - began, _cpu_seconds() - before


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextmanager
def _learning_once() -> Iterator[list[float]]:
    """Learn a structure in the first run only; yield a list that gets the seconds it took."""
    learn, seconds, known = (
        igbss_stream.separation.structure_fit.fit_structure,
        list[float](),
        list[Any](),
    )

    def learned(*given: Any) -> Any:
        if not known:
            began = perf_counter()
            known.append(learn(*given))
            seconds.append(perf_counter() - began)
        return known[0]

    with patch.object(igbss_stream.separation.structure_fit, "fit_structure", learned):
        yield seconds
