"""The peak memory of `batch` on a long recording, made on the fly: most of it was never written."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
from bench_figure import Figure
from bench_files import Job

N_CHANNELS = 16
LIMIT = 400.0  # MB
# The system counts for a process started from here what this one takes; its own count begins afresh.
_TELLING = """
import atexit, re
def report():
    status = open('/proc/self/status').read()
    print(*(re.search(name + r':\\s+(\\d+)', status)[1] for name in ('VmHWM', 'RssFile')))
atexit.register(report)
from igbss_stream.cli import main
main(prog_name='igbss-stream')
"""


def sparse(path: Path, n_bytes: int) -> Path:
    """Write a recording that takes room only where it moves: at both ends and in the middle."""
    n_samples = n_bytes // (4 * N_CHANNELS)
    rows = min(1 << 16, n_samples // 3)
    rng = np.random.default_rng(0)
    mixing = rng.random((N_CHANNELS, N_CHANNELS))
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", (n_samples, N_CHANNELS), "f4")
        data.attrs["rate"] = 1000.0
        for at in (0, n_samples // 2, n_samples - rows):
            data[at : at + rows] = rng.laplace(size=(rows, N_CHANNELS)) @ mixing
    return path


def room_for(folder: Path, n_bytes: int) -> bool:
    """Return whether an output of this size in bytes fits, with a tenth to spare."""
    return shutil.disk_usage(folder).free > 1.1 * n_bytes


def peak(source: Path, out: Path, *options: str) -> tuple[float, float]:
    """Return the peak memory of a run in MB, and how much of files that are mapped it held at its end."""
    printed = subprocess.run(
        [sys.executable, "-c", _TELLING, "batch", str(source), "-o", str(out), "--overwrite", *options],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    numbers = re.findall(r"\d+", printed.splitlines()[-1])
    return int(numbers[0]) / 1024, int(numbers[1]) / 1024


def memory(job: Job) -> Iterator[Figure]:
    """Measure runs on a recording of 10 GB and on one of a million samples."""
    n_bytes = job.gigabytes * 10**9
    out = job.folder / "bench-out.h5"
    small = sparse(job.folder / "bench-small.h5", 4 * N_CHANNELS * 10**6)
    if not room_for(job.folder, n_bytes):
        raise RuntimeError(f"{job.folder} has no room for an output of {job.gigabytes} GB; see --folder")
    long = sparse(job.folder / "bench-long.h5", n_bytes)
    for name, options in {
        "learned": [],
        "systematic": ["--structure", "systematic"],
        "systematic, gzip": ["--structure", "systematic", "--compression", "gzip"],
    }.items():
        (whole, mapped), (least, _) = peak(long, out, *options), peak(small, out, *options)
        detail = f"{mapped:.0f} MB of it mapped files at the end; {least:.0f} MB on 1,000,000 samples"
        yield Figure(f"peak memory on {job.gigabytes} GB, {name}", whole, "MB", LIMIT, detail)
        out.unlink()
