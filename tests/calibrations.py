"""A recording, its outputs, and configurations that take a model from them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream.cli.demo import draw_mixing
from tests.commands import Command
from tests.recordings import write_recording

FILE = "{kind: file, path: in.h5, speed: 0}"
NAMES = ("EOG", "Fz", "Cz", "Pz")
RATE, N_SAMPLES = 100.0, 2000


def simulate_eyes() -> Any:
    rng = np.random.default_rng(31)
    mixing = draw_mixing(2, 4, 4)
    mixing[0] = [0.1, 0.1, 0.1, 2.0]
    return (20.0 * rng.laplace(size=(N_SAMPLES, 4)) @ mixing.T + [400.0, 0.0, -7.0, 1.0]).astype("f4")


X = simulate_eyes()


@pytest.fixture(scope="module")
def outputs() -> dict[tuple[str, ...], bytes]:
    """Return outputs by their options, to learn each once."""
    return {}


@pytest.fixture
def calibrate(igbss: Command, tmp_path: Path, outputs: dict[tuple[str, ...], bytes]) -> Callable[..., Path]:
    """Return a function that separates the recording, and returns the output."""

    def separate(*options: str) -> Path:
        source, path = tmp_path / "in.h5", tmp_path / "sources.h5"
        write_recording(source, X, rate=RATE, unit="uV", channels=NAMES)
        if options in outputs:
            path.write_bytes(outputs[options])
        else:
            result = igbss("batch", source, "-o", path, "--structure", "learned", *options)
            assert result.exit_code == 0, result.output
            outputs[options] = path.read_bytes()
        return path

    return separate


def read(path: Path, *names: str) -> list[Any]:
    with h5py.File(path) as file:
        return [file[name][()] for name in names]


def configure(
    folder: Path,
    model: str = "from: sources.h5",
    *,
    source: str = "{kind: zmq, address: '1'}",
    sinks: Sequence[str] = ("{kind: hdf5, path: out/live.h5}",),
    more: str = "",
    end: str = "",
) -> Path:
    (folder / "out").mkdir(exist_ok=True)
    path = folder / "run.yaml"
    path.write_text(
        f"streams:\n  - name: s\n    source: {source}\n    model: {{{model}}}\n    sinks: [{', '.join(sinks)}]\n"
        f"{more}\nlog: {{format: json}}\n{end}\n"
    )
    return path
