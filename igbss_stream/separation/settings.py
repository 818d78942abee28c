"""Settings, frozen and checked when they are made."""

import json
import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError
from igbss_stream.model.poset import LEARNED
from igbss_stream.separation.transform import Transform, as_transform

SOLVERS = ("auto", "closed-form", "joint", "blocked", "gradient")
STARTS = ("zero", "random")
SCALINGS = ("unit-variance", "back-projected")

Start = str | tuple[Any, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelSettings:
    """How to separate: the parameters of `igbss_stream.separate` and of the estimator.

    Parameters
    ----------
    n_sources : int, optional
        Number of sources; as many as channels when left out.
    structure : {"systematic", "cyclic", "random", "learned"} or array-like of shape (channels, sources)
        Which sources reach which channels, see `igbss_stream.model.poset.incidence`; "learned" from the
        samples, see `igbss_stream.model.structure`.
    order : int
        Largest number of sources that interact. With a learned structure, products of so many sources are
        learned too, see `igbss_stream.model.interactions`: for few sources, and some thousand samples.
    transform : {"exp", "min-max", "sum"} or Transform
        How samples become probabilities, see `igbss_stream.separation.transform`.
    closure : {"strict", "full"}
        Whether a mixing node lies below the received nodes its sources reach, or below all.
    solver : {"auto", "closed-form", "joint", "blocked", "gradient"}
        "auto" takes the closed form where it is exact, the joint natural gradient elsewhere.
    latent_mass : float
        Share of probability on the latent states, 0 <= latent_mass < 1.
    init : {"zero", "random"} or (theta_z, theta_a)
        Where the descent starts.
    tol : float
        Largest relative gradient, ``|eta - eta_hat| / eta_hat``, at which a fit counts as converged.
    max_iter : int
        Largest number of iterations.
    random_state : int or numpy.random.Generator, optional
        Seed of structure "random" and of init "random".
    scaling : {"unit-variance", "back-projected"}
        Scale of the sources of a learned structure: unit variance, the unit in the mixing; or in the unit
        of the channels, as each source shows in the channel where it is strongest.

    Raises
    ------
    ParameterError
        If a value cannot be used.
    """

    n_sources: int | None = None
    structure: Any = LEARNED
    order: int = 1
    transform: str | Transform = "exp"
    closure: Any = "strict"
    solver: str = "auto"
    latent_mass: float = 0.0
    init: Start = "zero"
    tol: float = 1e-10
    max_iter: int = 1000
    random_state: Any = None
    scaling: str = "unit-variance"

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise ParameterError(
                f"solver must be one of {', '.join(SOLVERS)}. Got {self.solver!r} instead.",
                parameter="solver",
            )
        as_transform(self.transform)
        _in_range("latent_mass", self.latent_mass, 0.0, 1.0)
        _in_range("tol", self.tol, 0.0, math.inf)
        if not _is_count(self.max_iter):
            raise ParameterError(
                f"max_iter must be a whole number >= 1. Got {self.max_iter!r} instead.",
                parameter="max_iter",
            )
        if self.solver == "closed-form" and self.latent_mass > 0:
            raise ParameterError(
                f"solver 'closed-form' needs latent_mass = 0. Got {self.latent_mass} instead; "
                "use solver 'joint' or leave the latent mass out.",
                parameter="solver",
            )
        self._check_scaling()
        if self.has_products:
            self._check_products()
        if isinstance(self.random_state, int | np.integer) and self.random_state < 0:
            raise ParameterError(
                "random_state must be a whole number >= 0 or a Generator. "
                f"Got {self.random_state} instead.",
                parameter="random_state",
            )
        if isinstance(self.init, str) and self.init not in STARTS:
            raise ParameterError(
                f"init must be one of {', '.join(STARTS)}, or a pair (theta_z, theta_a). "
                f"Got {self.init!r} instead.",
                parameter="init",
            )

    @property
    def is_learned(self) -> bool:
        """Whether the structure is learned from the samples."""
        return isinstance(self.structure, str) and self.structure == LEARNED

    @property
    def has_unit_variance(self) -> bool:
        """Whether the sources have unit variance, and the mixing holds the unit of the channels."""
        return self.is_learned and self.scaling == SCALINGS[0]

    @property
    def has_products(self) -> bool:
        """Whether products of sources are learned as well."""
        return self.is_learned and self.order != 1

    def _check_products(self) -> None:
        """Refuse what products of sources do not go with."""
        for name, value, wanted in (
            ("transform", as_transform(self.transform).name, ("exp",)),
            ("solver", self.solver, ("auto",)),
            ("latent_mass", self.latent_mass, (0,)),
            ("scaling", self.scaling, SCALINGS[:1]),
        ):
            if value not in wanted:
                raise ParameterError(
                    f"structure 'learned' with order = {self.order} needs {name} = {wanted[0]}. "
                    f"Got {value!r} instead.",
                    parameter="structure",
                )

    def _check_scaling(self) -> None:
        if self.scaling not in SCALINGS:
            raise ParameterError(
                f"scaling must be one of {', '.join(SCALINGS)}. Got {self.scaling!r} instead.",
                parameter="scaling",
            )
        if self.scaling != SCALINGS[0] and not self.is_learned:
            raise ParameterError(
                f"scaling {self.scaling!r} goes with structure 'learned' alone: other structures deliver "
                "sources in the unit of the channels.",
                parameter="scaling",
            )

    def to_json(self) -> str:
        """Return the settings as JSON."""
        return json.dumps({field.name: plain(getattr(self, field.name)) for field in fields(self)})


def start_from(
    init: Start, shape_z: tuple[int, int], shape_a: tuple[int, int], random_state: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return theta_z and theta_a to start from.

    Raises
    ------
    ParameterError
        If a given pair has other shapes or values that are not finite.
    """
    if isinstance(init, str):
        if init == "zero":
            return np.zeros(shape_z), np.zeros(shape_a)
        rng = np.random.default_rng(random_state)
        return rng.standard_normal(shape_z), rng.standard_normal(shape_a)
    try:
        theta_z, theta_a = (np.array(theta, dtype=np.float64, order="C") for theta in init)
    except (TypeError, ValueError):
        raise ParameterError(
            "init must be 'zero', 'random' or a pair (theta_z, theta_a) of numbers.", parameter="init"
        ) from None
    for name, theta, shape in ("theta_z", theta_z, shape_z), ("theta_a", theta_a, shape_a):
        if theta.shape != shape:
            raise ParameterError(
                f"init needs {name} of shape {shape}. Got {theta.shape} instead.", parameter="init"
            )
        if not np.isfinite(theta).all():
            raise ParameterError(
                f"init needs finite numbers. Got {name} with NaN or infinity.", parameter="init"
            )
    return theta_z, theta_a


def _in_range(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not low <= value < high:
        raise ParameterError(
            f"{name} must be a number in [{low:g}, {high:g}). Got {value!r} instead.", parameter=name
        )


def _is_count(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | np.integer) and bool(value >= 1)


def plain(value: Any) -> Any:
    """Return a setting as JSON knows it: arrays as lists, transforms as their name and state."""
    if isinstance(value, Transform):
        return {"name": value.name} | {name: plain(state) for name, state in vars(value).items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
