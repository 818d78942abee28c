"""Any finite samples give finite sources or an error of the package, and small changes do not matter.

NumPy's warnings are errors here, as in all tests.
"""

import warnings
from contextlib import suppress
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import signal
from scipy.optimize import linear_sum_assignment

from igbss_stream import Separation, separate
from igbss_stream.errors import IgbssWarning, InputError, ParameterError
from tests.realdata import DATA, needs_data
from tests.recordings_as_they_come import KINDS, ORDINARY

Array = NDArray[np.float64]

FIXED: list[dict[str, Any]] = [
    {"structure": "systematic"},
    {"structure": "systematic", "transform": "min-max"},
    {"structure": "systematic", "transform": "sum"},
    {"structure": "systematic", "solver": "gradient"},
    {"structure": "random", "random_state": 0, "solver": "joint"},
    {"structure": "random", "random_state": 0, "solver": "blocked", "transform": "min-max"},
    {"structure": "cyclic", "n_sources": 2},
    {"structure": "systematic", "latent_mass": 1e-3},
    {"structure": "systematic", "order": 2},
    {"structure": "systematic", "order": 2, "closure": "full", "transform": "min-max"},
    {"structure": "systematic", "order": 2, "solver": "gradient", "latent_mass": 1e-3},
    {"structure": "random", "random_state": 0, "order": 2, "solver": "blocked"},
]
LEARNED: list[dict[str, Any]] = [
    {},
    {"n_sources": 2},
    {"transform": "min-max"},
    {"transform": "sum"},
    {"scaling": "back-projected"},
    {"solver": "joint"},
    {"latent_mass": 1e-3},
]
PRODUCTS: list[dict[str, Any]] = [
    {"order": 2},
    {"order": 2, "n_sources": 2},
    {"order": 2, "drift": "keep"},
    {"order": 2, "view": 0.0},
]
"""Learned products of sources; a search takes seconds, and needs 100 samples."""


def check_finite(kind: str, seed: int, n_samples: int, n_channels: int, options: dict[str, Any]) -> None:
    x = KINDS[kind](np.random.default_rng(seed), n_samples, n_channels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IgbssWarning)
        try:
            separation = separate(x, max_iter=20, **options)
        except (InputError, ParameterError):
            return
        found = [separation.sources, separation.mixing, separation.unmixing, separation.mean]
        found.append(separation.reliability)
        with suppress(InputError):  # of a closed form, the distribution need not exist in float64
            found += [separation.p_x, separation.kl]
    for values in found:
        assert values is None or np.isfinite(values).all()


@pytest.mark.jit
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 2**32 - 1), st.integers(2, 6), st.sampled_from(FIXED))
@example(
    "spike everywhere",
    450689767,
    7,
    {"structure": "random", "random_state": 450689767, "solver": "blocked"},
)
@settings(max_examples=200)
def test_a_given_structure(kind: str, seed: int, n_channels: int, options: dict[str, Any]) -> None:
    check_finite(kind, seed, 40, n_channels, options)


@pytest.mark.jit
@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("options", [*LEARNED[:1], *FIXED[:1]], ids=["learned", "systematic"])
def test_each_kind(kind: str, options: dict[str, Any]) -> None:
    check_finite(kind, 0, 200, 5, options)


@pytest.mark.jit
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(0, 2**32 - 1),
    st.integers(40, 200),
    st.integers(2, 5),
    st.sampled_from(LEARNED),
)
@settings(max_examples=50)
def test_a_learned_structure(
    kind: str, seed: int, n_samples: int, n_channels: int, options: dict[str, Any]
) -> None:
    check_finite(kind, seed, n_samples, n_channels, options)


@pytest.mark.jit
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(0, 2**32 - 1),
    st.integers(100, 200),
    st.integers(2, 3),
    st.sampled_from(PRODUCTS),
)
@settings(max_examples=2)
def test_learned_products(
    kind: str, seed: int, n_samples: int, n_channels: int, options: dict[str, Any]
) -> None:
    check_finite(kind, seed, n_samples, n_channels, options)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_learned_products_of_each_kind(kind: str) -> None:
    for seed, n_channels in enumerate((2, 3, 5)):
        check_finite(kind, seed, 250, n_channels, {"order": 2})


@pytest.mark.jit
@needs_data
@pytest.mark.filterwarnings("ignore:sources are not determined")
def test_fewer_sources_than_channels_of_an_upsampled_recording() -> None:
    with h5py.File(DATA / "hdf5" / "eeg32_128hz.h5") as file:
        x = file["data"][:1500, :8].astype(np.float64)
    upsampled = np.ascontiguousarray(signal.resample(x[:375], 1500))
    for n_sources in 2, 4:
        assert np.isfinite(separate(upsampled, n_sources=n_sources).sources).all()


def compute_match(one: Separation, other: Separation) -> float:
    """Return the least correlation of a source with the one that matches it; 0 if their numbers differ."""
    if one.sources.shape != other.sources.shape:
        return 0.0
    joint = np.corrcoef(one.sources.T, other.sources.T)
    similar = np.abs(joint[: len(joint) // 2, len(joint) // 2 :])
    return float(similar[linear_sum_assignment(similar, maximize=True)].min())


def separate_noting_doubts(x: Array) -> tuple[Separation, bool]:
    """Return the separation, and whether it warns that sources are not determined by the samples."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", IgbssWarning)
        separation = separate(x)
    return separation, any("determined" in str(warning.message) for warning in caught)


def check_stable(x: Array, changed: Array) -> None:
    """Check that a change without meaning gives the same sources, or that a warning says they are open."""
    before, is_open = separate_noting_doubts(x)
    after, _ = separate_noting_doubts(changed)
    match = compute_match(before, after)
    assert match > 0.999 or is_open, f"match {match:.4f}, without a warning"


@pytest.mark.jit
@pytest.mark.parametrize("kind", sorted(ORDINARY))
def test_jitter_and_unit_do_not_change_the_sources(kind: str) -> None:
    x = ORDINARY[kind](np.random.default_rng(0), 600, 5).astype(np.float64)
    jitter = np.random.default_rng(1).normal(size=x.shape)
    check_stable(x, x + 1e-12 * x.std(axis=0) * jitter)
    check_stable(x, 1e-6 * x)
