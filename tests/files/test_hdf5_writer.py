"""Write HDF5 outputs completely or not at all."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from igbss_stream.errors import RecordingError
from igbss_stream.files.open import open_recording
from igbss_stream.files.writers import hdf5_output
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from tests.recordings import file_size_limit

ROOT = Path(__file__).parents[2]
SAMPLES = np.random.default_rng(0).normal(size=(1000, 4)).astype("f4")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of an output that does not exist yet."""
    return tmp_path / "out.h5"


def fill(sink: Hdf5Sink, step: int = 100) -> None:
    """Write the datasets of a run."""
    sink.set_attrs(version="1.0", seed=3, source=None)
    sink.create("sources", SAMPLES.shape, "f4", rate=250.0, unit="uV", channels=("s0", "s1", "s2", "ś3"))
    for start in range(0, len(SAMPLES), step):
        sink.append("sources", SAMPLES[start : start + step])
    sink.write("model/mixing", np.eye(4), channels=["Fz", "Cz", "Pz", "Oz"])
    sink.write("/model/names/all", ["a", "b"])


def write(path: Path, **options: Any) -> bytes:
    with Hdf5Sink(path, **options) as sink:
        fill(sink)
    return path.read_bytes()


def assert_whole(path: Path, written: bytes) -> None:
    """Assert that an output is complete, and that there are no other files."""
    assert names(path.parent) == [path.name]
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["sources"][:], SAMPLES)
    assert written == write(path.with_name("undisturbed.h5"))


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


def test_what_is_written_can_be_read(path: Path) -> None:
    write(path)
    assert names(path.parent) == ["out.h5"]
    with h5py.File(path) as file:
        assert dict(file.attrs) == {"version": "1.0", "seed": 3}
        np.testing.assert_array_equal(file["sources"][:], SAMPLES)
        assert file["sources"].chunks is None
        assert file["sources"].dtype == np.float32
        assert file["sources"].attrs["unit"] == "uV"
        assert list(file["sources"].attrs["channels"]) == ["s0", "s1", "s2", "ś3"]
        np.testing.assert_array_equal(file["model/mixing"][:], np.eye(4))
        assert list(file["model/mixing"].attrs["channels"]) == ["Fz", "Cz", "Pz", "Oz"]
        assert list(file["model/names/all"].asstr()) == ["a", "b"]
        for text in (file["sources"].attrs.get_id("channels"), file["model/names/all"]):
            assert h5py.check_string_dtype(text.dtype) == ("utf-8", None)


def test_the_result_is_a_recording(path: Path) -> None:
    write(path)
    with open_recording(path, "sources") as recording:
        assert (recording.rate, recording.unit) == (250.0, "uV")
        assert recording.channels == ("s0", "s1", "s2", "ś3")


@given(cuts=st.lists(st.integers(0, len(SAMPLES)), max_size=8))
def test_bytes_do_not_depend_on_the_block_size(cuts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        contents: list[bytes] = []
        for edges in ([0, len(SAMPLES)], [0, *sorted(cuts), len(SAMPLES)]):
            path = Path(folder) / f"{len(contents)}.h5"
            with Hdf5Sink(path) as sink:
                sink.create("sources", SAMPLES.shape, "f4")
                for start, stop in pairwise(edges):
                    sink.append("sources", SAMPLES[start:stop])
            contents.append(path.read_bytes())
        assert contents[0] == contents[1]


def test_bytes_do_not_depend_on_time_or_name(tmp_path: Path) -> None:
    first = write(tmp_path / "a.h5")
    time.sleep(1.1)  # timestamps of HDF5 are in seconds
    assert write(tmp_path / "another name.h5") == first


def test_names_of_thousands_of_channels(path: Path) -> None:
    channels = [f"channel-{i}" for i in range(5000)]
    with Hdf5Sink(path) as sink:
        sink.write("x", np.zeros(3), channels=channels)
    with h5py.File(path) as file:
        assert list(file["x"].attrs["channels"]) == channels


def test_blocks_that_are_not_contiguous_or_not_of_the_same_type(path: Path) -> None:
    with Hdf5Sink(path) as sink:
        sink.create("x", (4, 3), "f4")
        sink.append("x", np.asfortranarray(SAMPLES[:2, :3], dtype="f8"))
        sink.append("x", SAMPLES[4:0:-2, :3].astype(">f4"))
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["x"][:], SAMPLES[[0, 1, 4, 2], :3])


