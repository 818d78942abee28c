"""Damaged files for which libraries would not return, or crash, are refused before they see them."""

import re
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest

from igbss_stream.errors import IgbssError, RecordingError
from igbss_stream.files.inspection import Examination, examine
from igbss_stream.files.open import open_recording
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.hdf5.heaps import check_heaps
from igbss_stream.files.readers.hdf5.lookup3 import compute_lookup3
from igbss_stream.files.readers.matlab5 import check_matlab_file

io = pytest.importorskip("scipy.io")
MATLAB = Path(io.__file__).parent / "matlab" / "tests" / "data"  # files of MATLAB and of SciPy's users


def write_texts(path: Path) -> bytes:
    with h5py.File(path, "w") as file:
        file["data"] = np.random.default_rng(1).normal(size=(60, 3))
        file["data"].attrs.update(rate=250.0, unit="uV", channels=["a", "bc", "def"])
    return path.read_bytes()


@pytest.mark.parametrize("size", [0, 1, 1 << 20, 1 << 63, (1 << 64) - 8, (1 << 64) - 1])
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_heaps_whose_objects_do_not_follow_each_other(tmp_path: Path, size: int, number: int) -> None:
    """HDF5 2.0 does not return from some of them."""
    path = tmp_path / "in.h5"
    content = bytearray(write_texts(path))
    check_heaps(path)
    at, start = content.index(b"GCOL"), 16
    for _ in range(number):  # to the object with this number in the list
        start += 16 + -(-struct.unpack_from("<Q", content, at + start + 8)[0] // 8) * 8
    struct.pack_into("<Q", content, at + start + 8, size)
    path.write_bytes(content)
    if size == 1:
        open_recording(path).close()  # short, but whole: what follows is taken as free or as an object
        return
    with pytest.raises(RecordingError, match=rf"damaged: its heap at byte {at} is not whole"):
        open_recording(path)


def test_a_heap_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "in.h5"
    content = write_texts(path)
    for n in (8, 20, 1000):
        path.write_bytes(content[: content.index(b"GCOL") + n])
        with pytest.raises(RecordingError, match="not whole"):
            check_heaps(path)


@pytest.mark.parametrize(
    ("text", "checksum"),  # of the author's own test
    [(b"", 0xDEADBEEF), (b"Four score and seven years ago", 0x17770551)],
)
def test_known_checksums(text: bytes, checksum: int) -> None:
    assert compute_lookup3(text) == checksum


@pytest.mark.parametrize("libver", ["earliest", "latest"])  # headers of version 1, and of version 2
@pytest.mark.parametrize(("user_block", "n_attributes"), [(0, 0), (512, 60)])
def test_virtual_datasets_with_a_damaged_mapping(
    tmp_path: Path, libver: str, user_block: int, n_attributes: int
) -> None:
    """HDF5 2.0 crashes on some of them. Attributes move messages to further blocks of the header."""
    path, x = tmp_path / "in.h5", np.random.default_rng(4).normal(size=(60, 3))
    layout = h5py.VirtualLayout(x.shape, x.dtype)
    with h5py.File(path, "w", libver=libver, userblock_size=user_block) as file:
        file["parts/a"], file["parts/b"] = x[:40], x[40:]
        layout[:40], layout[40:] = (h5py.VirtualSource(file["parts"][name]) for name in ("a", "b"))
        made = file.create_virtual_dataset("data", layout)
        made.attrs.update({"rate": 100.0} | {f"a{i}": i for i in range(n_attributes)})
    with open_recording(path) as recording:
        np.testing.assert_array_equal(np.concatenate([b.copy() for _, b in recording.read_blocks(30)]), x)
    content = path.read_bytes()
    at = content.index(b"GCOL") + 32  # after the heads of the heap and its first object, the mapping
    for i in range(at, at + struct.unpack_from("<Q", content, at - 8)[0], 7):
        path.write_bytes(content[:i] + bytes([content[i] ^ 2]) + content[i + 1 :])
        with pytest.raises(
            RecordingError, match=r"damaged: the mapping of a virtual dataset, at byte \d+, d"
        ):
            open_recording(path)


@pytest.mark.parametrize("user_block", [0, 512])
@pytest.mark.parametrize("where", ["attribute", "dataset", "root"])
def test_texts_longer_than_their_heap(tmp_path: Path, where: str, user_block: int) -> None:
    """HDF5 2.0 would allocate and clear the stated length, 4 GiB at most."""
    path, names = tmp_path / "in.h5", ["of seventeen more", "bc", ""]
    with h5py.File(path, "w", userblock_size=user_block) as file:
        file["data"] = np.random.default_rng(1).normal(size=(60, 3))
        file["data"].attrs["rate"] = 250.0
        if where == "dataset":
            file["names"] = names
        else:
            file["data" if where == "attribute" else "/"].attrs["channels"] = names
    open_recording(path).close()
    content = path.read_bytes()
    at = content.index(struct.pack("<IQ", len(names[0]), content.index(b"GCOL") - user_block))
    for length in (0xFFFFFFFF, 1 << 20, 4097):
        path.write_bytes(content[:at] + struct.pack("<I", length) + content[at + 4 :])
        with pytest.raises(RecordingError, match=rf"a text of {length} bytes is longer than the heap"):
            open_recording(path)
    path.write_bytes(content[: at + 4] + struct.pack("<Q", 1 << 62) + content[at + 12 :])
    with pytest.raises(RecordingError, match="a text of 17 bytes is longer than the heap"):
        open_recording(path)


@pytest.mark.skipif(not MATLAB.is_dir(), reason="SciPy was installed without its tests")
def test_matlab_files_that_scipy_reads_are_whole() -> None:
    n = 0
    for path in sorted(MATLAB.glob("*.mat")):
        if path.read_bytes()[124:128] not in (b"\0\1IM", b"\1\0MI"):
            continue  # before version 5, or 7.3
        try:
            io.loadmat(path)
        except Exception:  # what SciPy refuses may be refused
            continue
        check_matlab_file(path)
        n += 1
    assert n > 80


def test_matlab_files_with_other_types_than_scipy_expects(tmp_path: Path) -> None:
    path, x = tmp_path / "in.mat", np.random.default_rng(2).normal(size=(5, 3))
    for compress in (False, True):
        io.savemat(
            path, {"x": x, "text": "abc", "cell": np.array([x, "b"], object)}, do_compression=compress
        )
        check_matlab_file(path)
    io.savemat(path, {"x": x})
    content = path.read_bytes()
    at = content.index(struct.pack("<II", 9, x.nbytes))  # the tag of the numbers
    for kind in (0, 8, 14, 18, 200, 65535):
        path.write_bytes(content[:at] + struct.pack("<I", kind) + content[at + 4 :])
        with pytest.raises(RecordingError, match="is a damaged MATLAB file: an array of numbers has"):
            check_matlab_file(path)
    path.write_bytes(content[:-8])
    with pytest.raises(RecordingError, match="ends within an element; copy or save it again"):
        check_matlab_file(path)


def test_many_structures_without_fields_in_matlab_files(tmp_path: Path) -> None:
    """They take no bytes, but SciPy makes an object of each."""
    path = tmp_path / "in.mat"
    io.savemat(path, {"s": np.array([(1.0,)] * 3, [("x", "O")])})
    content = path.read_bytes()
    at = content.index(struct.pack("<II", 5, 8) + struct.pack("<II", 1, 3))  # the shape
    content = content[: at + 8] + struct.pack("<II", 1 << 14, 1 << 14) + content[at + 16 :]
    length = content.index(struct.pack("<HHI", 5, 4, 2))  # of the name of the field, 2 with its end
    content = content[: length + 4] + struct.pack("<I", 1 << 20) + content[length + 8 :]
    path.write_bytes(content)
    with pytest.raises(RecordingError, match="268435456 structures have no fields"):
        check_matlab_file(path)


def test_deep_arrays_in_matlab_files(tmp_path: Path) -> None:
    path, nested = tmp_path / "in.mat", np.zeros(1)
    for _ in range(70):
        nested = np.array([nested, 0], object)
    io.savemat(path, {"x": nested})
    with pytest.raises(RecordingError, match="at depth 65"):
        check_matlab_file(path)


def test_tags_of_fif_that_lead_back(tmp_path: Path) -> None:
    """MNE reads them without end."""
    mne = pytest.importorskip("mne")
    path = tmp_path / "in_raw.fif"
    info = mne.create_info(3, 100.0, "eeg")
    mne.io.RawArray(np.zeros((3, 100)), info, verbose="ERROR").save(path, verbose="ERROR")
    content = bytearray(path.read_bytes())
    struct.pack_into(">i", content, 16 + 20 + 12, 16)  # the second tag leads to nowhere but itself
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"damaged: the tag at byte 36 does not lead to a later one"):
        open_recording(path)


