"""From samples to probabilities and back.

Each transform maps a sample x to a positive value v, of which the model sees log v; p_hat is v divided by
its sum. The state (where the scale lies) belongs to a recording or a stream, not to a window, or windows
would disagree about amplitude. `fit` takes the state from a survey of the samples; state that is given
stays as it is.

==========  ========================================  =======================================
name        log v                                     needs
==========  ========================================  =======================================
"exp"       (x - center) / scale                      nothing; linear, so sources are unmixed x
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

# Largest |log v| of "exp" with its own scale: what a descent from theta = 0 takes in its stride.
_REACH = 10.0
# Least margin of "min-max": closer to zero the minimum would have no probability to speak of.
_LEAST_MARGIN = 1e-9


class Transform(ABC):
    """What the transforms have in common."""

    name: ClassVar[str]
    linear: ClassVar[bool] = False
    """Whether log v is linear in x, so that unmixing log v and unmixing x are one thing."""

    @abstractmethod
    def fit(self, survey: Survey) -> Self:
        """Return the transform with its state taken from a survey, where it has none yet."""

    @abstractmethod
    def log(self, x: NDArray[Any]) -> Array:
        """Return log v, in float64; -inf where v is zero."""

    @abstractmethod
    def inverse(self, log_values: Array) -> Array:
        """Return the samples whose transform this is, in the unit of the input."""


@dataclass(frozen=True)
class Exp(Transform):
    """The exponential kernel, v = exp((x - center) / scale).

    Parameters
    ----------
    scale : float, optional
        Unit of log v, in the unit of x. Left out: the typical deviation of a channel from its median (see
        `Survey.spread`), or a tenth of the largest deviation where that is more, so that no outlier takes
        all the mass. Volts and microvolts then give the same v.
    center : float or array-like of shape (channels,), optional
        What counts as v = 1. Left out: the median of each channel, so that no offset fills p_hat.
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
        scale = self.scale or max(survey.spread, furthest / _REACH)
        return replace(self, scale=scale, center=center)

    def log(self, x: NDArray[Any]) -> Array:
        """Return (x - center) / scale."""
        with np.errstate(over="ignore"):  # infinity tells the model that the scale is too small
            return np.asarray((x - np.asarray(_known(self.center), dtype=np.float64)) / _known(self.scale))

    def inverse(self, log_values: Array) -> Array:
        """Return center + scale log v."""
        return np.asarray(
            log_values * _known(self.scale) + np.asarray(_known(self.center), dtype=np.float64)
        )

    @property
    def unit(self) -> float:
        """The scale, which has to be known."""
        return float(_known(self.scale))


@dataclass(frozen=True)
class MinMax(Transform):
    """Min-max normalisation over all channels, v = (x - low) / span.

    Parameters
    ----------
    margin : float
        Distance of the minimum from zero, as a share of the range of x.
    low, span : float, optional
        Where v is 0, and the distance from there to where it is 1. Left out: minimum less margin, and
        range plus margin.
    """

    name: ClassVar[str] = "min-max"
    margin: float = 0.1
    low: float | None = None
    span: float | None = None

    def __post_init__(self) -> None:
        _check_positive("margin", self.margin)
        if self.margin < _LEAST_MARGIN:
            raise ParameterError(
                f"margin must be at least {_LEAST_MARGIN:g}. Got {self.margin!r} instead.",
                parameter="margin",
            )
        _check_positive("span", self.span)
        if (self.low is None) != (self.span is None):
            raise ParameterError(
                "transform 'min-max' needs low and span both, or neither.", parameter="transform"
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
        return _log((x - np.float64(_known(self.low))) / _known(self.span), self.name)

    def inverse(self, log_values: Array) -> Array:
        """Return low + span v."""
        return np.asarray(np.exp(log_values) * _known(self.span) + _known(self.low))


@dataclass(frozen=True)
class Sum(Transform):
    """Division by the sum, v = x / scale; the samples themselves are the weights.

    Parameters
    ----------
    scale : float, optional
        Where v is 1. Left out: the mean over all samples and channels.
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
        return _log(x / np.float64(_known(self.scale)), self.name)

    def inverse(self, log_values: Array) -> Array:
        """Return scale v."""
        return np.asarray(np.exp(log_values) * _known(self.scale))


@dataclass(frozen=True, eq=False)
class Centred(Transform):
    """Another transform with the mean of log v of each channel taken off.

    Parameters
    ----------
    of : Transform
        With its state.
    mean : ndarray of shape (channels,)
    """

    of: Transform
    mean: Array

    @property
    def name(self) -> str:  # type: ignore[override]  # of an instance: that of the other
        """Name of the other transform."""
        return self.of.name

    def fit(self, survey: Survey) -> Self:
        """Return the transform: it has its state."""
        return self

    def log(self, x: NDArray[Any]) -> Array:
        """Return log v of the other transform less its mean."""
        return np.asarray(self.of.log(x) - self.mean)

    def inverse(self, log_values: Array) -> Array:
        """Return the samples."""
        return self.of.inverse(log_values + self.mean)


TRANSFORMS: dict[str, type[Transform]] = {kind.name: kind for kind in (Exp, MinMax, Sum)}


def as_transform(transform: str | Transform) -> Transform:
    """Return the transform of this name, or the given one.

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


def transform_of(described: dict[str, Any]) -> Transform:
    """Return the transform that `igbss_stream.separation.settings.plain` described.

    Parameters
    ----------
    described : dict
        Its name and state, lists for arrays.

    Raises
    ------
    ParameterError
        If it is not one.
    """
    state = {name: value for name, value in described.items() if name != "name"}
    if "of" in state:
        return Centred(transform_of(state["of"]), np.asarray(state["mean"], dtype=np.float64))
    if described.get("name") not in TRANSFORMS:
        raise ParameterError(f"transform {described.get('name')!r} is not known.", parameter="transform")
    if isinstance(state.get("center"), list):
        state["center"] = np.asarray(state["center"], dtype=np.float64)
    return TRANSFORMS[described["name"]](**state)


def _known(state: Any) -> Any:
    if state is None:
        raise RuntimeError("the transform has no state yet: fit it to a survey first")
    return state


def _log(values: NDArray[Any], name: str) -> Array:
    lowest = values.min(initial=0.0)
    if lowest < 0:
        raise InputError(
            f"transform '{name}' was fitted to samples that do not go as low as these. "
            "Fit it to all samples, or use transform 'exp'."
        )
    with np.errstate(divide="ignore"):  # log 0 = -inf is what a sample without mass has
        return np.asarray(np.log(values), dtype=np.float64)


def _check_positive(name: str, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise ParameterError(
            f"{name} must be a finite number above 0. Got {value!r} instead.", parameter=name
        )
