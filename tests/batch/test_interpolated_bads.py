"""Bad channels among the cleaned ones, interpolated, against MNE."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igbss_stream.mne.output import raw_of_output
from igbss_stream.playback.simulate import Simulation
from tests.commands import SYSTEMATIC, Command
from tests.recordings import read_output, write_recording

mne = pytest.importorskip("mne")

SIMULATION = Simulation(19, 250.0, seed=9360, montage="10-20")
NAMES = list(SIMULATION.stream("s").channels)
X = SIMULATION.block(0, 3000)
BAD = ["Cz", "P7"]
CLEAN = (*SYSTEMATIC, "--exclude", "3")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return write_recording(tmp_path / "in.h5", X, rate=250.0, unit="uV", channels=NAMES)


def interpolate_by_mne(raw: Any) -> Any:
    """Return the raw with its bads interpolated, with the electrodes at the places of MNE's own montage."""
    raw = raw.copy().set_montage("standard_1020", verbose="ERROR")
    raw.info["bads"] = BAD
    return raw.interpolate_bads(verbose="ERROR")


@pytest.mark.parametrize("options", [(), ("--reference", "average"), ("--segment", "5")])
def test_cleaned_channels_have_the_bad_ones_in_their_place(
    igbss: Command, tmp_path: Path, recording: Path, options: tuple[str, ...]
) -> None:
    left_out = ("--bad-channels", ",".join(BAD), *options)
    for name, more in (("all.h5", ("--interpolate-bads",)), ("good.h5", ())):
        result = igbss("batch", recording, "-o", tmp_path / name, *CLEAN, *left_out, *more)
        assert result.exit_code == 0, result.output
    found, good = (read_output(tmp_path / name) for name in ("all.h5", "good.h5"))
    assert list(found.attrs["interpolated_channels"]) == list(found.attrs["bad_channels"]) == BAD
    assert "interpolated_channels" not in good.attrs
    raw = raw_of_output(tmp_path / "all.h5", "cleaned")
    assert raw.ch_names == NAMES
    kept = [i for i, name in enumerate(NAMES) if name not in BAD]
    cleaned = found.datasets["cleaned"]
    np.testing.assert_array_equal(cleaned[:, kept], good.datasets["cleaned"])
    np.testing.assert_array_equal(found.datasets["sources"], good.datasets["sources"])
    expected = interpolate_by_mne(raw).get_data(picks=BAD)
    values = raw.get_data(picks=BAD)
    error = np.sqrt(((values - expected) ** 2).mean(axis=1) / (expected**2).mean(axis=1))
    assert (error < 0.15).all()  # MNE's head is no sphere


def test_a_report_shows_the_channels_that_were_separated(
    igbss: Command, tmp_path: Path, recording: Path
) -> None:
    out = tmp_path / "out.h5"
    options = (*CLEAN, "--bad-channels", "Cz", "--interpolate-bads", "--report")
    result = igbss("batch", recording, "-o", out, *options)
    assert result.exit_code == 0, result.output
    assert out.with_suffix(".html").exists()


@pytest.mark.parametrize(
    ("names", "options", "reason"),
    [
        (
            NAMES,
            (*SYSTEMATIC, "--bad-channels", "Cz"),
            "--interpolate-bads adds the bad channels to the cleaned",
        ),
        (
            [f"e{i}" for i in range(19)],
            (*CLEAN, "--bad-channels", "e3"),
            "no positions are known, and 0 of 19 channels have names of the 10-20 system. Pass positions with",
        ),
        (
            [*NAMES[:-1], "EOG"],
            (*CLEAN, "--bad-channels", "EOG,Cz"),
            "bad channels cannot be interpolated: the position of EOG is not known",
        ),
    ],
)
def test_what_cannot_be_interpolated_is_refused(
    igbss: Command, tmp_path: Path, names: list[str], options: tuple[str, ...], reason: str
) -> None:
    recording = write_recording(tmp_path / "in.h5", X, rate=250.0, unit="uV", channels=names)
    out = tmp_path / "out.h5"
    result = igbss("batch", recording, "-o", out, *options, "--interpolate-bads")
    assert result.exit_code == 2
    assert reason in re.sub(r"\s+", " ", result.output)
    assert not out.exists()
