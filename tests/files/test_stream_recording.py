"""Record a stream: any reader can open the file at any moment."""

import errno
import json
import os
import re
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream.batch.separate import separate_recording
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.feeds.model_facts import LearningFacts
from igbss_stream.files.open import open_recording
from igbss_stream.files.readers.hdf5.listing import describe_file, format_description
from igbss_stream.files.results.learned_models import read_learned_models
from igbss_stream.files.writers import learning_table, stream_recording
from igbss_stream.files.writers.stream_recording import RecordingSink
from igbss_stream.separation.settings import ModelSettings
from tests.doc_pages import blocks
from tests.recordings import file_size_limit

ROOT = Path(__file__).parents[2]
STREAM = Stream("eeg.sources", 250.0, ("source-0", "söurce-1"), "uV", np.dtype("f4"), 1e9, 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a recording that does not exist yet."""
    return tmp_path / "live.h5"


def chunk(start: int, n_samples: int, model: int = 1) -> Chunk:
    """Return samples whose values are their indices."""
    index = np.arange(start, start + n_samples, dtype="f4")
    return Chunk(np.column_stack([index, -index]), start, model)


def from_docs() -> str:
    """Return the code of the documentation that computes the index of each row."""
    (block,) = blocks("docs/recording.md", "python")
    return block.text


def read(path: Path) -> tuple[NDArray[Any], NDArray[Any], list[Any], list[Any]]:
    """Return samples, their indices, gaps and models, read with h5py only."""
    with h5py.File(path, "r") as file:
        data, gaps, models = file["data"][:], file["gaps"][:].tolist(), file["models"][:].tolist()
    if not models:
        return data, np.arange(0), gaps, models
    found: dict[str, Any] = {}
    exec(from_docs().replace("live.h5", str(path)), found)
    return data, found["index"], gaps, models


def samples_hold_their_index(path: Path) -> int:
    data, index, _, _ = read(path)
    np.testing.assert_array_equal(data[:, 0], index)
    np.testing.assert_array_equal(data[:, 1], -index)
    return len(data)


# Content


def test_contents(path: Path) -> None:
    with RecordingSink(path) as sink:
        sink.start(STREAM, {"note": ["ä", 1]})
        for item in (
            chunk(10, 5),
            Gap(15, 3, "lost"),
            chunk(18, 4, 1),
            chunk(22, 1, 2),
            Gap(23, 0, "restart"),
        ):
            sink.write(item)
        sink.write(Chunk(np.zeros((0, 2), "f4"), 23))
        assert sink.n_samples == 10
    data, index, gaps, models = read(path)
    assert data.dtype == np.float32
    np.testing.assert_array_equal(index, [10, 11, 12, 13, 14, 18, 19, 20, 21, 22])
    np.testing.assert_array_equal(data, np.column_stack([index, -index]))
    assert gaps == [(5, 15, 3, b"lost"), (10, 23, 0, b"restart")]
    assert models == [(0, 10, 1), (9, 22, 2)]
    with h5py.File(path) as file:
        attrs = dict(file["data"].attrs)
        assert (attrs["rate"], attrs["unit"], attrs["t0"]) == (250.0, "uV", 1e9)
        assert list(attrs["channels"]) == ["source-0", "söurce-1"]
        assert (file.attrs["stream"], file.attrs["delay"]) == ("eeg.sources", 3)
        assert json.loads(file.attrs["extra"]) == {"note": ["ä", 1]}


FACTS = LearningFacts(
    version=2,
    view=0.1,
    reliability=(14.5, -3.25),
    contradictions=((1.0, 0.5), (0.01, 7.5)),
    drift_removed=True,
)


def test_how_models_were_learned(path: Path) -> None:
    """Each learned model has a row, from its first samples in this file on."""
    later = LearningFacts(version=3, view=0.0, reliability=(20.0, 21.0), contradictions=((0.0, 0.5),))
    with RecordingSink(path, flush_every=0) as sink:
        sink.set_learning(FACTS)  # of a model whose samples come later
        sink.start(STREAM)
        sink.write(chunk(0, 3, 1))
        sink.write(chunk(3, 4, 2))
        sink.write(chunk(7, 1, 2))
        sink.set_learning(later)
        sink.write(chunk(8, 2, 2))
        sink.write(chunk(10, 2, 3))
        sink.set_learning(None)
        sink.write(chunk(12, 2, 4))
        with h5py.File(path, "r") as file:
            rows = file["learning"][:]
    assert rows[["row", "version", "view", "drift_removed"]].tolist() == [(3, 2, 0.1, 1), (10, 3, 0.0, 0)]
    np.testing.assert_array_equal(rows["reliability"], [[14.5, -3.25], [20.0, 21.0]])
    np.testing.assert_array_equal(rows["contradicted"], [0.01, np.nan])
    np.testing.assert_array_equal(rows["contradiction"], [7.5, np.nan])
    assert read(path)[3] == [(0, 0, 1), (3, 3, 2), (10, 10, 3), (12, 12, 4)]
    first, second = read_learned_models(path)
    assert (first.row, first.version, first.sources) == (3, 2, STREAM.channels)
    assert first.learning.describe_view() == "view 0.1 (view 0.01 contradicted, 7.5), without drift"
    assert second.learning.describe_view() == "innovations"


def test_how_a_model_was_learned_is_stated_as_soon_as_it_is_known(path: Path) -> None:
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 3, 2))
        sink.set_learning(FACTS)
        sink.write(chunk(3, 3, 2))
        sink.start(STREAM)  # another run, whose models count from 1 again
        sink.set_learning(None)
        sink.write(chunk(0, 3, 2))
        sink.set_learning(LearningFacts(version=2, view=0.0, reliability=(1.0,)))  # of another stream
        sink.write(chunk(3, 3, 2))
    with h5py.File(path) as file:
        assert file["learning"]["row"].tolist() == [3]


@given(
    st.lists(st.tuples(st.sampled_from("cccggbmf"), st.integers(0, 40)), max_size=30),
    st.integers(0, 1000),
    st.booleans(),
)
def test_any_stream(tmp_path_factory: pytest.TempPathFactory, steps: Any, first: int, wide: bool) -> None:
    path = tmp_path_factory.mktemp("any") / "x.h5"
    dtype = np.dtype("f8" if wide else "f4")
    stream = Stream("s", 1.0, ("a", "b"), None, dtype)
    stop, model = first, 0
    gaps: list[Any] = []
    models: list[Any] = []
    rows: list[int] = []
    with RecordingSink(path, flush_every=1000) as sink:
        sink.start(stream)
        for step, n in steps:
            if step == "f":
                sink.flush()
                assert samples_hold_their_index(path) == len(rows)
                continue
            model += step == "m"
            if step in "gb":
                reason = "lost" if step == "g" else "bad"
                goes_on = n and gaps and gaps[-1][0] == len(rows) and gaps[-1][3] == reason.encode()
                row, start, so_far, _ = gaps.pop() if goes_on else (len(rows), stop, 0, b"")
                gaps.append((row, start, so_far + n, reason.encode()))
                sink.write(Gap(stop, n, reason))
            else:
                if n and (not models or models[-1][2] != model):
                    models.append((len(rows), stop, model))
                rows += range(stop, stop + n)
                sink.write(chunk(stop, n, model))
            stop += n
    data, index, found_gaps, found_models = read(path)
    assert data.dtype == dtype
    np.testing.assert_array_equal(data[:, 0], rows)
    np.testing.assert_array_equal(index, rows)
    assert (found_gaps, found_models) == (gaps, models)


def test_inspect_and_batch_read_it(path: Path, tmp_path: Path) -> None:
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        samples = np.random.default_rng(0).laplace(size=(300, 2)) @ np.array([[1.0, 0.5], [0.2, 1.0]])
        sink.write(Chunk(samples.astype("f4"), 0))
    text = format_description(describe_file(path))
    assert re.search(r"/data +300 x 2 +float32 +- +- +250 +uV +source-0, söurce-1 +yes", text)
    with open_recording(path) as source:
        separate_recording(source, tmp_path / "out.h5", BatchSettings(model=ModelSettings()))
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["sources"].shape == (300, 2)
        assert file["sources"].attrs["rate"] == 250.0


def test_memory_does_not_grow(path: Path) -> None:
    with RecordingSink(path, flush_every=0) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 100))
        tracemalloc.start()
        for start in range(100, 100_000, 100):
            sink.write(chunk(start, 100))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 50_000
    assert samples_hold_their_index(path) == 100_000


@pytest.mark.parametrize("n_channels", [1, 31, 32, 64, 4000])
def test_number_of_channels(path: Path, n_channels: int) -> None:
    names = tuple(f"channel-{i}" for i in range(n_channels))
    with RecordingSink(path) as sink:
        sink.start(Stream("s", 1.0, names))
        sink.write(Chunk(np.ones((3, n_channels), "f4"), 0))
    with h5py.File(path) as file:
        assert file["data"][:].sum() == 3 * n_channels
        assert tuple(file["data"].attrs["channels"]) == names


def test_too_many_channels(path: Path) -> None:
    with pytest.raises(ParameterError, match="about 4000 channel names"):
        RecordingSink(path).start(Stream("s", 1.0, ("x",) * 5000))
    assert os.listdir(path.parent) == []


def test_names_that_hdf5_cannot_store(path: Path) -> None:
    with RecordingSink(path) as sink:
        sink.start(Stream("s\0t", 1.0, ("a\0", "\ud800"), "\0V"))
    with h5py.File(path) as file:
        assert list(file["data"].attrs["channels"]) == ["a", "?"]
        assert (file.attrs["stream"], file["data"].attrs["unit"]) == ("st", "V")


# Readers


def other_program(code: str, path: Path) -> str:
    run = subprocess.run(
        [sys.executable, "-c", f"import h5py, sys; {code}", path], capture_output=True, text=True
    )
    return run.stdout + run.stderr


def test_other_programs_can_read_but_not_write(path: Path) -> None:
    with RecordingSink(path, flush_every=0) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 7))
        assert other_program("print(h5py.File(sys.argv[1])['data'].shape)", path) == "(7, 2)\n"
        sink.write(chunk(7, 2))
        assert other_program("print(h5py.File(sys.argv[1])['data'].shape)", path) == "(9, 2)\n"
        assert "unable to lock file" in other_program("h5py.File(sys.argv[1], 'r+')", path)


@pytest.mark.parametrize("opened", ["at first", "later", "after appending"])
def test_a_program_that_keeps_the_file_open_reads_what_comes(path: Path, opened: str) -> None:
    """HDF5 reads the end of the file when it opens it, and the lengths of datasets later."""
    code = (
        "file = h5py.File(sys.argv[1]); print('open', flush=True); sys.stdin.readline(); "
        "print(file['data'].shape, file['gaps'].shape, int(file['data'][-1, 0]))"
    )
    sink = RecordingSink(path, flush_every=0, if_exists="append")
    sink.start(STREAM)
    if opened != "at first":
        sink.write(chunk(0, 1_500_000))  # 12 MB
        sink.flush()
    if opened == "after appending":
        sink.close()
        sink = RecordingSink(path, flush_every=0, if_exists="append")
        sink.start(STREAM)
    n = sink.n_samples
    with (
        sink,
        subprocess.Popen(
            [sys.executable, "-c", f"import h5py, sys; {code}", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as reader,
    ):
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        sink.write(Gap(n, 3, "lost"))
        sink.write(chunk(n + 3, 500_000))
        out, _ = reader.communicate("go\n")
        n_gaps = 2 if opened == "after appending" else 1
        assert out == f"({n + 500_000}, 2) ({n_gaps},) {n + 500_002}\n"
        assert path.stat().st_blocks * 512 < 8 * (n + 500_000) + 1_000_000  # the end ahead takes no space
    assert path.stat().st_size < 8 * (n + 500_000) + 27_000_000


def test_a_closed_recording_is_a_file_like_any_other(path: Path) -> None:
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 7))
    with h5py.File(path, "r+") as file:
        file["more"] = np.arange(100)
        file["data"].attrs["comment"] = "x" * 1000
    assert samples_hold_their_index(path) == 7
    with RecordingSink(path, if_exists="append") as sink:
        sink.start(STREAM)
        assert sink.path.name == "live-2.h5"
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["more"][:], np.arange(100))


def test_flushes_when_it_is_due(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with RecordingSink(path, flush_every=2.0) as sink:
        sink.serve()
        sink.start(STREAM)
        sink.write(chunk(0, 1))
        now = 101.9
        sink.write(chunk(1, 1))
        assert samples_hold_their_index(path) == 0
        now = 102.0
        sink.serve()
        assert samples_hold_their_index(path) == 2
        now = 103.9
        sink.write(chunk(2, 1))
        assert samples_hold_their_index(path) == 2


# Invalid calls


def test_mistakes(path: Path) -> None:
    sink = RecordingSink(path)
    with pytest.raises(RuntimeError, match="call start"):
        sink.write(chunk(0, 1))
    assert sink.n_samples == 0
    sink.flush()
    sink.start(STREAM)
    sink.write(chunk(5, 5))
    with pytest.raises(ValueError, match="index 9 is already recorded; continue at 10"):
        sink.write(chunk(9, 5))
    with pytest.raises(ValueError, match=r"shape \(1, 3\) do not have the 2 channels"):
        sink.write(Chunk(np.zeros((1, 3), "f4"), 10))
    sink.write(chunk(12, 5))
    sink.close()
    sink.close()
    assert read(path)[2] == [(5, 10, 2, b"unrecorded")]
    assert samples_hold_their_index(path) == 10


def test_a_gap_in_many_messages_is_one_growing_row(path: Path) -> None:
    with RecordingSink(path, flush_every=0, if_exists="append") as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 5))
        for start in range(5, 25, 5):
            sink.write(Gap(start, 5, "learning"))
            assert read(path)[2] == [(5, 5, start, b"learning")]
        for item in (Gap(25, 5, "bad"), Gap(30, 5, "learning"), chunk(35, 2), Gap(37, 1, "learning")):
            sink.write(item)
    want = [(5, 5, 20, b"learning"), (5, 25, 5, b"bad"), (5, 30, 5, b"learning"), (7, 37, 1, b"learning")]
    assert read(path)[2] == want
    assert samples_hold_their_index(path) == 7
    for _ in range(2):  # the gaps of the runs are separate
        with RecordingSink(path, if_exists="append") as sink:
            sink.start(STREAM)
            sink.write(Gap(0, 4, "restart"))
    assert [tuple(gap)[1:3] for gap in read(path)[2][4:]] == [(38, 4), (42, 4)]


# Limits


def test_a_full_table_continues_in_the_next_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_recording, "_CAPACITY", 3)
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        for start in range(0, 80, 20):
            sink.write(chunk(start, 10))
            sink.write(Gap(start + 10, 10, "lost"))
        assert sink.path.name == "live-2.h5"
        for start in range(80, 120, 10):
            sink.write(chunk(start, 10, model=start))
        assert sink.path.name == "live-3.h5"
    read_rows = [read(path.with_name(name)) for name in ("live.h5", "live-2.h5", "live-3.h5")]
    assert [len(gaps) for _, _, gaps, _ in read_rows] == [3, 1, 0]
    assert [len(models) for _, _, _, models in read_rows] == [1, 3, 1]
    index = np.concatenate([index for _, index, _, _ in read_rows])
    np.testing.assert_array_equal(np.concatenate([data[:, 0] for data, _, _, _ in read_rows]), index)
    assert len(index) == 80


def test_without_room_for_another_learned_model_the_next_file_begins(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning_table, "_BYTES", 0)
    monkeypatch.setattr(learning_table, "_MIN_ROWS", 2)
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        for version in range(1, 6):
            sink.set_learning(LearningFacts(version=version, view=5.0, reliability=(version, 0.0)))
            sink.write(chunk(10 * version, 10, version))
    stated = []
    for name in ("live.h5", "live-2.h5", "live-3.h5"):
        with h5py.File(path.with_name(name)) as file:
            assert file["learning"]["version"].tolist() == file["models"]["version"].tolist()
            stated += file["learning"][:][["version", "row"]].tolist()
    assert stated == [(1, 0), (2, 10), (3, 0), (4, 10), (5, 0)]


def size_without_samples(folder: Path) -> int:
    """Return the size of a closed recording; one that is open appears larger."""
    path = folder / "size.h5"
    with RecordingSink(path) as sink:
        sink.start(STREAM)
    size = path.stat().st_size
    path.unlink()
    return size


def test_full_disk(path: Path) -> None:
    """Written samples stay readable, and recording continues when there is room again."""
    size = size_without_samples(path.parent)
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 1000))
        with file_size_limit(size + 10_000):
            with pytest.raises(
                RecordingError, match=r"ulimit -f.* \(0 samples were written and can be read\)"
            ):
                sink.write(chunk(1000, 1000, model=2))
            sink.flush()
            assert samples_hold_their_index(path) == 1000
            with pytest.raises(RecordingError, match=r"\(1000 samples were written and can be read\)"):
                sink.write(chunk(1000, 1000, model=2))
        sink.write(chunk(2500, 1000, model=2))
    assert samples_hold_their_index(path) == 2000
    assert read(path)[2:] == ([(1000, 1000, 1500, b"unrecorded")], [(0, 0, 1), (1000, 2500, 2)])


def test_closing_on_a_full_disk(path: Path) -> None:
    with file_size_limit(size_without_samples(path.parent) + 4000):
        with RecordingSink(path) as sink:
            sink.start(STREAM)
            sink.write(chunk(0, 400))
            with pytest.raises(RecordingError, match="ulimit -f"):
                sink.write(chunk(400, 400))
        with RecordingSink(path, if_exists="append") as sink:
            sink.start(STREAM)
        with pytest.raises(RecordingError, match="ulimit -f"), file_size_limit(3000):
            RecordingSink(path.with_name("other.h5")).start(STREAM)
    assert os.listdir(path.parent) == ["live.h5"]
    assert samples_hold_their_index(path) == 400


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_disk_that_fails_when_syncing(path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    sink = RecordingSink(path)
    sink.start(STREAM)
    sink.write(chunk(0, 5))

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RecordingError, match=r"\(5 samples were written and can be read\)"):
        sink.close()
    sink.close()
    assert samples_hold_their_index(path) == 5
