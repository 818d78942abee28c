"""When a recording continues in a new file, and how that file is named."""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from igbss_stream.errors import ParameterError

_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_BYTES = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_LENGTH = re.compile(r"(?P<number>\d+(\.\d*)?|\.\d+) ?(?P<unit>[A-Za-z]+)")


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a recording continues in a new file. At least one of the limits is set.

    Parameters
    ----------
    every : float or None
        Seconds, at least 1. Files change at multiples of this time since 1970-01-01 00:00 UTC: 3600 is each
        full hour, 86400 each midnight in UTC.
    n_bytes : int or None
        Largest size of the samples in a file. A file holds at least one message, however large that is.

    Raises
    ------
    ParameterError
        If a limit is not valid, or none is set.
    """

    every: float | None = None
    n_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.every is None and self.n_bytes is None:
            raise ParameterError("a rotation needs a time or a size; set every or n_bytes.")
        if self.every is not None and not 1 <= self.every < float("inf"):
            raise ParameterError(f"every must be 1 s or more. Got {self.every!r} instead.")
        if self.n_bytes is not None and self.n_bytes < 1:
            raise ParameterError(f"n_bytes must be 1 or more. Got {self.n_bytes!r} instead.")

    def is_over(self, began: float, now: float) -> bool:
        """Return whether the period of a file is over, given Unix times; also if the clock was set back."""
        return self.every is not None and began // self.every != now // self.every

    def exceeds(self, n_bytes: int) -> bool:
        """Return whether samples of this size are too large for one file."""
        return self.n_bytes is not None and n_bytes > self.n_bytes


def parse_rotation(text: str) -> Rotation:
    """Read a rotation such as ``1h``, ``500MB`` or ``1d,2GB``.

    Parameters
    ----------
    text : str
        A time (s, min, h, d), a size (kB, MB, GB, TB; powers of 1000), or both, separated by a comma.

    Raises
    ------
    ParameterError
        If the text has another form.
    """
    limits: dict[str, float] = {}
    for part in text.split(","):
        match = _LENGTH.fullmatch(part.strip())
        unit = match["unit"] if match else ""
        kind = "every" if unit in _SECONDS else "n_bytes"
        if match is None or kind in limits or unit not in (*_SECONDS, *_BYTES):
            raise ParameterError(
                f"a rotation must be a time (s, min, h, d), a size (kB, MB, GB, TB) or both, such as 1h, "
                f"500MB or 1d,2GB. Got {text!r} instead."
            )
        limits[kind] = float(match["number"]) * (_SECONDS | _BYTES)[unit]
    return Rotation(limits.get("every"), round(limits["n_bytes"]) if "n_bytes" in limits else None)


def make_dated_path(path: Path, now: float) -> Path:
    """Return the path of a file that begins now; such names sort by time, and none exists yet.

    Parameters
    ----------
    path : Path
        The file that was asked for, such as ``eeg.h5``.
    now : float
        Unix time in seconds.

    Returns
    -------
    Path
        Such as ``eeg-20260131T130000Z.h5``; ``eeg-20260131T130000Z_002.h5`` is the second in one second.
    """
    date = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    candidate, number = path.with_name(f"{path.stem}-{date}{path.suffix}"), 2
    while os.path.lexists(candidate):
        candidate = path.with_name(f"{path.stem}-{date}_{number:03d}{path.suffix}")
        number += 1
    return candidate
