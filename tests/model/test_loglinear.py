"""Densities, expectations, divergence and Fisher information, compared with the dense reference."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given

from igbss_stream.model import loglinear
from igbss_stream.model.loglinear import Array
from igbss_stream.model.poset import Poset, make_incidence
from tests import reference
from tests.strategies import Case, cases

assert_close = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)


def at_theta(case: Case) -> tuple[loglinear.Distribution, Array, Array]:
    features = reference.feature_matrix(case.dense)
    p = loglinear.compute_distribution(case.poset, case.theta_z, case.theta_a)
    return p, features, reference.probabilities(features, case.theta)


@given(cases())
def test_densities_equal_reference(case: Case) -> None:
    p, _, dense = at_theta(case)
    bottom, mixing, source, received = reference.split_layers(case.dense, dense)
    assert_close(p.p_bottom, bottom)
    assert_close(p.p_a, mixing)
    assert_close(p.p_z, source)
    assert_close(p.p_x, received)
    assert_close(p.p_bottom, np.exp(-p.psi))


@given(cases())
def test_expectations_equal_reference(case: Case) -> None:
    p, features, dense = at_theta(case)
    eta_z, eta_a = loglinear.compute_expectations(case.poset, p.p_z, p.p_x, p.p_a)
    want_a, want_z = reference.unpack(case.dense, reference.expectations(features, dense))
    assert_close(eta_a, want_a)
    assert_close(eta_z, want_z)


@given(cases())
def test_fisher_equals_reference(case: Case) -> None:
    p, features, dense = at_theta(case)
    assert_close(loglinear.compute_fisher(case.poset, p).to_dense(), reference.fisher(features, dense))


@given(cases())
def test_target_equals_reference(case: Case) -> None:
    goal = case.goal
    features = reference.feature_matrix(case.dense)
    bottom, mixing, source, received = reference.split_layers(case.dense, case.p_hat)
    want_a, want_z = reference.unpack(case.dense, reference.expectations(features, case.p_hat))
    assert_close(goal.p_bottom, bottom)
    assert_close(goal.p_a, mixing[0, 0])
    assert_close(goal.p_z, source[0, 0])
    assert_close(goal.p_x, received)
    assert_close(goal.eta_a, want_a)
    assert_close(goal.eta_z, want_z)


@given(cases())
def test_divergence_equals_reference(case: Case) -> None:
    p, _, dense = at_theta(case)
    assert_close(loglinear.compute_divergence(case.goal, p), reference.kl(case.p_hat, dense))


@given(cases(max_samples=3, masses=(0.0, 1e-2)))
def test_gradient_is_the_derivative_of_the_divergence(case: Case) -> None:
    """Finite differences of the divergence equal eta - eta_hat."""

    def kl(theta: Array) -> float:
        theta_a, theta_z = reference.unpack(case.dense, theta)
        p = loglinear.compute_distribution(case.poset, np.ascontiguousarray(theta_z), theta_a.copy())
        return loglinear.compute_divergence(case.goal, p)

    p = loglinear.compute_distribution(case.poset, case.theta_z, case.theta_a)
    eta_z, eta_a = loglinear.compute_expectations(case.poset, p.p_z, p.p_x, p.p_a)
    slope = reference.pack(eta_a - case.goal.eta_a, eta_z - case.goal.eta_z)
    assert_close(reference.numerical_gradient(kl, case.theta), slope, rtol=1e-6, atol=2e-9)


def test_zero_values_do_not_contribute_to_the_divergence() -> None:
    """0 log 0 is 0: the divergence is finite for data with zeros."""
    poset = Poset(make_incidence("systematic", 3))
    values = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0]])
    goal = loglinear.make_target(poset, values)
    p = loglinear.compute_distribution(poset, np.zeros((2, 3)), np.zeros((3, 3)))
    share = values / values.sum()
    want = np.sum(share[share > 0] * np.log(share[share > 0] / p.p_x[share > 0]))
    assert loglinear.compute_divergence(goal, p) == pytest.approx(want, rel=1e-14)
