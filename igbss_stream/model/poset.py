"""The sample space of the model and its partial order.

Bottom is below all other states. The mixing node a[l, S], of channel l and a set S of at most `order`
sources, is below the source node z[m, n] if S contains n. The source node z[m, n] is below the received
node x[m, l] with the weight W[l, n], the incidence. The closure determines whether a[l, S] is below x[m,
l']: with "strict" by transitivity only (W[l', n] > 0 for some n in S), with "full" always.
"""

import itertools
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from igbss_stream._util.blas_threads import limit_blas_threads
from igbss_stream.errors import ParameterError

Closure = Literal["strict", "full"]
RandomState = int | np.random.Generator | None

STRUCTURES = ("systematic", "cyclic", "random")
LEARNED = "learned"  # requires samples, see `igbss_stream.model.structure`
MAX_SUBSETS = 2048  # a joint step factors a matrix of this size: 32 MB, one second

# Up to this number, results do not depend on the threads of BLAS, and finding them costs more than they do.
_FEW_CHANNELS = 128

# relative to the largest singular value; a structure with a smaller one is rank-deficient
_RANK_TOLERANCE = 1e-10


def list_subsets(n_sources: int, order: int) -> tuple[tuple[int, ...], ...]:
    """Return all non-empty sets of at most `order` sources, by size, then in lexicographic order."""
    sizes = range(1, order + 1)
    return tuple(itertools.chain.from_iterable(itertools.combinations(range(n_sources), r) for r in sizes))


