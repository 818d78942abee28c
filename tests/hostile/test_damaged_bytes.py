"""Changed bytes of states and model files: refused before HDF5 opens the file, whose C code may never return."""

import subprocess
import sys
from pathlib import Path
from random import Random

import h5py
import numpy as np
import pytest

from igbss_stream.batch.models import load_model
from igbss_stream.daemon import state
from igbss_stream.errors import RecordingError, StateError
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.streaming.stream_model import StreamModel

NAMES = ("a", "b", "c", "d")
SETTINGS = ModelSettings(structure="systematic")
N_FILES = 400
LIMIT = 100  # seconds for all files; HDF5 does not return from some of them without the checksum


@pytest.fixture
def path(tmp_path: Path) -> Path:
    x = np.random.default_rng(41).laplace(size=(400, 4)) @ np.random.default_rng(42).normal(size=(4, 4))
    path = tmp_path / "s.h5"
    separator = SeparationPlan(SETTINGS, len(NAMES)).prepare_for(x, NAMES)
    state.save(path, StreamModel(3, separator, 10), Preparation(), NAMES, "uV")
    return path


def load_state(path: Path) -> np.ndarray:
    model = state.load(path, SETTINGS, Preparation())
    assert model is not None
    return np.asarray(model.separator.stage.unmixing)


def damage(content: bytes, rng: Random) -> bytes:
    """Flip bits, truncate, or overwrite a block with zeros."""
    kind, out = rng.choice(("flip", "flip", "flip", "truncate", "zero")), bytearray(content)
    if kind == "truncate":
        return content[: rng.randrange(len(content))]
    if kind == "zero":
        start = rng.choice((0, 0, rng.randrange(len(out))))
        size = rng.choice((8, 512, 4096))
        out[start : start + size] = bytes(len(out[start : start + size]))
        return bytes(out)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def attack(path: Path) -> None:
    """Load damaged copies of a state, as a state and as a model; runs in a separate process."""
    content, expected = path.read_bytes(), load_state(path)
    copy = path.with_name("copy.h5")
    for seed in range(N_FILES):
        copy.write_bytes(damaged := damage(content, Random(f"bytes {seed}")))
        for load, refusal in ((load_state, StateError), (load_as_model, RecordingError)):
            try:
                np.testing.assert_array_equal(load(copy), expected)
            except refusal:
                continue
            assert damaged == content, f"{seed} was loaded"


def load_as_model(path: Path) -> np.ndarray:
    return np.asarray(load_model(path).separator.stage.unmixing)


def test_changed_bytes_are_refused_in_time(path: Path) -> None:
    code = f"from pathlib import Path; from {__name__} import attack; attack(Path({str(path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr[-2000:]


def test_changed_sizes_of_texts_of_variable_length(path: Path) -> None:
    """HDF5 2.0 does not return from some changes of its heap of texts, which has no checksum."""
    content = path.read_bytes()
    heap = content.index(b"GCOL")
    sizes = [(heap + offset + 9, 3) for offset in (16, 40, 64)]  # of texts: without checksum, these hang
    for at, bit in [*((at, at % 8) for at in range(heap, heap + 48)), *sizes]:
        out = bytearray(content)
        out[at] ^= 1 << bit
        path.write_bytes(out)
        with pytest.raises(StateError, match=r"differs from its checksum; restore it .* or delete it"):
            load_state(path)


def test_files_without_checksum_are_loaded(path: Path) -> None:
    expected, content = load_state(path), path.read_bytes()
    with h5py.File(path) as file:
        assert file.userblock_size == 512
        older = path.with_name("older.h5")
        with h5py.File(older, "w") as copy:
            for name in file:
                file.copy(name, copy)
            copy.attrs.update(file.attrs)
    assert not content.startswith(older.read_bytes()[:8])
    np.testing.assert_array_equal(load_state(older), expected)
    np.testing.assert_array_equal(load_as_model(older), load_as_model(path))
