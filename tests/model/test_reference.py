"""Sanity tests of the dense reference itself."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from tests.reference import (
    FloatArray,
    Iterate,
    Poset,
    blocked_iterates,
    cyclic,
    expectations,
    feature_matrix,
    fisher,
    gradient,
    joint_iterates,
    kl,
    kl_change,
    log_probabilities,
    numerical_gradient,
    objective,
    pack,
    phi,
    probabilities,
    split_layers,
    step_length,
    systematic,
    target,
    unpack,
)


def _poset(name: str, closure: str, order: int) -> Poset:
    """Return a small poset with the named incidence."""
    if name == "systematic":
        return Poset(3, 3, 4, order, closure, systematic(3, 3))
    if name == "cyclic":
        return Poset(4, 3, 5, order, closure, cyclic(4, 3))
    weights = np.random.default_rng(7).uniform(0.2, 1.5, (1, 4, 2))
    weights[0, 1, 0] = 0.0
    weights[0, 2, :] = 0.0
    return Poset(4, 2, 3, order, closure, weights)


POSETS = [
    pytest.param(_poset(name, closure, order), id=f"{name}-{closure}-{order}")
    for name in ("systematic", "cyclic", "weighted")
    for closure in ("strict", "full")
    for order in (1, 2)
]


def _problem(poset: Poset, latent_mass: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the model matrix, a random target and random parameters."""
    rng = np.random.default_rng(11)
    v = rng.uniform(0.1, 1.0, (poset.n_samples, poset.n_channels))
    theta = 0.5 * rng.standard_normal(len(poset.parameters))
    return feature_matrix(poset), target(poset, v, latent_mass), theta


def test_figure_1_of_the_paper_by_hand() -> None:
    """F of the example with L = N = M = 2, from the arrows of Figure 1.

    In the paper's numbering (channel or source first, sample second) the order of the states is
    bottom, a11, a12, a21, a22, z11, z21, z12, z22, x11, x21, x12, x22.
    """
    expected = np.array(
        [
            # a11 a12 a21 a22 z11 z21 z12 z22
            [0, 0, 0, 0, 0, 0, 0, 0],  # bottom
            [1, 0, 0, 0, 0, 0, 0, 0],  # a11
            [0, 1, 0, 0, 0, 0, 0, 0],  # a12
            [0, 0, 1, 0, 0, 0, 0, 0],  # a21
            [0, 0, 0, 1, 0, 0, 0, 0],  # a22
            [1, 0, 1, 0, 1, 0, 0, 0],  # z11
            [0, 1, 0, 1, 0, 1, 0, 0],  # z21
            [1, 0, 1, 0, 0, 0, 1, 0],  # z12
            [0, 1, 0, 1, 0, 0, 0, 1],  # z22
            [0, 1, 0, 1, 0, 1, 0, 0],  # x11, above z21 only
            [1, 0, 1, 0, 1, 0, 0, 0],  # x21, above z11 only
            [0, 1, 0, 1, 0, 0, 0, 1],  # x12, above z22 only
            [1, 0, 1, 0, 0, 0, 1, 0],  # x22, above z12 only
        ],
        dtype=np.float64,
    )
    strict = Poset(2, 2, 2, 1, "strict", systematic(2, 2))
    assert strict.subsets == [(0,), (1,)]
    np.testing.assert_array_equal(feature_matrix(strict), expected)

    full = Poset(2, 2, 2, 1, "full", systematic(2, 2))
    expected[9:, :4] = 1.0
    np.testing.assert_array_equal(feature_matrix(full), expected)


def test_figure_1_uniform_distribution_by_hand() -> None:
    """At theta = 0 every state has probability 1/13, and eta counts the states above."""
    poset = Poset(2, 2, 2, 1, "strict", systematic(2, 2))
    features = feature_matrix(poset)
    p = probabilities(features, np.zeros(8))
    np.testing.assert_allclose(p, np.full(13, 1 / 13), rtol=1e-14)
    eta_a, eta_z = unpack(poset, expectations(features, p))
    np.testing.assert_allclose(eta_a, np.full((2, 2), 5 / 13), rtol=1e-14)
    np.testing.assert_allclose(eta_z, np.full((2, 2), 2 / 13), rtol=1e-14)
    g = fisher(features, p)
    assert g[0, 2] == pytest.approx(4 / 13 - 25 / 169, rel=1e-14)  # above a11 and a21: 4 states
    assert g[0, 1] == pytest.approx(-25 / 169, rel=1e-14)  # above a11 and a12: none
    assert g[0, 4] == pytest.approx(2 / 13 - 10 / 169, rel=1e-14)  # above a11 and z11: z11, x21


