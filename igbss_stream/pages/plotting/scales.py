"""Choose round numbers, colours of weights and units for display."""

from dataclasses import dataclass

import numpy as np

# from blue through white to red, with equal lightness on both sides
_LOW, _MIDDLE, _HIGH = (33, 102, 172), (250, 250, 250), (178, 24, 43)
# Units stored without a prefix, although signals of heads and hearts are in the millionths and below.
_PREFIXED = ("V", "T")
_PREFIXES = (("", 1.0), ("m", 1e3), ("µ", 1e6), ("n", 1e9), ("p", 1e12), ("f", 1e15))


@dataclass(frozen=True, slots=True)
class DisplayUnit:
    """A unit for display, and the factor to convert to it.

    Parameters
    ----------
    unit : str
        Text of the unit.
    factor : float
        Multiplier of numbers in the unit of the file.
    """

    unit: str
    factor: float = 1.0


def blend(share: float) -> str:
    """Return the colour of a weight, given as a share of the largest one (-1 to 1), as ``#rrggbb``."""
    end = _HIGH if share > 0 else _LOW
    mixed = (round(m + abs(share) * (e - m)) for m, e in zip(_MIDDLE, end, strict=True))
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def round_up(value: float) -> float:
    """Round a positive number up to 1, 2 or 5 times a power of ten."""
    power = int(np.floor(np.log10(value)))
    steps = (float(f"{digit}e{exponent}") for exponent in (power, power + 1) for digit in (1, 2, 5))
    return next(step for step in steps if step >= value * (1 - 1e-9))


def format_unit(unit: str | None) -> str:
    """Return a unit for display."""
    return {"uV": "µV", "uv": "µV"}.get(unit or "", unit or "")


def choose_unit(unit: str | None, size: float) -> DisplayUnit:
    """Choose the unit to display numbers of a given size; volts and teslas get a suitable prefix.

    Parameters
    ----------
    unit : str or None
    size : float
        Typical size of the numbers, in that unit.

    Returns
    -------
    DisplayUnit
    """
    if unit not in _PREFIXED or not 0 < size < 1:
        return DisplayUnit(format_unit(unit))
    prefix, factor = next((one for one in _PREFIXES if size * one[1] >= 0.1), _PREFIXES[-1])
    return DisplayUnit(prefix + unit, factor)