@pytest.mark.parametrize("step", [1_000, 70_001])
def test_rows_of_unknown_number_are_stored_contiguously(path: Path, step: int) -> None:
    values = np.random.default_rng(1).normal(size=200_000)  # more than the buffer in memory
    with Hdf5Sink(path) as sink:
        for start in range(0, len(values), step):
            sink.gather("values", values[start : start + step])
        assert names(path.parent) == ["out.h5.partial"]
        fill(sink)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["values"][()], values)
        assert (file["values"].dtype, file["values"].chunks) == (np.dtype("f8"), None)
    with Hdf5Sink(path, overwrite=True) as sink:
        before = path.read_bytes()
        sink.gather("values", values)
        fill(sink)
    assert path.read_bytes() == before


def gather_much(sink: Hdf5Sink) -> None:
    for _ in range(100):
        sink.gather("values", np.zeros(100_000))


def test_no_room_for_rows_of_unknown_number(path: Path) -> None:
    n_open = open_files()
    with (
        file_size_limit(2_000_000),
        pytest.raises(RecordingError, match="the limit on file sizes"),
        Hdf5Sink(path) as sink,
    ):
        gather_much(sink)
    assert (names(path.parent), open_files()) == ([], n_open)


def test_dataset_without_rows(path: Path) -> None:
    with Hdf5Sink(path) as sink:
        sink.create("x", (0, 3), "f4")
        sink.append("x", SAMPLES[:0, :3])
    with h5py.File(path) as file:
        assert file["x"].shape == (0, 3)


# Refused outputs


def refused(path: Path, **options: Any) -> str:
    """Return the message of a refusal, which must not change any file."""
    before = names(path.parent) if path.parent.is_dir() else []
    sink = Hdf5Sink(path, **options)
    with pytest.raises(RecordingError) as error:
        sink.__enter__()
    assert not before or names(path.parent) == before
    return str(error.value)


def test_existing_file(path: Path) -> None:
    path.write_text("precious")
    assert "already exists; pass --overwrite" in refused(path)
    assert path.read_text() == "precious"
    write(path, overwrite=True)
    assert h5py.is_hdf5(path)


def test_broken_link_counts_as_existing(path: Path) -> None:
    path.symlink_to("nowhere")
    assert "already exists" in refused(path)


def test_a_link_is_replaced_but_not_its_target(path: Path) -> None:
    path.with_name("target").write_text("precious")
    path.symlink_to("target")
    write(path, overwrite=True)
    assert not path.is_symlink()
    assert path.with_name("target").read_text() == "precious"


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
@pytest.mark.parametrize("overwrite", [False, True])
def test_the_input_is_never_overwritten(path: Path, link: Any, overwrite: bool) -> None:
    source = path.with_name("in.h5")
    source.write_text("precious")
    if link is not None:
        link(source, path)
    output = source if link is None else path
    assert "is the input itself" in refused(output, source=source, overwrite=overwrite)
    assert source.read_text() == "precious"


def test_the_input_has_the_name_of_the_partial_file(path: Path) -> None:
    source = path.with_name("out.h5.partial")
    source.write_text("precious")
    assert "is the input, and" in refused(path, source=source)
    assert source.read_text() == "precious"


def test_a_missing_input_is_reported_by_the_reader(path: Path) -> None:
    assert_whole(path, write(path, source=path.with_name("none.h5")))


def test_directory(tmp_path: Path) -> None:
    for path in (tmp_path, Path(""), Path("/")):
        assert "is a directory" in refused(path, overwrite=True)


def test_pipe(path: Path) -> None:
    os.mkfifo(path)
    assert "is not a regular file" in refused(path, overwrite=True)


def test_missing_directory(tmp_path: Path) -> None:
    assert "create it first" in refused(tmp_path / "none" / "out.h5")


def test_unwritable_directory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The superuser may write everywhere, so simulate the refusal.
    monkeypatch.setattr(os, "access", lambda *args: False)
    assert "no permission to write" in refused(path)


@pytest.mark.parametrize("name", ["a\0b.h5", "x" * 250])
def test_impossible_names(tmp_path: Path, name: str) -> None:
    assert "cannot be opened for writing" in refused(tmp_path / name)


def test_partial_file_that_is_a_link(path: Path) -> None:
    path.with_name("target").write_text("precious")
    path.with_name("out.h5.partial").symlink_to("target")
    assert "cannot be opened for writing" in refused(path)
    assert path.with_name("target").read_text() == "precious"


