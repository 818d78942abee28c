"""Round numbers, colours of weights, and units as they are printed."""

import numpy as np

# blue over white to red, of equal lightness on both sides
_LOW, _MIDDLE, _HIGH = (33, 102, 172), (250, 250, 250), (178, 24, 43)


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
