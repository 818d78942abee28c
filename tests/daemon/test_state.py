"""States of streams: the layout of model files, and exact restoration."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream.daemon import state
from igbss_stream.errors import StateError
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.streaming.stream_model import StreamModel
from tests.commands import Command
from tests.recordings import RATE, read_output, write_recording

N_CHANNELS = 9  # more than 8: the rounding of sums depends on the memory layout
NAMES = [f"c{i}" for i in range(N_CHANNELS)]
X = np.random.default_rng(0).laplace(size=(600, N_CHANNELS)) @ np.random.default_rng(1).normal(
    size=(N_CHANNELS, N_CHANNELS)
)
KINDS: dict[str, dict[str, Any]] = {
    "systematic": {"structure": "systematic"},
    "cyclic": {"structure": "cyclic", "n_sources": 6},
    "matrix": {"structure": np.tri(N_CHANNELS)},
    "learned": {},
    "learned, min-max": {"transform": "min-max"},
    "learned, back-projected": {"scaling": "back-projected", "n_sources": 4},
}
kinds = pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, id=name, marks=[pytest.mark.jit] if "learned" in name else [])
        for name, options in KINDS.items()
    ],
)


def save(path: Path, separator: Separator, version: int = 3) -> None:
    state.save(path, StreamModel(version, separator, 10), Preparation(highpass=1.0), NAMES, "uV")


def read_layout(path: Path) -> dict[str, Any]:
    """Return types and dimensions of all datasets, and names of all attributes."""
    with h5py.File(path) as file:
        layout: dict[str, Any] = {
            name: (item.dtype, item.ndim, sorted(item.attrs)) for name, item in file.items()
        }
        return layout | {f"@{name}": type(value) for name, value in file.attrs.items()}


@kinds
@pytest.mark.filterwarnings("ignore:sources are not determined")  # X is short
def test_states_are_restored_to_the_bit(tmp_path: Path, options: dict[str, Any]) -> None:
    settings, path = ModelSettings(**options), tmp_path / "s.h5"
    separator = SeparationPlan(settings, N_CHANNELS).prepare_for(X, NAMES)
    save(path, separator)
    model = state.load(path, settings, Preparation(highpass=1.0))
    assert model is not None
    assert (model.version, model.since) == (3, 0)
    restored = model.separator
    for got, expected in (
        (restored.stage.mixing, separator.stage.mixing),
        (restored.stage.unmixing, separator.stage.unmixing),
        (restored.stage.mean, separator.stage.mean),
        (restored.poset.incidence, separator.poset.incidence),
        (restored.poset.unmixing, separator.poset.unmixing),
    ):
        if expected is None:
            assert got is None
            continue
        assert got is not None
        assert got.tobytes() == expected.tobytes()
        assert got.strides[1:] == expected.strides[1:]
    if settings.is_learned:
        later = [
            SeparationPlan(settings, N_CHANNELS, one.stage).prepare_for(X[100:], NAMES).stage.unmixing
            for one in (separator, restored)
        ]
        assert later[0].tobytes() == later[1].tobytes()
    before = path.read_bytes()
    save(path, restored)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.jit
def test_a_state_is_a_model_of_batch(igbss: Command, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for n in range(2):
        write_recording(tmp_path / "in" / f"{n}.h5", X[n * 300 :], rate=RATE, unit="uV", channels=NAMES)
    options = ("--structure", "learned", "--highpass", "1", "--model-per", "all")
    result = igbss("batch", tmp_path / "in", "-o", f"{tmp_path}/out/", *options)
    assert result.exit_code == 0, result.output
    path = tmp_path / "s.h5"
    first = SeparationPlan(ModelSettings(), N_CHANNELS).prepare_for(X, NAMES)
    later = ModelSettings(n_sources=N_CHANNELS, transform=first.fitted_transform)
    separator = SeparationPlan(later, N_CHANNELS, first.stage).prepare_for(X[100:], NAMES)
    save(path, separator)
    stored, shared = read_layout(path), read_layout(tmp_path / "out" / "model-all.h5")
    del shared["@job"]  # for --resume
    added = {"incidence", "inverse", "@model_version"}
    assert {name: value for name, value in stored.items() if name not in added} == shared
    assert added <= set(stored)
    recording = tmp_path / "in" / "0.h5"
    result = igbss(
        "batch", recording, "-o", tmp_path / "sources.h5", "--model", path, "--structure", "learned"
    )
    assert result.exit_code == 0, result.output
    output = read_output(tmp_path / "sources.h5")
    assert json.loads(output.attrs["model"]) == {
        "file": "s.h5",
        "recordings": ["s"],
        "n_recordings": 1,
    }
    np.testing.assert_array_equal(output.datasets["unmixing"], separator.stage.unmixing[0])
    assert output.datasets["sources"].shape == X.shape
    other = write_recording(tmp_path / "other.h5", X[:, :3], rate=RATE, channels=["x", "y", "z"])
    result = igbss("batch", other, "-o", tmp_path / "no.h5", "--model", path, "--structure", "learned")
    assert result.exit_code != 0
    assert "the channels are not those of the model" in " ".join(result.output.split())


def test_states_that_cannot_be_used(igbss: Command, tmp_path: Path) -> None:
    settings, path = ModelSettings(structure="systematic"), tmp_path / "s.h5"
    assert state.load(path, settings, Preparation()) is None
    (tmp_path / "s.npz").write_bytes(b"")
    with pytest.raises(StateError, match=r"s\.npz' was written by version 0\.1 and cannot be read; remove"):
        state.load(path, settings, Preparation())
    save(path, SeparationPlan(settings, N_CHANNELS).prepare_for(X, NAMES))
    with pytest.raises(StateError, match=r"prepare\.highpass was 1\.0 and is now None\. Remove it"):
        state.load(path, settings, Preparation())
    assert state.load(path, settings, Preparation(highpass=1.0), channels=NAMES) is not None
    with pytest.raises(StateError, match=r"order, are not those of the model in model\.from\. Remove it"):
        state.load(path, settings, Preparation(highpass=1.0), channels=NAMES[::-1])
    recording = write_recording(tmp_path / "in.h5", X, rate=RATE, unit="uV", channels=NAMES)
    output = tmp_path / "out.h5"
    assert igbss("batch", recording, "-o", output, "--structure", "systematic").exit_code == 0
    for file in recording, output:
        with pytest.raises(StateError, match="is not a state of a daemon; move it, or choose another"):
            state.load(file, settings, Preparation())
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(StateError, match=r"cannot be read: .* Remove it to start without it"):
        state.load(path, settings, Preparation(highpass=1.0))
    for place in tmp_path, tmp_path / "in.h5" / "s.h5":
        with pytest.raises(StateError, match=r"cannot be written: .*; check the folder in state\.path"):
            save(place, SeparationPlan(settings, N_CHANNELS).prepare_for(X, NAMES))
