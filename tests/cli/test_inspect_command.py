"""The command `inspect` on the metadata of a file and on its samples."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.commands import Command
from tests.recordings import NAMES, noise, write_recording


def test_json_tells_what_samples_are_like(igbss: Command, tmp_path: Path) -> None:
    x = noise(300, 4)
    x[:, 1] = 7.0
    x[:, 3] = x[:, 0] + x[:, 2]
    path = write_recording(tmp_path / "in.h5", x, rate=250.0, unit="uV", channels=NAMES)
    result = igbss("inspect", path, "--json")
    assert result.exit_code == 0, result.output
    reported = json.loads(result.output)["recording"]
    assert (reported["layout"], reported["dataset"], reported["rate"]) == ("plain", "/data", 250.0)
    assert (reported["flat"], reported["rank"], reported["n_not_finite"]) == (["Cz"], 2, {})
    x[5:9, 2] = np.nan
    result = igbss("inspect", write_recording(path, x, channels=NAMES), "--json")
    reported = json.loads(result.output)["recording"]
    assert (reported["n_not_finite"], reported["rank"]) == ({"Pz": 4}, None)
    assert (reported["n_runs"], reported["runs"]) == (1, [[5, 4, "Pz"]])
    assert json.loads(igbss("inspect", path, "--json", "--fast").output)["recording"]["flat"] is None


def test_text_and_a_refusal(igbss: Command, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "in.csv", noise(), delimiter=",", header="a,b,c,d", comments="")
    assert "not read: " in igbss("inspect", tmp_path / "in.csv").output
    said = igbss("inspect", tmp_path / "in.csv", "--rate", 100).output
    assert "layout: text" in said
    assert "60 samples of 4 channels, 100 Hz" in said


def test_channels_that_are_bad_by_their_samples(igbss: Command, tmp_path: Path) -> None:
    x = noise(3000, 4)
    x[:, 2] = np.clip(x[:, 2], -1.0, 1.0)
    x[1500:, 1] = 7.0
    path = write_recording(tmp_path / "in.h5", x, rate=250.0, unit="uV", channels=NAMES)
    result = igbss("inspect", path)
    assert (
        "bad by their samples:\n  Cz is flat: constant for 50 % of the time (limit 10 %)\n" in result.output
    )
    assert "  Pz is railed: " in result.output
    faults = json.loads(igbss("inspect", path, "--json").output)["recording"]["faults"]
    assert [(fault["channel"], fault["kind"]) for fault in faults] == [("Cz", "flat"), ("Pz", "railed")]
    assert faults[0]["value"] == 0.5
    assert "bad by their samples" not in igbss("inspect", path, "--fast").output


def test_runs_of_nan_the_longest_first(igbss: Command, tmp_path: Path) -> None:
    x = noise(300, 4)
    for start in range(7):
        x[40 * start : 40 * start + start + 1, start % 2] = np.nan
    path = write_recording(tmp_path / "in.h5", x, channels=NAMES)
    assert (
        "NaN or infinite: Fz 16, Cz 12; in 7 runs of rows, the longest: Fz 240 to 246 (7), Cz 200 to 205 (6), "
        "Fz 160 to 164 (5), Cz 120 to 123 (4), Fz 80 to 82 (3)"
    ) in igbss("inspect", path).output


@pytest.mark.jit
def test_the_view_and_the_reliability_of_an_output(igbss: Command, tmp_path: Path) -> None:
    """Noise of the sensors contradicts innovations; the file has the same numbers, read by h5py."""
    rng = np.random.default_rng(31)
    sources = np.cumsum(rng.laplace(size=(6000, 3)), axis=0) % 7.0
    x = sources @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(6000, 4))
    path, output = write_recording(tmp_path / "in.h5", x, rate=250.0, channels=NAMES), tmp_path / "out.h5"
    result = igbss("batch", path, "-o", output, "--n-sources", "3")
    assert result.exit_code == 0, result.output
    with h5py.File(output) as file:
        view, reliability = float(file.attrs["view"]), file["reliability"][()]
        contradictions = file["contradictions"][()].tolist()
    assert contradictions
    (model,) = json.loads(igbss("inspect", output, "--json").output)["models"]
    assert (model["row"], model["version"], model["view"]) == (0, None, view)
    assert model["contradictions"] == [
        {"view": tried, "contradiction": round(value, 2)} for tried, value in contradictions
    ]
    assert model["reliability"] == {
        f"source-{n}": round(value, 2) for n, value in enumerate(reliability.tolist())
    }
    said = igbss("inspect", output, "--dataset", "/sources").output
    learned = next(line for line in result.output.splitlines() if line.startswith("learned from "))
    assert f"\nlearned from: {learned.removeprefix('learned from ').partition(';')[0]}\n" in said
    assert f"{'innovations' if contradictions[0][0] == 0.0 else f'view {contradictions[0][0]:g}'} " in said
    each = ", ".join(f"source-{n} {value:.0f} dB" for n, value in enumerate(reliability))
    assert f"\nreliability: {each}\n" in said
    assert json.loads(igbss("inspect", path, "--json").output)["models"] == []


@pytest.mark.jit
def test_a_damaged_reliability_is_reported_and_the_rest_described(igbss: Command, tmp_path: Path) -> None:
    path, output = write_recording(tmp_path / "in.h5", noise(300, 4), rate=250.0), tmp_path / "out.h5"
    assert igbss("batch", path, "-o", output, "--structure", "systematic").exit_code == 0
    assert json.loads(igbss("inspect", output, "--json").output)["models"] == []
    with h5py.File(output, "r+") as file:
        file.attrs["view"], file["learning"], file["reliability"] = 0.1, np.zeros(2), np.zeros(3)
    result = igbss("inspect", output, "--dataset", "/sources")
    assert result.exit_code == 0
    assert "has 3 numbers for 4 sources: copy the file again" in " ".join(result.stderr.split())
    assert "300 samples of 4 channels, 250 Hz" in result.stdout
    assert "reliability: " not in result.stdout


def test_signals_to_choose_from_are_described(igbss: Command, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.nwb", "w") as file:
        file.attrs["nwb_version"] = "2.7.0"
        for name, n_channels, rate in (("lfp", 4, 1000.0), ("probe", 3, 30_000.0)):
            series = file.create_group(f"acquisition/{name}")
            series.attrs["neurodata_type"] = "ElectricalSeries"
            series["data"] = noise(60, n_channels)
            series["data"].attrs["unit"] = "volts"
            series["starting_time"] = 0.0
            series["starting_time"].attrs["rate"] = rate
    result = igbss("inspect", tmp_path / "in.nwb", "--json")
    reported = json.loads(result.output)
    assert reported["recording"] is None
    assert "2 signals" in reported["refused"]
    keys = ("option", "n_samples", "n_channels", "rate", "unit")
    assert [tuple(signal[key] for key in keys) for signal in reported["signals"]] == [
        ("--dataset '/acquisition/lfp/data'", 60, 4, 1000.0, "V"),
        ("--dataset '/acquisition/probe/data'", 60, 3, 30_000.0, "V"),
    ]
    assert (
        "--dataset '/acquisition/probe/data': 60 samples of 3 channels, 30000 Hz, unit V; channels channel-0, "
    ) in igbss("inspect", tmp_path / "in.nwb").output
    path = write_recording(tmp_path / "in.h5", noise(), dataset="/a", rate=250.0, channels=NAMES)
    with h5py.File(path, "r+") as file:
        file["b"] = noise(60, 2)
    assert (
        "--dataset '/a': 60 samples of 4 channels, 250 Hz, unit unknown; channels Fz, Cz, Pz, Oz"
    ) in igbss("inspect", path, "--fast").output


def test_rates_to_choose_from_are_described(igbss: Command, tmp_path: Path) -> None:
    edfio = pytest.importorskip("edfio")
    pytest.importorskip("mne")
    signals = [
        edfio.EdfSignal(noise(4 * rate, 1)[:, 0], rate, label=f"C{i}", physical_dimension="uV")
        for i, rate in enumerate((256, 1, 256))
    ]
    edfio.Edf(signals).write(tmp_path / "in.edf")
    said = igbss("inspect", tmp_path / "in.edf").output
    assert "--channels 0,2: 1024 samples of 2 channels, 256 Hz, unit V; channels C0, C2" in said
    assert "--channels 1: 4 samples of 1 channels, 1 Hz, unit V; channels C1" in said
