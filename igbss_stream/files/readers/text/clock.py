"""Find rate and gaps of a text from its columns of times and counters."""

import contextlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError
from igbss_stream.files.counters import SampleCounter, find_counter, find_losses
from igbss_stream.files.gaps import LONGEST_GAP, merge_losses
from igbss_stream.files.jittered_times import estimate_rate, find_stream_losses
from igbss_stream.files.readers.text.cells import parse_number, parse_time, split_cells, unwrap_days
from igbss_stream.files.readers.text.heads import PER_SECOND, UNIX_RANGE
from igbss_stream.files.readers.text.lines import read_rows
from igbss_stream.files.readers.text.parse import load_numbers
from igbss_stream.files.readers.text.table import TextFormat
from igbss_stream.files.timing import Timing, measure_restarts, measure_timing, round_rate

_N_ROWS = 1 << 14  # that are read at a time
_SUFFIX = re.compile(
    r"(?:^|[\s_.\-(\[])(ns|us|\u00b5s|\u03bcs|ms|s|sec|seconds|msec|milliseconds)[)\]]?$", re.IGNORECASE
)
_NAMES = {"sec": "s", "seconds": "s", "msec": "ms", "milliseconds": "ms"}
_BEYOND = 3.0  # times the longest usual pause, from which one is a loss
_TOLERANCE = 1e-3  # relative difference of rates that is not reported

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TextTiming:
    """Rate and gaps of a text.

    Parameters
    ----------
    rate : float or None
        In Hz, as the times state it; None if they do not.
    gaps : tuple of Gap
    notes : tuple of str
    suggestion : str
        A rate to pass, if the unit of the times is not known.
    t0 : float or None
        Unix time of the first row, in seconds.
    """

    rate: float | None
    gaps: tuple[Gap, ...]
    notes: tuple[str, ...]
    suggestion: str = ""
    t0: float | None = None


def read_columns(path: Path, columns: TextFormat, picks: Sequence[int]) -> tuple[int, list[Array]]:
    """Return the number of rows, and the values of some columns as numbers, or as times in seconds."""
    found: list[list[Array]] = [[] for _ in picks]
    n_rows, rows = 0, read_rows(path, columns.encoding, columns.n_before)
    while block := [line for _, line in itertools.islice(rows, _N_ROWS)]:
        n_rows += len(block)
        if picks:
            try:
                loaded = load_numbers(block, columns, picks)
            except (ValueError, IndexError):
                pass
            else:
                for values, column in zip(found, loaded.T, strict=True):
                    values.append(column.copy())
                continue
            cells = [split_cells(line, columns.delimiter) for line in block]
            for values, i in zip(found, picks, strict=True):
                texts = [row[i] if i < len(row) else "" for row in cells]
                values.append(_as_values(texts, columns.decimal))
    if not columns.ends_complete:
        n_rows -= 1
    arrays = [np.concatenate([*values, np.empty(0)])[:n_rows] for values in found]
    return n_rows, arrays


def _as_values(cells: list[str], decimal: str) -> Array:
    """Return numbers or times; NaN for cells that are neither."""
    try:
        return np.array([parse_number(cell, decimal) for cell in cells])
    except ValueError:
        return np.array([_as_value(cell, decimal) for cell in cells])


def _as_value(cell: str, decimal: str) -> float:
    try:
        return parse_number(cell, decimal)
    except ValueError:
        found = parse_time(cell)
        return np.nan if found is None else found


def find_timing(
    columns: TextFormat, times: dict[int, Array], counters: dict[int, Array], rate: float | None, what: str
) -> TextTiming:
    """Return rate and gaps from columns of times and counters.

    Parameters
    ----------
    columns : TextFormat
    times, counters : dict of int to array of shape (rows,)
        Values of the columns of each kind.
    rate : float or None
        In Hz, as the user or the head of the file states it.
    what : str
        Name of the file, for messages.
    """
    found = TextTiming(None, (), ())
    for i, values in times.items():
        found = _time_rows(columns, i, values, rate, what)
        if found.rate or found.gaps or found.suggestion:
            break
    stamps = next(iter(times.values()), None)
    for i, values in counters.items():
        counter = find_counter(values) or find_counter(values[: len(columns.first)])
        if counter is None:
            continue
        lost = find_losses(values, counter)
        if lost is None:
            note = f"the counter {columns.names[i]} jumps too often to show what is missing"
            return TextTiming(found.rate, found.gaps, (*found.notes, note), found.suggestion, found.t0)
        gaps = _merge(lost, found.gaps, stamps, counter)
        notes = found.notes
        if gaps and not found.gaps:
            notes += (f"gaps follow from {columns.names[i]}, which {counter.describe()}",)
        return TextTiming(found.rate, gaps, notes, found.suggestion, found.t0)
    return found


