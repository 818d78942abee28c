"""Read recordings from HDF5."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream._util.dtypes import get_working_dtype
from igbss_stream.errors import InputError, ParameterError, RecordingError
from igbss_stream.files.open import open_recording
from igbss_stream.files.readers.hdf5.contents import describe_file
from igbss_stream.files.readers.hdf5.reader import Hdf5Recording
from igbss_stream.files.recording import Recording
from tests.realdata import DATA, needs_data

SAMPLES = np.random.default_rng(0).integers(-100, 100, (50, 4))

NUMBERS = {
    "float32": ["<f2", ">f2", "<f4", ">f4", "i1", "u1", "<i2", ">i2", "<u2"],
    "float64": ["<f8", ">f8", "<i4", ">i4", "<u4", "<i8", ">u8"],
}
STORAGE: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (3, 3)},
    "gzip": {"chunks": (4, 4), "compression": "gzip", "shuffle": True},
    "lzf": {"chunks": True, "compression": "lzf"},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a small recording under the default name."""
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["data"] = SAMPLES.astype("f4")
    return tmp_path / "in.h5"


def change(path: Path, edit: Callable[[Any], object]) -> None:
    with h5py.File(path, "r+") as file:
        edit(file)


def store(path: Path, value: Any, **options: Any) -> None:
    """Replace the default dataset."""
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=value, **options)


def read_all(recording: Recording, n: int) -> NDArray[Any]:
    """Concatenate all blocks, and check the properties of each."""
    parts: list[NDArray[Any]] = []
    for start, block in recording.read_blocks(n):
        assert start == sum(len(part) for part in parts)
        assert block.flags.c_contiguous
        assert block.flags.writeable
        assert block.dtype == recording.dtype
        assert block.dtype.isnative
        assert 0 < len(block) <= n
        parts.append(block.copy())
    return np.concatenate(parts)


DIRECT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "contiguous": ({}, {}),
    "contiguous, behind a user block": ({}, {"userblock_size": 512}),
    "gzip": (STORAGE["gzip"], {}),
    "gzip, not shuffled": ({"chunks": (7, 3), "compression": "gzip"}, {}),
    "gzip, narrow": ({"chunks": (7, 3), "compression": "gzip", "shuffle": True}, {}),
    "gzip, one column": ({"chunks": (9, 1), "compression": "gzip", "shuffle": True}, {}),
    "gzip, one chunk": ({"chunks": (50, 4), "compression": "gzip"}, {"userblock_size": 1024}),
    "gzip, a chunk for each row": ({"chunks": (1, 4), "compression": "gzip"}, {}),
    "chunks": ({"chunks": (8, 4)}, {}),
    "chunks, a row each, behind a user block": ({"chunks": (1, 4)}, {"userblock_size": 512}),
    "chunks, narrow": ({"chunks": (7, 3)}, {}),
    "chunks, wider than the rows": ({"chunks": (7, 9), "maxshape": (None, 9)}, {}),
    "chunks, one": ({"chunks": (50, 4)}, {}),
}


@pytest.mark.parametrize(("storage", "options"), DIRECT.values(), ids=DIRECT)
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2", ">u4"])
def test_common_storage_is_read_without_the_library(
    monkeypatch: pytest.MonkeyPatch,
    path: Path,
    storage: dict[str, Any],
    options: dict[str, Any],
    dtype: str,
) -> None:
    monkeypatch.setattr("igbss_stream.files.readers.hdf5.chunked_read.get_n_threads", lambda: 2)
    monkeypatch.setattr(Hdf5Recording, "_fill_as_stored", None)
    with h5py.File(path, "w", **options) as file:
        file.create_dataset("data", data=SAMPLES.astype(dtype), **storage)
    for n in (1, 6, 50):
        with open_recording(path) as recording:
            np.testing.assert_array_equal(read_all(recording, n), SAMPLES.astype(dtype))


