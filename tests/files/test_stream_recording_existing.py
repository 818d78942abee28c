"""Record to a file that exists."""

import errno
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream.chunk import Gap, Stream
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.files.writers import stream_recording
from igbss_stream.files.writers.growing_hdf5 import claim_existing
from igbss_stream.files.writers.stream_recording import RecordingSink
from tests.files.test_stream_recording import STREAM, chunk, read, samples_hold_their_index


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a recording that does not exist yet."""
    return tmp_path / "live.h5"


def record(path: Path, first: int = 0, stream: Stream = STREAM, **options: Any) -> Path:
    with RecordingSink(path, **options) as sink:
        sink.start(stream)
        sink.write(chunk(first, 10))
    return sink.path


def refused(path: Path, stream: Stream = STREAM, **options: Any) -> str:
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(RecordingError) as error:
        RecordingSink(path, **options).start(stream)
    assert str(path) in str(error.value)
    assert not path.is_file() or path.read_bytes() == before
    return str(error.value)


def test_a_recording_that_exists(path: Path) -> None:
    record(path)
    assert "already exists; choose another output, or if_exists" in refused(path)
    assert record(path, 10, if_exists="overwrite") == path
    assert read(path)[1].tolist() == list(range(10, 20))
    assert record(path, 20, if_exists="number").name == "live-2.h5"
    assert record(path, 30, if_exists="number").name == "live-3.h5"
    assert sorted(os.listdir(path.parent)) == ["live-2.h5", "live-3.h5", "live.h5"]
    assert samples_hold_their_index(path.with_name("live-3.h5")) == 10


@pytest.mark.parametrize("if_exists", ["overwrite", "append", "number"])
def test_nothing_exists(path: Path, if_exists: stream_recording.IfExists) -> None:
    assert record(path, if_exists=if_exists) == path
    assert samples_hold_their_index(path) == 10


@pytest.mark.parametrize(
    ("t0", "missing"),
    [(1e9 + 1, 240), (1e9 + 0.04, 0), (1e9 - 50, 0), (None, 0)],
)
def test_append_positions_the_new_run_by_the_clock(path: Path, t0: float | None, missing: int) -> None:
    record(path)
    record(
        path, 0, Stream("eeg.sources", 250.0, STREAM.channels, "uV", STREAM.dtype, t0), if_exists="append"
    )
    data, index, gaps, models = read(path)
    assert gaps == [(10, 10, missing, b"restart")]
    assert models == [(0, 0, 1), (10, 10 + missing, 1)]
    assert index.tolist() == [*range(10), *range(10 + missing, 20 + missing)]
    assert data[10:, 0].tolist() == list(range(10))


def test_append_to_a_recording_without_samples(path: Path) -> None:
    with RecordingSink(path) as sink:
        sink.start(STREAM)
    record(path, 5, if_exists="append")
    assert read(path)[2:] == ([], [(0, 5, 1)])


def test_append_after_a_gap(path: Path) -> None:
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 3))
        sink.write(Gap(3, 4, "lost"))
    with RecordingSink(path, if_exists="append") as sink:
        sink.start(STREAM)
        sink.write(Gap(0, 2, "warmup"))
        sink.write(chunk(2, 1))
    _, index, gaps, _ = read(path)
    assert gaps == [(3, 3, 4, b"lost"), (3, 7, 0, b"restart"), (3, 7, 2, b"warmup")]
    assert index.tolist() == [0, 1, 2, 9]


def test_a_second_run_in_one_process(path: Path) -> None:
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 3))
        sink.start(STREAM)
        sink.write(chunk(0, 2))
        with pytest.raises(RecordingError, match=r"with rate 250.0, but the stream has 500.0"):
            sink.start(Stream("eeg.sources", 500.0, STREAM.channels, "uV"))
    assert read(path)[0][:, 0].tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (
            Stream("eeg", 250.0, STREAM.channels, "uV"),
            "with stream 'eeg.sources', but the stream has 'eeg'",
        ),
        (Stream("eeg.sources", 251.0, STREAM.channels, "uV"), "with rate 250.0, but"),
        (Stream("eeg.sources", 250.0, STREAM.channels, "V"), "with unit 'uV', but"),
        (Stream("eeg.sources", 250.0, STREAM.channels), "with unit 'uV', but"),
        (Stream("eeg.sources", 250.0, ("a", "b", "c"), "uV"), "with channels "),
        (Stream("eeg.sources", 250.0, STREAM.channels, "uV", np.dtype("f8")), "with dtype 'float32', but"),
    ],
)
def test_another_stream_is_not_appended(path: Path, stream: Stream, message: str) -> None:
    record(path)
    assert message in refused(path, stream, if_exists="append")


def test_other_files_are_not_appended_to(path: Path) -> None:
    path.write_text("precious")
    assert "is not a recording of a stream" in refused(path, if_exists="append")
    with h5py.File(path, "w") as file:
        file["data"] = np.zeros((3, 2), "f4")
        file["data"].attrs.update(rate=250.0, unit="uV", channels=list(STREAM.channels))
        file.attrs["stream"] = "eeg.sources"
    assert "is not a recording that can be continued" in refused(path, if_exists="append")


@pytest.mark.parametrize("change", ["shape", "place", "table", "gaps"])
def test_a_recording_whose_layout_was_changed(path: Path, change: str) -> None:
    record(path)
    with h5py.File(path, "r+") as file:
        layout = file.attrs["layout"]
        if change == "shape":
            file.attrs["layout"] = layout[:5]
        elif change == "gaps":
            del file["gaps"]
            file["gaps"] = np.arange(3)
        else:
            layout[3, int(change == "table")] = 5000
            file.attrs["layout"] = layout
    assert "changed by another program" in refused(path, if_exists="append")


@pytest.mark.parametrize("if_exists", ["overwrite", "append"])
def test_a_recording_in_progress(path: Path, if_exists: stream_recording.IfExists) -> None:
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 10))
        assert "is being recorded to or read by another program" in refused(path, if_exists=if_exists)
    assert samples_hold_their_index(path) == 10


def test_invalid_paths(tmp_path: Path) -> None:
    assert "is a directory" in refused(tmp_path, if_exists="overwrite")
    assert "create it first" in refused(tmp_path / "none" / "x.h5")
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in refused(tmp_path / "pipe", if_exists="overwrite")


def test_permission(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(path)

    def denied(*args: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("builtins.open", denied)
    with pytest.raises(RecordingError, match="Permission denied; choose another output"):
        claim_existing(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"if_exists": "replace"},
            "if_exists must be one of refuse, overwrite, append, number. Got 'replace'",
        ),
        ({"flush_every": -1}, "flush_every must be 0 s or more. Got -1"),
        ({"flush_every": float("nan")}, "flush_every must be 0 s or more. Got nan"),
    ],
)
def test_impossible_options(path: Path, options: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        RecordingSink(path, **options)
