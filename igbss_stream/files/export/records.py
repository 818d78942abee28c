"""How samples are cut into the records of EDF.

A record holds a whole number of samples and lasts a number of seconds that is written in eight characters;
the rate is one over the other, and a recording is a whole number of records. A length is looked for that
states the rate exactly (or to 1e-9), keeps a record below the 61440 bytes that EDF recommends, needs no
padding and is near a second, in this order.
"""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from igbss_stream.errors import ParameterError

_EXACT = 1e-12
_UNNOTICED = 1e-9  # of the rate: 4 microseconds in an hour
_DRIFT = 1e-6  # of the rate, that is still written: 4 ms in an hour
_SHORTEST, _LONGEST = 0.02, 10.0  # seconds
_RECOMMENDED = 61440  # bytes
_TRIED = 256


@dataclass(frozen=True)
class Records:
    """A cut.

    Parameters
    ----------
    length : int
        Samples a record.
    seconds : float
        How long a record lasts.
    padding : int
        Samples that are missing in the last one.
    drift : float
        By how much the stated rate is off, as a share; 0 if it is exact.
    """

    length: int
    seconds: float
    padding: int
    drift: float

    @property
    def rate(self) -> float:
        """The rate that the file then states, in Hz."""
        return self.length / self.seconds


def cuts(n_samples: int, rate: float, row_bytes: int) -> list[Records]:
    """Return cuts, the best first.

    Parameters
    ----------
    n_samples : int
    rate : float
        In Hz.
    row_bytes : int
        Bytes of a sample of all channels.

    Raises
    ------
    ParameterError
        If none states the rate well enough.
    """
    shortest = max(1, int(np.ceil(_SHORTEST * rate)))
    length = np.arange(shortest, max(shortest, int(_LONGEST * rate)) + 1)
    exact = length / rate
    digits = np.floor(np.log10(np.maximum(exact, 1.0))).astype(int) + 1
    unit = 10.0 ** np.maximum(7 - digits, 0)
    seconds = np.maximum(np.round(exact * unit), 1.0) / unit
    drift = np.abs(exact / seconds - 1.0)
    drift[drift < _EXACT] = 0.0
    padding = -n_samples % length
    inexact = length / seconds != rate  # to the last bit, as programs compare rates
    too_large = length * row_bytes > _RECOMMENDED
    told = drift if (drift == 0.0).any() else np.where(drift < _UNNOTICED, 0.0, drift)
    order = np.lexsort((np.abs(np.log(exact)), inexact, padding > 0, too_large, told))
    found = [
        Records(int(length[i]), float(seconds[i]), int(padding[i]), float(drift[i]))
        for i in order[:_TRIED]
        if drift[i] <= _DRIFT
    ]
    kept = [cut for cut in found if _divides(n_samples + cut.padding, cut)]
    if not kept:
        raise ParameterError(
            f"EDF and BDF state a rate as samples over seconds in eight characters, which {rate!r} Hz is "
            "not near to; export to BrainVision (.vhdr), which states it as it is, or pass --rate."
        )
    return kept


def _divides(n_samples: int, cut: Records) -> bool:
    """Tell whether edfio, which reckons in floating point, finds a whole number of records."""
    duration = round(n_samples / cut.rate, 12)
    count = duration / cut.seconds
    decimal = Decimal(str(duration)) / Decimal(str(cut.seconds))
    return count == int(count) or decimal == int(decimal)