def test_chunks_that_were_never_written_or_not_compressed(path: Path) -> None:
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", (50, 4), "f4", chunks=(8, 4), compression="gzip", fillvalue=7)
        data[16:24] = SAMPLES[16:24]
        data.id.write_direct_chunk((32, 0), SAMPLES[32:40].astype("f4").tobytes(), filter_mask=1)
        expected = data[:]
    assert (expected[40:] == 7).all()
    assert (expected[32:40] == SAMPLES[32:40]).all()
    for n in (5, 50):
        with open_recording(path) as recording:
            np.testing.assert_array_equal(read_all(recording, n), expected[:40])
            assert [note.split(",")[0] for note in recording.notes] == [
                "the last 10 of 50 rows were never written",
                "about 24 rows before the end were not written; they are read as 7",
            ]


def test_other_storage_is_read_by_the_library(path: Path) -> None:
    """Storage similar to that which is read without the library."""
    narrow = h5py.h5t.STD_I16LE.copy()
    narrow.set_precision(12)
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple((50, 4))
        h5py.Dataset(h5py.h5d.create(file.id, b"narrow", narrow, space))[:] = SAMPLES
    with open_recording(path, "narrow") as recording:
        np.testing.assert_array_equal(read_all(recording, 7), SAMPLES)


def test_chunk_that_is_damaged(path: Path) -> None:
    store(path, SAMPLES.astype("f4"), chunks=(25, 4), compression="gzip")
    with h5py.File(path) as file:
        info = file["data"].id.get_chunk_info_by_coord((25, 0))
    content = bytearray(path.read_bytes())
    content[info.byte_offset + 20 : info.byte_offset + 60] = bytes(40)
    path.write_bytes(content)
    with (
        open_recording(path) as recording,
        pytest.raises(RecordingError, match=r"samples 20 to 30 .* cannot be read: a chunk cannot be"),
    ):
        read_all(recording, 10)


def test_file_that_becomes_shorter(path: Path) -> None:
    with open_recording(path) as recording:
        os.truncate(path, path.stat().st_size - 100)
        with pytest.raises(RecordingError, match="cannot be read: the file became shorter"):
            read_all(recording, 10)


