"""Record to several files: by time and size, after a file was moved, and after a disk was full."""

import ctypes
import errno
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.files.open import open_recording
from igbss_stream.files.writers import growing_hdf5, recording_layout, stream_recording
from igbss_stream.files.writers.rotation import Rotation, make_dated_path, parse_rotation
from igbss_stream.files.writers.stream_recording import RecordingSink
from tests.files.test_stream_recording import (
    ROOT,
    STREAM,
    chunk,
    read,
    samples_hold_their_index,
    size_without_samples,
)
from tests.files.test_stream_recording_existing import describe
from tests.recordings import file_size_limit
from tests.waiting import until

NOON = 1_767_268_800.0  # 2026-01-01 12:00:00 UTC
Items = list[Chunk | Gap]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a recording that does not exist yet."""
    return tmp_path / "live.h5"


@pytest.fixture
def set_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that sets the clock; it begins at noon."""
    now = NOON

    def set_now(value: float) -> None:
        nonlocal now
        now = value

    monkeypatch.setattr(time, "time", lambda: now)
    return set_now


def names(path: Path) -> list[str]:
    return sorted(os.listdir(path.parent))


def draw_items(n_items: int, seed: int = 9001) -> Items:
    """Return samples and gaps in random order, with changes of the model, from index 40 on."""
    rng, stop, items = np.random.default_rng(seed), 40, Items()
    for number in range(n_items):
        n = int(rng.integers(1, 60))
        if rng.random() < 0.3:
            items.append(Gap(stop, n if rng.random() < 0.8 else 0, str(rng.choice(["lost", "bad"]))))
        else:
            items.append(chunk(stop, n, number // 7))
        stop = items[-1].stop
    return items


def merge_gaps(gaps: list[Any]) -> list[Gap]:
    """Return gaps without their rows, consecutive ones as one."""
    merged: list[Gap] = []
    for _, start, n_samples, reason in gaps:
        gap = Gap(start, n_samples, reason.decode())
        if merged and gap.continues(merged[-1]):
            gap = Gap(merged[-1].start, merged.pop().n_samples + n_samples, gap.reason)
        merged.append(gap)
    return merged


def assert_equal_to_one_file(files: list[Path], whole: Path) -> None:
    """Assert that the files, one after the other, contain what one long recording contains."""
    parts = [read(file) for file in files]
    data, index, gaps, models = read(whole)
    np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), data)
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), index)
    assert merge_gaps([gap for part in parts for gap in part[2]]) == merge_gaps(gaps)
    versions = [(start, version) for part in parts for _, start, version in part[3]]
    changes = [each for i, each in enumerate(versions) if i == 0 or each[1] != versions[i - 1][1]]
    assert changes == [(start, version) for _, start, version in models]
    assert {describe(file) for file in files} == {describe(whole)}


# Rotation


def test_a_file_for_each_hour(path: Path, set_time: Callable[[float], None]) -> None:
    items = draw_items(300)
    whole = path.with_name("whole.h5")
    with (
        RecordingSink(path, rotate=Rotation(every=3600), flush_every=0) as sink,
        RecordingSink(whole) as other,
    ):
        sink.start(STREAM)
        other.start(STREAM)
        for number, item in enumerate(items):
            set_time(NOON + 100.0 * (number + 1))  # 30,000 s
            sink.write(item)
            other.write(item)
            finished = [name for name in names(path) if name not in ("whole.h5", sink.path.name)]
            if number % 40 == 0:
                for name in finished:  # closed, complete and readable while the next grows
                    samples_hold_their_index(path.with_name(name))
                    with open_recording(path.with_name(name)) as recording:
                        assert (recording.rate, recording.unit) == (250.0, "uV")
        assert sink.n_recorded == other.n_recorded == other.n_samples
    files = [name for name in names(path) if name != "whole.h5"]
    assert files[:2] == ["live-20260101T120000Z.h5", "live-20260101T130000Z.h5"]
    assert len(files) == 9
    assert_equal_to_one_file([path.with_name(name) for name in files], whole)


