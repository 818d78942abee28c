"""Measure what many processes gain and cost, for docs/scale.md: `tools/bench.py workers tasks hours`."""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import h5py
import numpy as np
import psutil
from bench_figure import Figure

from igbss_stream.batch.channels import Progress
from igbss_stream.batch.dask_runner import DaskRunner
from igbss_stream.batch.job import DONE, Job, Result
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.separation.settings import ModelSettings

FILES, ROUNDS = 20, 3
N_TASKS = 2_000
# channels, rate in Hz, and the minutes of a shorter and of a longer recording
SHAPES = ((32, 250.0, (10, 60)), (64, 1000.0, (5, 20)), (256, 1000.0, (3, 8)))

# Runs the command, then prints its CPU seconds and the bytes read and written.
_COSTED = """
import json, resource, sys
from igbss_stream.cli import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    assert not ended.code
used = resource.getrusage(resource.RUSAGE_SELF)
io = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())
print(json.dumps([used.ru_utime + used.ru_stime, int(io["rchar"]), int(io["wchar"])]))
"""


def mixture(path: Path, n_channels: int, rate: float, minutes: float, seed: int = 0) -> Path:
    """Write a recording of as many sparse sources as channels, mixed at random, in float32."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((n_channels, n_channels))
    n_samples = round(60 * minutes * rate)
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", (n_samples, n_channels), "f4")
        data.attrs["rate"] = rate
        for at in range(0, n_samples, 30_000):
            rows = min(30_000, n_samples - at)
            data[at : at + rows] = rng.laplace(size=(rows, n_channels)) @ mixing.T
    return path


def _jobs(folder: Path, **model: str) -> list[Job]:
    settings = BatchSettings(model=ModelSettings(**model))  # type: ignore[arg-type]
    return [
        Job(
            input=mixture(folder / f"in{n}.h5", 32, 250.0, 5, seed=n),
            output=folder / "none",
            settings=settings,
            make_folders=True,
        )
        for n in range(FILES)
    ]


def speed_up() -> Iterator[Figure]:
    """Compare two processes with one, on recordings that are learned and separated; starts not counted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = _jobs(folder)
        began = time.perf_counter()
        with DaskRunner(1) as one:
            first = time.perf_counter() - began
            with DaskRunner(2) as two:
                second = time.perf_counter() - began - first
                took, cpu = ({1: list[float](), 2: list[float]()} for _ in range(2))
                others = []
                for at in range(ROUNDS + 1):  # the first does not count
                    for count, workers in (1, one), (2, two):
                        outputs = folder / f"out-{at}-{count}"
                        todo = [replace(job, output=outputs / job.input.name) for job in jobs]
                        seconds, own, share = _timed(workers, todo)
                        if at:
                            took[count].append(seconds)
                            cpu[count].append(own)
                            others.append(share)
        ratios = [two / one for one, two in zip(took[1], took[2], strict=True)]
        detail = (
            f"{median(took[1]):.1f} s and {median(took[2]):.1f} s, {1 / median(ratios):.2f} times as fast "
            f"(rounds: {', '.join(f'{1 / ratio:.2f}' for ratio in ratios)}); {median(cpu[1]):.1f} s and "
            f"{median(cpu[2]):.1f} s of CPU; other programs took {100 * median(others):.0f} % of the "
            "processors meanwhile"
        )
        yield Figure("20 recordings, two processes / one", median(ratios), "", 1 / 1.7, detail)
        yield Figure("start of one process; of two", first, "s", math.inf, f"{second:.1f} s for two")


def _timed(workers: DaskRunner, jobs: list[Job]) -> tuple[float, float, float]:
    """Return the seconds that jobs take, those of CPU, and the share of all processors that others took."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]  # idle ones take little
    before, own, began = psutil.cpu_times(), _cpu(family), time.perf_counter()
    for result in workers.run(jobs):
        if result.status != DONE:
            raise RuntimeError(result.message)
    seconds = time.perf_counter() - began
    after = psutil.cpu_times()
    busy = sum(getattr(after, kind) - getattr(before, kind) for kind in ("user", "system", "nice"))
    used = _cpu(family) - own
    return seconds, used, (busy - used) / (seconds * (os.cpu_count() or 1))


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def nothing(job: Job, progress: Progress | None = None) -> Result:
    """Do nothing, which is what shows what a scheduler costs."""
    return Result(job=job, status=DONE, seconds=0.0)


def tasks() -> Iterator[Figure]:
    """Time jobs that do nothing: what Dask adds to each."""
    settings = BatchSettings(model=ModelSettings())
    jobs = [
        Job(input=Path(f"/in{n}"), output=Path(f"/none/{n}"), settings=settings) for n in range(N_TASKS)
    ]
    for count in (1, 2):
        with DaskRunner(count) as workers:
            list(workers.run(jobs, do=nothing))
            cpu = psutil.Process().cpu_times()
            seconds = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                list(workers.run(jobs, do=nothing))
                seconds.append(time.perf_counter() - began)
            used = sum(psutil.Process().cpu_times()[:2]) - sum(cpu[:2])
        each = median(seconds) / N_TASKS
        detail = (
            f"{1 / each:.0f} jobs/s; {1e3 * used / (ROUNDS * N_TASKS):.2f} ms of CPU beside the scheduler"
        )
        yield Figure(f"a job that does nothing, {count} worker(s)", 1e3 * each, "ms", math.inf, detail)


def hours() -> Iterator[Figure]:
    """Take the cost of a recorded hour from a shorter and a longer recording."""
    for n_channels, rate, minutes in SHAPES:
        with tempfile.TemporaryDirectory() as name:
            for options in ((), ("--structure", "systematic")):
                found = [_cost(Path(name), n_channels, rate, length, options) for length in minutes]
                hour = 60 / (minutes[1] - minutes[0])
                cpu, read, written = (hour * (long - short) for short, long in zip(*found, strict=True))
                once = found[0][0] - cpu * minutes[0] / 60
                detail = (
                    f"and {once:.1f} s once a recording; {read / 1e9:.2f} GB read, {written / 1e9:.2f} GB "
                    "written an hour"
                )
                kind = "systematic" if options else "learned"
                title = f"an hour of {n_channels} channels at {rate:g} Hz, {kind}"
                yield Figure(title, cpu, "s", math.inf, detail)


def _cost(
    folder: Path, n_channels: int, rate: float, minutes: float, options: tuple[str, ...]
) -> list[float]:
    path = folder / f"{minutes}.h5"
    if not path.exists():
        mixture(path, n_channels, rate, minutes)
    words = ["batch", str(path), "-o", str(folder / "out.h5"), "--overwrite", "--quiet", *options]
    run = subprocess.run(
        [sys.executable, "-c", _COSTED, *words], capture_output=True, text=True, check=True
    )
    cost: list[float] = json.loads(run.stdout.splitlines()[-1])
    return cost
