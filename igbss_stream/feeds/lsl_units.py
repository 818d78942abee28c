"""Units as streams of the lab streaming layer write them out."""

_MICROVOLTS = ("microvolts", "microvolt", "µv", "μv", "uv")
_SHORT = dict.fromkeys(_MICROVOLTS, "uV") | {"volts": "V", "volt": "V", "millivolts": "mV"}


def short_unit(unit: str | None) -> str | None:
    """Return a unit as it is written here: ``microvolts`` is ``uV``; None if there is none."""
    return _SHORT.get(unit.lower(), unit) if unit else None