@dataclass(frozen=True)
class Poset:
    """Sample space of the model for any number of samples.

    Parameters
    ----------
    incidence : ndarray of shape (periods, channels, sources)
        Real weights W; sample m uses ``incidence[m % periods]``.
    order : int
        Largest number of sources that interact, 1 <= order <= sources.
    closure : {"strict", "full"}
        Which received nodes a mixing node is below, see the module.
    left_inverse : ndarray of shape (periods, sources, channels), optional
        Value of `unmixing`; the pseudo-inverse of the incidence if omitted.

    Raises
    ------
    ParameterError
        If a value is out of range or the incidence does not separate the sources.
    """

    incidence: NDArray[np.float64]
    order: int = 1
    closure: Closure = "strict"
    left_inverse: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "incidence", np.ascontiguousarray(self.incidence, dtype=np.float64))
        if self.closure not in get_args(Closure):
            raise ParameterError(
                f"closure must be one of {', '.join(get_args(Closure))}. Got {self.closure!r} instead.",
                parameter="closure",
            )
        if isinstance(self.order, bool) or not isinstance(self.order, int | np.integer):
            raise ParameterError(
                f"order must be a whole number. Got {self.order!r} instead.", parameter="order"
            )
        if not 1 <= self.order <= self.n_sources:
            raise ParameterError(
                f"order must be between 1 and the number of sources, {self.n_sources}. "
                f"Got {self.order} instead.",
                parameter="order",
            )
        if self.n_subsets > MAX_SUBSETS:
            raise ParameterError(
                f"order {self.order} with {self.n_sources} sources gives {self.n_subsets} mixing nodes "
                f"per channel, more than {MAX_SUBSETS}. Lower order or n_sources.",
                parameter="order",
            )
        with _limit_threads(self.n_channels):
            _check_columns(self.incidence)

    @property
    def periods(self) -> int:
        """Number of samples after which the incidence repeats."""
        return int(self.incidence.shape[0])

    @property
    def n_channels(self) -> int:
        """Number of received signals, L."""
        return int(self.incidence.shape[1])

    @property
    def n_sources(self) -> int:
        """Number of sources, N."""
        return int(self.incidence.shape[2])

    @property
    def n_subsets(self) -> int:
        """Number of mixing nodes per channel, K."""
        return sum(math.comb(self.n_sources, size) for size in range(1, self.order + 1))

    @cached_property
    def member(self) -> NDArray[np.float64]:
        """Membership of sources in subsets, (subsets, sources), in the order of `list_subsets`."""
        member = np.zeros((self.n_subsets, self.n_sources))
        for row, subset in zip(member, list_subsets(self.n_sources, self.order), strict=True):
            row[list(subset)] = 1.0
        return member

    @cached_property
    def below(self) -> NDArray[np.float64]:
        """Indicator of the mixing nodes below each channel, (periods, channels, subsets)."""
        if self.closure == "full":
            return np.ones((self.periods, self.n_channels, self.n_subsets))
        shared = (self.incidence != 0).astype(float) @ self.member.T
        return np.ascontiguousarray(shared > 0, dtype=np.float64)

    @cached_property
    def unmixing(self) -> NDArray[np.float64]:
        """Left inverse of the incidence, (periods, sources, channels)."""
        if self.left_inverse is not None:
            return self.left_inverse
        with _limit_threads(self.n_channels):
            return np.asarray(np.linalg.pinv(self.incidence), dtype=np.float64)

    @property
    def equal_channels(self) -> list[list[int]]:
        """Groups of channels with equal incidence, to which the model assigns the same signal."""
        rows = self.incidence.transpose(1, 0, 2).reshape(self.n_channels, -1)
        groups: dict[bytes, list[int]] = {}
        for channel, row in enumerate(rows):
            groups.setdefault(row.tobytes(), []).append(channel)
        return [group for group in groups.values() if len(group) > 1]

    @cached_property
    def cut(self) -> NDArray[np.int64] | None:
        """Channel that each source does not reach, if W is ones minus a permutation matrix; else None.

        W^-1 is then ``1 / (N - 1)`` minus the transposed permutation matrix.
        """
        absent = 1.0 - self.incidence
        if self.n_sources < 2 or self.periods > 1 or not _is_permutation(absent):
            return None
        return np.asarray(np.argmax(absent[0], axis=0), dtype=np.int64)

    @cached_property
    def latent_design(self) -> NDArray[np.float64]:
        """Derivative of log p(x) in the log-masses of the latent nodes, (periods, channels, subsets + 1).

        With phi = log p(z), s[S] = sum over l of log p(a[l, S]) and t = log p(bottom), the log-density of
        the received layer is ``log p(x) = W phi + design @ (s, t)``. In these coordinates the
        information matrix is diag(p of the latent nodes) plus a sum of squares over the received nodes.
        """
        per_set = self.below - self.incidence @ self.member.T
        bottom = 1.0 - self.incidence.sum(axis=2) - self.n_channels * per_set.sum(axis=2)
        return np.concatenate([per_set, bottom[:, :, None]], axis=2)

    @property
    def shares_mass(self) -> bool:
        """Whether W is a permutation with strict closure; p(x) and p(z) then have equal masses."""
        return self.closure == "strict" and _is_permutation(self.incidence)

    @cached_property
    def active_design(self) -> tuple[NDArray[np.int_], NDArray[np.float64]]:
        """Groups that affect log p(x), and their columns of `latent_design`; for order 1 only bottom."""
        active = np.flatnonzero(self.latent_design.any(axis=(0, 1)))
        return active, np.ascontiguousarray(self.latent_design[:, :, active])

    @cached_property
    def subset_of_node(self) -> NDArray[np.int_]:
        """Index of the subset of each mixing node, channel by channel, (channels * subsets,)."""
        return np.tile(np.arange(self.n_subsets), self.n_channels)

    @cached_property
    def has_closed_form(self) -> bool:
        """Whether the log-sources at the optimum are ``W^-1 log p_hat``, up to a constant for each.

        It requires that W is square and that the latent states have no mass. The divergence then tends to
        zero, and p(x) to p_hat, if and only if all latent nodes can lose their mass while p(x) is
        unchanged: some s, t < 0 must lower every ``phi = W^-1 (log p_hat - design @ (s, t))``, which is a
        linear program. If each mixing node is below all channels, as with weights without zeros, ``s =
        (L - 1 / K) t`` does: it lowers phi by ``(1 - d / K) |t|``, where d < K sets contain a source.
        Otherwise p(z) retains mass and p(x) differs from p_hat. The formula still holds for some W, of
        which only permutations under the strict closure are recognised (p(x) and p(z) are p_hat / 2 each).
        """
        if self.n_channels != self.n_sources:
            return False
        if self.shares_mass or (self.n_sources > 1 and self.below.all()):
            return True
        with _limit_threads(self.n_channels):
            rise = self.unmixing @ self.latent_design
        if np.all(rise.sum(axis=2) < -1e-9):
            return True  # s = t = -1 is a solution
        return _has_descent_direction(rise.reshape(-1, rise.shape[2]))


def make_incidence(
    structure: str | ArrayLike,
    n_channels: int,
    n_sources: int | None = None,
    random_state: RandomState = None,
) -> NDArray[np.float64]:
    """Return the incidence of a named structure, or check a given one.

    Parameters
    ----------
    structure : {"systematic", "cyclic", "random"} or array-like of shape (channels, sources)
        "systematic" removes the edge from source n to channel n, as in the paper; "cyclic" removes the edge
        from source n at sample m to channel ``(m * n_sources + n) % n_channels``; "random" removes the edge
        from each source to one channel, drawn without replacement. A matrix contains finite weights >= 0.
    n_channels : int
        Number of channels.
    n_sources : int, optional
        Number of sources; by default the number of channels, or of columns of the matrix.
    random_state : int or numpy.random.Generator, optional
        Seed of "random".

    Returns
    -------
    ndarray of shape (periods, channels, sources)

    Raises
    ------
    ParameterError
        If the name is unknown, a number is out of range or the matrix is invalid.
    """
    if not isinstance(structure, str):
        return _check_matrix(structure, n_channels, n_sources)
    if structure not in STRUCTURES:
        raise ParameterError(
            f"structure must be one of {', '.join((*STRUCTURES, LEARNED))}, or a matrix (channels, "
            f"sources). Got {structure!r} instead.",
            parameter="structure",
        )
    count = n_channels if n_sources is None else n_sources
    check_source_count(count, n_channels)
    source = np.arange(count)
    if structure == "systematic":
        cut = source[None, :]
    elif structure == "cyclic":
        periods = n_channels // math.gcd(n_channels, count)
        cut = (np.arange(periods)[:, None] * count + source) % n_channels
    else:
        cut = np.random.default_rng(random_state).permutation(n_channels)[None, :count]
    weights = np.ones((cut.shape[0], n_channels, count))
    np.put_along_axis(weights, cut[:, None, :], 0.0, axis=1)
    return weights


