"""Round numbers, colours of weights, and units as they are printed."""

from dataclasses import dataclass

import numpy as np

# blue over white to red, of equal lightness on both sides
_LOW, _MIDDLE, _HIGH = (33, 102, 172), (250, 250, 250), (178, 24, 43)
# Units that files have without a prefix, where heads and hearts are millionths of them and less.
_PREFIXED = ("V", "T")
_PREFIXES = (("", 1.0), ("m", 1e3), ("µ", 1e6), ("n", 1e9), ("p", 1e12), ("f", 1e15))


@dataclass(frozen=True, slots=True)
class Reading:
    """How numbers are read.

    Parameters
    ----------
    unit : str
        As it is printed.
    factor : float
        By which numbers in the unit of the file are multiplied.
    """

    unit: str
    factor: float = 1.0


def blend(share: float) -> str:
    """Return the colour for a share of the largest weight, -1 to 1, as ``#rrggbb``."""
    end = _HIGH if share > 0 else _LOW
    mixed = (round(m + abs(share) * (e - m)) for m, e in zip(_MIDDLE, end, strict=True))
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def round_up(value: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is not below a number above 0."""
    power = int(np.floor(np.log10(value)))
    steps = (float(f"{digit}e{exponent}") for exponent in (power, power + 1) for digit in (1, 2, 5))
    return next(step for step in steps if step >= value * (1 - 1e-9))


def pretty(unit: str | None) -> str:
    """Return a unit as it is printed."""
    return {"uV": "µV", "uv": "µV"}.get(unit or "", unit or "")


def reading(unit: str | None, size: float) -> Reading:
    """Return how numbers of about a size are read: volts and teslas with the prefix that fits them.

    Parameters
    ----------
    unit : str or None
    size : float
        In that unit.

    Returns
    -------
    Reading
    """
    if unit not in _PREFIXED or not 0 < size < 1:
        return Reading(pretty(unit))
    prefix, factor = next((one for one in _PREFIXES if size * one[1] >= 0.1), _PREFIXES[-1])
    return Reading(prefix + unit, factor)
