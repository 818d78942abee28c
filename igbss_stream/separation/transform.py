"""Convert samples into probabilities and back.

Each transform maps a sample x to a positive value v. The model sees log v, and p_hat is v divided by its
sum. The state of a transform, such as its scale, belongs to a recording or a stream rather than to a
window; otherwise windows would disagree about amplitude. `fit` takes the state from a survey of the
samples and keeps a state that is given.

==========  ========================================  =======================================
name        log v                                     condition
==========  ========================================  =======================================
"exp"       (x - center) / scale                      none; linear: sources are unmixed x
"min-max"   log((x - min + m r) / (r + m r))          r = max - min > 0, m the margin
"sum"       log(x / mean of x)                        x >= 0
==========  ========================================  =======================================
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from igbss_stream.errors import InputError, ParameterError
from igbss_stream.separation.statistics import Survey

Array = NDArray[np.float64]

# Largest |log v| of "exp" with its default scale, within reach of a descent from theta = 0.
_MAX_LOG = 10.0
# Least margin of "min-max": closer to zero, the minimum would have a negligible probability.
_MIN_MARGIN = 1e-9


class Transform(ABC):
    """Base class of the transforms."""

    name: ClassVar[str]
    linear: ClassVar[bool] = False
    """Whether log v is linear in x: unmixing log v and unmixing x are then the same."""

    @abstractmethod
    def fit(self, survey: Survey) -> Self:
        """Return the transform with its state taken from a survey, unless the state is given."""

    @abstractmethod
    def log(self, x: NDArray[Any]) -> Array:
        """Return log v, in float64; -inf where v is zero."""

    @abstractmethod
    def has_log(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values have a finite logarithm; `log` raises an error for those below."""

    @abstractmethod
    def inverse(self, log_values: Array) -> Array:
        """Return the samples with this log v, in the unit of the input."""