def test_subsets_and_state_order() -> None:
    """Subsets are sorted by size, then lexicographically; the second index runs fastest."""
    poset = Poset(2, 3, 2, 2, "strict", systematic(2, 3))
    assert poset.subsets == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    assert [(a.channel, a.subset) for a in poset.mixing_states[5:8]] == [
        (0, (1, 2)),
        (1, (0,)),
        (1, (1,)),
    ]
    assert [(z.sample, z.source) for z in poset.source_states[2:4]] == [(0, 2), (1, 0)]
    assert [(x.sample, x.channel) for x in poset.received_states[1:3]] == [(0, 1), (1, 0)]
    assert len(poset.states) == 1 + 2 * 6 + 2 * 3 + 2 * 2


def test_structures_by_hand() -> None:
    """Systematic and cyclic deletions of small shapes."""
    np.testing.assert_array_equal(systematic(3, 2), [[[0, 1], [1, 0], [1, 1]]])
    np.testing.assert_array_equal(
        cyclic(3, 2),
        [
            [[0, 1], [1, 0], [1, 1]],  # nodes 0, 1 lose channels 0, 1
            [[1, 0], [1, 1], [0, 1]],  # nodes 2, 3 lose channels 2, 0
            [[1, 1], [0, 1], [1, 0]],  # nodes 4, 5 lose channels 1, 2
        ],
    )
    np.testing.assert_array_equal(cyclic(3, 3), systematic(3, 3))
    assert cyclic(4, 2).shape == (2, 4, 2)


def test_pack_and_unpack_are_inverse() -> None:
    """Packing puts theta_a first, then theta_z, both row by row."""
    poset = _poset("cyclic", "strict", 2)
    theta_a = np.arange(24.0).reshape(4, 6)
    theta_z = 24.0 + np.arange(15.0).reshape(5, 3)
    theta = pack(theta_a, theta_z)
    np.testing.assert_array_equal(theta, np.arange(39.0))
    again_a, again_z = unpack(poset, theta)
    np.testing.assert_array_equal(again_a, theta_a)
    np.testing.assert_array_equal(again_z, theta_z)


@pytest.mark.parametrize("poset", POSETS)
def test_probabilities_sum_to_one(poset: Poset) -> None:
    """The model is a distribution, also for parameters that would overflow exp."""
    features, _, theta = _problem(poset, 0.0)
    for scale in (1.0, 1e3):
        p = probabilities(features, scale * theta)
        assert np.all(p >= 0.0)
        assert float(np.sum(p)) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("poset", POSETS)
def test_log_probabilities_layer_by_layer(poset: Poset) -> None:
    """F theta agrees with the sums over the states below, written out for each layer."""
    features, _, theta = _problem(poset, 0.0)
    theta_a, theta_z = unpack(poset, theta)
    bottom, mixing, source, received = split_layers(poset, log_probabilities(features, theta))
    alpha = theta_a.sum(axis=0)
    np.testing.assert_allclose(mixing - bottom, theta_a, atol=1e-13)
    for m in range(poset.n_samples):
        w = poset.incidence[m % len(poset.incidence)]
        for n in range(poset.n_sources):
            below = [i for i, subset in enumerate(poset.subsets) if n in subset]
            expected = theta_z[m, n] + alpha[below].sum()
            assert source[m, n] - bottom == pytest.approx(expected, abs=1e-13)
        for channel in range(poset.n_channels):
            below = [
                i
                for i, subset in enumerate(poset.subsets)
                if poset.closure == "full" or max(w[channel, n] for n in subset) > 0.0
            ]
            expected = float(w[channel] @ theta_z[m]) + alpha[below].sum()
            assert received[m, channel] - bottom == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("name", ["systematic", "cyclic"])
def test_mixing_expectation_identity(name: str) -> None:
    """For order 1, strict closure and 0/1 weights, eta_a[l, n] - sum_m eta_z[m, n] = p(a[l, n]).

    The states above a[l, {n}] are itself and, for every m, the states above z[m, n].
    """
    poset = _poset(name, "strict", 1)
    features, _, theta = _problem(poset, 0.0)
    p = probabilities(features, theta)
    eta_a, eta_z = unpack(poset, expectations(features, p))
    _, mixing, _, _ = split_layers(poset, p)
    np.testing.assert_allclose(eta_a - eta_z.sum(axis=0), mixing, atol=1e-14)


