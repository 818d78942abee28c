"""The command `batch` on recordings of hearts and heads."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.commands import SYSTEMATIC, Command, assert_says
from tests.realdata import DATA, needs_data
from tests.recordings import assert_equal_to_rounding, read_output, systematic, unmixed

HDF5 = DATA / "hdf5"
RECORDINGS = {
    "eeg32_128hz.h5": (128.0, "uV", (30504, 32)),
    "openbci8_250hz.h5": (250.0, "uV", (22490, 8)),
    "fetal_ecg8_250hz.h5": (250.0, "a.u.", (2500, 8)),
}


def samples(name: str, dataset: str = "/data") -> NDArray[np.generic]:
    with h5py.File(HDF5 / name, "r") as file:
        return np.asarray(file[dataset])


@needs_data
@pytest.mark.parametrize("name", RECORDINGS)
def test_sources_are_the_channels_unmixed(separated: Command, tmp_path: Path, name: str) -> None:
    rate, unit, shape = RECORDINGS[name]
    line = separated(HDF5 / name, *SYSTEMATIC).output
    assert_says(line, f"{shape[1]} channels x {shape[0]} samples", f"{rate:g} Hz", "closed-form")
    x, output = samples(name), read_output(tmp_path / "out.h5")
    assert (output.rate, output.unit, output.sources.shape) == (rate, unit, shape)
    with h5py.File(HDF5 / name, "r") as file:
        assert output.names["mixing"] == list(file["data"].attrs["channels"])
    np.testing.assert_array_equal(output.mixing, systematic(shape[1]))
    assert output.sources.dtype == np.float32
    assert_equal_to_rounding(output.sources, unmixed(x), x)


@needs_data
@pytest.mark.jit
@pytest.mark.parametrize("name", RECORDINGS)
def test_fewer_sources_converge_in_every_window(separated: Command, tmp_path: Path, name: str) -> None:
    said = separated(HDF5 / name, *SYSTEMATIC, "--n-sources", 4).output
    assert "did not converge" not in said
    output, n_samples = read_output(tmp_path / "out.h5"), RECORDINGS[name][2][0]
    assert output.sources.shape == (n_samples, 4)
    assert np.isfinite(output.sources).all()
    assert output.fits["converged"].all()
    assert output.fits["n_samples"].sum() == n_samples
    assert (output.fits["n_iter"] < 100).all()
