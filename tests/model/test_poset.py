"""The sample space, and the named structures."""

import itertools
import re

import numpy as np
import pytest
from scipy.optimize import linprog
from threadpoolctl import threadpool_limits

from igbss_stream.errors import ParameterError
from igbss_stream.model import loglinear
from igbss_stream.model.poset import Closure, Poset, make_incidence
from igbss_stream.model.solve import solve
from tests import reference


def test_systematic_removes_the_edge_from_each_source_to_its_channel() -> None:
    np.testing.assert_array_equal(make_incidence("systematic", 4, 3), reference.systematic(4, 3))


@pytest.mark.parametrize(("n_channels", "n_sources"), [(3, 3), (4, 3), (4, 2), (5, 4), (6, 4)])
def test_cyclic_equals_reference(n_channels: int, n_sources: int) -> None:
    got = make_incidence("cyclic", n_channels, n_sources)
    np.testing.assert_array_equal(got, reference.cyclic(n_channels, n_sources))
    assert np.array_equal(got[0], make_incidence("systematic", n_channels, n_sources)[0])


def test_random_removes_one_edge_per_source_and_at_most_one_per_channel() -> None:
    for seed in range(20):
        weights = make_incidence("random", 6, 4, seed)[0]
        assert (weights == 0).sum(axis=0).tolist() == [1, 1, 1, 1]
        assert (weights == 0).sum(axis=1).max() == 1
        np.testing.assert_array_equal(weights, make_incidence("random", 6, 4, seed)[0])
    assert len({make_incidence("random", 6, 4, seed).tobytes() for seed in range(20)}) > 10


def test_a_matrix_is_used_unchanged() -> None:
    weights = np.array([[0.5, 1.0], [2.0, 0.0], [1.0, 1.0]])
    np.testing.assert_array_equal(make_incidence(weights, 3), weights[None])
    np.testing.assert_array_equal(make_incidence(weights.tolist(), 3, 2), weights[None])


def test_subsets_are_sorted_by_size_then_lexicographically() -> None:
    poset = Poset(make_incidence("systematic", 4), order=3)
    sets = [tuple(np.flatnonzero(row)) for row in poset.member]
    assert sets == [s for size in (1, 2, 3) for s in itertools.combinations(range(4), size)]


def test_closures() -> None:
    weights = make_incidence(np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]), 3)
    strict = Poset(weights, 2, "strict").below
    np.testing.assert_array_equal(strict, [[[0, 1, 1], [1, 0, 1], [1, 1, 1]]])
    np.testing.assert_array_equal(Poset(weights, 2, "full").below, np.ones((1, 3, 3)))


def test_equal_channels_are_found() -> None:
    assert Poset(make_incidence("systematic", 3)).equal_channels == []
    assert Poset(make_incidence("systematic", 5, 2)).equal_channels == [[2, 3, 4]]
    assert Poset(make_incidence("cyclic", 5, 2)).equal_channels == []


# Type errors are ignored where the test makes them on purpose.
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_incidence("circular", 3), "structure must be one of systematic, cyclic, random"),
        (lambda: make_incidence("systematic", 3, 4), "at most the number of channels, 3. Got 4"),
        (lambda: make_incidence("systematic", 3, 0), "n_sources must be a whole number >= 1. Got 0"),
        (lambda: make_incidence("systematic", 3, 2.5), "whole number >= 1. Got 2.5"),  # type: ignore[arg-type]
        (lambda: make_incidence(np.eye(3), 4), "a row for each of the 4 channels. Got shape (3, 3)"),
        (lambda: make_incidence(np.eye(3), 3, 2), "n_sources = 2 columns. Got 3"),
        (lambda: make_incidence(np.ones((2, 3)), 2), "between 1 and 2 columns, one per source. Got 3"),
        (lambda: make_incidence([["a", "b"]], 1), "a matrix of real numbers"),
        (lambda: make_incidence([[1.0, -2.0], [1.0, 1.0]], 2), "Got -2.0 in row 0, column 1"),
        (lambda: make_incidence([[1.0, np.nan], [1.0, 1.0]], 2), "Got nan in row 0, column 1"),
        (
            lambda: Poset(make_incidence("systematic", 3), order=4),
            "between 1 and the number of sources, 3",
        ),
        (lambda: Poset(make_incidence("systematic", 3), order=1.5), "whole number. Got 1.5"),  # type: ignore[arg-type]
        (lambda: Poset(make_incidence("systematic", 3), closure="half"), "strict, full. Got 'half'"),  # type: ignore[arg-type]
        (lambda: Poset(make_incidence("systematic", 64), order=3), "43744 mixing nodes"),
        (lambda: Poset(np.array([[[1.0, 0.0], [1.0, 0.0]]])), "only zeros in column 1"),
        (lambda: Poset(np.array([[[1.0, 1.0], [2.0, 2.0]]])), "columns 0 and 1 are equal."),
        (lambda: Poset(np.array([[[1.0, 2.0], [2.0, 4.0]]])), "are equal up to a factor"),
        (
            lambda: Poset(np.array([[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 2.0]]])),
            "3 columns have rank 2",
        ),
    ],
)
def test_invalid_parameters_are_refused(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError, match=re.escape(message)):
        call()