@pytest.mark.parametrize("poset", POSETS)
@pytest.mark.parametrize("latent_mass", [0.0, 0.1])
def test_gradient_of_kl_is_difference_of_expectations(poset: Poset, latent_mass: float) -> None:
    """Finite differences of KL agree with eta - eta_hat."""
    features, p_hat, theta = _problem(poset, latent_mass)
    numerical = numerical_gradient(lambda t: kl(p_hat, probabilities(features, t)), theta)
    np.testing.assert_allclose(gradient(features, p_hat, theta), numerical, atol=2e-9)


@pytest.mark.parametrize("poset", POSETS)
def test_fisher_is_jacobian_of_expectations(poset: Poset) -> None:
    """Finite differences of eta agree with G, which is positive definite."""
    features, _, theta = _problem(poset, 0.0)
    g = fisher(features, probabilities(features, theta))

    for s in range(theta.size):

        def eta_s(t: FloatArray, s: int = s) -> float:
            return float(expectations(features, probabilities(features, t))[s])

        np.testing.assert_allclose(g[s], numerical_gradient(eta_s, theta), atol=2e-9)
    assert float(np.linalg.eigvalsh(g)[0]) > 0.0


@pytest.mark.parametrize("poset", POSETS)
def test_target_masses(poset: Poset) -> None:
    """The layers of the target have the specified masses, and the signal retains its ratios."""
    rng = np.random.default_rng(3)
    v = rng.uniform(0.0, 2.0, (poset.n_samples, poset.n_channels))
    bottom, mixing, source, received = split_layers(poset, target(poset, v, 0.3))
    assert bottom == pytest.approx(0.1)
    np.testing.assert_allclose(mixing, np.full(mixing.shape, 0.1 / mixing.size))
    np.testing.assert_allclose(source, np.full(source.shape, 0.1 / source.size))
    np.testing.assert_allclose(received, 0.7 * v / v.sum())
    bottom, mixing, source, received = split_layers(poset, target(poset, v, 0.0))
    assert bottom == 0.0
    assert not mixing.any()
    assert not source.any()
    np.testing.assert_allclose(received, v / v.sum())


def test_kl_by_hand() -> None:
    """Zero mass in the target contributes nothing; zero mass in the model gives infinity."""
    half = np.array([0.5, 0.5, 0.0])
    assert kl(half, half) == 0.0
    assert kl(half, np.array([0.25, 0.25, 0.5])) == pytest.approx(math.log(2.0))
    assert kl(half, np.array([1.0, 0.0, 0.0])) == math.inf


def test_phi_by_hand() -> None:
    """The Taylor series agrees with the direct formula, and is accurate for tiny arguments."""
    assert phi(1.0) == pytest.approx(math.e - 2.0, rel=1e-15)
    assert phi(-1.0) == pytest.approx(1.0 / math.e, rel=1e-15)
    assert phi(math.nextafter(1.0, 2.0)) == pytest.approx(phi(1.0), rel=1e-14)
    assert phi(math.nextafter(-1.0, -2.0)) == pytest.approx(phi(-1.0), rel=1e-14)
    assert phi(1e-9) == pytest.approx(5e-19 * (1.0 + 1e-9 / 3.0), rel=1e-15)
    assert phi(-800.0) == pytest.approx(799.0)
    assert phi(0.0) == 0.0
    assert phi(800.0) == math.inf


@pytest.mark.parametrize("poset", POSETS)
def test_kl_change_is_difference_of_objectives(poset: Poset) -> None:
    """The formula without cancellation agrees with the plain difference."""
    features, p_hat, theta = _problem(poset, 0.05)
    direction = np.random.default_rng(5).standard_normal(theta.size)
    p = probabilities(features, theta)
    grad = gradient(features, p_hat, theta)
    start = objective(features, p_hat, theta)
    assert start == pytest.approx(kl(p_hat, p), rel=1e-13)
    for t in (1.0, 0.25, 1e-3):
        plain = objective(features, p_hat, theta + t * direction) - start
        assert kl_change(features, p, grad, direction, t) == pytest.approx(plain, abs=1e-13)
    assert kl_change(features, p, grad, 1e6 * direction, 1.0) == math.inf


def test_step_length_is_the_first_that_descends_enough() -> None:
    """A descent direction that is too long is halved until the Armijo condition is met."""
    features, p_hat, theta = _problem(_poset("systematic", "strict", 2), 0.05)
    p = probabilities(features, theta)
    grad = gradient(features, p_hat, theta)
    direction = -200.0 * grad
    slope = float(grad @ direction)
    t = step_length(features, p, grad, direction)
    assert 0.0 < t < 1.0
    assert math.log2(t).is_integer()
    assert kl_change(features, p, grad, direction, t) <= 1e-4 * t * slope
    assert kl_change(features, p, grad, direction, 2 * t) > 1e-4 * 2 * t * slope
    assert step_length(features, p, grad, -direction) == 0.0


