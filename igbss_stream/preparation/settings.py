"""Settings of the preparation of samples before separation."""

import json
import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from igbss_stream.errors import ParameterError

AVERAGE = "average"
HIGHEST_ORDER = 16
LARGEST_FACTOR = 1000  # largest factor in the ratio of two rates
LEAST_SHARE = 1e-5  # of the sampling rate; poles of lower edges are too close to 1 for float64
_RATE_TOLERANCE = 1e-9  # relative difference below which rates are equal


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How samples are prepared. Frequencies and rates are in Hz; a step without a value is skipped.

    Parameters
    ----------
    highpass, lowpass : float, optional
        Edges of Butterworth filters, where the gain is -3 dB per pass.
    filter_order : int
        Order of each of these two filters.
    notch : tuple of float
        Frequencies to remove, such as those of the mains.
    notch_width : float
        Distance between the edges of a notch, where the gain is -3 dB per pass.
    resample : float, optional
        New sampling rate.
    reference : {"average"} or tuple of str, optional
        Channels whose mean is subtracted from each channel: all of them, or the named ones.

    Raises
    ------
    ParameterError
        If a value is not valid.
    """

    highpass: float | None = None
    lowpass: float | None = None
    filter_order: int = 4
    notch: tuple[float, ...] = ()
    notch_width: float = 2.0
    resample: float | None = None
    reference: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("highpass", "lowpass", "notch_width", "resample"):
            _check_positive(name, getattr(self, name))
        for i, frequency in enumerate(self.notch):
            _check_positive(f"notch[{i}]", frequency)
            if frequency <= self.notch_width / 2:
                raise ParameterError(
                    f"notch[{i}] must be above half the notch_width, {self.notch_width / 2:g} Hz. "
                    f"Got {frequency:g} Hz instead.",
                    parameter=f"notch[{i}]",
                )
        order = self.filter_order
        if isinstance(order, bool) or not isinstance(order, int) or not 1 <= order <= HIGHEST_ORDER:
            raise ParameterError(
                f"filter_order must be a whole number from 1 to {HIGHEST_ORDER}. Got {order!r} instead.",
                parameter="filter_order",
            )
        if self.highpass is not None and self.lowpass is not None and self.highpass >= self.lowpass:
            raise ParameterError(
                f"highpass must be below lowpass, {self.lowpass:g} Hz. Got {self.highpass:g} Hz instead.",
                parameter="highpass",
            )
        if isinstance(self.reference, str) and self.reference != AVERAGE:
            raise ParameterError(
                f"reference must be {AVERAGE!r} or names of channels. Got {self.reference!r} instead.",
                parameter="reference",
            )
        if self.reference is not None and not self.reference:
            raise ParameterError(
                "reference names no channel; omit it, or name at least one.", parameter="reference"
            )

    @property
    def has_filters(self) -> bool:
        """Whether there are any filters."""
        return self.highpass is not None or self.lowpass is not None or bool(self.notch)

    @property
    def does_nothing(self) -> bool:
        """Whether samples stay unchanged."""
        return not self.has_filters and self.resample is None and self.reference is None

    @property
    def is_rowwise(self) -> bool:
        """Whether each sample is prepared independently: re-referenced only, or unchanged."""
        return not self.has_filters and self.resample is None

    def check(self, rate: float) -> None:
        """Check the settings for a sampling rate.

        Parameters
        ----------
        rate : float

        Raises
        ------
        ParameterError
            If a frequency is not below half the rate, a frequency is too small relative to the rate, or the
            new rate cannot be derived from it.
        """
        self._check_low(rate)
        edges = {"highpass": self.highpass, "lowpass": self.lowpass}
        edges |= {f"notch[{i}]": f + self.notch_width / 2 for i, f in enumerate(self.notch)}
        for name, edge in edges.items():
            if edge is not None and edge >= rate / 2:
                suffix = " with half the notch_width" if name.startswith("notch") else ""
                raise ParameterError(
                    f"{name}{suffix} must be below {rate / 2:g} Hz, half the rate. "
                    f"Got {edge:g} Hz instead.",
                    parameter=name,
                )
        self.compute_ratio(rate)

    def _check_low(self, rate: float) -> None:
        widths = {"highpass": self.highpass, "lowpass": self.lowpass}
        widths |= {"notch_width": self.notch_width} if self.notch else {}
        for name, width in widths.items():
            if width is not None and width < LEAST_SHARE * rate:
                raise ParameterError(
                    f"{name} must be at least {LEAST_SHARE * rate:g} Hz at a rate of {rate:g} Hz, or "
                    f"rounding errors are too large. Got {width:g} Hz instead.",
                    parameter=name,
                )

    def compute_ratio(self, rate: float) -> tuple[int, int]:
        """Return the ratio of the new rate to the old one as two whole numbers without a common factor.

        Parameters
        ----------
        rate : float
            The old rate.

        Raises
        ------
        ParameterError
            If there is no such ratio of numbers up to `LARGEST_FACTOR`.
        """
        if self.resample is None:
            return 1, 1
        ratio = self.resample / rate
        smaller = Fraction(min(ratio, 1 / ratio)).limit_denominator(LARGEST_FACTOR)
        if not smaller:
            raise ParameterError(
                f"resample must be within a factor of {LARGEST_FACTOR} of the rate, {rate:g} Hz. "
                f"Got {self.resample:g} Hz instead.",
                parameter="resample",
            )
        near = smaller if ratio < 1 else 1 / smaller
        if abs(near / ratio - 1) > _RATE_TOLERANCE:
            raise ParameterError(
                f"resample must be in a ratio of whole numbers up to {LARGEST_FACTOR} to the rate, "
                f"{rate:.12g} Hz. Got {self.resample:.12g} Hz instead; the nearest possible rate is "
                f"{float(rate * near):.12g} Hz.",
                parameter="resample",
            )
        return near.numerator, near.denominator

    def compute_rate(self, rate: float) -> float:
        """Return the sampling rate of the prepared samples.

        Parameters
        ----------
        rate : float
            Sampling rate of the input.
        """
        up, down = self.compute_ratio(rate)
        return rate * up / down

    def to_json(self) -> str:
        """Return the settings as JSON."""
        return json.dumps(asdict(self))


def describe_steps(preparation: Preparation) -> str:
    """Return the settings that are not at their defaults, for messages, such as ``highpass 1.0``.

    Parameters
    ----------
    preparation : Preparation
    """
    defaults, values = asdict(Preparation()), asdict(preparation)
    return ", ".join(
        f"{name} {json.dumps(value)}" for name, value in values.items() if value != defaults[name]
    )


def describe_differences(before: Preparation, now: Preparation) -> str:
    """Return which settings differ, for messages; empty if none do.

    Parameters
    ----------
    before, now : Preparation
    """
    old, new = asdict(before), asdict(now)
    return ", ".join(
        f"{name} {json.dumps(new[name])} instead of {json.dumps(old[name])}"
        for name in new
        if new[name] != old[name]
    )


def _check_positive(name: str, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and math.isfinite(value) and value > 0):
        raise ParameterError(
            f"{name} must be a finite number of Hz above 0. Got {value!r} instead.", parameter=name
        )
