"""Mutated files of every reader: a result or a refusal, and what the tool counts as neither."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import fuzz_readers
import numpy as np
import pytest
from fuzz_files import NEEDS, SMALLEST, write_smallest

from igbss_stream.files.inspection import Refusal

N_MUTATIONS = 12


@pytest.mark.parametrize("reader", SMALLEST)
def test_mutations_of_the_smallest_file(tmp_path: Path, reader: str) -> None:
    for library in NEEDS.get(reader, ()):
        pytest.importorskip(library)
    (tmp_path / "made").mkdir()
    name, files = write_smallest(reader, tmp_path / "made")
    assert fuzz_readers.inspect(tmp_path / "made" / name) == ("read", "")
    counts = Counter[str]()
    for seed in range(N_MUTATIONS):
        path = fuzz_readers.write_mutation(reader, seed, name, files, tmp_path)
        outcome, reason = fuzz_readers.inspect(path)
        assert outcome != "finding", f"seed {seed}: {reason}"
        assert (outcome == "refused") == bool(reason)
        counts[outcome] += 1
    assert counts["refused"]


@pytest.mark.parametrize(
    ("code", "returncode"),
    [
        ("import time; time.sleep(60)", None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -11),
        ("raise SystemExit(1)", 1),
    ],
)
def test_hangs_and_crashes_are_found(
    monkeypatch: pytest.MonkeyPatch, code: str, returncode: int | None
) -> None:
    monkeypatch.setattr(fuzz_readers, "SECONDS", 0.3)
    lines = 'print("[3]\\n[3, \\"read\\", \\"\\"]\\n[4]", flush=True); '
    command = [sys.executable, "-c", lines + code]
    counts, findings = Counter[str](), list[fuzz_readers.Finding]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as child:
        assert fuzz_readers._follow(child, "hdf5", 3, counts, findings) == (4, False)
        assert child.poll() == returncode
        child.kill()
    assert (counts, findings) == ({"read": 1}, [])


def test_faults_of_the_program_are_findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("of a fault")

    name, _ = write_smallest("csv", tmp_path)
    monkeypatch.setattr("igbss_stream.files.inspection.examine", fail)
    outcome, reason = fuzz_readers.inspect(tmp_path / name)
    assert outcome == "finding"
    assert reason.startswith("KeyError at entry.py:")


def test_printed_warnings_are_findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def warn(*_: object, **__: object) -> Refusal:
        np.multiply(1e300, np.array([1e300]))
        return Refusal("for a reason")

    name, _ = write_smallest("csv", tmp_path)
    monkeypatch.setattr("igbss_stream.files.inspection.examine", warn)
    outcome, reason = fuzz_readers.inspect(tmp_path / name)
    assert outcome == "finding"
    assert reason.startswith("RuntimeWarning at test_fuzz_readers.py:")
