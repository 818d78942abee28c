"""Record to a file that exists."""

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.feeds.model_facts import LearningFacts
from igbss_stream.files.results.learned_models import read_learned_models
from igbss_stream.files.writers import stream_recording
from igbss_stream.files.writers.growing_hdf5 import claim_existing, create_growing
from igbss_stream.files.writers.recording_layout import (
    MODEL,
    IfExists,
    check_recording_path,
    make_tables,
)
from igbss_stream.files.writers.stream_recording import RecordingSink
from igbss_stream.positions import Positions
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
def test_nothing_exists(path: Path, if_exists: IfExists) -> None:
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


def test_a_recording_of_version_0_1_continues_in_the_next_file(path: Path) -> None:
    """It has no tables for how models were learned, for events and for positions."""
    tables = [table for table in make_tables(STREAM, 1 << 16) if table.name in ("gaps", "models", "data")]
    attributes = {"stream": STREAM.name, "delay": 0, "extra": "{}", "igbss_stream_version": "0.1.0"}
    old = create_growing(path, tables, attributes)
    old.append("models", np.array([(0, 0, 1)], MODEL))
    old.append("data", chunk(0, 3).data)
    old.close()
    before = path.read_bytes()
    with RecordingSink(path, if_exists="append") as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 2, 2))
    assert path.read_bytes() == before
    data, _, _, models = read(path.with_name("live-2.h5"))
    assert (data[:, 0].tolist(), [row for row, _, _ in models]) == ([0, 1], [0])


def test_append_to_a_recording_with_learned_models(path: Path) -> None:
    for view in 0.1, 0.0:
        with RecordingSink(path, if_exists="append") as sink:
            sink.start(STREAM)
            sink.set_learning(LearningFacts(version=1, view=view, reliability=(1.0, 2.0)))
            sink.write(chunk(0, 2))
    assert [(model.row, model.learning.view) for model in read_learned_models(path)] == [(0, 0.1), (2, 0.0)]


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
        assert sink.path == path
    assert read(path)[0][:, 0].tolist() == [0, 1, 2, 0, 1]
    assert read(path)[2] == [(3, 3, 0, b"restart")]


OTHERS = {
    "stream": (Stream("eeg", 250.0, STREAM.channels, "uV"), "stream 'eeg' instead of 'eeg.sources'"),
    "rate": (Stream("eeg.sources", 251.0, STREAM.channels, "uV"), "rate 251.0 instead of 250.0"),
    "unit": (Stream("eeg.sources", 250.0, STREAM.channels, "V"), "unit 'V' instead of 'uV'"),
    "no unit": (Stream("eeg.sources", 250.0, STREAM.channels), "unit None instead of 'uV'"),
    "names": (Stream("eeg.sources", 250.0, ("a", "b"), "uV"), "channels ['a', 'b'] instead of ['source-0'"),
    "channels": (Stream("eeg.sources", 250.0, ("a", "b", "c"), "uV"), "3 channels instead of 2"),
    "dtype": (
        Stream("eeg.sources", 250.0, STREAM.channels, "uV", np.dtype("f8")),
        "dtype 'float64' instead of 'float32'",
    ),
    "positions": (
        replace(STREAM, positions=Positions(STREAM.channels, np.eye(3)[:2] / 10, "head", "a montage")),
        "the stream has other positions of its channels",
    ),
}


def samples_of(stream: Stream, start: int) -> Chunk:
    """Return samples with the layout of a stream, whose values are their indices."""
    values = np.repeat(np.arange(start, start + 10.0)[:, None], stream.n_channels, axis=1)
    return Chunk(values.astype(stream.dtype), start, 1)


def describe(path: Path) -> tuple[Any, ...]:
    """Return the layout of a file, read with h5py only."""
    with h5py.File(path) as file:
        attrs = file["data"].attrs
        names = tuple(map(str, attrs["channels"]))
        return file.attrs["stream"], attrs["rate"], names, attrs.get("unit"), file["data"].dtype


@pytest.mark.parametrize(("other", "difference"), OTHERS.values(), ids=OTHERS)
def test_samples_of_another_layout_never_go_into_the_same_file(
    path: Path, caplog: pytest.LogCaptureFixture, other: Stream, difference: str
) -> None:
    with RecordingSink(path, flush_every=0) as sink:
        for number, stream in enumerate((STREAM, other, STREAM, STREAM)):
            sink.start(stream)
            sink.write(samples_of(stream, 100 * number))
        assert sink.path.name == "live-3.h5"
        assert (sink.n_recorded, sink.n_samples) == (40, 20)
    for name, stream, starts in (
        ("live.h5", STREAM, [0]),
        ("live-2.h5", other, [100]),
        ("live-3.h5", STREAM, [200, 300]),
    ):
        file = path.with_name(name)
        assert describe(file) == (stream.name, stream.rate, stream.channels, stream.unit, stream.dtype)
        data, index, gaps, models = read(file)
        np.testing.assert_array_equal(data[:, 0], np.concatenate([np.arange(s, s + 10) for s in starts]))
        assert models[0] == (0, starts[0], 1)
        assert [reason for *_, reason in gaps] == [b"restart"] * (len(starts) - 1)
        assert index[0] == starts[0]
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 2
    assert warnings[0].startswith(
        f"'{path}' is closed, and the recording continues in '{path.parent}/live-2.h5'"
    )
    assert difference in warnings[0]