@given(
    n=st.integers(1, 80),
    axis=st.integers(0, 1),
    dtype=st.sampled_from([*NUMBERS["float32"], *NUMBERS["float64"]]),
    storage=st.sampled_from(sorted(STORAGE)),
)
def test_blocks_concatenate_to_the_dataset(n: int, axis: int, dtype: str, storage: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.h5"
        stored = SAMPLES.astype(dtype)
        store(path, stored.T if axis else stored, **STORAGE[storage])
        with open_recording(path, axis=axis) as recording:
            assert (recording.n_samples, recording.n_channels) == SAMPLES.shape
            np.testing.assert_array_equal(read_all(recording, n), stored.astype(recording.dtype))


@pytest.mark.parametrize(("stored", "expected"), [(s, e) for e, group in NUMBERS.items() for s in group])
def test_working_dtype(stored: str, expected: str) -> None:
    assert get_working_dtype(stored) == np.dtype(expected)
    assert get_working_dtype(stored).isnative


@pytest.mark.parametrize("stored", ["?", "c8", "S3", "U3", "O", "M8[s]", "V4", "i4,f8"])
def test_working_dtype_refuses(stored: str) -> None:
    with pytest.raises(InputError, match=r"^calibration has dtype .* float32 or float64$"):
        get_working_dtype(stored, "calibration")


def test_working_dtype_refuses_long_double() -> None:
    if np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("a long double is a double here")
    with pytest.raises(InputError, match="has dtype"):
        get_working_dtype(np.longdouble)


def test_attributes_of_a_bare_dataset(path: Path) -> None:
    with open_recording(path) as recording:
        assert recording.path == path
        assert recording.dataset == "/data"
        assert recording.dtype == np.float32
        assert recording.rate is None
        assert recording.unit is None
        assert recording.channels == ("channel-0", "channel-1", "channel-2", "channel-3")


@pytest.mark.parametrize(
    "rate", [250, 250.0, np.float32(250), np.array([250]), b"250", "250.0", np.array([b"250"])]
)
def test_rate_in_many_forms(path: Path, rate: Any) -> None:
    change(path, lambda f: f["data"].attrs.create("rate", rate))
    with open_recording(path) as recording:
        assert recording.rate == 250.0


@pytest.mark.parametrize(
    "rate", [0, -1.0, np.nan, np.inf, "fast", [1.0, 2.0], 1 + 1j, np.bool_(True), "9" * 400]
)
def test_bad_rate_is_refused_unless_given(path: Path, rate: Any) -> None:
    change(path, lambda f: f["data"].attrs.create("rate", rate))
    with pytest.raises(RecordingError, match=r"has the rate .* pass --rate$"):
        open_recording(path)
    with open_recording(path, rate=100) as recording:
        assert recording.rate == 100.0


@pytest.mark.parametrize("rate", [0.0, -1.0, np.nan, np.inf, "fast", 10**400])
def test_invalid_rate_option(path: Path, rate: Any) -> None:
    with pytest.raises(ParameterError, match="must be a positive number of Hz"):
        open_recording(path, rate=rate)


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("uV", "uV"),
        (b"uV", "uV"),
        (np.array([b"uV"]), "uV"),
        (" µV ", "µV"),
        ("", None),
        (3, None),
        (h5py.Empty("S1"), None),
        (np.array(["a", "b"], dtype=object), None),
    ],
)
def test_unit_in_many_forms(path: Path, unit: Any, expected: str | None) -> None:
    change(path, lambda f: f["data"].attrs.create("unit", unit))
    with open_recording(path) as recording:
        assert recording.unit == expected


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("conversion", 1.0, "V"),
        ("conversion", 1e-6, None),
        ("conversion", [1.0, 2.0], None),
        ("offset", 0.0, "V"),
        ("offset", 5.0, None),
    ],
)
def test_unit_after_scaling_is_ignored(
    path: Path, attribute: str, value: Any, expected: str | None
) -> None:
    change(path, lambda f: f["data"].attrs.update({"unit": "V", attribute: value}))
    with open_recording(path) as recording:
        assert recording.unit == expected


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        (["Fz", "Cz", "Pz", "Öz"], ("Fz", "Cz", "Pz", "Öz")),
        (np.array([b"Fz", b"Cz", b" ", b"Oz"]), ("Fz", "Cz", "channel-2", "Oz")),
        ([1, 2, 3, 4], ("1", "2", "3", "4")),
        (["Fz", "Cz"], ("channel-0", "channel-1", "channel-2", "channel-3")),
        ("Fz,Cz,Pz,Oz", ("channel-0", "channel-1", "channel-2", "channel-3")),
        (np.zeros((2, 2)), ("channel-0", "channel-1", "channel-2", "channel-3")),
    ],
)
def test_channels_in_many_forms(path: Path, channels: Any, expected: tuple[str, ...]) -> None:
    change(path, lambda f: f["data"].attrs.create("channels", channels))
    with open_recording(path) as recording:
        assert recording.channels == expected


def test_text_that_is_not_utf8(path: Path) -> None:
    def edit(file: Any) -> None:
        file["data"].attrs.create("unit", b"\xb5V", dtype=h5py.string_dtype())

    change(path, edit)
    with open_recording(path) as recording:
        assert recording.unit == "\ufffdV"


def test_attribute_that_h5py_cannot_read(path: Path) -> None:
    def edit(file: Any) -> None:
        space = h5py.h5s.create(h5py.h5s.SCALAR)
        h5py.h5a.create(file["data"].id, b"unit", h5py.h5t.UNIX_D32LE, space)

    change(path, edit)
    with open_recording(path) as recording:
        assert recording.unit is None


def test_dataset_behind_links(path: Path) -> None:
    def edit(file: Any) -> None:
        file["group/soft"] = h5py.SoftLink("/data")
        file["external"] = h5py.ExternalLink("other.h5", "/data")

    change(path, edit)
    store(path.with_name("other.h5"), SAMPLES)
    for name in ("group/soft", "/external"):
        with open_recording(path, name) as recording:
            np.testing.assert_array_equal(read_all(recording, 7), SAMPLES)


