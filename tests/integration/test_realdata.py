"""The command `batch` on recordings of hearts and heads."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.integration.conftest import Command, Refusal, assert_says
from tests.realdata import DATA, needs_data
from tests.recordings import assert_equal_to_rounding, read_output, systematic, unmixed

HDF5 = DATA / "hdf5"
RECORDINGS = {
    "eeg32_128hz.h5": (128.0, "uV", (30504, 32)),
    "openbci8_250hz.h5": (250.0, "uV", (22490, 8)),
    "fetal_ecg8_250hz.h5": (250.0, "a.u.", (2500, 8)),
}
MCS = "mcs_2014-07-09T10-17-35W8_Standard_all_500Hz.h5"
MCS_DATASET = "/Data/Recording_0/AnalogStream/Stream_0/ChannelData"


def samples(name: str, dataset: str = "/data") -> NDArray[np.generic]:
    with h5py.File(HDF5 / name, "r") as file:
        return np.asarray(file[dataset])


@needs_data
@pytest.mark.parametrize("name", RECORDINGS)
def test_sources_are_the_channels_unmixed(separated: Command, tmp_path: Path, name: str) -> None:
    rate, unit, shape = RECORDINGS[name]
    line = separated(HDF5 / name).output
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
    said = separated(HDF5 / name, "--n-sources", 4).output
    assert "did not converge" not in said
    output, n_samples = read_output(tmp_path / "out.h5"), RECORDINGS[name][2][0]
    assert output.sources.shape == (n_samples, 4)
    assert np.isfinite(output.sources).all()
    assert output.fits["converged"].all()
    assert output.fits["n_samples"].sum() == n_samples
    assert (output.fits["n_iter"] < 100).all()


@needs_data
def test_recording_of_eight_electrodes_stored_channel_by_channel(
    separated: Command, refused: Refusal, tmp_path: Path
) -> None:
    options = ("--dataset", MCS_DATASET, "--axis", 1, "--rate", 500)
    message = refused("batch", HDF5 / MCS, "-o", tmp_path / "out.h5", *options[:2])
    assert_says(message, "(9850)", "(8)", "--axis 1")
    separated(HDF5 / MCS, *options)
    x, output = samples(MCS, MCS_DATASET).T, read_output(tmp_path / "out.h5")
    assert output.rate == 500.0
    assert output.sources.shape == (9850, 8)
    assert_equal_to_rounding(output.sources, unmixed(x), x)


@needs_data
@pytest.mark.parametrize("name", sorted(path.name for path in HDF5.glob("ligo_*.hdf5")))
def test_strain_of_one_detector_is_one_channel(refused: Refusal, tmp_path: Path, name: str) -> None:
    message = refused("batch", HDF5 / name, "-o", tmp_path / "out.h5", "--dataset", "strain/Strain")
    assert_says(message, "'/strain/Strain'", name, "one channel", "at least 2")


@needs_data
def test_file_of_another_program_lists_its_datasets(refused: Refusal, tmp_path: Path) -> None:
    message = refused("batch", HDF5 / "test_raw_hdf5.set", "-o", tmp_path / "out.h5")
    assert_says(message, "no dataset '/data'", "--dataset")


@needs_data
def test_table_is_no_array_of_samples(refused: Refusal, tmp_path: Path) -> None:
    path = HDF5 / "timeflux-demos_bitalino_eeg.hdf5"
    message = refused("batch", path, "-o", tmp_path / "out.h5", "--dataset", "/raw/table")
    assert_says(message, "'/raw/table'", "compound", "plain array")
