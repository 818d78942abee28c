"""How fast `batch` is, beside the floor of the same run: a copy, or decompression, with h5py alone.

Floor and run alternate. The input lies in the page cache for both, so that the disk is only written to, and
both end when their output is on the disk. What learning a structure takes does not grow with the recording:
it is measured in the first round, which does not count, and reported separately.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
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
CASES = (
    *(Stored(f"{n} channels float32", n) for n in (8, 32, 64, 256)),
    Stored("64 channels int16", 64, "i2"),
    Stored("64 channels float32 gzip", 64, storage=GZIP),
    Stored("64 channels int16 gzip shuffled", 64, "i2", GZIP | {"shuffle": True}),
)
MOST_LEARNED = 64  # channels: learning more takes minutes, and the passes are the same
COPY_LIMIT, GZIP_LIMIT = 2.0, 1.3


def throughput(job: Job) -> Iterator[Figure]:
    """Compare runs on recordings of some size with their floors."""
    for case in CASES:
        source = case.write(job.folder / "bench-in.h5", job.megabytes * 10**6)
        try:
            for structure in ("given", "learned"):
                if structure == "given" or case.n_channels <= MOST_LEARNED:
                    yield _compared(case, structure, source, job.folder / "bench-out.h5", job.rounds)
        finally:
            source.unlink(missing_ok=True)


def _compared(case: Stored, structure: str, source: Path, out: Path, rounds: int) -> Figure:
    settings = _settings(structure, case.n_channels)

    def floor() -> None:
        read_through(source) if case.storage else plain_copy(source, out)

    def run() -> None:
        with open_recording(source) as recording:
            separate_recording(recording, out, settings)

    with _learning_once() as learning:
        taken = [(_afresh(out, floor), _afresh(out, run)) for _ in range(rounds + 1)][1:]
    out.unlink()
    ratios = [ran / floored for floored, ran in taken]
    floored, ran = (median(column) for column in zip(*taken, strict=True))
    detail = (
        f"{ran:.2f} s, {'decompression' if case.storage else 'copy'} {floored:.2f} s, "
        f"{min(ratios):.2f} to {max(ratios):.2f}"
    )
    if learning:
        detail += f"; learning {learning[0]:.1f} s more: {(ran + learning[0]) / floored:.1f}"
    limit = GZIP_LIMIT if case.storage else COPY_LIMIT
    return Figure(f"batch / floor, {case.name}, {structure}", median(ratios), "", limit, detail)


def _settings(structure: str, n_channels: int) -> BatchSettings:
    weights = np.random.default_rng(1).random((n_channels, n_channels))
    return BatchSettings(model=ModelSettings(structure=weights if structure == "given" else structure))


def _afresh(out: Path, run: Callable[[], None]) -> float:
    """Time a run that finds no output, and nothing of an earlier one on its way to the disk."""
    out.unlink(missing_ok=True)
    os.sync()
    began = perf_counter()
    run()
    return perf_counter() - began


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
