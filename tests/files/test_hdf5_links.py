"""References from one HDF5 file to others: read within the folder of the file, refused outside it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream.errors import InputError
from igbss_stream.files.open import open_with_options
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.results.output import OutputFile

X = np.arange(400.0).reshape(100, 4)
OUTSIDE = r"refers to '.*out\.h5', outside the folder '.*in' .* copy it into the folder"

Refer = Callable[[Path, str], None]


def write_link(path: Path, target: str) -> None:
    with h5py.File(path, "w") as file:
        file["samples"] = h5py.ExternalLink(target, "samples")


def write_virtual(path: Path, target: str) -> None:
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource(target, "samples", X.shape)
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("samples", layout)


def write_numbers(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["samples"] = X


def read(path: Path, dataset: str | None = "samples") -> Any:
    with open_with_options(path, ReadOptions(dataset=dataset, rate=100.0)) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(30)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_numbers(tmp_path / "out.h5")
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


both = pytest.mark.parametrize("refer", [write_link, write_virtual], ids=["link", "virtual"])


@both
@pytest.mark.parametrize("target", ["../out.h5", "{}/out.h5", "below/../../out.h5"])
@pytest.mark.parametrize("dataset", [None, "samples"])
def test_files_outside_are_refused(folder: Path, refer: Refer, target: str, dataset: str | None) -> None:
    (folder / "below").mkdir()
    refer(folder / "a.h5", target.format(folder.parent))
    with pytest.raises(InputError, match=OUTSIDE):
        read(folder / "a.h5", dataset)


@both
def test_symbolic_links_are_resolved(folder: Path, refer: Refer) -> None:
    (folder / "part.h5").symlink_to(folder.parent / "out.h5")
    refer(folder / "a.h5", "part.h5")
    with pytest.raises(InputError, match=OUTSIDE):
        read(folder / "a.h5")


@both
@pytest.mark.parametrize("inner", [write_link, write_virtual], ids=["link", "virtual"])
def test_files_that_refer_on_are_refused(folder: Path, refer: Refer, inner: Refer) -> None:
    inner(folder / "part.h5", "../out.h5")
    refer(folder / "a.h5", "part.h5")
    with pytest.raises(InputError, match=OUTSIDE):
        read(folder / "a.h5")


@both
@pytest.mark.parametrize("prefix", ["{}", "{}:/nowhere", "${{ORIGIN}}/.."])
def test_prefixes_of_the_environment(
    folder: Path, refer: Refer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refer(folder / "a.h5", "out.h5")
    for name in ("HDF5_EXT_PREFIX", "HDF5_VDS_PREFIX"):
        monkeypatch.setenv(name, prefix.format(folder.parent))
    with pytest.raises(InputError, match=OUTSIDE):
        read(folder / "a.h5")


@both
def test_the_working_directory_is_outside(
    folder: Path, refer: Refer, monkeypatch: pytest.MonkeyPatch
) -> None:
    refer(folder / "a.h5", "out.h5")
    monkeypatch.chdir(folder.parent)
    with pytest.raises(InputError, match=OUTSIDE):
        read(folder / "a.h5")


@both
@pytest.mark.parametrize("target", ["part.h5", "below/part.h5", "{}/below/part.h5", "../in/part.h5"])
def test_files_within_are_read(folder: Path, refer: Refer, target: str) -> None:
    write_numbers(folder / "part.h5")
    write_numbers(folder / "below" / "part.h5")
    refer(folder / "b.h5", target.format(folder))
    refer(folder / "a.h5", "b.h5")
    refer(folder / "loop.h5", "loop.h5")
    np.testing.assert_array_equal(read(folder / "a.h5"), X)


def test_a_missing_part_is_named(folder: Path) -> None:
    write_virtual(folder / "a.h5", "gone.h5")
    with pytest.raises(InputError, match=r"samples.* the part 'gone\.h5' is missing; restore it"):
        read(folder / "a.h5")
    with OutputFile(folder / "a.h5") as output, pytest.raises(InputError, match=r"'gone\.h5' is missing"):
        output.open_series("samples")


def test_a_part_without_its_dataset_is_named(folder: Path) -> None:
    write_virtual(folder / "a.h5", "part.h5")
    with h5py.File(folder / "part.h5", "w") as file:
        file["other"] = X
    with pytest.raises(InputError, match=r"part\.h5' has no dataset 'samples'"):
        read(folder / "a.h5")


def test_a_link_that_nothing_reads_to_a_missing_file_is_no_error(folder: Path) -> None:
    write_numbers(folder / "a.h5")
    with h5py.File(folder / "a.h5", "r+") as file:
        file["images"] = h5py.ExternalLink("/nowhere/images.h5", "images")
    np.testing.assert_array_equal(read(folder / "a.h5"), X)


def test_patterns_of_parts(folder: Path) -> None:
    """A virtual dataset can name its files by a pattern, one file per block."""
    for number in range(2):
        write_numbers(folder / f"part-{number}.h5")
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    target = h5py.h5s.create_simple((100, 4), (h5py.h5s.UNLIMITED, 4))
    target.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (100, 4), (100, 4))
    plist.set_virtual(target, b"part-%b.h5", b"samples", h5py.h5s.create_simple(X.shape))
    target.select_all()
    with h5py.File(folder / "a.h5", "w") as file:
        h5py.h5d.create(file.id, b"samples", h5py.h5t.NATIVE_DOUBLE, target, plist)
    np.testing.assert_array_equal(read(folder / "a.h5"), np.concatenate([X, X]))
    (folder / "part-1.h5").unlink()
    (folder / "part-1.h5").symlink_to(folder.parent / "out.h5")
    with pytest.raises(InputError, match=OUTSIDE):
        read(folder / "a.h5")


@pytest.mark.parametrize("part", [X[:19], X[:, :2], X[:0], X[0]])
def test_parts_with_less_than_is_mapped(folder: Path, part: Any) -> None:
    layout = h5py.VirtualLayout((40, 4), "f8")
    for i, name in enumerate(("a", "b")):
        layout[20 * i : 20 * i + 20] = h5py.VirtualSource(f"{name}.h5", "x", (20, 4))
    for name, x in (("a", X[:20]), ("b", part)):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["x"] = x
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_virtual_dataset("samples", layout)
    shape = " x ".join(map(str, part.shape))
    with pytest.raises(InputError, match=rf"needs 20 x 4 of '/x' in '.*b.h5', which has {shape}; restore"):
        read(folder / "in.h5")


def test_slices_beyond_the_end_of_a_part(folder: Path) -> None:
    layout = h5py.VirtualLayout((10, 4), "f8")
    layout[:] = h5py.VirtualSource("a.h5", "x", (30, 4))[15:25]
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_virtual_dataset("samples", layout)
    for n in (25, 24):
        with h5py.File(folder / "a.h5", "w") as file:
            file["x"] = X[:n]
        if n == 25:
            np.testing.assert_array_equal(read(folder / "in.h5"), X[15:25])
            continue
        with pytest.raises(InputError, match=r"needs 25 x 4 of '/x'"):
            read(folder / "in.h5")