def test_complex_samples_of_fif(tmp_path: Path) -> None:
    mne = pytest.importorskip("mne")
    path = tmp_path / "in_raw.fif"
    raw = mne.io.RawArray(np.full((3, 100), 1j), mne.create_info(3, 100.0, "eeg"), verbose="ERROR")
    raw.save(path, verbose="ERROR")
    with open_recording(path) as recording, pytest.raises(RecordingError, match="they are complex numbers"):
        list(recording.read_blocks(50))


def test_a_header_with_an_infinite_rate(tmp_path: Path) -> None:
    pytest.importorskip("mne")
    pybv = pytest.importorskip("pybv")
    pybv.write_brainvision(
        data=np.zeros((3, 50)),
        sfreq=100,
        ch_names=["a", "b", "c"],
        fname_base="in",
        folder_out=str(tmp_path),
    )
    path = tmp_path / "in.vhdr"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub("SamplingInterval=.*", "SamplingInterval=1e-320", text), encoding="utf-8")
    with pytest.raises(IgbssError, match="states a sampling rate of inf Hz; correct its header"):
        open_recording(path)


@pytest.mark.parametrize("scale", [1e153, 1e200, 1e300, 1.7e308])
@pytest.mark.parametrize("channels", [[0, 1, 2, 3], [1]])
def test_numbers_too_large_to_be_squared_are_inspected(
    tmp_path: Path, scale: float, channels: list[int]
) -> None:
    """Without warnings, which the settings of the tests turn into errors."""
    path, x = tmp_path / "in.h5", np.random.default_rng(3).uniform(-1, 1, size=(600, 4))
    x[:, channels] *= scale
    with h5py.File(path, "w") as file:
        file["data"] = x
        file["data"].attrs["rate"] = 250.0
    found = examine(path, ReadOptions())
    assert isinstance(found, Examination)
    assert (found.rank is None) == (scale > 1e307)
    missing = [fault.channel for fault in found.faults or () if fault.kind == "missing"]
    assert missing == [f"channel-{i}" for i in channels]