def test_a_file_for_so_many_bytes(path: Path, set_time: Callable[[float], None]) -> None:
    items = draw_items(300)
    whole = path.with_name("whole.h5")
    limit = 500 * 8  # samples of 2 channels of 4 bytes
    with RecordingSink(path, rotate=Rotation(n_bytes=limit)) as sink, RecordingSink(whole) as other:
        for each in (sink, other):
            each.start(STREAM)
            for item in items:
                each.write(item)
    files = [path.with_name(name) for name in names(path) if name != "whole.h5"]
    sizes = [len(read(file)[0]) for file in files]
    assert max(sizes) <= 500
    assert min(sizes[:-1]) > 500 - 60  # the next chunk did not fit
    assert [file.name for file in files][:2] == ["live-20260101T120000Z.h5", "live-20260101T120000Z_002.h5"]
    assert_equal_to_one_file(files, whole)


def test_a_message_above_the_limit_is_a_file(path: Path) -> None:
    with RecordingSink(path, rotate=Rotation(n_bytes=80)) as sink:
        sink.start(STREAM)
        for start in (0, 50, 100):
            sink.write(chunk(start, 50))
    assert [len(read(path.with_name(name))[0]) for name in names(path)] == [50] * 3


def test_an_hour_without_samples_has_no_file(path: Path, set_time: Callable[[float], None]) -> None:
    with RecordingSink(path, rotate=Rotation(every=3600)) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 5))
        set_time(NOON + 3600)
        sink.serve()
        assert sink.n_samples == 0  # the file is closed
        for now in (NOON + 7200, NOON + 3 * 3600 + 60):
            set_time(now)
            sink.serve()
        sink.write(chunk(5, 5))
        set_time(NOON - 86_400)  # the clock was set back
        sink.write(chunk(10, 5))
    assert names(path) == [
        "live-20251231T120000Z.h5",
        "live-20260101T120000Z.h5",
        "live-20260101T150100Z.h5",
    ]
    assert [read(path.with_name(name))[1].tolist() for name in names(path)] == [
        [*range(10, 15)],
        [*range(5)],
        [*range(5, 10)],
    ]


def test_every_run_of_a_rotated_recording_begins_a_file(
    path: Path, set_time: Callable[[float], None]
) -> None:
    path.write_text("precious")
    for if_exists in ("refuse", "append", "overwrite"):
        with RecordingSink(path, rotate=Rotation(every=86_400), if_exists=if_exists) as sink:
            sink.start(STREAM)
            sink.write(chunk(0, 5))
            sink.start(STREAM)
            sink.write(chunk(0, 5))
    assert names(path)[-1] == "live.h5"
    assert path.read_text() == "precious"
    assert [len(read(path.with_name(name))[0]) for name in names(path)[:-1]] == [10] * 3


def test_the_time_of_index_0_is_that_of_all_files(path: Path, set_time: Callable[[float], None]) -> None:
    """A later run moves to other indices; the next file still has the time of the first run."""
    later = Stream("eeg.sources", 250.0, STREAM.channels, "uV", STREAM.dtype, 1e9 + 2)
    with RecordingSink(path, rotate=Rotation(every=60)) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 5))
        sink.start(later)
        sink.write(chunk(0, 5))
        set_time(NOON + 60)
        sink.write(chunk(5, 5))
    with open_recording(path.with_name(names(path)[1])) as recording:
        assert recording.n_samples == 5
    with h5py.File(path.with_name(names(path)[1])) as file:
        assert file["data"].attrs["t0"] == 1e9
    assert read(path.with_name(names(path)[1]))[1].tolist() == [*range(505, 510)]


