"""Closed form of the optimum, for structures that have one (`Poset.has_closed_form`)."""

import math

import numpy as np

from igbss_stream.model.loglinear import (
    Array,
    Distribution,
    Target,
    compute_distribution,
    compute_divergence,
    compute_expectations,
)
from igbss_stream.model.poset import Poset
from igbss_stream.model.solve import Fit


def compute_limit(poset: Poset, goal: Target, log_sources: Array, log_fitted: Array | None = None) -> Fit:
    """Return the limit of fits with a closed form as the latent mass tends to zero.

    theta diverges in this limit, and only ratios within a layer are meaningful: theta_z contains the
    log-sources, and theta_a is zero. p_z and p_a each sum to one over their layer, p_x to its mass in the
    limit. If the number of sources equals the number of channels, the limit attains p_hat and eta_hat; with
    fewer sources, it is the least-squares fit of log p_hat.

    Parameters
    ----------
    poset : Poset
        One with `Poset.has_closed_form`, or that of a learned structure.
    goal : Target
        p_hat without latent mass.
    log_sources : ndarray of shape (samples, sources)
        Pseudo-inverse of W applied to log p_hat, up to a constant for each source.
    log_fitted : ndarray of shape (samples, channels), optional
        Log of the channels reconstructed from the sources, up to a constant; by default W times the
        log-sources.

    Returns
    -------
    Fit
        A fit with one iteration, from theta = 0 to the limit.
    """
    theta_a = np.zeros((poset.n_channels, poset.n_subsets))
    uniform = compute_distribution(poset, np.zeros(log_sources.shape), theta_a)
    halved = poset.shares_mass  # p(x) = p(z) = p_hat / 2
    fitted = goal.p_x
    if log_fitted is not None:
        fitted = _normalise(log_fitted)
    elif poset.n_channels > poset.n_sources:
        fitted = _normalise(log_sources @ poset.incidence[0].T)
    p = Distribution(
        _normalise(log_sources),
        fitted / 2.0 if halved else fitted,
        np.full_like(theta_a, 1.0 / theta_a.size),
        p_bottom=0.0,
        psi=math.inf,
    )
    eta_z, eta_a = compute_expectations(poset, np.zeros(log_sources.shape), fitted, np.zeros_like(theta_a))
    residual = float(np.sum(goal.p_x * np.log(goal.p_x / fitted)))
    kl = np.array([compute_divergence(goal, uniform), math.log(2.0) if halved else max(0.0, residual)])
    error = float(np.abs(eta_z - goal.eta_z).max() / np.abs(goal.eta_z).max())
    return Fit(log_sources, theta_a, p, eta_z, eta_a, kl, error, 1, True, "closed form: one pass")


def _normalise(log_values: Array) -> Array:
    values = np.exp(log_values - log_values.max())
    return np.asarray(values / values.sum())
