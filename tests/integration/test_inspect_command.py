"""The command `inspect` on what a file tells and on what its samples show."""

import json
from pathlib import Path

import numpy as np

from tests.integration.conftest import Command
from tests.recordings import NAMES, noise, write_recording


def test_json_tells_what_samples_are_like(igbss: Command, tmp_path: Path) -> None:
    x = noise(300, 4)
    x[:, 1] = 7.0
    x[:, 3] = x[:, 0] + x[:, 2]
    path = write_recording(tmp_path / "in.h5", x, rate=250.0, unit="uV", channels=NAMES)
    result = igbss("inspect", path, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)["recording"]
    assert (told["layout"], told["dataset"], told["rate"]) == ("plain", "/data", 250.0)
    assert (told["flat"], told["rank"], told["n_not_finite"]) == (["Cz"], 2, {})
    x[5:9, 2] = np.nan
    result = igbss("inspect", write_recording(path, x, channels=NAMES), "--json")
    told = json.loads(result.output)["recording"]
    assert (told["n_not_finite"], told["rank"]) == ({"Pz": 4}, None)
    assert json.loads(igbss("inspect", path, "--json", "--fast").output)["recording"]["flat"] is None


def test_text_and_a_refusal(igbss: Command, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "in.csv", noise(), delimiter=",", header="a,b,c,d", comments="")
    assert "not read: " in igbss("inspect", tmp_path / "in.csv").output
    said = igbss("inspect", tmp_path / "in.csv", "--rate", 100).output
    assert "layout: text" in said
    assert "60 samples of 4 channels, 100 Hz" in said