def test_big_chunks_are_decompressed_once(path: Path) -> None:
    """They are larger than the cache of any version of HDF5, if it is not set."""
    samples = np.tile(np.arange(9, dtype="f4"), 300_000).reshape(-1, 4)
    store(path, samples, chunks=samples.shape, compression="gzip")
    with open_recording(path) as recording:
        assert isinstance(recording, Hdf5Recording)
        cache = recording._handle.id.get_access_plist().get_chunk_cache()
        assert cache[1] >= samples.nbytes
        np.testing.assert_array_equal(read_all(recording, 100_000), samples)


def test_two_concurrent_readers(path: Path) -> None:
    with open_recording(path) as recording:
        for (_, one), (_, other) in zip(recording.read_blocks(7), recording.read_blocks(7), strict=True):
            assert one is not other
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n", [0, -1, 2.5])
def test_bad_block_size(path: Path, n: Any) -> None:
    with open_recording(path) as recording, pytest.raises(ParameterError, match="block size must be"):
        recording.read_blocks(n)


@pytest.mark.parametrize("axis", [2, -1, "0"])
def test_bad_axis(path: Path, axis: Any) -> None:
    with pytest.raises(ParameterError, match="must be 0 or 1"):
        open_recording(path, axis=axis)


def test_reading_after_closing(path: Path) -> None:
    recording = open_recording(path)
    blocks = recording.read_blocks(10)
    next(blocks)
    recording.close()
    recording.close()
    with pytest.raises(RecordingError, match="is closed; open it again"):
        next(blocks)


def test_files_are_closed_after_an_error(path: Path) -> None:
    with pytest.raises(RecordingError):
        open_recording(path, "missing")
    with h5py.File(path, "r+"):
        pass  # HDF5 refuses this while the file is open for reading


# Files that cannot be opened


def refused(path: Path) -> str:
    """Return the message of both functions that open a file; it names the file and is one line."""
    with pytest.raises(RecordingError) as opening:
        open_recording(path)
    with pytest.raises(RecordingError) as describing:
        describe_file(path)
    # The message of the library depends on the first call.
    parts = [str(error.value).split("is damaged:")[0] for error in (opening, describing)]
    assert parts[0] == parts[1]
    assert str(opening.value).startswith(repr(str(path)))
    assert "\n" not in str(opening.value)
    return str(opening.value)


def test_missing_file(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "none.h5")
    assert "does not exist" in refused(tmp_path / f"{'x' * 300}.h5")


def test_directory(tmp_path: Path) -> None:
    assert "is a directory" in refused(tmp_path)


def test_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in refused(tmp_path / "pipe")


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n" * 100])
def test_not_hdf5(tmp_path: Path, content: str) -> None:
    (tmp_path / "in.h5").write_text(content)
    assert "is not an HDF5 file" in refused(tmp_path / "in.h5")


@pytest.mark.parametrize("n_bytes", [100, 1500])
def test_truncated(path: Path, n_bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:n_bytes])
    assert "is truncated" in refused(path)


def test_killed_writer_that_had_not_flushed(path: Path) -> None:
    code = "import h5py, os, sys; f = h5py.File(sys.argv[1], 'w'); f['data'] = 5; os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert "was not closed properly or is damaged: " in refused(path)