def test_leftovers_of_a_killed_run_are_replaced(path: Path) -> None:
    reference = write(path.with_name("reference.h5"))
    path.with_name("out.h5.partial").write_bytes(b"x" * 10 * len(reference))
    assert write(path) == reference
    assert names(path.parent) == ["out.h5", "reference.h5"]


def test_two_concurrent_runs(path: Path) -> None:
    with Hdf5Sink(path) as sink:
        fill(sink)
        assert "is being written by another run" in refused(path)
        code = "import h5py, sys; h5py.File(sys.argv[1], 'r+')"
        other = subprocess.run(
            [sys.executable, "-c", code, str(path) + ".partial"], capture_output=True, text=True
        )
        assert "unable to lock file" in other.stderr
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["sources"][:], SAMPLES)


def test_partial_file_that_was_published_between_opening_and_locking(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish(*args: Any) -> None:
        os.replace(path.with_name("out.h5.partial"), path)

    monkeypatch.setattr(fcntl, "flock", publish)
    with pytest.raises(RecordingError, match="is being written by another run"):
        Hdf5Sink(path).__enter__()
    assert names(path.parent) == ["out.h5"]


def test_disk_that_cannot_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*args: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", unsupported)
        written = write(path)
    assert_whole(path, written)


def test_output_that_appears_during_the_run(path: Path) -> None:
    sink = Hdf5Sink(path)
    sink.__enter__()
    fill(sink)
    path.write_text("precious")
    with pytest.raises(RecordingError, match="was created by another program in the meantime"):
        sink.__exit__(None, None, None)
    assert path.read_text() == "precious"
    assert names(path.parent) == ["out.h5"]


# Invalid calls


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (SAMPLES[:6], "rows 0 to 6 .* do not fit into dataset 'x'"),
        (SAMPLES[:2, :3], "do not fit into dataset 'x'"),
        (SAMPLES[:2, :1], "do not fit into dataset 'x'"),
        (SAMPLES[:2].astype(complex), "complex128 does not fit into dataset 'x' of float32"),
    ],
)
def test_rows_that_do_not_fit(path: Path, block: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_and_append(path, block)
    assert names(path.parent) == []


def create_and_append(path: Path, block: Any) -> None:
    """Reserve 5 rows of 4 numbers, and write a block."""
    with Hdf5Sink(path, overwrite=True) as sink:
        sink.create("x", (5, 4), "f4")
        sink.append("x", block)


def test_missing_rows(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(RuntimeError, match=r"dataset 'x' of '.*' received 2 of 5 rows"):
        create_and_append(path, SAMPLES[:2])
    assert path.read_text() == "precious"
    assert names(path.parent) == ["out.h5"]


def test_the_same_name_twice(path: Path) -> None:
    with Hdf5Sink(path) as sink:
        sink.create("x", (0, 4), "f4")
        with pytest.raises(ValueError, match="name already exists"):
            sink.create("x", (0, 4), "f4")


# Failures during writing


def test_cause_behind_an_error_of_the_library(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise RuntimeError("Can't decrement id ref count") from OSError(errno.ENOSPC, "No space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RecordingError, match="the disk is full"), Hdf5Sink(path) as sink:
        fill(sink)


def test_error_of_the_library_without_a_known_cause(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise RuntimeError("Can't decrement\n id ref count")

    monkeypatch.setattr(os, "fsync", fail)
    message = "cannot be written: Can't decrement id ref count; choose another output"
    with pytest.raises(RecordingError, match=message), Hdf5Sink(path) as sink:
        fill(sink)


@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("exists", [False, True])
def test_exception_leaves_nothing_behind(path: Path, kind: type[BaseException], exists: bool) -> None:
    if exists:
        path.write_text("precious")
    files = open_files()
    sink = Hdf5Sink(path, overwrite=True)

    def run() -> None:
        with sink:
            fill(sink)
            raise kind

    with pytest.raises(kind):
        run()
    assert names(path.parent) == ["out.h5"] * exists
    assert not exists or path.read_text() == "precious"
    assert open_files() == files


def test_interrupt_while_opening(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(h5py, "File", interrupt)  # after HDF5 has created its file
    with pytest.raises(KeyboardInterrupt):
        Hdf5Sink(path).__enter__()
    assert names(path.parent) == []


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_interrupt_while_publishing(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    path.write_text("precious")
    monkeypatch.setattr(os, call, interrupt)
    with pytest.raises(KeyboardInterrupt), Hdf5Sink(path, overwrite=True) as sink:
        fill(sink)
    assert names(path.parent) == ["out.h5"]
    assert path.read_text() == "precious"


def test_interrupt_after_publishing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(folder: Path) -> None:
        # Another run may use the name now; its file must not be removed.
        path.with_name("out.h5.partial").write_text("precious")
        raise KeyboardInterrupt

    monkeypatch.setattr(hdf5_output, "sync_directory", interrupt)
    with pytest.raises(KeyboardInterrupt), Hdf5Sink(path) as sink:
        fill(sink)
    assert h5py.is_hdf5(path)
    assert path.with_name("out.h5.partial").read_text() == "precious"


def test_directory_that_cannot_be_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, refused_for = os.fsync, []

    def fsync(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            refused_for.append(os.readlink(f"/proc/self/fd/{descriptor}"))
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        written = write(path)
    assert refused_for == [str(path.parent)]
    assert_whole(path, written)


def test_not_enough_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(0, 0, 1000))
    with Hdf5Sink(path) as sink:
        sink.create("x", (50, 4), "f4")
        sink.append("x", SAMPLES[:10])  # 640 bytes are still reserved, which 'y' must not use
        with pytest.raises(
            RecordingError, match="needs 1040 more bytes for dataset 'y', but only 1000 bytes"
        ):
            sink.create("y", (50, 2), "f4")
        sink.append("x", SAMPLES[:40])


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk is full; free some space .* another disk"),
        (errno.EDQUOT, "the disk quota is used up; free some space .* another disk"),
        (errno.EIO, "Input/output error; choose another output"),
    ],
)
def test_disk_that_fails_when_syncing(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    path.write_text("precious")
    message += r" \(16000 of 16000 bytes of samples were written\)$"
    with pytest.raises(RecordingError, match=message), Hdf5Sink(path, overwrite=True) as sink:
        fill(sink)
    assert path.read_text() == "precious"
    assert names(path.parent) == ["out.h5"]


@pytest.mark.parametrize("limit", [0, 10, 1000, 5000, 15000, 18000])
def test_file_size_limit(path: Path, limit: int) -> None:
    path.write_text("precious")
    files = open_files()
    with (
        file_size_limit(limit),
        pytest.raises(RecordingError, match=r"ulimit -f.* of 16000 bytes of samples") as error,
        Hdf5Sink(path, overwrite=True) as sink,
    ):
        fill(sink)
    assert str(path) in str(error.value)
    assert path.read_text() == "precious"
    assert names(path.parent) == ["out.h5"]
    assert open_files() == files


def test_file_size_limit_does_not_crash_the_interpreter(path: Path) -> None:
    """HDF5 crashes at exit or on closing after a failed write, unless it is handled."""
    code = """
        import resource, sys
        import numpy as np
        from igbss_stream.errors import RecordingError
        from igbss_stream.files.writers.hdf5_output import Hdf5Sink

        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        for limit in range(0, 60000, 997):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                with Hdf5Sink(sys.argv[1]) as sink:
                    sink.create("x", (4000, 4), "f4", channels=["name"] * 4)
                    for start in range(0, 4000, 500):
                        sink.append("x", np.ones((500, 4), "f4"))
                    sink.write("y", np.eye(4), names=["name"] * 500)
            except RecordingError as error:
                assert "ulimit -f" in str(error)
            else:
                sys.exit("nothing was refused")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert names(path.parent) == []


def test_many_interrupts(path: Path) -> None:
    """At any signal, the interpreter survives and the older output stays complete."""
    code = """
        import signal, sys
        import numpy as np
        from igbss_stream.files.writers.hdf5_output import Hdf5Sink

        signal.signal(signal.SIGALRM, signal.default_int_handler)
        sys.unraisablehook = lambda unraisable: None  # Python drops an interrupt in a destructor
        for i in range(200):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + 2e-5 * i)
                with Hdf5Sink(sys.argv[1], overwrite=True) as sink:
                    sink.create("x", (400, 4), "f4")
                    for start in range(0, 400, 4):
                        sink.append("x", np.ones((4, 4), "f4"))
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                pass
    """
    with Hdf5Sink(path) as sink:
        sink.create("x", (400, 4), "f4")
        sink.append("x", np.ones((400, 4), "f4"))
    before = path.read_bytes()
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0
    assert path.read_bytes() == before