def _time_rows(columns: TextFormat, i: int, values: Array, rate: float | None, what: str) -> TextTiming:
    """Return rate and gaps from a column of times."""
    name, x = columns.names[i], unwrap_days(values) if _is_clock(columns, i) else values
    per_second, timing = _find_unit(columns, i, x), None
    mean = estimate_rate(x)
    with contextlib.suppress(RecordingError):
        timing = measure_timing(lambda first, last: x[first:last], len(x), f"column {name} of {what}")
    timing = timing or measure_restarts(x, f"column {name} of {what}")
    t0 = x[0] / per_second if per_second and _is_date(columns, i, x[0] / per_second) else None
    measured = timing.rate if timing else mean
    if measured is None:
        return TextTiming(None, (), (f"the times in {name} do not increase, so they show no gaps",), "", t0)
    if per_second is None and rate:  # of the usual units, the one that fits the rate
        per_second = min(PER_SECOND.values(), key=lambda n: abs(np.log(measured * n / rate)))
    gaps, notes = _find_gaps(x, timing, per_second, rate or (measured * (per_second or 0)) or None, name)
    if per_second is None:
        return TextTiming(None, gaps, notes, suggest_rate(name, measured), t0)
    stated = round_rate(measured * per_second, _find_resolution(columns, i) / max(np.ptp(x), 1e-300))
    if rate and abs(stated - rate) > _TOLERANCE * rate:
        notes += (f"the rate is taken as {rate:.6g} Hz, but the times in {name} give {stated:.6g} Hz",)
    if not rate and timing is None:
        suggestion = f" ({name} is uneven; it gives about --rate {stated:.6g} on average)"
        return TextTiming(None, gaps, notes, suggestion, t0)
    return TextTiming(stated, gaps, notes, "", t0)


def _find_gaps(
    x: Array, timing: Timing | None, per_second: float | None, rate: float | None, name: str
) -> tuple[tuple[Gap, ...], tuple[str, ...]]:
    """Return the gaps of times, by the rules of a live stream where they are uneven."""
    if timing is not None:
        return timing.gaps, ()
    if per_second is None or rate is None:
        return (), (f"the times in {name} are uneven, so they show no gaps",)
    gaps, _ = find_stream_losses(x / per_second, rate)
    return gaps, (f"the times in {name} are uneven; only long gaps are found",)


def _merge(
    lost: list[tuple[int, int]], gaps: tuple[Gap, ...], stamps: Array | None, counter: SampleCounter
) -> tuple[Gap, ...]:
    """Return the gaps of a counter and of times; where both state one, the longer is right."""
    found = dict(lost)
    if stamps is not None and counter.modulus is not None:
        _add_rounds(found, stamps, counter.modulus / abs(counter.step) * counter.repeat)
    return merge_losses(found.items(), gaps)


def _add_rounds(lost: dict[int, int], stamps: Array, around: float) -> None:
    """Add whole rounds of a counter where the times jump by that much more."""
    rate, steps = estimate_rate(stamps), np.diff(stamps)
    if rate is None or not np.isfinite(steps).all():
        return
    usual = float(np.quantile(np.abs(steps), 0.99))
    for i in np.flatnonzero(steps > _BEYOND * usual):
        row = int(i) + 1
        beyond = steps[i] * rate - 1 - lost.get(row, 0)
        rounds = round(beyond / around) if beyond <= LONGEST_GAP else 0
        if rounds > 0:
            lost[row] = lost.get(row, 0) + round(rounds * around)


def _find_resolution(columns: TextFormat, i: int) -> float:
    """Return the smallest difference of the times in a column, by their digits."""
    fractions = [re.split("[.,]", row[i])[-1] for row in columns.first if re.search("[.,]", row[i])]
    digits = [len(fraction) - len(fraction.lstrip("0123456789")) for fraction in fractions]
    return 10.0 ** -max(digits, default=0)


def _is_clock(columns: TextFormat, i: int) -> bool:
    """Return whether a column has times of day without a date."""
    cell = columns.first[0][i]
    return ":" in cell and "-" not in cell and "/" not in cell


def _is_date(columns: TextFormat, i: int, seconds: float) -> bool:
    return UNIX_RANGE[0] <= seconds < UNIX_RANGE[1] and not _is_clock(columns, i)


def _find_unit(columns: TextFormat, i: int, x: Array) -> float | None:
    """Return how many units of a column of times make a second; None if nothing states it."""
    if ":" in columns.first[0][i]:
        return 1.0
    stated = columns.units[i].lower() if columns.units else ""
    if stated in PER_SECOND:
        return PER_SECOND[stated]
    if (found := _SUFFIX.search(columns.names[i])) is not None:
        name = found[1].lower()
        return PER_SECOND[_NAMES.get(name, name)]
    for per_second in (1.0, 1e3, 1e6, 1e9):
        if len(x) and UNIX_RANGE[0] <= x[0] / per_second < UNIX_RANGE[1]:
            return per_second
    return None


def suggest_rate(name: str, measured: float) -> str:
    """Return the rate to pass, for times of an unknown unit."""
    step = 1 / measured
    if abs(step - 1) < _TOLERANCE:
        return ""
    unit, rate = ("seconds", measured) if step < 1 else ("milliseconds", 1e3 * measured)
    return f" ({name} increases by {step:.4g} per row: --rate {rate:.6g} if it is in {unit})"
