"""Datasets whose bytes are in other files, by any path, are refused; virtual datasets beside them are read."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from igbss_stream.errors import RecordingError
from igbss_stream.files.open import open_with_options
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.hdf5.layouts.values import read_texts

X = np.arange(400.0).reshape(100, 4)


@pytest.mark.parametrize("name", [None, "samples"])
def test_external_storage_is_refused(tmp_path: Path, name: str | None) -> None:
    X.tofile(tmp_path / "secret")
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("samples", X.shape, X.dtype, external=[(str(tmp_path / "secret"), 0, X.nbytes)])
    with pytest.raises(RecordingError, match=r"samples.* has external storage.*h5repack"):
        open_with_options(tmp_path / "in.h5", ReadOptions(dataset=name, rate=100.0))


def test_texts_of_another_file_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("names", (1,), "S8", external=[("/etc/passwd", 0, 8)])
        with pytest.raises(RecordingError, match=r"'/names' .* has external storage"):
            read_texts(file, "names")


def test_virtual_datasets_in_the_folder_are_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "part.h5", "w") as file:
        file["samples"] = X
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource("part.h5", "samples", X.shape)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_virtual_dataset("samples", layout)
    with open_with_options(tmp_path / "in.h5", ReadOptions(rate=100.0)) as recording:
        assert (recording.n_samples, recording.n_channels) == X.shape