@pytest.mark.parametrize(("other", "difference"), OTHERS.values(), ids=OTHERS)
def test_another_stream_is_not_appended(
    path: Path, caplog: pytest.LogCaptureFixture, other: Stream, difference: str
) -> None:
    record(path)
    before = path.read_bytes()
    for n_runs in (1, 2):  # the second run continues the file of the first
        with RecordingSink(path, if_exists="append") as sink:
            sink.start(other)
            sink.write(samples_of(other, 0))
        assert (sink.path.name, path.read_bytes() == before) == ("live-2.h5", True)
        assert len(read(sink.path)[0]) == 10 * n_runs
    (warning,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert warning.startswith(f"the recording continues in '{sink.path}': '{path}' cannot be continued")
    assert difference in warning


def test_a_full_recording_is_continued_in_its_last_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_recording, "_CAPACITY", 2)
    for _ in range(4):
        record(path, if_exists="append")
    assert [read(path.with_name(name))[2] for name in ("live.h5", "live-2.h5")] == [
        [(10, 10, 0, b"restart"), (20, 20, 0, b"restart")],
        [(10, 30, 0, b"restart")],
    ]
    assert [read(path.with_name(name))[1][0] for name in ("live.h5", "live-2.h5")] == [0, 20]


def test_a_file_that_was_never_a_recording_is_refused(path: Path) -> None:
    path.write_text("precious")
    assert "is not a recording of a stream and cannot be continued" in refused(path, if_exists="append")
    with h5py.File(path, "w") as file:
        file["data"] = np.zeros((3, 2), "f4")
        file["data"].attrs.update(rate=250.0, unit="uV", channels=list(STREAM.channels))
        file.attrs["stream"] = "eeg.sources"
    assert "is not a recording of a stream and cannot be continued" in refused(path, if_exists="append")


def spoil(path: Path, how: str) -> None:
    """Damage a recording, as a power failure or another program may."""
    if how == "cut":
        os.truncate(path, 5000)
    elif how == "empty":
        os.truncate(path, 0)
    elif how == "zeros":
        path.write_bytes(bytes(len(path.read_bytes())))
    else:
        with h5py.File(path, "r+") as file:
            layout = file.attrs["layout"]
            if how == "shape":
                file.attrs["layout"] = layout[:5]
            elif how == "gaps":
                del file["gaps"]
                file["gaps"] = np.arange(3)
            else:
                layout[3, int(how == "table")] = 5000
                file.attrs["layout"] = layout


@pytest.mark.parametrize("how", ["cut", "empty", "zeros", "shape", "place", "table", "gaps"])
def test_a_damaged_recording_is_left_and_the_next_file_begun(
    path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    record(path)
    spoil(path, how)
    before = path.read_bytes()
    assert record(path, 30, if_exists="append").name == "live-2.h5"
    assert path.read_bytes() == before
    assert samples_hold_their_index(path.with_name("live-2.h5")) == 10
    assert f"the recording continues in '{path.with_name('live-2.h5')}': '{path}'" in caplog.text


def test_a_recording_in_progress(path: Path) -> None:
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 10))
        assert "is being recorded to or read by another program" in refused(path, if_exists="overwrite")
        assert record(path, 50, if_exists="append").name == "live-2.h5"
    assert samples_hold_their_index(path) == 10


def test_a_path_is_checked_without_changing_it(path: Path) -> None:
    def complaint(path: Path, if_exists: IfExists) -> str:
        before = sorted(os.listdir(path.parent)) if path.parent.is_dir() else []
        try:
            check_recording_path(path, if_exists)
        except RecordingError as error:
            return str(error)
        finally:
            assert before == (sorted(os.listdir(path.parent)) if path.parent.is_dir() else [])
        return ""

    choices: tuple[IfExists, ...] = ("refuse", "overwrite", "append", "number")
    assert [complaint(path, choice) for choice in choices] == [""] * 4
    record(path)
    assert [bool(complaint(path, choice)) for choice in choices] == [True, False, False, False]
    path.write_text("precious")
    assert [bool(complaint(path, choice)) for choice in choices] == [True, False, True, False]
    assert "create it first" in complaint(path.parent / "none" / "x.h5", "append")
    assert "name too long" in complaint(path.parent / f"{'x' * 300}.h5", "append")


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