CLOSED = {
    "systematic": make_incidence("systematic", 3),
    "two channels swapped": make_incidence("systematic", 2),
    "random": make_incidence("random", 4, None, 1),
    "identity": np.eye(3)[None],
    "heavy": make_incidence([[2.0, 1.0], [0.5, 3.0]], 2),
    "light": 0.5 * np.eye(2)[None],
    "triangle": make_incidence([[0.3, 0.4], [0.0, 0.8]], 2),
}
OPEN = {
    "chain": make_incidence([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]], 3),
    "mixed signs": make_incidence([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]], 3),
}


def distance_to_formula(poset: Poset, latent_mass: float) -> float:
    """Return the largest deviation of log-sources from W^-1 log p_hat, up to a constant for each source."""
    n = poset.n_sources
    values = np.random.default_rng(4).uniform(0.1, 1.0, (30, n))
    goal = loglinear.make_target(poset, values, latent_mass)
    fit = solve(poset, goal, np.zeros((30, n)), np.zeros((n, poset.n_subsets)), tol=1e-6)
    assert fit.converged, fit.reason
    deviation = np.log(fit.p.p_z) - np.log(values) @ poset.unmixing[0].T
    return float(np.abs(deviation - deviation.mean(axis=0)).max())


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", CLOSED)
def test_fits_tend_to_the_closed_form_where_it_is_claimed(name: str, order: int) -> None:
    poset = Poset(CLOSED[name], order)
    assert poset.has_closed_form
    far, near = (distance_to_formula(poset, mass) for mass in (1e-4, 1e-6))
    assert near < 1e-3
    assert near < far / 50


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("closure", ["strict", "full"])
def test_nodes_below_all_channels_have_a_closed_form(closure: Closure, order: int) -> None:
    rng = np.random.default_rng(order)
    for _ in range(10):
        weights = rng.lognormal(sigma=2.0, size=(4, 4))
        if closure == "full":
            weights[rng.permutation(4), np.arange(4)] = 0.0
        poset = Poset(weights[None], order, closure)
        assert poset.has_closed_form
        rise = (poset.unmixing @ poset.latent_design)[0]
        loss = np.append(np.full(poset.n_subsets, 4 - 1 / poset.n_subsets), 1.0)
        share = poset.member.sum(axis=0) / poset.n_subsets
        np.testing.assert_allclose(-rise @ loss, 1 - share, rtol=1e-6)  # lowers the log of every source
        program = linprog(np.zeros(len(loss)), A_ub=-rise, b_ub=-np.ones(4), bounds=(-1e4, -1.0))
        assert program.status == 0


@pytest.mark.parametrize(("weight", "closed"), [(2.0, True), (0.5, False)])
def test_one_source_may_have_no_closed_form(weight: float, closed: bool) -> None:
    assert Poset(np.full((1, 1, 1), weight)).has_closed_form is closed


@pytest.mark.parametrize("name", OPEN)
def test_a_square_incidence_may_have_no_closed_form(name: str) -> None:
    poset = Poset(OPEN[name])
    assert not poset.has_closed_form
    assert distance_to_formula(poset, 1e-6) > 0.1


def test_the_left_inverse_does_not_depend_on_threads() -> None:
    weights = np.random.default_rng(0).random((1, 256, 256))
    inverses = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            inverses.append(Poset(weights).unmixing)
    assert np.array_equal(inverses[0], inverses[1])


def test_more_channels_than_sources_have_no_closed_form() -> None:
    assert not Poset(make_incidence("systematic", 4, 3)).has_closed_form
