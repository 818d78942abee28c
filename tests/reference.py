"""Naive, dense reference implementation of the IGBSS model, written for readability.

The model is the log-linear model on a partially ordered set (poset) of mixing, source and
received states of Luo, Azizi, Sugiyama, UAI 2021 ("Hierarchical Probabilistic Model for Blind
Source Separation via Legendre Transformation"). Everything here is spelled out: the states are
an explicit list, the model matrix is dense and built entry by entry, the Fisher information
matrix is a full matrix. Nothing is shared with the package under test, so an agreement between
the two is evidence for both. The cost is cubic in the number of parameters.

Notation
--------
L channels (received signals), N sources, M samples, k the highest order of interaction. K is the
number of subsets S of {0, ..., N - 1} with 1 <= |S| <= k. Arrays are time-major.

========  ==========  =======================================================================
symbol    shape       meaning
========  ==========  =======================================================================
a[l, S]   L x K       mixing states, with parameters ``theta_a[l, S]``
z[m, n]   M x N       source states, with parameters ``theta_z[m, n]``
x[m, l]   M x L       received states, without parameters
W         P x L x N   incidence: sample m uses the matrix ``W[m % P]``
F         |states|    model matrix: ``F[w, s]`` is the feature of parameter s in state w
          x |theta|
theta     L K + M N   natural parameters, ``theta_a`` flattened, then ``theta_z`` flattened
eta       as theta    expectation parameters, ``eta = F' p``
G         square      Fisher information matrix, the Jacobian of eta with respect to theta
========  ==========  =======================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

ARMIJO = 1e-4
MAX_HALVINGS = 60


# --------------------------------------------------------------------------------------------
# The sample space
# --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bottom:
    """The least element of the sample space."""


@dataclass(frozen=True)
class Mixing:
    """The state a[channel, subset] of the mixing layer."""

    channel: int
    subset: tuple[int, ...]


@dataclass(frozen=True)
class Source:
    """The state z[sample, source] of the source layer."""

    sample: int
    source: int


@dataclass(frozen=True)
class Received:
    """The state x[sample, channel] of the received layer."""

    sample: int
    channel: int


State = Bottom | Mixing | Source | Received
Parameter = Mixing | Source


@dataclass(frozen=True, eq=False)
class Poset:
    """The sample space and its order relation.

    Parameters
    ----------
    n_channels : int
        L, the number of received signals.
    n_sources : int
        N, the number of sources.
    n_samples : int
        M, the number of samples.
    order : int
        k, the size of the largest subset of sources that has mixing states.
    closure : {"strict", "full"}
        "strict": a[l, S] is below x[m, l'] only by transitivity, that is, if a source of S is
        below x[m, l']. "full": every mixing state is below every received state.
    incidence : ndarray of shape (P, L, N)
        Real, non-negative weights of the sources on the channels; sample m uses the matrix
        ``incidence[m % P]``. The published model has weights 0 and 1 only.
    """

    n_channels: int
    n_sources: int
    n_samples: int
    order: int
    closure: str
    incidence: FloatArray

    def __post_init__(self) -> None:
        if min(self.n_channels, self.n_sources, self.n_samples, self.order) < 1:
            raise ValueError("n_channels, n_sources, n_samples and order must be at least 1")
        if self.closure not in ("strict", "full"):
            raise ValueError(f'closure must be "strict" or "full", not {self.closure!r}')
        if self.incidence.ndim != 3 or self.incidence.shape[0] < 1:
            raise ValueError("incidence must have the shape (P, L, N) with P >= 1")
        if self.incidence.shape[1:] != (self.n_channels, self.n_sources):
            raise ValueError("incidence does not match n_channels and n_sources")
        if not np.all(np.isfinite(self.incidence)) or np.any(self.incidence < 0.0):
            raise ValueError("incidence must be finite and non-negative")

    @property
    def subsets(self) -> list[tuple[int, ...]]:
        """All subsets S with 1 <= |S| <= order, by size and then in lexicographic order."""
        return [
            subset
            for size in range(1, self.order + 1)
            for subset in combinations(range(self.n_sources), size)
        ]

    @property
    def mixing_states(self) -> list[Mixing]:
        """The states a[l, S], channel outermost."""
        return [Mixing(channel, subset) for channel in range(self.n_channels) for subset in self.subsets]

    @property
    def source_states(self) -> list[Source]:
        """The states z[m, n], sample outermost."""
        return [
            Source(sample, source) for sample in range(self.n_samples) for source in range(self.n_sources)
        ]

    @property
    def received_states(self) -> list[Received]:
        """The states x[m, l], sample outermost."""
        return [
            Received(sample, channel)
            for sample in range(self.n_samples)
            for channel in range(self.n_channels)
        ]

    @property
    def states(self) -> list[State]:
        """All states: bottom, the mixing layer, the source layer, the received layer."""
        return [Bottom(), *self.mixing_states, *self.source_states, *self.received_states]

    @property
    def parameters(self) -> list[Parameter]:
        """The states that carry a parameter: the mixing layer, then the source layer."""
        return [*self.mixing_states, *self.source_states]

    def weight(self, sample: int, channel: int, source: int) -> float:
        """Return the weight of z[sample, source] on x[sample, channel].

        Parameters
        ----------
        sample, channel, source : int
            Indices of the sample, the channel and the source.

        Returns
        -------
        float
            The entry of the incidence matrix that this sample uses.
        """
        period = self.incidence.shape[0]
        return float(self.incidence[sample % period, channel, source])


def systematic(n_channels: int, n_sources: int) -> FloatArray:
    """Return the systematic structure: W[l, n] = 0 if l = n, else 1.

    This is the deletion that Luo, Azizi, Sugiyama, UAI 2021 propose.

    Parameters
    ----------
    n_channels, n_sources : int
        L and N.

    Returns
    -------
    ndarray of shape (1, L, N)
        The incidence, the same for all samples.
    """
    incidence = np.ones((1, n_channels, n_sources))
    for channel in range(n_channels):
        for source in range(n_sources):
            if channel == source:
                incidence[0, channel, source] = 0.0
    return incidence


def cyclic(n_channels: int, n_sources: int) -> FloatArray:
    """Return the cyclic structure: z[m, n] loses channel (m N + n) mod L.

    Parameters
    ----------
    n_channels, n_sources : int
        L and N.

    Returns
    -------
    ndarray of shape (P, L, N)
        The incidence, which repeats after P = L / gcd(L, N) samples.
    """
    period = n_channels // math.gcd(n_channels, n_sources)
    incidence = np.ones((period, n_channels, n_sources))
    for sample in range(period):
        for source in range(n_sources):
            lost = (sample * n_sources + source) % n_channels
            incidence[sample, lost, source] = 0.0
    return incidence


# --------------------------------------------------------------------------------------------
# Features and parameters
# --------------------------------------------------------------------------------------------


def feature(poset: Poset, parameter: Parameter, state: State) -> float:
    """Return the feature f_s(w) of the parameter s in the state w.

    For weights 0 and 1 this is 1 if s <= w in the poset and 0 otherwise, as in Luo, Azizi,
    Sugiyama, UAI 2021.

    Parameters
    ----------
    poset : Poset
        The sample space.
    parameter : Mixing or Source
        The state s, which carries a parameter.
    state : Bottom, Mixing, Source or Received
        The state w.

    Returns
    -------
    float
        The feature, an entry of the model matrix.
    """
    if parameter == state:
        return 1.0

    if isinstance(parameter, Mixing):
        if isinstance(state, Source):
            return 1.0 if state.source in parameter.subset else 0.0
        if isinstance(state, Received):
            if poset.closure == "full":
                return 1.0
            for source in parameter.subset:
                if poset.weight(state.sample, state.channel, source) > 0.0:
                    return 1.0
        return 0.0

    if isinstance(state, Received) and state.sample == parameter.sample:
        return poset.weight(state.sample, state.channel, parameter.source)
    return 0.0


def feature_matrix(poset: Poset) -> FloatArray:
    """Return the model matrix F, with one row per state and one column per parameter.

    Parameters
    ----------
    poset : Poset
        The sample space.

    Returns
    -------
    ndarray of shape (number of states, number of parameters)
        Rows in the order of ``poset.states``, columns in the order of ``poset.parameters``.
    """
    states = poset.states
    parameters = poset.parameters
    features = np.zeros((len(states), len(parameters)))
    for row, state in enumerate(states):
        for column, parameter in enumerate(parameters):
            features[row, column] = feature(poset, parameter, state)
    return features


def pack(theta_a: FloatArray, theta_z: FloatArray) -> FloatArray:
    """Return the parameter vector: theta_a row by row, then theta_z row by row.

    Parameters
    ----------
    theta_a : ndarray of shape (L, K)
        Mixing parameters.
    theta_z : ndarray of shape (M, N)
        Source parameters.

    Returns
    -------
    ndarray of shape (L K + M N,)
        The parameters in the order of ``Poset.parameters``.
    """
    return np.concatenate([np.ravel(theta_a), np.ravel(theta_z)])


def unpack(poset: Poset, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return theta_a and theta_z, the inverse of `pack`; works for eta and gradients too.

    Parameters
    ----------
    poset : Poset
        The sample space.
    theta : ndarray of shape (L K + M N,)
        One number per parameter.

    Returns
    -------
    theta_a : ndarray of shape (L, K)
        The mixing part, a copy.
    theta_z : ndarray of shape (M, N)
        The source part, a copy.
    """
    n_subsets = len(poset.subsets)
    n_mixing = poset.n_channels * n_subsets
    theta_a = theta[:n_mixing].reshape(poset.n_channels, n_subsets).copy()
    theta_z = theta[n_mixing:].reshape(poset.n_samples, poset.n_sources).copy()
    return theta_a, theta_z


# --------------------------------------------------------------------------------------------
# The exponential family
# --------------------------------------------------------------------------------------------


def log_partition(features: FloatArray, theta: FloatArray) -> float:
    """Return psi(theta), the logarithm of the sum over all states of exp((F theta)_w).

    Parameters
    ----------
    features : ndarray of shape (number of states, number of parameters)
        The model matrix F.
    theta : ndarray of shape (number of parameters,)
        Natural parameters.

    Returns
    -------
    float
        The logarithm of the partition function.
    """
    exponents = features @ theta
    largest = float(np.max(exponents))
    return largest + math.log(float(np.sum(np.exp(exponents - largest))))


def log_probabilities(features: FloatArray, theta: FloatArray) -> FloatArray:
    """Return log p(w) = (F theta)_w - psi(theta) for every state w.

    Parameters
    ----------
    features : ndarray of shape (number of states, number of parameters)
        The model matrix F.
    theta : ndarray of shape (number of parameters,)
        Natural parameters.

    Returns
    -------
    ndarray of shape (number of states,)
        The logarithms of the probabilities, in the order of ``Poset.states``.
    """
    log_p: FloatArray = features @ theta - log_partition(features, theta)
    return log_p


def probabilities(features: FloatArray, theta: FloatArray) -> FloatArray:
    """Return p(w) for every state w.

    Parameters
    ----------
    features : ndarray of shape (number of states, number of parameters)
        The model matrix F.
    theta : ndarray of shape (number of parameters,)
        Natural parameters.

    Returns
    -------
    ndarray of shape (number of states,)
        The probabilities, in the order of ``Poset.states``.
    """
    p: FloatArray = np.exp(log_probabilities(features, theta))
    return p


def expectations(features: FloatArray, p: FloatArray) -> FloatArray:
    """Return the expectation parameters eta = F' p of any distribution p on the states.

    Parameters
    ----------
    features : ndarray of shape (number of states, number of parameters)
        The model matrix F.
    p : ndarray of shape (number of states,)
        A distribution.

    Returns
    -------
    ndarray of shape (number of parameters,)
        The expectation of every feature.
    """
    eta: FloatArray = features.T @ p
    return eta


def fisher(features: FloatArray, p: FloatArray) -> FloatArray:
    """Return the Fisher information matrix G = F' diag(p) F - eta eta'.

    Parameters
    ----------
    features : ndarray of shape (number of states, number of parameters)
        The model matrix F.
    p : ndarray of shape (number of states,)
        The distribution of the model at theta.

    Returns
    -------
    ndarray of shape (number of parameters, number of parameters)
        The covariance matrix of the features, equal to the Jacobian of eta.
    """
    eta = expectations(features, p)
    g: FloatArray = features.T @ np.diag(p) @ features - np.outer(eta, eta)
    return g


def split_layers(poset: Poset, p: FloatArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Split one number per state into the layers.

    Parameters
    ----------
    poset : Poset
        The sample space.
    p : ndarray of shape (number of states,)
        One number per state, for instance a distribution or its logarithm.

    Returns
    -------
    bottom : float
        The number of the least element.
    mixing : ndarray of shape (L, K)
        The numbers of the states a[l, S].
    source : ndarray of shape (M, N)
        The numbers of the states z[m, n].
    received : ndarray of shape (M, L)
        The numbers of the states x[m, l].
    """
    n_parameters = len(poset.parameters)
    mixing, source = unpack(poset, p[1 : 1 + n_parameters])
    received = p[1 + n_parameters :].reshape(poset.n_samples, poset.n_channels).copy()
    return float(p[0]), mixing, source, received


def target(poset: Poset, v: FloatArray, latent_mass: float) -> FloatArray:
    """Return the target distribution p_hat of a non-negative received signal.

    With ``latent_mass = 0`` this is the empirical distribution of Luo, Azizi, Sugiyama, UAI
    2021: all mass is on the received layer. A positive latent mass puts one third of it on
    bottom, one third equally on the mixing states and one third equally on the source states.

    Parameters
    ----------
    poset : Poset
        The sample space.
    v : ndarray of shape (M, L)
        The received signal, non-negative, with a positive sum.
    latent_mass : float
        The mass of all states outside the received layer, 0 <= latent_mass < 1.

    Returns
    -------
    ndarray of shape (number of states,)
        The target, in the order of ``poset.states``.
    """
    if v.shape != (poset.n_samples, poset.n_channels):
        raise ValueError("v must have the shape (n_samples, n_channels)")
    if np.any(v < 0.0) or not float(np.sum(v)) > 0.0:
        raise ValueError("v must be non-negative with a positive sum")
    if not 0.0 <= latent_mass < 1.0:
        raise ValueError("latent_mass must be in [0, 1)")
    total = float(np.sum(v))
    p_hat: list[float] = []
    for state in poset.states:
        if isinstance(state, Bottom):
            p_hat.append(latent_mass / 3.0)
        elif isinstance(state, Mixing):
            p_hat.append(latent_mass / 3.0 / len(poset.mixing_states))
        elif isinstance(state, Source):
            p_hat.append(latent_mass / 3.0 / len(poset.source_states))
        else:
            p_hat.append((1.0 - latent_mass) * float(v[state.sample, state.channel]) / total)
    return np.array(p_hat)


def kl(p_hat: FloatArray, p: FloatArray) -> float:
    """Return the Kullback-Leibler divergence KL(p_hat || p), with 0 log 0 = 0.

    Parameters
    ----------
    p_hat, p : ndarray of shape (number of states,)
        Two distributions.

    Returns
    -------
    float
        The divergence; infinite where p is 0 and p_hat is not.
    """
    total = 0.0
    for p_hat_w, p_w in zip(p_hat.tolist(), p.tolist(), strict=True):
        if p_hat_w > 0.0:
            if p_w == 0.0:
                return math.inf
            total += p_hat_w * math.log(p_hat_w / p_w)
    return total


def objective(features: FloatArray, p_hat: FloatArray, theta: FloatArray) -> float:
    """Return KL(p_hat || p_theta) from log p, which stays finite where p underflows.

    Parameters
    ----------
    features : ndarray of shape (number of states, number of parameters)
        The model matrix F.
    p_hat : ndarray of shape (number of states,)
        The target.
    theta : ndarray of shape (number of parameters,)
        Natural parameters.

    Returns
    -------
    float
        The objective that learning minimises.
    """
    log_p = log_probabilities(features, theta)
    total = 0.0
    for p_hat_w, log_p_w in zip(p_hat.tolist(), log_p.tolist(), strict=True):
        if p_hat_w > 0.0:
            total += p_hat_w * (math.log(p_hat_w) - log_p_w)
    return total


def gradient(features: FloatArray, p_hat: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the gradient of the objective, eta - eta_hat.

    Parameters
    ----------
    features : ndarray of shape (number of states, number of parameters)
        The model matrix F.
    p_hat : ndarray of shape (number of states,)
        The target.
    theta : ndarray of shape (number of parameters,)
        Natural parameters.

    Returns
    -------
    ndarray of shape (number of parameters,)
        The gradient with respect to theta.
    """
    eta = expectations(features, probabilities(features, theta))
    eta_hat = expectations(features, p_hat)
    return eta - eta_hat


def numerical_gradient(f: Callable[[FloatArray], float], theta: FloatArray, h: float = 1e-6) -> FloatArray:
    """Return the gradient of f at theta by central differences.

    Parameters
    ----------
    f : callable
        A function of a parameter vector with a real value.
    theta : ndarray of shape (number of parameters,)
        The point.
    h : float, default 1e-6
        Half the distance between the two evaluations of each difference.

    Returns
    -------
    ndarray of shape (number of parameters,)
        The differences divided by 2 h.
    """
    result = np.zeros(theta.size)
    for s in range(theta.size):
        forward = theta.copy()
        forward[s] += h
        backward = theta.copy()
        backward[s] -= h
        result[s] = (f(forward) - f(backward)) / (2.0 * h)
    return result


# --------------------------------------------------------------------------------------------
# Natural-gradient iterations with damping
# --------------------------------------------------------------------------------------------


class Iterate(NamedTuple):
    """Parameters after an iteration and the divergence from the target there."""

    theta_a: FloatArray
    theta_z: FloatArray
    kl: float


def phi(x: float) -> float:
    """Return exp(x) - 1 - x without cancellation.

    Parameters
    ----------
    x : float
        Any real number.

    Returns
    -------
    float
        The value; infinite where exp(x) overflows.
    """
    if abs(x) > 1.0:
        try:
            return math.expm1(x) - x
        except OverflowError:
            return math.inf
    term = x * x / 2.0
    total = term
    for power in range(3, 25):
        term *= x / power
        total += term
    return total


def kl_change(
    features: FloatArray, p: FloatArray, grad: FloatArray, direction: FloatArray, t: float
) -> float:
    """Return KL(p_hat || p_{theta + t d}) - KL(p_hat || p_theta) without cancellation.

    With u = F d, ubar = <p, u> and c = u - ubar, the change of psi is
    ``log(sum_w p(w) exp(t u_w)) = t ubar + log1p(sum_w p(w) phi(t c_w))``, because
    ``sum_w p(w) c_w = 0``. The change of KL is the change of psi less ``t <eta_hat, d>``, and
    ``ubar = <eta, d>``.

    Parameters
    ----------
    features : ndarray of shape (number of states, number of parameters)
        The model matrix F.
    p : ndarray of shape (number of states,)
        The distribution of the model at theta.
    grad : ndarray of shape (number of parameters,)
        The gradient eta - eta_hat at theta.
    direction : ndarray of shape (number of parameters,)
        The direction d.
    t : float
        The step length.

    Returns
    -------
    float
        The change; infinite on overflow.
    """
    u = features @ direction
    c = u - float(p @ u)
    curvature = 0.0
    for p_w, c_w in zip(p.tolist(), c.tolist(), strict=True):
        phi_w = phi(t * c_w)
        if math.isinf(phi_w):
            return math.inf
        curvature += p_w * phi_w
    return math.log1p(curvature) + t * float(grad @ direction)


def step_length(features: FloatArray, p: FloatArray, grad: FloatArray, direction: FloatArray) -> float:
    """Return the first of 1, 1/2, 1/4, ... that satisfies the Armijo condition.

    The condition is ``kl(theta + t d) - kl(theta) <= 1e-4 t <eta - eta_hat, d>``.

    Parameters
    ----------
    features : ndarray of shape (number of states, number of parameters)
        The model matrix F.
    p : ndarray of shape (number of states,)
        The distribution of the model at theta.
    grad : ndarray of shape (number of parameters,)
        The gradient eta - eta_hat at theta.
    direction : ndarray of shape (number of parameters,)
        The direction d.

    Returns
    -------
    float
        The step length; 0 if none of 1, 1/2, ..., 2^-60 satisfies the condition, which happens
        only if rounding leaves a direction that does not descend.
    """
    slope = float(grad @ direction)
    t = 1.0
    for _ in range(MAX_HALVINGS + 1):
        if kl_change(features, p, grad, direction, t) <= ARMIJO * t * slope:
            return t
        t /= 2.0
    return 0.0


def natural_gradient_step(
    features: FloatArray, p_hat: FloatArray, theta: FloatArray, block: list[int]
) -> FloatArray:
    """Return theta after one damped natural-gradient step on a block of the parameters.

    The direction is ``d = -G^-1 (eta - eta_hat)`` with G and the gradient restricted to the
    block, and 0 outside it (Luo, Azizi, Sugiyama, UAI 2021, where the step length is 1).

    Parameters
    ----------
    features : ndarray of shape (number of states, number of parameters)
        The model matrix F.
    p_hat : ndarray of shape (number of states,)
        The target.
    theta : ndarray of shape (number of parameters,)
        Natural parameters.
    block : list of int
        Indices of the parameters to move; all the others stay fixed.

    Returns
    -------
    ndarray of shape (number of parameters,)
        The new parameters.
    """
    p = probabilities(features, theta)
    grad = expectations(features, p) - expectations(features, p_hat)
    g = fisher(features, p)
    direction = np.zeros(theta.size)
    direction[block] = -np.linalg.solve(g[np.ix_(block, block)], grad[block])
    t = step_length(features, p, grad, direction)
    return theta + t * direction


def joint_iterates(poset: Poset, p_hat: FloatArray, theta: FloatArray, n_steps: int) -> list[Iterate]:
    """Return the iterates of the damped natural gradient on all parameters at once.

    Parameters
    ----------
    poset : Poset
        The sample space.
    p_hat : ndarray of shape (number of states,)
        The target.
    theta : ndarray of shape (L K + M N,)
        The start.
    n_steps : int
        The number of iterations.

    Returns
    -------
    list of Iterate
        The start and the result of every iteration, ``n_steps + 1`` entries.
    """
    features = feature_matrix(poset)
    everything = list(range(theta.size))
    iterates = [Iterate(*unpack(poset, theta), objective(features, p_hat, theta))]
    for _ in range(n_steps):
        theta = natural_gradient_step(features, p_hat, theta, everything)
        iterates.append(Iterate(*unpack(poset, theta), objective(features, p_hat, theta)))
    return iterates


def blocked_iterates(poset: Poset, p_hat: FloatArray, theta: FloatArray, n_steps: int) -> list[Iterate]:
    """Return the iterates of the damped natural gradient on one layer after the other.

    One iteration is a step on the source parameters with the mixing parameters fixed, followed
    by a step on the mixing parameters with the source parameters fixed. This is Algorithm 1 of
    Luo, Azizi, Sugiyama, UAI 2021, with damping, and with p recomputed between the two steps.

    Parameters
    ----------
    poset : Poset
        The sample space.
    p_hat : ndarray of shape (number of states,)
        The target.
    theta : ndarray of shape (L K + M N,)
        The start.
    n_steps : int
        The number of iterations.

    Returns
    -------
    list of Iterate
        The start and the result of every iteration, ``n_steps + 1`` entries.
    """
    features = feature_matrix(poset)
    n_mixing = len(poset.mixing_states)
    mixing_block = list(range(n_mixing))
    source_block = list(range(n_mixing, theta.size))
    iterates = [Iterate(*unpack(poset, theta), objective(features, p_hat, theta))]
    for _ in range(n_steps):
        theta = natural_gradient_step(features, p_hat, theta, source_block)
        theta = natural_gradient_step(features, p_hat, theta, mixing_block)
        iterates.append(Iterate(*unpack(poset, theta), objective(features, p_hat, theta)))
    return iterates


def count_runs(x: FloatArray, usable: NDArray[np.bool_]) -> NDArray[np.int_]:
    """Return for how many samples each channel has repeated its value, or had none, up to each sample.

    Parameters
    ----------
    x : ndarray of shape (samples, channels)
    usable : ndarray of shape (samples, channels)

    Returns
    -------
    ndarray of shape (samples, channels)
    """
    runs = np.zeros(x.shape, int)
    for m in range(len(x)):
        for k in range(x.shape[1]):
            n = 0
            while n <= m and (not usable[m - n, k] or (m - n > 0 and x[m - n, k] == x[m - n - 1, k])):
                n += 1
            runs[m, k] = n
    return runs
