"""Describe the content of HDF5 files."""

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream.errors import IgbssError, RecordingError
from igbss_stream.files.open import open_recording
from igbss_stream.files.readers.hdf5.listing import (
    DatasetDescription,
    FileDescription,
    describe_file,
    format_description,
)
from tests.realdata import DATA, needs_data

FILES = sorted(
    path.name
    for ending in ("h5", "hdf5", "snirf", "nwb", "set")
    for path in (DATA / "hdf5").glob(f"*.{ending}")
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file with a dataset of each kind."""
    with h5py.File(tmp_path / "in.h5", "w") as file:
        data = file.create_dataset("data", data=np.zeros((50, 4), "f4"), chunks=(8, 4), compression="gzip")
        data.attrs.update(rate=250.0, unit="uV", channels=["Fz", "Cz", "Pz", "Oz"])
        file["group/swapped"] = np.zeros((4, 50), ">i2")
        file["group/one"] = np.zeros(9)
        file["rate"] = np.zeros((50, 4))
        file["rate"].attrs["rate"] = -1
        file["nothing"] = h5py.Empty("f8")
        file["number"] = 5.0
    return tmp_path / "in.h5"


def test_description(path: Path) -> None:
    description = describe_file(str(path))
    assert (description.path, description.size_bytes) == (path, path.stat().st_size)
    datasets = {d.name: d for d in description.datasets}
    assert list(datasets) == ["/data", "/group/one", "/group/swapped", "/nothing", "/number", "/rate"]
    assert datasets["/data"] == DatasetDescription(
        name="/data",
        shape=(50, 4),
        dtype="float32",
        chunks=(8, 4),
        compression="gzip",
        rate=250.0,
        unit="uV",
        channels=("Fz", "Cz", "Pz", "Oz"),
        usable=True,
        note="",
    )
    assert datasets["/nothing"].shape is None
    assert datasets["/number"].shape == ()
    assert datasets["/group/swapped"].dtype == ">i2"
    notes = {name: d.note for name, d in datasets.items() if not d.usable}
    assert notes == {
        "/group/one": "has one channel; separation needs at least 2",
        "/group/swapped": "has more channels (50) than samples (4); pass --axis 1 if its axes are swapped, or --axis 0 if they are not",
        "/nothing": "contains no time series; choose another dataset",
        "/number": "contains no time series; choose another dataset",
        "/rate": "has the rate '-1', which is not a positive number of Hz; pass --rate",
    }


def test_usable_datasets_can_be_opened(path: Path) -> None:
    assert_usable_is_what_can_be_opened(path)
    for d in describe_file(path).datasets:
        if not d.usable:
            with pytest.raises(IgbssError) as error:
                open_recording(path, d.name)
            assert str(error.value) == f"dataset {d.name!r} of {str(path)!r} {d.note}"


def assert_usable_is_what_can_be_opened(path: Path) -> None:
    for d in describe_file(path).datasets:
        if d.usable:
            open_recording(path, d.name).close()
            assert d.note == ""


def test_links(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["g/x"] = np.zeros((9, 2))
        file["g/up"] = file["/"]
        file["alias"] = file["g"]
        file["soft"] = h5py.SoftLink("/g/x")
        file["circle"] = h5py.SoftLink("/circle")
        file["broken"] = h5py.SoftLink("/none")
        file["external"] = h5py.ExternalLink("other.h5", "/y")
        file["lost"] = h5py.ExternalLink("none.h5", "/y")
        file["around"] = h5py.SoftLink("/")
        file["type"] = np.dtype("f4")
    with h5py.File(path.with_name("other.h5"), "w") as file:
        file["y"] = np.zeros((9, 3))
    found = [d.name for d in describe_file(path).datasets]
    assert found in (["/external", "/g/x", "/soft"], ["/alias/x", "/external", "/soft"])
    assert_usable_is_what_can_be_opened(path)


def test_deep_groups(path: Path) -> None:
    with h5py.File(path, "w") as file:
        group = file
        for _ in range(2000):
            group = group.create_group("g")
        group["x"] = np.zeros((9, 2))
    (found,) = describe_file(path).datasets
    assert found.name == "/g" * 2000 + "/x"


def test_compression_that_h5py_does_not_know(path: Path) -> None:
    with h5py.File(path, "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((9, 2))
        plist.set_filter(32011, h5py.h5z.FLAG_OPTIONAL)
        space = h5py.h5s.create_simple((9, 2))
        h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, plist)
    (found,) = describe_file(path).datasets
    assert found.compression == "unknown (32011)"
    assert not found.usable
    assert found.note.startswith("needs the HDF5 filter 'unknown' (number 32011), which is not")


def test_a_table_next_to_the_samples_is_no_error(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["gaps"] = np.zeros(3, [("row", "i8"), ("start", "i8")])
    (found,) = describe_file(tmp_path / "in.h5").datasets
    assert (found.usable, found.dtype, found.note) == (False, "compound (row, start)", "a table")


def test_empty_file(tmp_path: Path) -> None:
    h5py.File(tmp_path / "in.h5", "w").close()
    description = describe_file(tmp_path / "in.h5")
    assert description.datasets == ()
    assert (
        format_description(description)
        == f"{tmp_path / 'in.h5'}: {description.size_bytes} bytes, no datasets"
    )


def test_not_hdf5(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    with pytest.raises(RecordingError, match="is not an HDF5 file"):
        describe_file(tmp_path / "in.csv")


def test_file_is_closed_again(path: Path) -> None:
    describe_file(path)
    with h5py.File(path, "r+"):
        pass  # HDF5 refuses this while the file is open for reading


def dataset(**changes: Any) -> DatasetDescription:
    values: dict[str, Any] = {
        "name": "/data",
        "shape": (50, 4),
        "dtype": "float32",
        "chunks": None,
        "compression": None,
        "rate": None,
        "unit": None,
        "channels": (),
        "usable": True,
        "note": "",
    }
    return DatasetDescription(**(values | changes))


def test_table() -> None:
    description = FileDescription(
        Path("in.h5"),
        1234,
        (
            dataset(
                rate=1000.012,
                unit="uV",
                channels=("Fz", "Cz", "Pz", "Oz"),
                chunks=(8, 4),
                compression="gzip",
            ),
            dataset(name="/n", shape=(), dtype="text", channels=("a", "b"), usable=False, note="text"),
            dataset(name="/o", shape=None),
        ),
    )
    assert format_description(description).splitlines() == [
        "in.h5: 1234 bytes",
        "",
        "dataset  shape   dtype    chunks  compression  rate (Hz)  unit  channels             usable  note",
        "/data    50 x 4  float32  8 x 4   gzip         1000.012   uV    Fz, Cz, Pz, ... (4)  yes     -",
        "/n       scalar  text     -       -            -          -     a, b                 no      text",
        "/o       -       float32  -       -            -          -     -                    yes     -",
    ]


def test_names_cannot_break_the_table() -> None:
    text = format_description(FileDescription(Path("in\n.h5"), 1, (dataset(name="/\x1b[31m\nµ"),)))
    assert text.count("\n") == 3
    assert "in\\n.h5" in text
    assert "/\\x1b[31m\\nµ" in text


@needs_data
@pytest.mark.parametrize("name", FILES)
def test_real_files(name: str) -> None:
    description = describe_file(DATA / "hdf5" / name)
    assert description.size_bytes == os.path.getsize(DATA / "hdf5" / name)
    assert description.datasets
    assert len(format_description(description).splitlines()) == len(description.datasets) + 3


@needs_data
@pytest.mark.parametrize(
    ("name", "usable"),
    [
        ("eeg32_128hz.h5", {"/data"}),
        ("matnwb_20080606_R1.nwb", set()),
        ("matnwb_ecephys_tutorial.nwb", {"/acquisition/ECoG/data"}),
        ("ligo_H-H1_LOSC_4_V2-1126259446-32.hdf5", set()),
        ("timeflux-demos_bitalino_eeg.hdf5", set()),
        ("mcs_2014-07-09T10-17-35W8_Standard_all_500Hz.h5", set()),
    ],
)
def test_usable_datasets_of_real_files(name: str, usable: set[str]) -> None:
    assert {d.name for d in describe_file(DATA / "hdf5" / name).datasets if d.usable} == usable
    assert_usable_is_what_can_be_opened(DATA / "hdf5" / name)
