"""The command `batch` keeps samples that are costly to read between its passes, and the result is the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import igbss_stream.batch.channels
from igbss_stream._util import compute_pool
from igbss_stream.files.readers.hdf5.reader import Hdf5Recording
from tests.commands import SYSTEMATIC, Command
from tests.recordings import noise, write_recording

BY_SAMPLE = (*SYSTEMATIC, "--transform", "min-max")  # a pass for the range, another to separate
BY_WINDOW = (*SYSTEMATIC, "--solver", "joint", "--window", "0.08", "--rate", "250")
FILTERED = (*BY_SAMPLE, "--rate", "250", "--highpass", "1")
GZIP = {"chunks": (17, 3), "compression": "gzip"}
KEPT: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "compressed": (GZIP, BY_SAMPLE),
    "compressed, windows": (GZIP, BY_WINDOW),
    "compressed, one channel left out": (GZIP, (*BY_SAMPLE, "--channels", "0,1,3")),
    "filtered": ({}, FILTERED),
}


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets an entry for each pass over all samples of the file."""
    found, read = list[int](), Hdf5Recording.read_blocks

    def noted(recording: Hdf5Recording, n: int, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        yield from read(recording, n, start, stop)
        found.append(n)

    monkeypatch.setattr(Hdf5Recording, "read_blocks", noted)
    monkeypatch.setattr(igbss_stream.batch.channels, "BLOCK_BYTES", 400)
    return found


@pytest.mark.parametrize(("storage", "options"), KEPT.values(), ids=KEPT)
def test_samples_that_are_costly_to_read_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
    separated: Command,
    passes: list[int],
    tmp_path: Path,
    storage: dict[str, Any],
    options: tuple[str, ...],
) -> None:
    path = write_recording(tmp_path / "in.h5", noise(), storage=storage)
    separated(path, *options)
    assert len(passes) == 1
    kept = (tmp_path / "out.h5").read_bytes()
    monkeypatch.setattr(igbss_stream.batch.channels, "may_cache", lambda n_bytes: False)
    separated(path, *options, "--overwrite")
    assert len(passes) == 3
    assert (tmp_path / "out.h5").read_bytes() == kept


@pytest.mark.parametrize("storage", [{}, {"chunks": (17, 4)}], ids=["contiguous", "chunks"])
def test_samples_as_stored_are_read_again(
    separated: Command, passes: list[int], tmp_path: Path, storage: dict[str, Any]
) -> None:
    separated(write_recording(tmp_path / "in.h5", noise(), storage=storage), *BY_SAMPLE)
    assert len(passes) == 2


def test_a_process_that_shares_the_machine_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch, separated: Command, passes: list[int], tmp_path: Path
) -> None:
    monkeypatch.setattr(compute_pool, "_limit", 1)
    separated(write_recording(tmp_path / "in.h5", noise(), storage=GZIP), *BY_SAMPLE)
    assert len(passes) == 2
