"""What the heads of text files of common devices and programs state, before the table of numbers."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from igbss_stream._util.electrodes import find_position
from igbss_stream.files.readers.text.lines import is_content

_OPENBCI_RATE = re.compile(r"%\s*Sample Rate\s*=\s*([0-9.]+)", re.IGNORECASE)
_OPENBCI_CHANNELS = re.compile(r"%\s*Number of channels\s*=\s*(\d{1,9})", re.IGNORECASE)
_MOST_CHANNELS = 1 << 14  # a damaged head may state more; as no row has them, the file is refused
_OPENBCI_V5 = re.compile(r"EXG Channel \d+")
_EMOTIV = re.compile(r"title:.*\b(sampling|sampling rate):\s*(?:eeg_)?([0-9.]+)", re.IGNORECASE)
_LABELS = re.compile(r"labels:\s*([^,]*)")
_LABVIEW_END = "***end_of_header***"
_LABCHART = re.compile(r"(Interval|ChannelTitle|UnitName|Range|[A-Za-z]+)=\t?(.*)")
_DURATION = re.compile(r"([0-9.,eE+-]+)\s*(ns|us|\u00b5s|\u03bcs|ms|s)\b")
_EXCEL_DAYS = re.compile(r"\d+(?:[.,](\d+))?(?:[eE]([+-]?\d+))?")
_TIME_OF_DAY = re.compile(r"\b(\d{1,2}):(\d\d):(\d\d(?:[.,]\d+)?)\s*(?:([apAP])\.?[mM])?")
_EXCEL_EPOCH, _DAY, _SECOND = 25569, 86400.0, 1e-5  # days before 1970, seconds, and days
PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "\u00b5s": 1e6, "\u03bcs": 1e6, "ns": 1e9}
"""Units of time, and how many make a second."""
UNIX_RANGE = (1e9, 4e9)
"""Seconds since 1970, of the years 2001 to 2096."""


@dataclass(frozen=True)
class Head:
    """What the head of a file states.

    Parameters
    ----------
    kind : str
        Device or program, for the layout.
    rate : float or None
        In Hz.
    names, units : tuple of str
        Of the columns, from the first one on; empty if the head does not state them.
    channels : tuple of str
        Names of the columns with samples; empty if all columns that are no times have samples.
    counters : tuple of str
        Names of the columns that count samples.
    unit : str or None
        Of all channels.
    t0 : float or None
        Unix time at which the times of the rows are 0, in UTC.
    n_before : int
        Lines of the head, without comments and empty lines.
    """

    kind: str
    rate: float | None = None
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    unit: str | None = None
    t0: float | None = None
    n_before: int = 0


def parse_head(lines: Sequence[str]) -> Head | None:
    """Return what the first lines of a file state; None if no known program wrote them.

    Parameters
    ----------
    lines : sequence of str
        With comments.
    """
    for parse in (_parse_openbci, _parse_opensignals, _parse_emotiv, _parse_labview, _parse_labchart):
        found = parse([line.rstrip("\r\n") for line in lines])
        if found is not None:
            return found
    return None


def _parse_openbci(lines: Sequence[str]) -> Head | None:
    """Parse the comments of the OpenBCI GUI; up to version 4, no line of names follows."""
    rates = [found[1] for found in map(_OPENBCI_RATE.match, lines) if found]
    if not rates:
        return None
    rate = _as_rate(rates[-1])
    named = next((line for line in lines if is_content(line) and _OPENBCI_V5.search(line)), None)
    if named is not None:
        names = tuple(cell.strip() for cell in re.split(r"[,;\t]", named))
        return Head(
            "OpenBCI text", rate, channels=tuple(n for n in names if _OPENBCI_V5.fullmatch(n)), unit="uV"
        )
    counts = [min(int(found[1]), _MOST_CHANNELS) for found in map(_OPENBCI_CHANNELS.match, lines) if found]
    channels = tuple(f"EXG Channel {i}" for i in range(counts[0] if counts else 0))
    names = ("Sample Index", *channels)
    return Head("OpenBCI text", rate, names, (), channels, ("Sample Index",), "uV")


def _parse_opensignals(lines: Sequence[str]) -> Head | None:
    """Parse the comment of OpenSignals, which describes each device in JSON."""
    if not lines or "OpenSignals" not in lines[0]:
        return None
    devices = []
    for line in lines[1:]:
        if line.lstrip("# ").startswith("{"):
            try:
                devices = [
                    each for each in json.loads(line.lstrip("# ")).values() if isinstance(each, dict)
                ]
            except (ValueError, AttributeError):
                return None
            break
    columns = [tuple(map(str, each.get("column", ()))) for each in devices]
    names = tuple(name for each in columns for name in each)
    labels = {str(label) for each in devices for label in each.get("label", ())}
    channels = tuple(name for name in names if name in labels)
    counters = tuple(name for name in names if name.lower() == "nseq")
    rates = {_as_rate(each.get("sampling rate")) for each in devices}
    return Head("OpenSignals text", rates.pop() if len(rates) == 1 else None, names, (), channels, counters)


def _parse_emotiv(lines: Sequence[str]) -> Head | None:
    """Parse the first line of an export of Emotiv; newer ones name the columns in the next line."""
    found = _EMOTIV.match(lines[0].lstrip('"')) if lines else None
    if found is None:
        return None
    labels = _LABELS.search(lines[0])
    names = tuple(labels[1].split()) if labels else ()
    if not names and len(lines) > 1:
        names = tuple(cell.strip().strip('"') for cell in lines[1].split(","))
    channels = tuple(name for name in names if find_position(name.removeprefix("EEG.")) is not None)
    counters = tuple(name for name in names if name.upper() in ("COUNTER", "EEG.COUNTER"))
    return Head(
        "Emotiv text",
        _as_rate(found[2]),
        names if labels else (),
        (),
        channels,
        counters,
        None if "units:emotiv" in lines[0].lower() else "uV",
        1,
    )


def _parse_labview(lines: Sequence[str]) -> Head | None:
    """Parse the two heads of a measurement file of LabVIEW (.lvm)."""
    if not lines or not lines[0].startswith("LabVIEW Measurement"):
        return None
    content = [line for line in lines if is_content(line)]
    ends = [i for i, line in enumerate(content) if line.strip().lower().startswith(_LABVIEW_END)]
    if not ends:
        return None
    fields = {}
    for line in content[: ends[-1]]:
        cells = re.split(r"[\t,;]", line) if "\t" not in line else line.split("\t")
        fields[cells[0].strip()] = [cell.strip() for cell in cells[1:] if cell.strip()]
    steps = {_as_float(text) for text in fields.get("Delta_X", ())}
    step = steps.pop() if len(steps) == 1 else None
    timed = (fields.get("X_Dimension") or ["Time"])[0] == "Time"
    units = tuple(fields.get("Y_Unit_Label", ()))
    return Head(
        "LabVIEW text",
        1 / step if step and step > 0 and timed else None,
        unit=units[0] if len(set(units)) == 1 else None,
        n_before=ends[-1] + 1,
    )


def _parse_labchart(lines: Sequence[str]) -> Head | None:
    """Parse the head of a text that LabChart exports: lines of a keyword and its values, tab-separated."""
    content = [line for line in lines if is_content(line)]
    fields, n_before = dict[str, list[str]](), 0
    for line in content:
        found = _LABCHART.match(line)
        if found is None:
            break
        fields[found[1]] = [cell.strip() for cell in found[2].split("\t")]
        n_before += 1
    if "Interval" not in fields or "ChannelTitle" not in fields:
        return None
    stated = _DURATION.match(fields["Interval"][0])
    step = _as_float(stated[1]) if stated else None
    rate = _as_rate(PER_SECOND[stated[2]] / step) if stated and step else None
    units = {unit for unit in fields.get("UnitName", ()) if unit not in ("", "*")}
    return Head(
        "LabChart text",
        rate,
        tuple(name for name in fields["ChannelTitle"] if name),
        unit=units.pop() if len(units) == 1 else None,
        t0=_parse_excel_time(fields.get("ExcelDateTime", ())),
        n_before=n_before,
    )


def _parse_excel_time(cells: Sequence[str]) -> float | None:
    """Return the Unix time that LabChart states as days since 30 December 1899, and again as text.

    The order of day and month in the text depends on the computer, so the day is that of the number. The
    time of day is that of the text, because the number may be rounded, even to the next day.
    """
    stated = _EXCEL_DAYS.fullmatch(cells[0]) if cells else None
    if stated is None:
        return None
    days = float(stated[0].replace(",", "."))
    resolution = 10.0 ** (int(stated[2] or 0) - len(stated[1] or ""))
    time = _TIME_OF_DAY.search(cells[1]) if len(cells) > 1 else None
    if time is None:
        return (days - _EXCEL_EPOCH) * _DAY if resolution <= _SECOND else None
    hours = int(time[1]) % 12 + 12 * (time[4].lower() == "p") if time[4] else int(time[1])
    seconds = 3600 * hours + 60 * int(time[2]) + float(time[3].replace(",", "."))
    if resolution < 1 / 24:
        return (round(days - seconds / _DAY) - _EXCEL_EPOCH) * _DAY + seconds
    stated_numbers = {int(number) for number in re.findall(r"\d+", cells[1][: time.start()])}
    for day in (math.floor(days), math.floor(days) - 1):
        date = datetime.fromtimestamp((day - _EXCEL_EPOCH) * _DAY, UTC)
        if {date.day, date.month} <= stated_numbers:
            return date.timestamp() + seconds
    return None


def _as_float(text: object) -> float | None:
    try:
        found = float(str(text).replace(",", "."))
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _as_rate(text: object) -> float | None:
    """Return a positive rate, or None."""
    rate = _as_float(text)
    return rate if rate is not None and rate > 0 else None
