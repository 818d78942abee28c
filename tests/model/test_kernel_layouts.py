"""Kernels get C-ordered arrays, in whatever memory order NumPy returns its results.

NumPy specifies the order of few of its results and changes it between versions. Here, those functions whose
results reach kernels return Fortran order.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.model import loglinear
from igbss_stream.model.interactions.learn import learn_interactions
from igbss_stream.model.poset import Poset, make_incidence
from igbss_stream.model.solve import SOLVERS, solve
from igbss_stream.model.structure import learn_structure
from igbss_stream.separation.api import separate
from igbss_stream.separation.metrics import rmse
from igbss_stream.separation.stages import LinearStage

pytestmark = pytest.mark.jit  # with the JIT off, a kernel takes any order

Array = NDArray[np.float64]

FUNCTIONS = "abs", "column_stack", "einsum", "exp", "full_like", "log", "zeros_like"
LINEAR_ALGEBRA = "eigh", "inv", "pinv", "svd", "solve"


def in_fortran_order(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        result = function(*args, **options)
        if isinstance(result, tuple):
            return type(result)(*map(reordered, result)) if hasattr(result, "_fields") else result
        return reordered(result)

    return call


def reordered(result: Any) -> Any:
    return np.asfortranarray(result) if isinstance(result, np.ndarray) and result.ndim > 1 else result


@pytest.fixture(autouse=True)
def _fortran(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, names in (np, FUNCTIONS), (np.linalg, LINEAR_ALGEBRA):
        for name in names:
            monkeypatch.setattr(module, name, in_fortran_order(getattr(module, name)))


@pytest.fixture
def x() -> Array:
    rng = np.random.default_rng(0)
    return rng.laplace(size=(400, 3)).cumsum(axis=0) @ rng.uniform(0.5, 2.0, (3, 3)).T


def test_a_structure_is_learned(x: Array) -> None:
    learned = learn_structure(x, 3)
    again = learn_structure(np.asfortranarray(x), 3, learned.unmixing, [100])
    assert again.mixing.shape == (3, 3)


def test_products_are_learned() -> None:
    t = np.linspace(0, 8, 250)
    truth = np.column_stack([np.sin(2 * t), 2 * (1.3 * t % 1.0) - 1])
    x = truth @ [[1.0, 0.6], [0.7, 1.2]] + truth.prod(axis=1, keepdims=True) * [0.5, 0.9]
    learned = learn_interactions(np.asfortranarray(x), 2, 2)
    assert rmse(learned.separate(x), truth) < 0.1


@pytest.mark.parametrize("solver", sorted(SOLVERS))
@pytest.mark.parametrize("closure", ["strict", "full"])
def test_a_fit_starts_from_any_order(solver: str, closure: Any, x: Array) -> None:
    poset = Poset(make_incidence("cyclic", 3, 2), 2, closure)
    goal = loglinear.make_target(poset, np.asfortranarray(np.exp(x[:20] - x.max())), 1e-2)
    theta = np.zeros((20, 2), order="F"), np.zeros((3, 3), order="F")
    fit = solve(poset, goal, *theta, solver=solver, max_iter=5)
    assert fit.kl[-1] < fit.kl[0]
    loglinear.compute_fisher(poset, loglinear.compute_distribution(poset, *theta))


@pytest.mark.parametrize(
    ("structure", "transform"), [("learned", "exp"), ("systematic", "exp"), ("cyclic", "min-max")]
)
@pytest.mark.parametrize("latent_mass", [0.0, 1e-2])
@pytest.mark.filterwarnings("ignore::igbss_stream.errors.IgbssWarning")  # of doubtful sources
def test_samples_are_separated(structure: str, transform: str, latent_mass: float, x: Array) -> None:
    found = separate(
        np.asfortranarray(x), structure=structure, transform=transform, latent_mass=latent_mass, max_iter=5
    )
    assert np.isfinite(found.sources).all()
    assert np.isfinite(found.fit.kl).all()


def test_a_stage_takes_any_order(x: Array) -> None:
    mixing = np.eye(3) + 0.1
    stage = LinearStage(mixing[None], np.asarray(np.linalg.inv(mixing), np.float64)[None], x.T[0, ::2][:3])
    np.testing.assert_array_equal(stage.unmix(np.asfortranarray(x)), stage.unmix(x))
    np.testing.assert_array_equal(stage.mix(np.asfortranarray(x)), stage.mix(x))
