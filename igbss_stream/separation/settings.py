"""Check the parameters of the model, and convert them."""

import json
import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError
from igbss_stream.separation.parameters import LEARNED, PARAMETERS, UNIT_VARIANCE, ModelParameters, Start
from igbss_stream.separation.transform import Transform, as_transform


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelSettings(ModelParameters):
    """The parameters of `igbss_stream.separate` and of the estimator, checked.

    See `igbss_stream.separation.parameters` for each of them, `igbss_stream.model.poset.incidence` for the
    structures, `igbss_stream.model.structure` for learning one, `igbss_stream.model.interactions` for
    products of sources, and `igbss_stream.separation.transform` for the transforms.

    Raises
    ------
    ParameterError
        If a value cannot be used.
    """

    def __post_init__(self) -> None:
        _check_choice("solver", self.solver)
        as_transform(self.transform)
        _check_range("latent_mass", self.latent_mass)
        _check_range("tol", self.tol)
        if not _is_count(self.max_iter):
            raise ParameterError(
                f"max_iter must be a whole number >= 1. Got {self.max_iter!r} instead.",
                parameter="max_iter",
            )
        if self.solver == "closed-form" and self.latent_mass > 0:
            raise ParameterError(
                f"solver 'closed-form' needs latent_mass = 0. Got {self.latent_mass} instead; "
                "use solver 'joint' or leave latent_mass out.",
                parameter="solver",
            )
        self._check_scaling()
        if self.view is not None:
            _check_range("view", self.view)
        _check_choice("drift", self.drift)
        if self.has_products:
            self._check_products()
        if isinstance(self.random_state, int | np.integer) and self.random_state < 0:
            raise ParameterError(
                "random_state must be a whole number >= 0 or a Generator. "
                f"Got {self.random_state} instead.",
                parameter="random_state",
            )
        if isinstance(self.init, str):
            _check_choice("init", self.init, ", or a pair (theta_z, theta_a)")

    @property
    def is_learned(self) -> bool:
        """Whether the structure is learned from the samples."""
        return isinstance(self.structure, str) and self.structure == LEARNED

    @property
    def has_unit_variance(self) -> bool:
        """Whether the sources have unit variance, and the mixing has the unit of the channels."""
        return self.is_learned and self.scaling == UNIT_VARIANCE

    @property
    def has_products(self) -> bool:
        """Whether products of sources are learned as well."""
        return self.is_learned and self.order != 1

    def _check_products(self) -> None:
        """Refuse settings that learned products do not support."""
        for name, value, required in (
            ("transform", as_transform(self.transform).name, "exp"),
            ("solver", self.solver, "auto"),
            ("latent_mass", self.latent_mass, 0),
            ("scaling", self.scaling, UNIT_VARIANCE),
        ):
            if value != required:
                raise ParameterError(
                    f"structure 'learned' with order = {self.order} needs {name} = {required}. "
                    f"Got {value!r} instead.",
                    parameter="structure",
                )

    def _check_scaling(self) -> None:
        _check_choice("scaling", self.scaling)
        if self.scaling != UNIT_VARIANCE and not self.is_learned:
            raise ParameterError(
                f"scaling {self.scaling!r} requires structure 'learned'; leave it out: the sources of "
                "other structures have the unit of the channels.",
                parameter="scaling",
            )

    def to_json(self) -> str:
        """Return the settings as JSON."""
        return json.dumps({field.name: to_plain(getattr(self, field.name)) for field in fields(self)})


def make_start(
    init: Start, shape_z: tuple[int, int], shape_a: tuple[int, int], random_state: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the theta_z and theta_a that a fit starts from.

    Raises
    ------
    ParameterError
        If a given pair has the wrong shapes or values that are not finite.
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


def _check_choice(name: str, value: Any, more: str = "") -> None:
    choices = PARAMETERS[name].choices
    if value not in choices:
        raise ParameterError(
            f"{name} must be one of {', '.join(choices)}{more}. Got {value!r} instead.", parameter=name
        )


def _check_range(name: str, value: Any) -> None:
    """Check the declared bounds of a number."""
    low, high = PARAMETERS[name].ge or 0.0, PARAMETERS[name].lt or math.inf
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not low <= value < high:
        raise ParameterError(
            f"{name} must be a number in [{low:g}, {high:g}). Got {value!r} instead.", parameter=name
        )


def _is_count(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | np.integer) and bool(value >= 1)


def to_plain(value: Any) -> Any:
    """Return a setting as JSON represents it: arrays as lists, transforms as their name and state."""
    if isinstance(value, Transform):
        return {"name": value.name} | {name: to_plain(state) for name, state in vars(value).items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