def test_killed_writer_that_had_flushed(path: Path) -> None:
    code = (
        "import h5py, os, sys; f = h5py.File(sys.argv[1], 'w', libver='latest'); f['data'] = 5;"
        "f.flush(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert "h5clear -s" in refused(path)


def test_locked_by_a_writer(path: Path) -> None:
    code = "import h5py, sys; f = h5py.File(sys.argv[1], 'r+'); print('open', flush=True);sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        assert "is locked by a program that writes to it" in refused(path)
        writer.communicate()


def test_no_permission(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The superuser may read everything, so simulate the refusal.
    def deny(*args: Any) -> None:
        raise PermissionError(13, "Unable to open file")

    monkeypatch.setattr(h5py, "File", deny)
    assert "permission denied" in refused(path)


def test_damaged_group(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"SNOD", b"XXXX").replace(b"TREE", b"XXXX"))
    assert "is damaged: " in refused(path)


def test_damaged_chunk(path: Path) -> None:
    store(path, SAMPLES, chunks=(10, 4), compression="gzip")
    with h5py.File(path) as file:
        chunk = file["data"].id.get_chunk_info(2)
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(content)
    with open_recording(path) as recording:
        blocks = recording.read_blocks(10)
        assert [start for start, _ in (next(blocks), next(blocks))] == [0, 10]
        with pytest.raises(RecordingError, match=r"samples 20 to 30 of dataset '/data'.*again$"):
            next(blocks)


# Datasets that cannot be separated


def test_missing_dataset_lists_the_most_likely_others(tmp_path: Path) -> None:
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        for i in range(9):
            file[f"a{i}"] = np.zeros(3, "i4")
        file["x/small"] = np.zeros((5, 3), "f4")
        file["x/big"] = np.zeros((50, 3), "f4")
        file["x/swapped"] = np.zeros((3, 500), ">f4")
        file["empty"] = h5py.Empty("f4")
    with pytest.raises(RecordingError) as error:
        open_recording(path)
    assert str(error.value) == (
        f"{str(path)!r} has no dataset '/data'; pass --dataset with one of: "
        "'/x/big' (50, 3) float32, '/x/small' (5, 3) float32, "
        "'/x/swapped' (3, 500) >f4 (with --axis 1), '/a0' (3,) int32, '/a1' (3,) int32, "
        "'/a2' (3,) int32, '/a3' (3,) int32, '/a4' (3,) int32, and 5 more"
    )
    change(path, lambda f: [f.pop(f"a{i}") for i in range(9)])
    with pytest.raises(RecordingError, match="'/empty' no data float32"):
        open_recording(path)


def test_missing_dataset_in_a_file_without_any(tmp_path: Path) -> None:
    h5py.File(tmp_path / "in.h5", "w").close()
    with pytest.raises(RecordingError, match="it has no datasets"):
        open_recording(tmp_path / "in.h5")


def test_group_in_place_of_a_dataset(path: Path) -> None:
    change(path, lambda f: f.update({"g/h/x": SAMPLES}))
    with pytest.raises(RecordingError, match=r"'/g' in .* is a group, .* of: '/g/h/x' \(50, 4\)"):
        open_recording(path, "g")
    with pytest.raises(RecordingError, match=r"'/' in .* is a group, .* '/data' \(50, 4\)"):
        open_recording(path, "")


def test_type_in_place_of_a_dataset(path: Path) -> None:
    change(path, lambda f: f.update({"t": np.dtype("f4")}))
    with pytest.raises(RecordingError, match=r"'/t' in .* is not a dataset; pass --dataset"):
        open_recording(path, "t")


@pytest.mark.parametrize("name", ["data/x", "a\0b", "\udcff", "x" * 5000])
def test_impossible_names(path: Path, name: str) -> None:
    with pytest.raises(RecordingError, match="has no dataset"):
        open_recording(path, name)


@pytest.mark.parametrize(
    "link", [h5py.SoftLink("/no"), h5py.SoftLink("/link"), h5py.ExternalLink("no.h5", "/data")]
)
def test_broken_link(path: Path, link: Any) -> None:
    change(path, lambda f: f.update({"link": link}))
    with pytest.raises(RecordingError, match=r"'/link' in .* is a link to a missing dataset"):
        open_recording(path, "link")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (np.zeros((9, 2), bool), "bool"),
        (np.zeros((9, 2), complex), "complex128"),
        (np.zeros(9, [("index", "i8"), ("values", "f8", 2)]), r"compound \(index, values\)"),
        (np.zeros(9, [(f"name{i}", "i8") for i in range(99)]), r"compound \(name0, .* \.\.\.\)"),
        (np.array([["a", "b"]] * 9, h5py.string_dtype()), "text"),
        (np.array([[b"a", b"b"]] * 9), "text"),
        (np.zeros((9, 2), h5py.enum_dtype({"on": 1})), "enumeration"),
        (np.zeros((9, 2), "V3"), r"\|V3"),
    ],
)
def test_types_that_are_not_numbers(path: Path, value: NDArray[Any], name: str) -> None:
    store(path, value)
    with pytest.raises(InputError, match=f"^dataset '/data' of '.*' has dtype {name}; separation"):
        open_recording(path)


