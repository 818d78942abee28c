#!/usr/bin/env python
"""Mutate the smallest file of each reader, and inspect it: a result or a clear refusal is due, in bounds.

    .venv/bin/python tools/fuzz_readers.py                       # 20,000 mutations of each reader
    .venv/bin/python tools/fuzz_readers.py edf xdf --mutations 500 --seed 7
    .venv/bin/python tools/fuzz_readers.py nwb --only 1234       # one mutation, with its traceback

Files are inspected in a child process with limits of memory and time, so that crashes, hangs and large
allocations of C libraries are found too. Every outcome besides a result and an error of the package is a
finding, and so is every warning that Python prints; its file is kept in the folder of --keep under the name
of the reader and the seed. The exit code is 1 if there is one.
"""

import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random

import click
from click.testing import CliRunner
from fuzz_files import NEEDS, SMALLEST, write_smallest
from fuzz_mutations import mutate

MEMORY = 6 << 30  # bytes of address space of a child, of which libraries take 2
SECONDS = 20.0  # for one file; the usual is 0.02
START = 600.0  # seconds, for the first file: libraries are imported, and kernels are compiled
_WARNING = re.compile(r"^(\S+\.py):(\d+): (\w+Warning): (.*)", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """A mutation that gave neither a result nor a refusal.

    Parameters
    ----------
    reader : str
    seed : int
    what : str
        The exception and its place, a signal, or a time limit.
    """

    reader: str
    seed: int
    what: str

    @property
    def kind(self) -> str:
        """The finding without the values of an exception."""
        return self.what.split(": ")[0]


def write_mutation(reader: str, seed: int, name: str, files: dict[str, bytes], folder: Path) -> Path:
    """Write the files of a recording, one of them mutated; return the path to open."""
    rng = Random(f"{reader} {seed}")
    changed = rng.choice(sorted(files))
    for each, content in files.items():
        (folder / each).write_bytes(mutate(content, rng) if each == changed else content)
    return folder / name


def inspect(path: Path) -> tuple[str, str]:
    """Inspect a file by the command line; return ``read``, ``refused`` or ``finding``, and the reason."""
    from igbss_stream.cli import main

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for category in (UserWarning, RuntimeWarning):  # which Python prints by default
            warnings.simplefilter("always", category)
        axis = ("--axis", "0") if path.suffix == ".mat" else ()
        done = CliRunner().invoke(main, ["inspect", "--json", *axis, str(path)])
    warning = _WARNING.search(done.stderr)
    if warning is not None:
        place, line, kind, message = warning.groups()
        return "finding", f"{kind} at {Path(place).name}:{line}: {message[:90]!r}"
    if done.exception is None or (isinstance(done.exception, SystemExit) and done.exit_code == 0):
        refusal = json.loads(done.stdout.splitlines()[-1])["refused"]  # after what MNE may log
        return ("read", "") if refusal is None else ("refused", refusal)
    if isinstance(done.exception, SystemExit) and done.exit_code == 2:
        return "refused", done.stderr
    frames = traceback.extract_tb(done.exception.__traceback__)
    ours = [frame for frame in frames if "igbss_stream" in frame.filename] or list(frames)
    at = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    if os.environ.get("FUZZ_TRACEBACK"):
        traceback.print_exception(done.exception)
    return "finding", f"{type(done.exception).__name__} at {at}: {str(done.exception)[:90]!r}"


def work(reader: str, first: int, stop: int) -> None:
    """Inspect mutations, and print the seed before each and the outcome after it; runs in a child."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as folder:
        name, files = write_smallest(reader, Path(made))
        outcome = inspect(Path(made) / name)
        if outcome[0] != "read":
            raise SystemExit(f"the smallest file of {reader} is not read: {outcome[1]}")
        for seed in range(first, stop):
            print(json.dumps([seed]), flush=True)
            path = write_mutation(reader, seed, name, files, Path(folder))
            print(json.dumps([seed, *inspect(path)]), flush=True)


def run(reader: str, first: int, stop: int) -> tuple[Counter[str], list[Finding]]:
    """Inspect the mutations of a range of seeds in child processes; a new one follows each that dies."""
    counts, findings, at = Counter[str](), list[Finding](), first
    while at < stop:
        command = [sys.executable, __file__, reader, "--work", f"{at}:{stop}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as child:
            at, ended = _follow(child, reader, at, counts, findings)
            if ended:
                continue
            child.kill() if child.poll() is None else None
        code = child.returncode
        what = "no answer in time" if code == -signal.SIGKILL else f"died with code {code}"
        findings.append(Finding(reader, at, what))
        counts["finding"] += 1
        at += 1
    return counts, findings


def _follow(
    child: "subprocess.Popen[bytes]", reader: str, at: int, counts: Counter[str], findings: list[Finding]
) -> tuple[int, bool]:
    """Read what a child prints; return the seed to go on with, and whether the child has finished."""
    assert child.stdout is not None
    assert child.stderr is not None
    started, limit, rest = False, START, b""
    while True:
        deadline = time.monotonic() + limit
        while b"\n" not in rest:
            ready, _, _ = select.select([child.stdout], [], [], max(0.0, deadline - time.monotonic()))
            new = os.read(child.stdout.fileno(), 1 << 16) if ready else b""
            if not new:
                if not ready or child.wait() != 0:
                    if not started:
                        child.kill()
                        raise SystemExit(f"{reader} does not start: {child.stderr.read().decode()[-2000:]}")
                    return at, False
                return at, True
            rest += new
        line, _, rest = rest.partition(b"\n")
        at, *outcome = json.loads(line)
        started, limit = True, SECONDS
        if outcome:
            counts[outcome[0]] += 1
            if outcome[0] == "finding":
                findings.append(Finding(reader, at, outcome[1]))
            at += 1


def keep(finding: Finding, folder: Path) -> Path:
    """Write the files of a finding into a folder; return the path to open."""
    with tempfile.TemporaryDirectory() as made:
        name, files = write_smallest(finding.reader, Path(made))
    place = folder / f"{finding.reader}-{finding.seed}"
    place.mkdir(parents=True, exist_ok=True)
    return write_mutation(finding.reader, finding.seed, name, files, place)


@click.command()
@click.argument("readers", nargs=-1, type=click.Choice(sorted(SMALLEST)))
@click.option("--mutations", default=20_000, show_default=True, help="Mutations of each reader.")
@click.option("--seed", default=0, show_default=True, help="Seed of the first mutation.")
@click.option("--only", type=int, help="Inspect the mutation of this seed in this process.")
@click.option("--keep", "kept", default="fuzz-findings", show_default=True, type=click.Path(path_type=Path))
@click.option("--work", "part", hidden=True, help="Range of seeds; for child processes.")
def main(
    readers: tuple[str, ...], mutations: int, seed: int, only: int | None, kept: Path, part: str | None
) -> None:
    """Mutate the smallest file of each reader, and inspect it."""
    if part is not None:
        work(readers[0], *map(int, part.split(":")))
        return
    if only is not None:
        os.environ["FUZZ_TRACEBACK"] = "1"
        for reader in readers:
            print(*inspect(keep(Finding(reader, only, ""), kept)))
        return
    found = list[Finding]()
    for reader in readers or SMALLEST:
        missing = [name for name in NEEDS.get(reader, ()) if find_spec(name) is None]
        if missing:
            print(f"{reader}: left out, because {missing[0]} is not installed", flush=True)
            continue
        began = time.monotonic()
        counts, findings = run(reader, seed, seed + mutations)
        found += findings
        print(
            f"{reader}: {counts['read']} read, {counts['refused']} refused, {counts['finding']} findings, "
            f"{time.monotonic() - began:.0f} s",
            flush=True,
        )
        kinds = Counter(finding.kind for finding in findings)
        for kind, n in kinds.most_common():
            first = next(finding for finding in findings if finding.kind == kind)
            print(f"  {n} x {first.what}; {keep(first, kept)}", flush=True)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
