"""Solvers: comparison with dense iterates, convergence, and reasons for stopping."""

import numpy as np
import pytest
from hypothesis import given

from igbss_stream.model import loglinear
from igbss_stream.model.poset import STRUCTURES, Closure, Poset, make_incidence
from igbss_stream.model.solve import SOLVERS, Fit, solve
from tests import reference
from tests.strategies import Case, cases, make_case

STEPS = 20


def iterates(case: Case, solver: str) -> list[Fit]:
    return [
        solve(
            case.poset,
            case.goal,
            case.theta_z,
            case.theta_a,
            solver=solver,
            tol=0.0,
            max_iter=steps,
        )
        for steps in range(STEPS + 1)
    ]


@pytest.mark.parametrize("solver", ["joint", "blocked"])
@pytest.mark.parametrize("closure", ["strict", "full"])
@pytest.mark.parametrize("structure", [*STRUCTURES, "real"])
@pytest.mark.parametrize(("n_channels", "n_sources", "order"), [(3, 3, 1), (4, 3, 2), (3, 3, 3)])
def test_iterates_equal_dense_ones(
    solver: str, closure: Closure, structure: str, n_channels: int, n_sources: int, order: int
) -> None:
    rng = np.random.default_rng(5)
    if structure == "real":
        weights = rng.uniform(0.2, 1.5, (1, n_channels, n_sources))
    else:
        weights = make_incidence(structure, n_channels, n_sources, rng)
    case = make_case(weights, order, closure, 6, 1e-1, seed=order)
    dense_iterates = {"joint": reference.joint_iterates, "blocked": reference.blocked_iterates}[solver]
    wanted = dense_iterates(case.dense, case.p_hat, case.theta, STEPS)
    for got, want in zip(iterates(case, solver), wanted, strict=True):
        np.testing.assert_allclose(got.theta_z, want.theta_z, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(got.theta_a, want.theta_a, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(got.kl[-1], want.kl, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("solver", sorted(SOLVERS))
@given(case=cases(masses=(1e-2, 1e-1)))
def test_divergence_never_increases_and_its_changes_add_up(solver: str, case: Case) -> None:
    fit = solve(case.poset, case.goal, case.theta_z, case.theta_a, solver=solver, max_iter=STEPS)
    assert np.all(np.diff(fit.kl) <= 0)
    assert len(fit.kl) == fit.n_iter + 1
    np.testing.assert_allclose(
        fit.kl[-1], loglinear.compute_divergence(case.goal, fit.p), rtol=1e-9, atol=1e-13
    )


@given(cases(masses=(1e-3, 1e-1)))
def test_joint_reaches_the_optimum(case: Case) -> None:
    """At the optimum, the expectations of the reference equal those of p_hat."""
    fit = solve(case.poset, case.goal, case.theta_z, case.theta_a)
    assert fit.converged, fit.reason
    features = reference.feature_matrix(case.dense)
    theta = reference.pack(fit.theta_a, fit.theta_z)
    gap = reference.gradient(features, case.p_hat, theta)
    assert np.max(np.abs(gap)) < 1e-9


@pytest.mark.parametrize("solver", ["blocked", "gradient"])
def test_slower_solvers_reach_the_same_optimum(solver: str) -> None:
    case = make_case(make_incidence("systematic", 3), 1, "full", 4, 0.5, seed=3)
    joint = solve(case.poset, case.goal, case.theta_z, case.theta_a)
    fit = solve(case.poset, case.goal, case.theta_z, case.theta_a, solver=solver, tol=1e-8, max_iter=3000)
    assert fit.converged, fit.reason
    np.testing.assert_allclose(fit.theta_z, joint.theta_z, atol=1e-6)


def test_start_values_are_not_modified() -> None:
    case = make_case(make_incidence("systematic", 3), 1, "strict", 4, 0.1, seed=3)
    before = case.theta_z.copy(), case.theta_a.copy()
    solve(case.poset, case.goal, case.theta_z, case.theta_a)
    np.testing.assert_array_equal(case.theta_z, before[0])
    np.testing.assert_array_equal(case.theta_a, before[1])


def test_reason_states_why_the_solver_stopped() -> None:
    case = make_case(make_incidence("systematic", 3), 1, "strict", 4, 0.1, seed=3)
    start = case.poset, case.goal, case.theta_z, case.theta_a
    assert solve(*start).reason.startswith("converged")
    assert "max_iter = 2" in solve(*start, max_iter=2).reason
    assert "resolves no further descent" in solve(*start, tol=0.0).reason
    warm = solve(*start)
    assert solve(*start[:2], warm.theta_z, warm.theta_a).n_iter == 0


@pytest.mark.jit  # Python raises an error where compiled code continues with infinity
def test_masses_beyond_float64_stop_the_solver_without_an_error() -> None:
    """A p_hat beyond the range of float64 makes the system singular; the fit reports this."""
    poset = Poset(make_incidence("systematic", 3), 2, "full")
    values = np.exp(np.random.default_rng(0).uniform(-330.0, 330.0, (20, 3)))
    fit = solve(poset, loglinear.make_target(poset, values, 1e-3), np.zeros((20, 3)), np.zeros((3, 6)))
    assert not fit.converged
    assert "resolves no further descent" in fit.reason
    assert np.isfinite(fit.theta_z).all()
    assert np.all(np.diff(fit.kl) <= 0)