def test_a_slow_disk_does_not_delay_the_next_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are flushed to the disk by other threads; only the end of the recording waits."""
    synced = []

    def sync_slowly(descriptor: int) -> None:
        time.sleep(0.5)
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    with RecordingSink(path, rotate=Rotation(n_bytes=80)) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 10))
        monkeypatch.setattr(os, "fsync", sync_slowly)
        began = time.monotonic()
        for start in range(10, 50, 10):
            sink.write(chunk(start, 10))
        assert time.monotonic() - began < 0.4
        files = [str(path.with_name(name)) for name in names(path)]
        assert len(files) == 5
        assert [samples_hold_their_index(Path(file)) for file in files[:-1]] == [10] * 4
        for file in files[:-1]:
            h5py.File(file, "r+").close()  # nothing locks it
    until(lambda: {*files, str(path.parent)} == set(synced))


def test_a_disk_that_fails_behind_the_stream_is_logged(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        with monkeypatch.context() as patch:

            def fail(descriptor: int) -> None:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

            patch.setattr(os, "fsync", fail)
            sink.set_stream(Stream("other", 1.0, ("a",)))
            until(lambda: "may be incomplete after a power failure" in caplog.text)


@pytest.mark.parametrize(
    ("text", "rotation"),
    [
        ("1h", Rotation(3600)),
        ("1d", Rotation(86_400)),
        ("90 min", Rotation(5400)),
        ("500MB", Rotation(None, 500_000_000)),
        ("1.5GB, 1h", Rotation(3600, 1_500_000_000)),
    ],
)
def test_rotations_as_text(text: str, rotation: Rotation) -> None:
    assert parse_rotation(text) == rotation


@pytest.mark.parametrize("text", ["", "1", "h", "1m", "-1h", "1h,2h", "1MB,2kB", "nan s", "0.5s", "0MB"])
def test_impossible_rotations(text: str) -> None:
    with pytest.raises(ParameterError, match=r"a rotation must be|every must be|n_bytes must be"):
        parse_rotation(text)


def test_names_sort_by_time(path: Path) -> None:
    made = []
    for now in (NOON, NOON, NOON, NOON + 1, NOON + 40 * 86_400):
        made.append(make_dated_path(path, now))
        made[-1].touch()
    assert sorted(made) == made


# Files that were moved


@pytest.mark.parametrize("how", ["deleted", "renamed", "replaced"])
def test_a_file_that_was_moved(path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    elsewhere = path.with_name("kept.h5")
    with RecordingSink(path, flush_every=0) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 5))
        path.rename(elsewhere)
        if how == "replaced":
            path.write_text("precious")
        elif how == "deleted":
            elsewhere.unlink()
        sink.write(chunk(5, 5))  # still to the old file
        sink.write(Gap(10, 2, "lost"))
        sink.write(chunk(12, 5))
        sink.write(chunk(17, 5))
        assert sink.path.name == ("live-2.h5" if how == "replaced" else "live.h5")
    if how != "deleted":
        assert samples_hold_their_index(elsewhere) == 10
    if how == "replaced":
        assert path.read_text() == "precious"
    data, index, gaps, models = read(sink.path)
    assert index.tolist() == data[:, 0].tolist() == [*range(12, 22)]
    assert (gaps, models) == ([(0, 10, 2, b"lost")], [(0, 12, 1)])
    (warning,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    moved = f"'{path}' is closed, and the recording continues in '{sink.path}': it was deleted or renamed"
    assert warning == moved


def test_a_folder_that_was_deleted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording fails until the folder is back, and looks for it once a second."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    path = path.parent / "folder" / "live.h5"
    path.parent.mkdir()
    tried = 0
    create = growing_hdf5.create_growing

    def count(*arguments: Any, **options: Any) -> growing_hdf5.GrowingFile:
        nonlocal tried
        tried += 1
        return create(*arguments, **options)

    monkeypatch.setattr(recording_layout, "create_growing", count)
    with RecordingSink(path, flush_every=0) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 5))
        path.unlink()
        path.parent.rmdir()
        sink.flush()
        for start in range(5, 505, 5):
            with pytest.raises(RecordingError, match="create it first"):
                sink.write(chunk(start, 5))
        assert (tried, sink.n_unrecorded, sink.n_recorded) == (2, 500, 5)
        path.parent.mkdir()
        now += 1.5
        sink.write(chunk(505, 5))
    assert read(path)[2] == [(0, 5, 500, b"unrecorded")]
    assert samples_hold_their_index(path) == 5


def test_a_disk_that_does_not_answer_is_no_moved_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RecordingSink(path, flush_every=0) as sink:
        sink.start(STREAM)
        stat = os.stat

        def fail(where: Any, *args: Any, **options: Any) -> os.stat_result:
            if where == path:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            return stat(where, *args, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", fail)
            sink.write(chunk(0, 5))
        assert sink.path == path
    assert names(path) == ["live.h5"]


# Full disks


@pytest.mark.parametrize("is_new_file", [False, True])
def test_space_that_comes_back(
    path: Path, monkeypatch: pytest.MonkeyPatch, set_time: Callable[[float], None], is_new_file: bool
) -> None:
    """The samples that did not fit are counted, and declared when recording goes on."""
    monkeypatch.setattr(stream_recording, "_RETRY", 0.0)
    size = size_without_samples(path.parent)
    with RecordingSink(path, flush_every=0, rotate=Rotation(every=3600)) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 100))
        first = sink.path
        limit = 3000 if is_new_file else size + 1000
        if is_new_file:
            set_time(NOON + 3600)
        with file_size_limit(limit):
            for start in range(1000, 11_000, 1000):
                with pytest.raises(RecordingError, match="ulimit -f"):
                    sink.write(chunk(start, 1000))
            assert (sink.n_unrecorded, sink.n_recorded) == (10_000, 100)
        sink.write(chunk(11_000, 50))
        assert (sink.n_unrecorded, sink.n_recorded) == (10_000, 150)
    assert len(names(path)) == 1 + is_new_file
    gaps = read(sink.path)[2]
    assert gaps == [(0 if is_new_file else 100, 100, 10_900, b"unrecorded")]
    assert samples_hold_their_index(sink.path) == (50 if is_new_file else 150)
    assert samples_hold_their_index(first) == (100 if is_new_file else 150)


def test_a_run_that_begins_on_a_full_disk(path: Path) -> None:
    """The index of a run counts from its first sample, though that could not be written."""
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 10))
        sink.start(Stream("eeg.sources", 250.0, STREAM.channels, "uV"))
        with file_size_limit(100), pytest.raises(RecordingError, match="ulimit -f"):
            sink.write(chunk(500, 10))
        sink.write(chunk(510, 10))
    data, index, gaps, _ = read(path)
    assert index.tolist() == [*range(10), *range(20, 30)]
    assert data[10:, 0].tolist() == [*range(510, 520)]
    assert gaps == [(10, 10, 0, b"restart"), (10, 10, 10, b"unrecorded")]


ON_A_SMALL_DISK = """
    import sys
    from pathlib import Path
    import numpy as np
    from igbss_stream.chunk import Chunk, Stream
    from igbss_stream.errors import RecordingError
    from igbss_stream.files.writers.stream_recording import RecordingSink

    folder = Path(sys.argv[1])
    other = folder / "other"
    messages = []
    with RecordingSink(folder / "live.h5", flush_every=0) as sink:
        sink.start(Stream("s", 1000.0, ("a", "b"), "uV", np.dtype("f4")))
        for start in range(0, 2_000_000, 1000):
            if start == 100_000:
                try:
                    with open(other, "wb") as file:
                        file.write(bytes(100_000_000))
                except OSError as error:
                    messages.append(str(error))
            if start == 1_500_000:
                other.unlink()
            index = np.arange(start, start + 1000, dtype="f4")
            try:
                sink.write(Chunk(np.column_stack([index, -index]), start))
            except RecordingError as error:
                messages.append(str(error))
        print(sink.n_recorded, sink.n_unrecorded)
    print(sorted(set(messages), key=messages.index)[:2])
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a disk of 30 MB, where this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0, b"size=30m") != 0:
        pytest.skip(f"cannot mount a small disk: {os.strerror(ctypes.get_errno())}")
    yield folder
    libc.umount2(os.fsencode(folder), 2)


def test_a_disk_that_is_full_for_a_while(small_disk: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ON_A_SMALL_DISK), small_disk],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    counts, messages = run.stdout.splitlines()
    n_recorded, n_unrecorded = map(int, counts.split())
    assert n_recorded + n_unrecorded == 2_000_000
    assert n_unrecorded > 1_000_000
    assert "No space left on device" in messages
    assert "the disk is full; free some space" in messages
    path = small_disk / "live.h5"
    assert samples_hold_their_index(path) == n_recorded
    ((row, start, n_missing, reason),) = read(path)[2]
    assert (row, start, n_missing, reason) == (start, start, n_unrecorded, b"unrecorded")
    assert read(path)[1][-1] == 1_999_999