def _assert_decreases(iterates: list[Iterate]) -> None:
    """Check that the divergence decreases, up to rounding at the optimum."""
    for before, after in pairwise(iterates):
        assert after.kl <= before.kl + 1e-14
    assert iterates[-1].kl < iterates[0].kl


@pytest.mark.parametrize("poset", POSETS)
def test_joint_iterates_reach_the_optimum(poset: Poset) -> None:
    """The divergence decreases and the gradient vanishes for a target in the interior."""
    features, p_hat, theta = _problem(poset, 1e-2)
    iterates = joint_iterates(poset, p_hat, theta, 30)
    assert len(iterates) == 31
    np.testing.assert_array_equal(pack(iterates[0].theta_a, iterates[0].theta_z), theta)
    _assert_decreases(iterates)
    last = pack(iterates[-1].theta_a, iterates[-1].theta_z)
    assert float(np.max(np.abs(gradient(features, p_hat, last)))) < 1e-12

    zeros = joint_iterates(poset, p_hat, np.zeros(theta.size), 30)
    np.testing.assert_allclose(zeros[-1].theta_z, iterates[-1].theta_z, atol=1e-7)
    np.testing.assert_allclose(zeros[-1].theta_a, iterates[-1].theta_a, atol=1e-7)


@pytest.mark.parametrize("poset", POSETS)
def test_blocked_iterates_approach_the_same_optimum(poset: Poset) -> None:
    """Alternating steps decrease the divergence, never below that of the joint optimum."""
    _, p_hat, theta = _problem(poset, 1e-1)
    iterates = blocked_iterates(poset, p_hat, theta, 20)
    assert len(iterates) == 21
    _assert_decreases(iterates)
    best = joint_iterates(poset, p_hat, theta, 20)[-1].kl
    assert best - 1e-14 <= iterates[-1].kl
    assert iterates[-1].kl - best < 0.1 * (iterates[0].kl - best)


def test_blocked_iteration_updates_the_sources_first() -> None:
    """From a start that is optimal in the source block, only the mixing block changes."""
    poset = _poset("systematic", "full", 1)
    features, p_hat, theta = _problem(poset, 1e-1)
    n_mixing = len(poset.mixing_states)
    fixed_mixing = np.arange(n_mixing)
    for _ in range(12):
        p = probabilities(features, theta)
        grad = gradient(features, p_hat, theta)
        g = fisher(features, p)[n_mixing:, n_mixing:]
        direction = np.zeros(theta.size)
        direction[n_mixing:] = -np.linalg.solve(g, grad[n_mixing:])
        theta = theta + step_length(features, p, grad, direction) * direction
    grad = gradient(features, p_hat, theta)
    assert float(np.max(np.abs(grad[n_mixing:]))) < 1e-14
    assert float(np.max(np.abs(grad[fixed_mixing]))) > 1e-3
    start, after = blocked_iterates(poset, p_hat, theta, 1)
    np.testing.assert_allclose(after.theta_z, start.theta_z, atol=1e-10)
    assert float(np.max(np.abs(after.theta_a - start.theta_a))) > 1e-3


def test_invalid_input_is_refused() -> None:
    """Invalid shapes and values raise an error."""
    with pytest.raises(ValueError, match="closure"):
        Poset(2, 2, 2, 1, "open", systematic(2, 2))
    with pytest.raises(ValueError, match="shape"):
        Poset(2, 2, 2, 1, "strict", systematic(2, 2)[0])
    with pytest.raises(ValueError, match="match"):
        Poset(3, 2, 2, 1, "strict", systematic(2, 2))
    with pytest.raises(ValueError, match="non-negative"):
        Poset(2, 2, 2, 1, "strict", -systematic(2, 2))
    with pytest.raises(ValueError, match="at least 1"):
        Poset(2, 2, 0, 1, "strict", systematic(2, 2))
    poset = Poset(2, 2, 2, 1, "strict", systematic(2, 2))
    with pytest.raises(ValueError, match="shape"):
        target(poset, np.ones((3, 2)), 0.0)
    with pytest.raises(ValueError, match="non-negative"):
        target(poset, -np.ones((2, 2)), 0.0)
    with pytest.raises(ValueError, match="latent_mass"):
        target(poset, np.ones((2, 2)), 1.0)
