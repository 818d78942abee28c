"""Fit theta by the e-projection of p_hat onto the model.

The solvers minimise KL(p_hat || p), which is convex in theta; its gradient is eta - eta_hat, and its
Hessian is G, the Fisher information. Each step is halved until the divergence decreases sufficiently
(Armijo's rule), so that the divergence never increases.

gradient
    Steepest descent. The first step length to be tried is that of Barzilai and Borwein.
blocked
    The natural gradient of Algorithm 1 (Luo, Azizi, Sugiyama, UAI 2021): first the source layer, then the
    mixing layer, each with its block of G. p is recomputed between the two.
joint
    The natural gradient with all of G. This is Newton's method, which converges quadratically near the
    optimum.

Where the optimum has a closed form (`Poset.has_closed_form`), no fit is needed, see
`igbss_stream.model.closed_form`.

G is never built as a matrix. In the log-masses of the latent nodes it is diag(p) plus a sum of squares over
the received nodes (`Poset.latent_design`). Sources of different samples are coupled only through the few
groups of mixing nodes. A step therefore costs O(samples), see
`igbss_stream.model.kernels.loglinear.eliminate_sources`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels import loglinear
from igbss_stream.model.loglinear import (
    Array,
    Distribution,
    Target,
    compute_distribution,
    compute_divergence,
    compute_expectations,
    compute_log_offsets,
    sum_mass_above,
)
from igbss_stream.model.poset import Poset

ARMIJO = 1e-4
MAX_HALVINGS = 60
_MAX_STORED_GROUPS = 4  # up to this number, a step stores its fits instead of computing them twice


@dataclass(frozen=True)
class Fit:
    """Result of an e-projection.

    Parameters
    ----------
    theta_z : ndarray of shape (samples, sources)
    theta_a : ndarray of shape (channels, subsets)
    p : Distribution
        The distribution at theta.
    eta_z : ndarray of shape (samples, sources)
    eta_a : ndarray of shape (channels, subsets)
        Expectation parameters of p.
    kl : ndarray of shape (n_iter + 1,)
        KL(p_hat || p) in nats, at the start and after each iteration; it never increases.
    error : float
        Largest ``|eta - eta_hat| / eta_hat`` over all parameters.
    n_iter : int
    converged : bool
        Whether `error` is at most `tol`.
    reason : str
        Why the iteration stopped, as a text.
    """

    theta_z: Array
    theta_a: Array
    p: Distribution
    eta_z: Array
    eta_a: Array
    kl: Array
    error: float
    n_iter: int
    converged: bool
    reason: str


class _Iterate:
    """Current theta with its p and gradient, in arrays that are reused from step to step."""

    def __init__(self, poset: Poset, goal: Target, theta_z: Array, theta_a: Array) -> None:
        self.poset, self.goal = poset, goal
        self.theta_z, self.theta_a = theta_z.copy(), theta_a.copy()
        self.g_z, self.step_z, self._u_z = (np.empty(theta_z.shape) for _ in range(3))
        self._u_x = np.empty(goal.p_x.shape)
        self._p = (np.empty(theta_z.shape), np.empty(goal.p_x.shape), np.empty(theta_a.shape))
        self._z_error = np.empty((1, poset.n_sources))
        self.x_error = np.empty((poset.periods, poset.n_channels))
        self._totals = np.empty((poset.periods + 1, max(poset.n_channels, poset.n_sources)))
        self.evaluate()

    def evaluate(self) -> None:
        """Compute p and the gradient at the current theta."""
        poset, goal = self.poset, self.goal
        self.p = compute_distribution(poset, self.theta_z, self.theta_a, out=self._p)
        worst = loglinear.fill_gradient(
            poset.incidence, self.p.p_z, self.p.p_x, goal.p_z, goal.p_x, goal.size_z,
            self.g_z, self._z_error, self.x_error, self._totals,
        )  # fmt: skip
        self.g_a = (self.p.p_a - goal.p_a) + sum_mass_above(poset, self.z_error, self.x_error)
        self.error = max(float(worst), float(np.max(np.abs(self.g_a) / goal.eta_a)))

    @property
    def z_error(self) -> Array:
        """Error of the mass of each source, (sources,)."""
        total: Array = self._z_error[0]
        return total

    @property
    def z_total(self) -> Array:
        """Mass of each source, (sources,)."""
        return self._totals[-1, : self.poset.n_sources]

    @property
    def x_total(self) -> Array:
        """Mass of each channel, (periods, channels)."""
        return self._totals[:-1, : self.poset.n_channels]

    def descend(self, step_a: Array) -> float | None:
        """Move along (step_z, step_a) by backtracking line search; return the change of the divergence.

        Returns None if no step decreases the divergence. With u the change of log p + psi along the step
        and v = t (u - mean of u), the divergence changes by ``log1p(sum of p (exp(v) - 1 - v)) + t *
        slope``. These two terms do not cancel, where a difference of divergences would lose its last
        digits.
        """
        p, poset, step_a = self.p, self.poset, np.ascontiguousarray(step_a)
        c, d = compute_log_offsets(poset, step_a)
        mean, slope = loglinear.fill_response(
            poset.incidence, c, d, self.step_z, self.g_z, p.p_z, p.p_x, self._u_z, self._u_x
        )
        mean += float(np.vdot(p.p_a, step_a))
        slope += float(np.vdot(self.g_a, step_a))
        if not slope < 0.0:
            return None
        t = 1.0
        for _ in range(MAX_HALVINGS):
            excess = loglinear.compute_exp_excess(
                p.p_z, self._u_z, p.p_x, self._u_x, p.p_a, step_a, p.p_bottom, mean, t
            )
            change = math.log1p(excess) + t * slope
            if change <= ARMIJO * t * slope:
                self.theta_z += t * self.step_z
                self.theta_a += t * step_a
                self.evaluate()
                return change
            t *= 0.5
        return None


Direction = Callable[[_Iterate], Array]


def _make_joint_direction() -> Direction:
    """Return the natural gradient of both layers."""

    def compute_direction(at: _Iterate) -> Array:
        poset, p, goal = at.poset, at.p, at.goal
        active, design = poset.active_design
        reduced = _ReducedSystem(at, design)
        shared, drive = np.zeros((poset.n_subsets + 1,) * 2), np.zeros(poset.n_subsets + 1)
        shared[active[:, None], active], drive[active] = reduced.shared, reduced.drive
        mass = np.append(p.p_a, p.p_bottom)
        own = mass - np.append(np.full(p.p_a.size, goal.p_a), goal.p_bottom)
        group = np.append(poset.subset_of_node, poset.n_subsets)
        step, sums = _solve_groups(shared, -drive, mass, -own, group)
        # From log-masses back to theta: log p(a) = theta_a + log p(bottom), log p(z) = theta_z + c + ...
        step_a: Array = (step[:-1] - step[-1]).reshape(p.p_a.shape)
        reduced.complete(sums[active], step_a.sum(axis=0) @ poset.member + step[-1])
        return step_a

    return compute_direction


def _make_source_direction() -> Direction:
    """Return the natural gradient of the source layer, with theta_a fixed."""

    def compute_direction(at: _Iterate) -> Array:
        p, goal = at.p, at.goal
        # The masses of mixing nodes and bottom change together, with psi: one group with one member.
        design = 1.0 - at.poset.incidence.sum(axis=2, keepdims=True)
        reduced = _ReducedSystem(at, design)
        mass = np.array([p.p_bottom + p.p_a.sum()])
        own = (p.p_bottom - goal.p_bottom) + (p.p_a - goal.p_a).sum()
        only = np.zeros(1, dtype=int)
        step, sums = _solve_groups(reduced.shared, -reduced.drive, mass, np.array([-own]), only)
        reduced.complete(sums, np.full(at.poset.n_sources, step[0]))
        return np.zeros_like(at.theta_a)

    return compute_direction


def _make_mixing_direction() -> Direction:
    """Return the natural gradient of the mixing layer, with theta_z fixed."""

    def compute_direction(at: _Iterate) -> Array:
        poset, p, goal = at.poset, at.p, at.goal
        shared = (poset.member * at.z_total) @ poset.member.T
        shared += np.einsum("pls,pl,plt->st", poset.below, at.x_total, poset.below)
        above = sum_mass_above(poset, at.z_total, at.x_total)
        pull = sum_mass_above(poset, at.z_error, at.x_error)
        mass, group = p.p_a.ravel(), poset.subset_of_node
        own = (p.p_a - goal.p_a).ravel()
        by_gradient, _ = _solve_groups(shared, pull, mass, own, group)
        by_eta, _ = _solve_groups(shared, above, mass, mass, group)
        eta = mass + above[group]
        # G = H - eta eta' with H = diag(p_a) + shared mass: Sherman-Morrison formula.
        centred = by_gradient + by_eta * (eta @ by_gradient) / (1.0 - eta @ by_eta)
        at.step_z[:] = 0.0
        return -centred.reshape(p.p_a.shape)

    return compute_direction


def _make_gradient_direction() -> Direction:
    """Return steepest descent, with the step length of Barzilai and Borwein."""
    last: list[Array] = []

    def compute_direction(at: _Iterate) -> Array:
        length = 1.0
        if last:
            moved = (at.theta_z - last[0], at.theta_a - last[1])
            bent = float(np.sum(moved[0] * (at.g_z - last[2])) + np.sum(moved[1] * (at.g_a - last[3])))
            square = float(np.sum(moved[0] ** 2) + np.sum(moved[1] ** 2))
            length = square / bent if bent > 0.0 else 1.0
        last[:] = at.theta_z.copy(), at.theta_a.copy(), at.g_z.copy(), at.g_a.copy()
        np.multiply(at.g_z, -length, out=at.step_z)
        return -length * at.g_a

    return compute_direction


SOLVERS: dict[str, tuple[Callable[[], Direction], ...]] = {
    "gradient": (_make_gradient_direction,),
    "blocked": (_make_source_direction, _make_mixing_direction),
    "joint": (_make_joint_direction,),
}


@np.errstate(divide="ignore", over="ignore", invalid="ignore")  # a step that is not finite is not taken
def solve(
    poset: Poset,
    goal: Target,
    theta_z: Array,
    theta_a: Array,
    *,
    solver: str = "joint",
    tol: float = 1e-10,
    max_iter: int = 1000,
) -> Fit:
    """Find the theta whose distribution is closest to p_hat.

    Parameters
    ----------
    poset : Poset
    goal : Target
        p_hat. Without latent mass, the optimum may be on the boundary. theta then diverges slowly, while
        ratios within a layer converge.
    theta_z, theta_a : ndarray
        Start values; not modified.
    solver : {"joint", "blocked", "gradient"}
    tol : float
        Convergence threshold for the largest ``|eta - eta_hat| / eta_hat``.
    max_iter : int
        Largest number of iterations; an iteration of "blocked" is two steps.

    Returns
    -------
    Fit
    """
    directions = [make() for make in SOLVERS[solver]]
    at = _Iterate(poset, goal, theta_z, theta_a)
    kl = [compute_divergence(goal, at.p)]
    reason = ""
    while not reason:
        if at.error <= tol:
            reason = f"converged: the gradient is below {tol:g}"
        elif len(kl) > max_iter:
            reason = f"stopped at max_iter = {max_iter} with a gradient of {at.error:.2g}"
        else:
            changes = [at.descend(direction(at)) for direction in directions]
            fallen = [change for change in changes if change is not None]
            kl.append(kl[-1] + sum(fallen))
            if not fallen:
                kl.pop()
                reason = f"stopped at a gradient of {at.error:.2g}: float64 resolves no further descent"
    eta = compute_expectations(poset, at.p.p_z, at.p.p_x, at.p.p_a)
    return Fit(
        at.theta_z, at.theta_a, at.p, *eta, np.array(kl), at.error, len(kl) - 1, at.error <= tol, reason
    )


class _ReducedSystem:
    """Information and gradient of the groups of latent nodes, with the source layer eliminated."""

    def __init__(self, at: _Iterate, design: Array) -> None:
        n_groups = design.shape[2]
        self._at, self._design = at, np.ascontiguousarray(design)
        self.shared = np.zeros((n_groups, n_groups))
        self.drive = at.x_error.ravel() @ design.reshape(at.x_error.size, n_groups)
        n_kept = len(at.g_z) if n_groups <= _MAX_STORED_GROUPS else 1
        self._fits = np.empty((n_kept, n_groups, at.poset.n_sources))
        loglinear.eliminate_sources(
            at.poset.incidence, self._design, at.p.p_z, at.p.p_x, at.g_z,
            self._fits, at.step_z, self.shared, self.drive,
        )  # fmt: skip

    def complete(self, sums: Array, offset: Array) -> None:
        """Complete the step of the sources, given the sums of the groups."""
        at = self._at
        loglinear.follow_groups(
            at.poset.incidence, np.ascontiguousarray(self._design @ sums), self._fits, sums,
            at.p.p_z, at.p.p_x, offset, at.step_z,
        )  # fmt: skip


def _solve_groups(
    shared: Array, drive: Array, mass: Array, own: Array, group: NDArray[np.int_]
) -> tuple[Array, Array]:
    """Solve ``mass[i] x[i] + (shared @ s)[g] = own[i] + drive[g]``, g the group of i, s the sums of x.

    Division by the mass and summation give a system in s alone; the harmonic mass of each group is added to
    its diagonal. Given s, the terms common to the nodes of a group drop out of x, which thus remains
    accurate as masses vanish.

    Returns
    -------
    x : ndarray of shape (nodes,)
    s : ndarray of shape (groups,)
    """
    n_groups = len(shared)
    harmonic = 1.0 / np.bincount(group, 1.0 / mass, n_groups)
    pull = np.bincount(group, own / mass, n_groups)
    system = shared + np.diag(harmonic)
    scale = 1.0 / np.sqrt(np.diag(system))  # masses differ by many orders of magnitude
    right = scale * (harmonic * pull + drive)
    try:
        sums = scale * np.linalg.solve(system * np.outer(scale, scale), right)
    except np.linalg.LinAlgError:
        sums = np.full(n_groups, np.nan)  # masses beyond float64: no step is accepted, and the solver stops
    x = own / mass - (harmonic * (pull - sums))[group] / mass
    # Where a mass is far below its target, the two terms are huge. Correct the sums, which affect p(x), for
    # their rounding errors.
    x += (harmonic * (sums - np.bincount(group, x, n_groups)))[group] / mass
    return x, sums
