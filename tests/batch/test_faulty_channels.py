"""`batch --bad-channels`: the same as for a recording without these channels."""

from pathlib import Path

import numpy as np
import pytest

from igbss_stream.playback.simulate import Simulation
from tests.commands import SYSTEMATIC, Command, Refusal, assert_says
from tests.recordings import read_output, write_recording

SIMULATION = Simulation(12, 250.0, seed=9321, montage="10-20")
NAMES = SIMULATION.stream("eeg").channels
PREPARED = (*SYSTEMATIC, "--reference", "average")


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    """Return a recording with a channel that is full of noise, and one that stays at its limits."""
    x = SIMULATION.block(0, 5000).astype(np.float64)
    x[:, 3] += 5 * x[:, 3].std() * np.random.default_rng(9322).standard_normal(len(x))
    x[:, 7] = np.clip(x[:, 7], *np.quantile(x[:, 7], (0.05, 0.95)))
    return write_recording(tmp_path / "spoilt.h5", x, rate=250.0, unit="uV", channels=NAMES)


def test_auto_leaves_out_what_inspect_names(igbss: Command, spoilt: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"{name}.h5" for name in ("auto", "named", "without")]
    result = igbss("batch", spoilt, "-o", outputs[0], *PREPARED, "--bad-channels", "auto")
    assert result.exit_code == 0, result.output
    assert_says(result.output, f"left out as bad: {NAMES[3]}, {NAMES[7]}", f"{NAMES[3]} is noisy: ")
    named = f"{NAMES[7]},{NAMES[3]}"
    assert igbss("batch", spoilt, "-o", outputs[1], *PREPARED, "--bad-channels", named).exit_code == 0
    rest = ",".join(name for i, name in enumerate(NAMES) if i not in (3, 7))
    assert igbss("batch", spoilt, "-o", outputs[2], *PREPARED, "--channels", rest).exit_code == 0
    auto, by_name, without = (read_output(output).sources for output in outputs)
    assert np.array_equal(auto, without)
    assert np.array_equal(by_name, without)


def test_off_is_the_default(igbss: Command, spoilt: Path, tmp_path: Path) -> None:
    assert igbss("batch", spoilt, "-o", tmp_path / "out.h5", *SYSTEMATIC).exit_code == 0
    assert read_output(tmp_path / "out.h5").sources.shape[1] == 12


def test_channels_that_do_not_exist_and_too_many(refused: Refusal, spoilt: Path, tmp_path: Path) -> None:
    batch = ("batch", spoilt, "-o", tmp_path / "out.h5", *SYSTEMATIC, "--bad-channels")
    assert_says(refused(*batch, "T99"), "--bad-channels names 'T99'")
    assert_says(refused(*batch, "Cz,"), "--bad-channels must be auto, off, or names")
    assert_says(refused(*batch, ",".join(NAMES[1:])), "11 of 12 channels are bad")
