"""Damaged states and model files: each is loaded as a model that is consistent, or refused with one error."""

import resource
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from igbss_stream.batch.models import load_model
from igbss_stream.daemon import state
from igbss_stream.errors import IgbssError, StateError
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.cleaning import Cleaning
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.statistics import survey_array
from igbss_stream.streaming.stream_model import StreamModel
from tests.hostile.mutated_files import mutate

pytestmark = pytest.mark.jit  # learns

NAMES = ("a", "b", "c", "d")
X = np.random.default_rng(31).laplace(size=(600, 4)) @ np.random.default_rng(32).normal(size=(4, 4))
PREPARATION = Preparation(highpass=1.0)
SETTINGS = {
    "systematic": ModelSettings(structure="systematic"),
    "cyclic": ModelSettings(structure="cyclic", n_sources=3),
    "learned": ModelSettings(),
    "min-max": ModelSettings(transform="min-max"),
}
CLEANING = Cleaning(exclude_like=(("a", 0.5),))
SURVEY = survey_array(X, NAMES, covariance=True)
MEMORY = 300  # MB that all mutations together may add
N_FAST, N_SLOW = 300, 3000


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """States of streams, by the name of their settings; "learned" removes sources."""
    found = {}
    for name, settings in SETTINGS.items():
        path = tmp_path_factory.mktemp("states") / "s.h5"
        separator = SeparationPlan(settings, len(NAMES)).prepare_for(X, NAMES)
        if name == "learned":
            separator = separator.with_cleaner(CLEANING, CLEANING.make_cleaner(separator.stage, SURVEY))
        state.save(path, StreamModel(3, separator, 10), PREPARATION, NAMES, "uV")
        found[name] = path.read_bytes()
    return found


def check_model(separator: Separator) -> None:
    """Check that a loaded model separates samples, and that its mixing fits its unmixing."""
    stage: Any = separator.stage
    sources = separator.stage.unmix(X[:10, : separator.poset.n_channels])
    assert np.isfinite(sources).all()
    assert sources.shape == (10, separator.poset.n_sources)
    product = stage.unmixing @ stage.mixing
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(stage.n_sources), product.shape), atol=1e-4)


def attack(
    load: Callable[[Path], Separator],
    allowed: type[Exception],
    contents: dict[str, bytes],
    path: Path,
    n: int,
) -> None:
    """Load mutated files; list every error of another class and every model that is not consistent."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    escaped, loaded = [], 0
    for seed in range(n):
        rng = Random(f"{path.name} {seed}")
        name = rng.choice(sorted(contents))
        change = mutate(path.with_name(f"{name}.h5"), contents[name], rng)
        try:
            check_model(load(path.with_name(f"{name}.h5")))
            loaded += 1
        except allowed:
            continue
        except (Exception, AssertionError) as error:
            escaped.append(f"{seed} {name}: {change}: {type(error).__name__}: {str(error)[:200]}")
    unit = 1e6 if sys.platform == "darwin" else 1e3
    assert not escaped, f"{len(escaped)} of {n}:\n" + "\n".join(escaped)
    assert 0 < loaded < n
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / unit < MEMORY


def load_state(path: Path) -> Separator:
    settings = SETTINGS[path.stem]
    model = state.load(path, settings, PREPARATION, CLEANING if path.stem == "learned" else None)
    assert model is not None
    assert isinstance(model.version, int)
    return model.separator


def load_for_batch(path: Path) -> Separator:
    model = load_model(path)
    assert len(model.channels) == model.separator.poset.n_channels
    return model.separator


@pytest.mark.parametrize("n", [N_FAST, pytest.param(N_SLOW, marks=pytest.mark.slow)])
def test_mutated_states(contents: dict[str, bytes], tmp_path: Path, n: int) -> None:
    attack(load_state, StateError, contents, tmp_path / "state", n)


@pytest.mark.parametrize("n", [N_FAST, pytest.param(N_SLOW, marks=pytest.mark.slow)])
def test_mutated_models(contents: dict[str, bytes], tmp_path: Path, n: int) -> None:
    attack(load_for_batch, IgbssError, contents, tmp_path / "model", n)
