"""Densities, expectations, divergence and Fisher information of the model.

This is the log-linear model on a poset (Luo, Azizi, Sugiyama, UAI 2021, equations 2 to 7), written out for
its three layers. Let theta_z be (samples, sources), theta_a (channels, subsets), ``alpha[S] = sum over l of
theta_a[l, S]``, ``c[n] = sum of alpha[S] over all S that contain n`` and ``d[l] = sum of alpha[S] over all
S below channel l``. Then::

    log p(x[m, l]) = (W theta_z[m])[l] + d[l] - psi      log p(a[l, S]) = theta_a[l, S] - psi
    log p(z[m, n]) = theta_z[m, n] + c[n] - psi          log p(bottom)  = -psi

    eta_z[m, n] = p(z[m, n]) + sum over l of W[l, n] p(x[m, l])
    eta_a[l, S] = p(a[l, S]) + sum of p over the z and x above

With real weights W, the model is the same exponential family, with the statistic W[l, n] in place of an
indicator.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels import loglinear
from igbss_stream.model.poset import Poset

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Distribution:
    """Probabilities of all states of the model.

    Parameters
    ----------
    p_z : ndarray of shape (samples, sources)
    p_x : ndarray of shape (samples, channels)
    p_a : ndarray of shape (channels, subsets)
    p_bottom : float
        ``exp(-psi)``.
    psi : float
        Log-partition function.
    """

    p_z: Array
    p_x: Array
    p_a: Array
    p_bottom: float
    psi: float


@dataclass(frozen=True)
class Target:
    """The empirical distribution p_hat and its expectations.

    The received layer has the mass ``1 - latent_mass``, in proportion to the data. One third of the latent
    mass is on bottom, one third is spread evenly over the mixing nodes, and one third over the source
    nodes. A positive latent mass puts p_hat in the interior of the simplex, where the optimum exists and is
    unique.

    Parameters
    ----------
    p_x : ndarray of shape (samples, channels)
    p_z, p_a, p_bottom : float
        Probability of each source node, of each mixing node and of bottom.
    eta_z : ndarray of shape (samples, sources)
    eta_a : ndarray of shape (channels, subsets)
    size_z : ndarray of shape (samples, sources)
        eta_z with the absolute values of the weights; errors of eta_z are relative to it.
    """

    p_x: Array
    p_z: float
    p_a: float
    p_bottom: float
    eta_z: Array
    eta_a: Array
    size_z: Array


@dataclass(frozen=True)
class Fisher:
    """Fisher information of theta, as blocks; `to_dense` assembles the matrix.

    Parameters
    ----------
    z_blocks : ndarray of shape (samples, sources, sources)
        Mass above two source nodes of one sample; source nodes of different samples share none.
    cross : ndarray of shape (samples, sources, subsets)
        Mass above a source node and a mixing node; independent of the channel of the mixing node.
    shared : ndarray of shape (subsets, subsets)
        Mass of the source and received nodes above two mixing nodes.
    p_a, eta_a : ndarray of shape (channels, subsets)
    eta_z : ndarray of shape (samples, sources)
    """

    z_blocks: Array
    cross: Array
    shared: Array
    p_a: Array
    eta_a: Array
    eta_z: Array

    def to_dense(self) -> Array:
        """Return the matrix over (theta_a, theta_z), both in C order."""
        n_channels, n_subsets = self.p_a.shape
        n_samples, n_sources = self.eta_z.shape
        n_a = n_channels * n_subsets
        full = np.zeros((n_a + n_samples * n_sources,) * 2)
        full[:n_a, :n_a] = np.tile(self.shared, (n_channels, n_channels))
        full[:n_a, :n_a] += np.diag(self.p_a.ravel())
        full[:n_a, n_a:] = np.tile(self.cross.reshape(-1, n_subsets).T, (n_channels, 1))
        full[n_a:, :n_a] = full[:n_a, n_a:].T
        for m, block in enumerate(self.z_blocks):
            at = slice(n_a + m * n_sources, n_a + (m + 1) * n_sources)
            full[at, at] = block
        eta = np.concatenate([self.eta_a.ravel(), self.eta_z.ravel()])
        return full - np.outer(eta, eta)


def compute_log_offsets(poset: Poset, theta_a: Array) -> tuple[Array, Array]:
    """Return c (sources) and d (periods, channels), the sums of theta_a over the nodes below a state."""
    alpha = theta_a.sum(axis=0)
    return alpha @ poset.member, np.ascontiguousarray(poset.below @ alpha)


def compute_distribution(
    poset: Poset, theta_z: Array, theta_a: Array, out: tuple[Array, Array, Array] | None = None
) -> Distribution:
    """Compute the probabilities of all states.

    Parameters
    ----------
    poset : Poset
    theta_z : ndarray of shape (samples, sources)
    theta_a : ndarray of shape (channels, subsets)
    out : (p_z, p_x, p_a), optional
        Arrays to fill; allocated if omitted.
    """
    if out is None:
        p_x = np.empty((len(theta_z), poset.n_channels))
        out = (np.empty(theta_z.shape), p_x, np.empty(theta_a.shape))
    c, d = compute_log_offsets(poset, theta_a)
    psi, p_bottom = loglinear.fill_densities(
        poset.incidence, c, d, np.ascontiguousarray(theta_z), np.ascontiguousarray(theta_a), *out
    )
    return Distribution(*out, p_bottom=p_bottom, psi=psi)


def compute_expectations(poset: Poset, p_z: Array, p_x: Array, p_a: Array) -> tuple[Array, Array]:
    """Return eta_z (samples, sources) and eta_a (channels, subsets); eta_x is p_x."""
    p_z, p_x = np.ascontiguousarray(p_z), np.ascontiguousarray(p_x)
    eta_z = np.empty(p_z.shape)
    z_total = np.empty(poset.n_sources)
    x_total = np.empty((poset.periods, poset.n_channels))
    loglinear.fill_expectations(poset.incidence, p_z, p_x, eta_z, z_total, x_total)
    return eta_z, p_a + sum_mass_above(poset, z_total, x_total)


def sum_mass_above(poset: Poset, z_total: Array, x_total: Array) -> Array:
    """Return the mass of the source and received nodes above each subset of sources, (subsets,)."""
    return z_total @ poset.member.T + x_total.ravel() @ poset.below.reshape(-1, poset.n_subsets)


def make_target(poset: Poset, values: Array, latent_mass: float = 0.0) -> Target:
    """Return p_hat of transformed data.

    Parameters
    ----------
    poset : Poset
    values : ndarray of shape (samples, channels)
        Transformed data, non-negative and with a positive sum.
    latent_mass : float
        Total mass of bottom, mixing and source nodes, 0 <= latent_mass < 1.
    """
    n_samples, n_channels = values.shape
    p_x = np.ascontiguousarray(values * ((1.0 - latent_mass) / values.sum()))
    third = latent_mass / 3.0
    p_z = third / (n_samples * poset.n_sources)
    p_a = third / (n_channels * poset.n_subsets)
    eta_z, eta_a = compute_expectations(
        poset,
        np.full((n_samples, poset.n_sources), p_z),
        p_x,
        np.full((n_channels, poset.n_subsets), p_a),
    )
    # Given weights are non-negative; those of a learned structure (one period) may be negative.
    size_z = eta_z if poset.incidence.min() >= 0.0 else p_x @ np.abs(poset.incidence[0]) + p_z
    return Target(p_x, p_z, p_a, third, eta_z, eta_a, np.ascontiguousarray(size_z))


def compute_divergence(goal: Target, p: Distribution) -> float:
    """Return KL(p_hat || p), in nats."""
    total: float = loglinear.compute_divergence(p.p_z, goal.p_z, p.p_x, goal.p_x)
    if goal.p_a > 0.0:
        total += goal.p_a * float(np.sum(np.log(goal.p_a / p.p_a)))
        total += goal.p_bottom * (np.log(goal.p_bottom) + p.psi)
    return float(total)


def compute_fisher(poset: Poset, p: Distribution) -> Fisher:
    """Return the Fisher information at a distribution of the model.

    It takes ``samples * sources * (sources + subsets)`` numbers of memory. The solvers never build it.
    """
    n_samples = len(p.p_z)
    blocks = np.empty((n_samples, poset.n_sources, poset.n_sources))
    cross = np.empty((n_samples, poset.n_sources, poset.n_subsets))
    cross[:] = poset.member.T
    loglinear.fill_fisher_blocks(poset.incidence, poset.below, p.p_z, p.p_x, blocks, cross)
    z_total = p.p_z.sum(axis=0)
    x_total = np.array([p.p_x[period :: poset.periods].sum(axis=0) for period in range(poset.periods)])
    shared = (poset.member * z_total) @ poset.member.T
    shared += np.einsum("pls,pl,plt->st", poset.below, x_total, poset.below)
    eta_z, eta_a = compute_expectations(poset, p.p_z, p.p_x, p.p_a)
    return Fisher(blocks, cross, shared, p.p_a, eta_a, eta_z)