def test_types_that_are_not_arrays_of_numbers(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("vlen", (9, 2), h5py.vlen_dtype(np.dtype("f8")))
        file.create_dataset("ref", (9, 2), h5py.ref_dtype)
        space = h5py.h5s.create_simple((9, 2))
        h5py.h5d.create(file.id, b"bits", h5py.h5t.STD_B8LE, space)
        h5py.h5d.create(file.id, b"time", h5py.h5t.UNIX_D32LE, space)
    for dataset, name in [
        ("vlen", "arrays of variable length"),
        ("ref", "object reference"),
        ("bits", "bit field"),
        ("time", "unknown to NumPy"),
    ]:
        with pytest.raises(InputError, match=f"has dtype {name};"):
            open_recording(path, dataset)
    assert [d.dtype for d in describe_file(path).datasets][:2] == ["bit field", "object reference"]


@pytest.mark.parametrize(
    ("shape", "axis", "message"),
    [
        ((), 0, "contains no time series"),
        ((9,), 0, "has one channel; separation needs at least 2"),
        ((9, 1), 0, "has one channel; separation needs at least 2"),
        ((1, 9), 1, "has one channel; separation needs at least 2"),
        ((9, 0), 0, "has no channel; separation needs at least 2"),
        ((1, 9), 0, r"has too few samples \(1\) of 9 channels; separation needs at least 2"),
        ((0, 9), 0, r"has too few samples \(0\) of 9 channels; separation needs at least 2"),
        ((9, 2, 2), 0, r"has 3 axes \(shape \(9, 2, 2\)\); store it as \(samples, channels\)"),
        ((4, 9), None, r"more channels \(9\) than samples \(4\); pass --axis 1 if .* or --axis 0 if"),
    ],
)
def test_shapes_that_cannot_be_separated(
    path: Path, shape: tuple[int, ...], axis: int | None, message: str
) -> None:
    store(path, np.zeros(shape))
    with pytest.raises(InputError, match=message):
        open_recording(path, axis=axis)


@pytest.mark.parametrize(("shape", "axis"), [((4, 9), 0), ((9, 4), 1)])
def test_fewer_samples_than_channels_are_read_if_the_axis_is_stated(
    path: Path, shape: tuple[int, ...], axis: int
) -> None:
    store(path, np.zeros(shape))
    with open_recording(path, axis=axis) as recording:
        assert (recording.n_samples, recording.n_channels) == (4, 9)


def test_dataset_without_data(path: Path) -> None:
    store(path, h5py.Empty("f8"))
    with pytest.raises(InputError, match="contains no time series"):
        open_recording(path)


def test_filter_that_is_not_installed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(path, SAMPLES, chunks=(10, 4), compression="lzf")
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda code: False)
    with pytest.raises(RecordingError, match=r"needs the HDF5 filter 'lzf' \(number 32000\)"):
        open_recording(path)


# Real recordings


@needs_data
@pytest.mark.parametrize(
    ("name", "shape", "rate", "unit", "last"),
    [
        ("eeg32_128hz.h5", (30504, 32), 128.0, "uV", "O2"),
        ("openbci8_250hz.h5", (22490, 8), 250.0, "uV", "EXG7"),
        ("fetal_ecg8_250hz.h5", (2500, 8), 250.0, "a.u.", "thorax3"),
    ],
)
def test_plain_recordings(name: str, shape: tuple[int, int], rate: float, unit: str, last: str) -> None:
    with open_recording(DATA / "hdf5" / name) as recording:
        assert (recording.n_samples, recording.n_channels) == shape
        assert (recording.rate, recording.unit, recording.channels[-1]) == (rate, unit, last)
        samples = read_all(recording, 1000)
    with h5py.File(DATA / "hdf5" / name) as file:
        np.testing.assert_array_equal(samples, file["data"][:])
