"""Random models and data for property tests."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream.model.loglinear import Target, make_target
from igbss_stream.model.poset import Closure, Poset, make_incidence
from tests import reference


@dataclass(frozen=True)
class Case:
    """A model with data, in the form of the package and of the reference."""

    poset: Poset
    dense: reference.Poset
    values: NDArray[np.float64]
    theta_z: NDArray[np.float64]
    theta_a: NDArray[np.float64]
    latent_mass: float

    @property
    def goal(self) -> Target:
        return make_target(self.poset, self.values, self.latent_mass)

    @property
    def theta(self) -> NDArray[np.float64]:
        return reference.pack(self.theta_a, self.theta_z)

    @property
    def p_hat(self) -> NDArray[np.float64]:
        return reference.target(self.dense, self.values, self.latent_mass)


def make_case(
    weights: NDArray[np.float64],
    order: int,
    closure: Closure,
    n_samples: int,
    latent_mass: float,
    seed: int,
) -> Case:
    rng = np.random.default_rng(seed)
    poset = Poset(weights, order, closure)
    dense = reference.Poset(poset.n_channels, poset.n_sources, n_samples, order, closure, poset.incidence)
    return Case(
        poset,
        dense,
        rng.uniform(0.05, 1.0, (n_samples, poset.n_channels)),
        rng.normal(0.0, 0.5, (n_samples, poset.n_sources)),
        rng.normal(0.0, 0.5, (poset.n_channels, poset.n_subsets)),
        latent_mass,
    )


@st.composite
def cases(draw: st.DrawFn, max_samples: int = 6, masses: tuple[float, ...] = (0.0, 1e-3, 1e-1)) -> Case:
    """Draw models with L <= 5, N <= 4, k <= 3, both closures, named structures and random real weights."""
    n_channels = draw(st.integers(2, 5))
    n_sources = draw(st.integers(1, min(4, n_channels)))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    kind = draw(st.sampled_from(["systematic", "cyclic", "random", "real"]))
    if kind == "real":
        weights = rng.uniform(0.1, 2.0, (1, n_channels, n_sources))
        weights *= rng.uniform(size=weights.shape) < 0.8
        weights[0, :n_sources] += np.eye(n_sources)  # separates the columns
        if np.linalg.cond(weights[0]) > 1e6:
            weights = 0.1 + np.eye(n_channels, n_sources)[None]
    else:
        weights = make_incidence(kind, n_channels, n_sources, rng)
    return make_case(
        weights,
        draw(st.integers(1, min(3, n_sources))),
        draw(st.sampled_from(["strict", "full"])),
        draw(st.integers(1, max_samples)),
        draw(st.sampled_from(masses)),
        seed,
    )
