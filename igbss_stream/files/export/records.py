"""Choose the length of EDF records.

A record has a whole number of samples, and its duration in seconds is written in eight characters. Their
ratio is the sampling rate, and a file has a whole number of records. The chosen length, in this order of
priority, states the rate exactly (or to 1e-9), keeps a record below the 61440 bytes that EDF recommends,
needs no padding, and is close to a second.
"""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from igbss_stream.errors import ParameterError

_EXACT = 1e-12
_NEGLIGIBLE = 1e-9  # of the rate: 4 microseconds per hour
_LARGEST_DRIFT = 1e-6  # of the rate: 4 ms per hour
_SHORTEST, _LONGEST = 0.02, 10.0  # seconds
_RECOMMENDED = 61440  # bytes
_N_TRIED = 256


@dataclass(frozen=True)
class RecordCut:
    """Length of the records of a file.

    Parameters
    ----------
    length : int
        Samples per record.
    seconds : float
        Duration of a record.
    padding : int
        Samples of padding in the last record.
    drift : float
        Relative error of the stated rate; 0 if it is exact.
    """

    length: int
    seconds: float
    padding: int
    drift: float

    @property
    def rate(self) -> float:
        """The sampling rate that the file states, in Hz."""
        return self.length / self.seconds


def find_cuts(n_samples: int, rate: float, row_bytes: int) -> list[RecordCut]:
    """Return possible record lengths, the best first.

    Parameters
    ----------
    n_samples : int
    rate : float
        In Hz.
    row_bytes : int
        Size of a sample of all channels, in bytes.

    Raises
    ------
    ParameterError
        If none states the rate accurately enough.
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
    error = drift if (drift == 0.0).any() else np.where(drift < _NEGLIGIBLE, 0.0, drift)
    order = np.lexsort((np.abs(np.log(exact)), inexact, padding > 0, too_large, error))
    found = [
        RecordCut(int(length[i]), float(seconds[i]), int(padding[i]), float(drift[i]))
        for i in order[:_N_TRIED]
        if drift[i] <= _LARGEST_DRIFT
    ]
    valid = [cut for cut in found if _divides(n_samples + cut.padding, cut)]
    if not valid:
        raise ParameterError(
            f"EDF and BDF state a rate as samples over seconds in eight characters, which cannot "
            f"represent {rate!r} Hz; export to BrainVision (.vhdr), or pass another --rate."
        )
    return valid


def _divides(n_samples: int, cut: RecordCut) -> bool:
    """Return whether edfio, which computes in floating point, finds a whole number of records."""
    duration = round(n_samples / cut.rate, 12)
    count = duration / cut.seconds
    decimal = Decimal(str(duration)) / Decimal(str(cut.seconds))
    return count == int(count) or decimal == int(decimal)