def check_source_count(n_sources: int, n_channels: int) -> None:
    """Raise ParameterError unless a number of sources is between 1 and the number of channels."""
    if isinstance(n_sources, bool) or not isinstance(n_sources, int | np.integer) or n_sources < 1:
        raise ParameterError(
            f"n_sources must be a whole number >= 1. Got {n_sources!r} instead.", parameter="n_sources"
        )
    if n_sources > n_channels:
        raise ParameterError(
            f"n_sources must be at most the number of channels, {n_channels}. Got {n_sources} instead.",
            parameter="n_sources",
        )


def _check_matrix(structure: ArrayLike, n_channels: int, n_sources: int | None) -> NDArray[np.float64]:
    given = np.asarray(structure)
    if given.dtype.kind not in "biuf":
        raise ParameterError(
            f"structure must be a name or a matrix of real numbers (channels, sources). "
            f"Got dtype {given.dtype} instead.",
            parameter="structure",
        )
    weights = given.astype(np.float64)
    if weights.ndim != 2 or weights.shape[0] != n_channels:
        raise ParameterError(
            f"structure must be a matrix with a row for each of the {n_channels} channels. "
            f"Got shape {weights.shape} instead.",
            parameter="structure",
        )
    if n_sources is not None and weights.shape[1] != n_sources:
        raise ParameterError(
            f"structure must have n_sources = {n_sources} columns. Got {weights.shape[1]} instead.",
            parameter="structure",
        )
    if not 1 <= weights.shape[1] <= n_channels:
        raise ParameterError(
            f"structure must have between 1 and {n_channels} columns, one per source. "
            f"Got {weights.shape[1]} instead.",
            parameter="structure",
        )
    bad = np.argwhere(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        i, n = bad[0]
        raise ParameterError(
            f"structure must have finite weights >= 0. Got {weights[i, n]} in row {i}, column {n}.",
            parameter="structure",
        )
    return weights[None]


def _limit_threads(n_channels: int) -> AbstractContextManager[None]:
    return limit_blas_threads() if n_channels > _FEW_CHANNELS else nullcontext()


def _check_columns(weights: NDArray[np.float64]) -> None:
    for period in weights:
        norm = np.linalg.norm(period, axis=0)
        if not norm.all():
            raise ParameterError(
                f"structure has only zeros in column {int(np.argmin(norm))}: "
                "this source reaches no channel. Give it a weight or remove the column.",
                parameter="structure",
            )
        unit = period / norm
        alike = np.argwhere(np.triu(unit.T @ unit > 1 - 1e-12, 1))
        if alike.size:
            first, second = alike[0]
            raise ParameterError(
                f"structure does not separate the sources: columns {first} and {second} are equal"
                f"{'' if np.array_equal(period[:, first], period[:, second]) else ' up to a factor'}. "
                "Change one of them or lower n_sources.",
                parameter="structure",
            )
        singular = np.linalg.svd(unit, compute_uv=False)
        rank = int(np.sum(singular > _RANK_TOLERANCE * singular[0]))
        if rank < period.shape[1]:
            raise ParameterError(
                f"structure does not separate the sources: its {period.shape[1]} columns have rank {rank}. "
                "Make the columns linearly independent or lower n_sources.",
                parameter="structure",
            )


def _is_permutation(weights: NDArray[np.float64]) -> bool:
    return bool(
        weights.shape[1] == weights.shape[2]
        and np.isin(weights, (0.0, 1.0)).all()
        and (weights.sum(axis=1) == 1).all()
        and (weights.sum(axis=2) == 1).all()
    )


def _has_descent_direction(rise: NDArray[np.float64]) -> bool:
    """Return whether some x in [-1e4, -1] has rise @ x >= 1 in every row.

    Without the lower bound, a coefficient that is zero up to rounding would count as a descent direction.
    """
    from scipy.optimize import (
        linprog,  # importing takes a second; only matrices of the caller need it
    )

    program = linprog(np.zeros(rise.shape[1]), A_ub=-rise, b_ub=-np.ones(len(rise)), bounds=(-1e4, -1.0))
    return bool(program.status == 0)