@dataclass(frozen=True)
class Exp(Transform):
    """The exponential kernel, v = exp((x - center) / scale).

    Parameters
    ----------
    scale : float, optional
        Unit of log v, in the unit of x. Default: the typical deviation of a channel from its median (see
        `Survey.spread`), or a tenth of the largest deviation if that is more, which keeps an outlier from
        taking all the mass. Volts and microvolts then give the same v.
    center : float or array-like of shape (channels,), optional
        The value of x with v = 1. Default: the median of each channel, which keeps an offset from
        dominating p_hat.
    """

    name: ClassVar[str] = "exp"
    linear: ClassVar[bool] = True
    scale: float | None = None
    center: ArrayLike | None = None

    def __post_init__(self) -> None:
        _check_positive("scale", self.scale)

    def fit(self, survey: Survey) -> Self:
        """Take scale and center from the rows that the survey kept."""
        center = survey.median if self.center is None else np.asarray(self.center, dtype=np.float64)
        furthest = float(np.maximum(survey.high - center, center - survey.low).max())
        scale = self.scale or max(survey.spread, furthest / _MAX_LOG)
        return replace(self, scale=scale, center=center)

    def log(self, x: NDArray[Any]) -> Array:
        """Return (x - center) / scale."""
        with np.errstate(over="ignore"):  # the model reports infinity as a scale that is too small
            center = np.asarray(_require_state(self.center), dtype=np.float64)
            return np.asarray((x - center) / _require_state(self.scale))

    def has_log(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values are finite."""
        return np.asarray(np.isfinite(x))

    def inverse(self, log_values: Array) -> Array:
        """Return center + scale log v."""
        center = np.asarray(_require_state(self.center), dtype=np.float64)
        return np.asarray(log_values * _require_state(self.scale) + center)

    @property
    def unit(self) -> float:
        """The scale; raises an error if it is not known yet."""
        return float(_require_state(self.scale))


@dataclass(frozen=True)
class MinMax(Transform):
    """Min-max normalisation over all channels, v = (x - low) / span.

    Parameters
    ----------
    margin : float
        Distance of the minimum from zero, as a share of the range of x.
    low, span : float, optional
        The value of x with v = 0, and the distance from there to v = 1. Default: the minimum less the
        margin, and the range plus the margin.
    """

    name: ClassVar[str] = "min-max"
    margin: float = 0.1
    low: float | None = None
    span: float | None = None

    def __post_init__(self) -> None:
        _check_positive("margin", self.margin)
        if self.margin < _MIN_MARGIN:
            raise ParameterError(
                f"margin must be at least {_MIN_MARGIN:g}. Got {self.margin!r} instead.",
                parameter="margin",
            )
        _check_positive("span", self.span)
        if (self.low is None) != (self.span is None):
            raise ParameterError(
                "transform 'min-max' needs both low and span, or neither.", parameter="transform"
            )

    def fit(self, survey: Survey) -> Self:
        """Take low and span from the extremes of the survey."""
        if self.span is not None:
            return self
        low, high = float(survey.low.min()), float(survey.high.max())
        gap = self.margin * (high - low)
        return replace(self, low=low - gap, span=high - low + gap)

    def log(self, x: NDArray[Any]) -> Array:
        """Return log((x - low) / span)."""
        return _log((x - np.float64(_require_state(self.low))) / _require_state(self.span), self.name)

    def has_log(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values are above `low`."""
        return _is_positive(x - np.float64(_require_state(self.low)))

    def inverse(self, log_values: Array) -> Array:
        """Return low + span v."""
        return np.asarray(np.exp(log_values) * _require_state(self.span) + _require_state(self.low))


@dataclass(frozen=True)
class Sum(Transform):
    """Division by the sum, v = x / scale: the samples themselves are the weights.

    Parameters
    ----------
    scale : float, optional
        The value of x with v = 1. Default: the mean over all samples and channels.
    """

    name: ClassVar[str] = "sum"
    scale: float | None = None

    def __post_init__(self) -> None:
        _check_positive("scale", self.scale)

    def fit(self, survey: Survey) -> Self:
        """Take the scale from the mean of the survey."""
        if survey.low.min() < 0:
            channel = int(np.argmin(survey.low))
            raise InputError(
                f"transform 'sum' needs samples >= 0. {survey.names[channel]} goes down to "
                f"{float(survey.low[channel]):g}; use transform 'exp' or 'min-max'."
            )
        return self if self.scale is not None else replace(self, scale=float(survey.mean.mean()))

    def log(self, x: NDArray[Any]) -> Array:
        """Return log(x / scale)."""
        return _log(x / np.float64(_require_state(self.scale)), self.name)

    def has_log(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values are above 0."""
        return _is_positive(x / np.float64(_require_state(self.scale)))

    def inverse(self, log_values: Array) -> Array:
        """Return scale v."""
        return np.asarray(np.exp(log_values) * _require_state(self.scale))


@dataclass(frozen=True, eq=False)
class Centred(Transform):
    """Another transform, with the mean of log v of each channel subtracted.

    Parameters
    ----------
    of : Transform
        The other transform, with its state.
    mean : ndarray of shape (channels,)
    """

    of: Transform
    mean: Array

    @property
    def name(self) -> str:  # type: ignore[override]  # a property here: that of the other transform
        """Name of the other transform."""
        return self.of.name

    def fit(self, survey: Survey) -> Self:
        """Return the transform unchanged: it has its state."""
        return self

    def log(self, x: NDArray[Any]) -> Array:
        """Return log v of the other transform less its mean."""
        return np.asarray(self.of.log(x) - self.mean)

    def has_log(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values have a finite logarithm."""
        return self.of.has_log(x)

    def inverse(self, log_values: Array) -> Array:
        """Return the samples with this log v, in the unit of the input."""
        return self.of.inverse(log_values + self.mean)


TRANSFORMS: dict[str, type[Transform]] = {kind.name: kind for kind in (Exp, MinMax, Sum)}


def as_transform(transform: str | Transform) -> Transform:
    """Return the transform of this name; a Transform is returned as it is.

    Raises
    ------
    ParameterError
        If it is neither.
    """
    if isinstance(transform, Transform):
        return transform
    if transform not in TRANSFORMS:
        raise ParameterError(
            f"transform must be one of {', '.join(TRANSFORMS)}, or a Transform. Got {transform!r} instead.",
            parameter="transform",
        )
    return TRANSFORMS[transform]()


def restore_transform(description: dict[str, Any]) -> Transform:
    """Return the transform that `igbss_stream.separation.settings.to_plain` described.

    Parameters
    ----------
    description : dict
        Its name and state, with lists for arrays.

    Raises
    ------
    ParameterError
        If the name is unknown.
    """
    state = {name: value for name, value in description.items() if name != "name"}
    if "of" in state:
        return Centred(restore_transform(state["of"]), np.asarray(state["mean"], dtype=np.float64))
    if description.get("name") not in TRANSFORMS:
        raise ParameterError(
            f"transform must be one of {', '.join(TRANSFORMS)}. Got {description.get('name')!r} instead.",
            parameter="transform",
        )
    if isinstance(state.get("center"), list):
        state["center"] = np.asarray(state["center"], dtype=np.float64)
    return TRANSFORMS[description["name"]](**state)


def _require_state(state: Any) -> Any:
    if state is None:
        raise RuntimeError("the transform has no state yet: fit it to a survey first")
    return state


def _is_positive(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((values > 0) & np.isfinite(values))


def _log(values: NDArray[Any], name: str) -> Array:
    lowest = values.min(initial=0.0)
    if lowest < 0:
        raise InputError(
            f"transform '{name}' was fitted to samples whose minimum is above these. "
            "Fit it to all samples, or use transform 'exp'."
        )
    with np.errstate(divide="ignore"):  # log 0 = -inf marks a sample without mass
        return np.asarray(np.log(values), dtype=np.float64)


def _check_positive(name: str, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise ParameterError(
            f"{name} must be a finite number above 0. Got {value!r} instead.", parameter=name
        )
