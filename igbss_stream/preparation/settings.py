"""What is to be done to samples before they are separated."""

import json
import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from igbss_stream.errors import ParameterError

AVERAGE = "average"
HIGHEST_ORDER = 16
LARGEST_FACTOR = 1000  # of the ratio of two rates
LEAST_SHARE = 1e-5  # of the rate: poles of lower edges lie too near 1 for float64
_SAME = 1e-9  # rates that differ by less are the same


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How samples are prepared. Frequencies and rates are in Hz; what is left out is not done.

    Parameters
    ----------
    highpass, lowpass : float, optional
        Edges of Butterworth filters, where their gain is -3 dB a pass.
    filter_order : int
        Order of each of the two.
    notch : tuple of float
        Frequencies that are taken out, such as those of the mains.
    notch_width : float
        Distance of the edges of a notch, where its gain is -3 dB a pass.
    resample : float, optional
        The new rate.
    reference : {"average"} or tuple of str, optional
        Channels whose mean is subtracted from each channel: all of them, or those of these names.

    Raises
    ------
    ParameterError
        If a value cannot be used.
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
                "reference names no channel; leave it out, or name at least one.", parameter="reference"
            )

    @property
    def has_filters(self) -> bool:
        """Whether there is anything to filter."""
        return self.highpass is not None or self.lowpass is not None or bool(self.notch)

    @property
    def does_nothing(self) -> bool:
        """Whether samples stay as they are."""
        return not self.has_filters and self.resample is None and self.reference is None

    @property
    def is_rowwise(self) -> bool:
        """Whether each sample is prepared on its own: by another reference alone, or not at all."""
        return not self.has_filters and self.resample is None

    def check(self, rate: float) -> None:
        """Check it against the rate of the samples.

        Parameters
        ----------
        rate : float

        Raises
        ------
        ParameterError
            If a frequency is not below half the rate, or too small a part of it, or the new rate cannot be
            had from it.
        """
        self._check_low(rate)
        edges = {"highpass": self.highpass, "lowpass": self.lowpass}
        edges |= {f"notch[{i}]": f + self.notch_width / 2 for i, f in enumerate(self.notch)}
        for name, edge in edges.items():
            if edge is not None and edge >= rate / 2:
                of = " with half the notch_width" if name.startswith("notch") else ""
                raise ParameterError(
                    f"{name}{of} must be below {rate / 2:g} Hz, half the rate. Got {edge:g} Hz instead.",
                    parameter=name,
                )
        self.compute_ratio(rate)

    def _check_low(self, rate: float) -> None:
        widths = {"highpass": self.highpass, "lowpass": self.lowpass}
        widths |= {"notch_width": self.notch_width} if self.notch else {}
        for name, width in widths.items():
            if width is not None and width < LEAST_SHARE * rate:
                raise ParameterError(
                    f"{name} must be at least {LEAST_SHARE * rate:g} Hz at a rate of {rate:g} Hz, else "
                    f"rounding shows. Got {width:g} Hz instead.",
                    parameter=name,
                )

    def compute_ratio(self, rate: float) -> tuple[int, int]:
        """Return the new rate over the old one as two whole numbers without a common factor.

        Parameters
        ----------
        rate : float
            The old one.

        Raises
        ------
        ParameterError
            If they are not in such a ratio, of numbers of at most `LARGEST_FACTOR`.
        """
        if self.resample is None:
            return 1, 1
        wanted = self.resample / rate
        smaller = Fraction(min(wanted, 1 / wanted)).limit_denominator(LARGEST_FACTOR)
        if not smaller:
            raise ParameterError(
                f"resample must be within a factor of {LARGEST_FACTOR} of the rate, {rate:g} Hz. "
                f"Got {self.resample:g} Hz instead.",
                parameter="resample",
            )
        near = smaller if wanted < 1 else 1 / smaller
        if abs(near / wanted - 1) > _SAME:
            raise ParameterError(
                f"resample must be in a ratio of whole numbers up to {LARGEST_FACTOR} to the rate, "
                f"{rate:.12g} Hz. Got {self.resample:.12g} Hz instead; the nearest that is possible is "
                f"{float(rate * near):.12g} Hz.",
                parameter="resample",
            )
        return near.numerator, near.denominator

    def compute_rate(self, rate: float) -> float:
        """Return the rate of the prepared samples.

        Parameters
        ----------
        rate : float
            That of the samples before.
        """
        up, down = self.compute_ratio(rate)
        return rate * up / down

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))


def _check_positive(name: str, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and math.isfinite(value) and value > 0):
        raise ParameterError(
            f"{name} must be a finite number of Hz above 0. Got {value!r} instead.", parameter=name
        )
