"""Epochs of EEGLAB's sample recording: from the original, from our cleaned file, and from our exports."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igbss_stream.mne import raw_of_output
from tests.commands import Command
from tests.realdata import DATA, needs_data

mne = pytest.importorskip("mne")
pytest.importorskip("edfio")
pytest.importorskip("pybv")

RATE = 128.0
ENDINGS = (".edf", ".bdf", ".vhdr", ".fif")


def find_onsets(raw: Any, label: str) -> Any:
    """Return the onsets of a label in samples, with fractions, as MNE reads them."""
    keep = [text.removeprefix("Comment/") == label for text in raw.annotations.description]
    return np.sort(raw.annotations.onset[keep]) * RATE


@pytest.fixture(scope="module")
def originals() -> Any:
    return mne.io.read_raw(DATA / "eeg/eeglab_data.set", verbose="error")


@needs_data
@pytest.mark.jit
def test_the_same_events_everywhere(igbss: Command, tmp_path: Path, originals: Any) -> None:
    output = tmp_path / "clean.h5"
    source = DATA / "eeg/eeglab_data.set"
    assert igbss("batch", source, "--exclude-like", "EOG1", "-o", output).exit_code == 0
    raws = {".h5": raw_of_output(output, "cleaned")}
    for ending in ENDINGS:
        target = output.with_suffix(ending)
        assert igbss("export", output, "--dataset", "cleaned", "-o", target).exit_code == 0
        raws[ending] = mne.io.read_raw(target, verbose="error")
    window = {"tmin": -0.2, "tmax": 0.8, "baseline": (None, 0), "picks": ["Oz"], "preload": True}
    evoked = {}
    for ending, raw in raws.items():
        for label, n in (("square", 80), ("rt", 74)):
            found, wanted = find_onsets(raw, label), find_onsets(originals, label)
            assert len(found) == len(wanted) == n
            assert np.abs(found - wanted).max() <= 0.5, (ending, label)
        at, ids = mne.events_from_annotations(raw, regexp="(Comment/)?square", verbose="error")
        epochs = mne.Epochs(raw, at, ids, verbose="error", **window)
        assert len(epochs) == 80
        evoked[ending] = epochs.average(picks="all").data[0]
    for ending in ENDINGS:
        assert np.abs(evoked[ending] - evoked[".h5"]).max() < 0.02 * np.ptp(evoked[".h5"])


@needs_data
@pytest.mark.jit
def test_resampling_moves_the_events_with_the_samples(
    igbss: Command, tmp_path: Path, originals: Any
) -> None:
    output = tmp_path / "out.h5"
    source = DATA / "eeg/eeglab_data.set"
    igbss("batch", source, "--bandpass", "1:40", "--resample", "100", "--n-sources", 8, "-o", output)
    raw = raw_of_output(output)
    assert raw.info["sfreq"] == 100.0
    keep = raw.annotations.description == "square"
    wanted = originals.annotations.onset[originals.annotations.description == "square"]
    np.testing.assert_allclose(raw.annotations.onset[keep], wanted, atol=1e-6)
