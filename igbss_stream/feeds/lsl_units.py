"""Convert between unit names of the lab streaming layer (LSL) and short ones.

Separate from the LSL inlet because XDF recordings, which need no LSL library, use the same names.
"""

_MICROVOLTS = ("microvolts", "microvolt", "µv", "μv", "uv")
_SHORT = dict.fromkeys(_MICROVOLTS, "uV") | {"volts": "V", "volt": "V", "millivolts": "mV"}


def shorten_unit(unit: str | None) -> str | None:
    """Return the short name of a unit, e.g. ``uV`` for ``microvolts``; None if there is no unit."""
    return _SHORT.get(unit.lower(), unit) if unit else None


def spell_out_unit(unit: str) -> str:
    """Return the name that LSL recommends for a unit, e.g. ``microvolts`` for ``uV``."""
    return "microvolts" if unit == "uV" else unit
