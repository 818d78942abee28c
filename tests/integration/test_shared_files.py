"""Every recording in ../shared/data: read with no option but its name, or refused with what to pass."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.ingest.hdf5 import open_recording
from tests.integration.conftest import Command, Refusal, assert_says
from tests.realdata import DATA, needs_data
from tests.recordings import read_output

HDF5 = DATA / "hdf5"
MCS = "mcs_2014-07-09T10-17-35W8_Standard_all_500Hz.h5"
STREAM = "/Data/Recording_0/AnalogStream/Stream_{}/ChannelData"
BANDS = "timeflux-demos_bitalino_eeg.hdf5"

# Name: samples, channels, rate, unit, first and last channel.
READ: dict[str, tuple[int, int, float, str | None, str, str]] = {
    "hdf5/eeg32_128hz.h5": (30504, 32, 128.0, "uV", "FPz", "O2"),
    "hdf5/openbci8_250hz.h5": (22490, 8, 250.0, "uV", "EXG0", "EXG7"),
    "hdf5/fetal_ecg8_250hz.h5": (2500, 8, 250.0, "a.u.", "abdomen1", "thorax3"),
    "hdf5/matnwb_ecephys_tutorial.nwb": (1000, 10, 200.0, "V", "channel-0", "channel-9"),
    "hdf5/mne-testing-data_2022-05-23_004.snirf": (96, 40, 10.172526, None, "S1_D1 760", "S8_D8 850"),
    "hdf5/mne-testing-data_220307_opticaldensity.snirf": (500, 72, 50.0, None, "S2_D1 760", "S24_D12 850"),
    "hdf5/test_raw_h5.set": (30504, 32, 128.0, "uV", "channel-0", "channel-31"),
}

# Name: what the message says.
REFUSED: dict[str, tuple[str, ...]] = {
    f"hdf5/{MCS}": ("2 signals", "--dataset", STREAM.format(0), STREAM.format(1), "8 channels"),
    f"hdf5/{BANDS}": ("50 samples are NaN", "Fpz_delta has 10, from sample 194", "cut them out"),
    "hdf5/ligo_H-H1_LOSC_4_V2-1126259446-32.hdf5": ("one channel", "at least 2", "side by side"),
    "hdf5/ligo_L-L1_LOSC_4_V2-1126259446-32.hdf5": ("one channel", "at least 2", "side by side"),
    "hdf5/matnwb_20080606_R1.nwb": ("1.0.6", "no ElectricalSeries", "--dataset"),
    "hdf5/test_raw_hdf5.set": ("271 channels", "256 samples", "--channels"),
}


@needs_data
@pytest.mark.parametrize("name", READ)
def test_read_by_its_name_alone(separated: Command, tmp_path: Path, name: str) -> None:
    n_samples, n_channels, rate, unit, first, last = READ[name]
    said = separated(DATA / name, "--drop-flat").output
    assert f"{n_channels} channels x {n_samples} samples" in said
    output = read_output(tmp_path / "out.h5")
    assert output.sources.shape == (n_samples, n_channels)
    assert output.rate == pytest.approx(rate, rel=1e-8)
    assert output.unit == unit
    assert (output.names["mixing"][0], output.names["mixing"][-1]) == (first, last)


@needs_data
@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_what_to_pass(refused: Refusal, tmp_path: Path, name: str) -> None:
    assert_says(refused("batch", DATA / name, "-o", tmp_path / "out.h5"), *REFUSED[name])


def read(path: Path, *where: Any, **options: Any) -> NDArray[Any]:
    with open_recording(path, *where, **options) as recording:
        return np.concatenate([block.copy() for _, block in recording.blocks(777)])


@needs_data
@pytest.mark.parametrize("stream", [0, 1])
def test_electrodes_of_mcs_are_in_volts(stream: int) -> None:
    with h5py.File(HDF5 / MCS) as file:
        stored = file[STREAM.format(stream)][:]
    # InfoChannel of this file states factor 381470, exponent -9, zero 0, unit V for every channel.
    np.testing.assert_allclose(read(HDF5 / MCS, STREAM.format(stream)), stored.T * 381470e-9, rtol=1e-14)


@needs_data
def test_columns_of_timeflux_have_their_names_and_nothing_is_unpickled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*args: Any) -> None:
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(f"pickle.{name}", forbidden)
    with open_recording(HDF5 / BANDS, rate=0.98) as recording:
        assert recording.channels == tuple(
            f"Fpz_{band}" for band in ("delta", "theta", "alpha", "beta", "gamma")
        )
    with h5py.File(HDF5 / BANDS) as file:
        np.testing.assert_array_equal(
            read(HDF5 / BANDS, rate=0.98), file["bands/table"][:]["values_block_0"]
        )


@needs_data
def test_channels_chosen_from_a_short_set(separated: Command, tmp_path: Path) -> None:
    separated(HDF5 / "test_raw_hdf5.set", "--channels", "A1,A2,10-19")
    with h5py.File(HDF5 / "test_raw_hdf5.set") as file:
        stored = file["EEG/data"][:]
    np.testing.assert_array_equal(
        read(HDF5 / "test_raw_hdf5.set", channels="A1,A2,10-19"), stored[:, [0, 1, *range(10, 20)]]
    )
    output = read_output(tmp_path / "out.h5")
    assert output.names["mixing"][:2] == ["A1", "A2"]
    assert (output.rate, output.unit) == (1024.0, "uV")


@needs_data
def test_samples_beside_a_set() -> None:
    stored = np.fromfile(HDF5 / "test_raw.fdt", "<f4").reshape(30504, 32)
    np.testing.assert_array_equal(read(HDF5 / "test_raw_h5.set"), stored)