def test_channels_of_wild_magnitudes_are_inspected(tmp_path: Path) -> None:
    """A constant whose mean is rounded, beside numbers far smaller than the rounding, and one without numbers."""
    x = np.random.default_rng(3).normal(size=(1000, 4)) * 1e-246
    x[:, 1:] = 3.41153760123e90, -4.49891379123e161, np.nan
    x[::3, 3] = np.inf
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["data"] = x
        file["data"].attrs["rate"] = 250.0
    found = examine(tmp_path / "in.h5", ReadOptions())
    assert isinstance(found, Examination)
    assert found.flat == ("channel-1", "channel-2")
    assert found.n_not_finite == {"channel-3": 1000}


def test_small_numbers_are_inspected(tmp_path: Path) -> None:
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        file["data"] = np.random.default_rng(3).normal(size=(60, 3)) * 1e-160
    found = examine(path, ReadOptions())
    assert isinstance(found, Examination)
    assert found.rank == 3


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_signalling_nan_are_nan(tmp_path: Path, kind: str) -> None:
    x = np.random.default_rng(3).normal(size=(200, 3)).astype(kind)
    x.view(f"u{x.itemsize}")[20:23, 1] = 0x7FA00000 if kind == "f4" else 0x7FF4000000000000
    np.save(tmp_path / "in.npy", x)
    found = examine(tmp_path / "in.npy", ReadOptions(rate=100.0))
    assert isinstance(found, Examination)
    assert found.n_not_finite == {"channel-1": 3}
