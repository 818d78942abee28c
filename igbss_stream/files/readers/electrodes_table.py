"""Read tables of electrodes: electrodes.tsv of BIDS, and any table with the columns name, x, y, z."""

import csv
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import RecordingError
from igbss_stream.files.coordinates import METRES, guess_unit, place_in_head, turn_front_left
from igbss_stream.positions import HEAD, Positions

Array = NDArray[np.float64]

_LARGEST = 1 << 24  # bytes of a table; the largest caps have a few hundred electrodes
_NAMES = ("name", "label", "labels", "channel", "electrode", "ch_name")
_MISSING = ("", "n/a", "na", "nan", "none", "null", "-")
# Coordinate systems of BIDS with x to the nose and y to the left; in all others, x is to the right
_FRONT_LEFT = ("ctf", "eeglab", "eeglab-hj", "4dbti", "kityokogawa")
_HEAD = ("captrak", "elektaneuromag")
_MODALITIES = ("EEG", "NIRS", "iEEG", "MEG")
_POINTS = {"nasion": ("nas", "nasion", "nz"), "left": ("lpa",), "right": ("rpa",)}


@dataclass(frozen=True)
class CoordinateSystem:
    """What coordsystem.json of BIDS states.

    Parameters
    ----------
    name : str
        Of the system, such as ``"CapTrak"``; empty if there is no statement.
    unit : str
        Key of `METRES`, or empty.
    fiducials : dict of str to list of float
        Coordinates of nasion, left and right, in the same system and unit.
    """

    name: str = ""
    unit: str = ""
    fiducials: dict[str, list[float]] = field(default_factory=dict)


def read_electrodes_table(path: Path, source: str, system: CoordinateSystem | None = None) -> Positions:
    """Read a table of electrodes.

    Parameters
    ----------
    path : Path
        Text separated by tabs, commas, semicolons or blanks, with a header line.
    source : str
        See `Positions`.
    system : CoordinateSystem, optional
        Default: x to the right and y to the front, in the unit that makes a head of them.

    Returns
    -------
    Positions

    Raises
    ------
    RecordingError
        If the file cannot be read, lacks a column, or has a cell that is not a number.
    """
    system = system or CoordinateSystem()
    names, xyz = _read_rows(path)
    unit = system.unit or guess_unit(xyz)
    fiducials = {key: np.array(point, np.float64) for key, point in system.fiducials.items()}
    if system.name.casefold() in _FRONT_LEFT:
        xyz = turn_front_left(xyz)
        fiducials = {key: turn_front_left(point) for key, point in fiducials.items()}
    frame = HEAD if system.name.casefold() in _HEAD else system.name or "unknown"
    with np.errstate(over="ignore", invalid="ignore"):
        placed, frame = place_in_head(xyz * METRES[unit], _scale(fiducials, METRES[unit]), frame)
    how = "" if system.unit else f", taken as {unit}"
    return Positions.from_table(names, placed, frame, f"{source}{how}")


def read_coordinate_system(path: Path) -> CoordinateSystem:
    """Read a coordsystem.json of BIDS.

    Raises
    ------
    RecordingError
        If it is not JSON, or its unit is not one of length.
    """
    try:
        stated = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordingError(f"{str(path)!r} cannot be read as JSON: {error}; correct the file") from error
    if not isinstance(stated, dict):
        raise RecordingError(f"{str(path)!r} contains no JSON object; correct the file")
    name, unit = (_get_statement(stated, f"Coordinate{what}") for what in ("System", "Units"))
    if unit.casefold() in _MISSING:
        unit = ""
    elif unit not in METRES:
        raise RecordingError(
            f"{str(path)!r} states the unit {unit!r}, which is not m, cm or mm; correct it"
        )
    same = all(
        str(stated.get(f"AnatomicalLandmarkCoordinate{what}", value)) == value
        for what, value in (("System", name), ("Units", unit))
    )
    points = stated.get("AnatomicalLandmarkCoordinates")
    return CoordinateSystem(name, unit, _find_fiducials(points) if same and unit else {})


def _get_statement(stated: dict[str, Any], what: str) -> str:
    found = (stated.get(f"{modality}{what}") for modality in _MODALITIES)
    return next((text for text in found if isinstance(text, str)), "")


def _find_fiducials(points: Any) -> dict[str, list[float]]:
    if not isinstance(points, dict):
        return {}
    by_name = {str(name).casefold(): point for name, point in points.items()}
    found = {
        key: next((by_name[name] for name in names if name in by_name), None)
        for key, names in _POINTS.items()
    }
    return {
        key: [float(number) for number in point]
        for key, point in found.items()
        if isinstance(point, list) and len(point) == 3 and all(isinstance(x, int | float) for x in point)
    }


def _scale(fiducials: dict[str, Array], factor: float) -> dict[str, Array]:
    return {key: point * factor for key, point in fiducials.items()}


def _read_rows(path: Path) -> tuple[list[str], Array]:
    """Return the names and coordinates; NaN where a cell is empty or ``n/a``."""
    lines = [line for line in _read_text(path).splitlines() if line.strip() and line[0] not in "#%"]
    if not lines:
        raise RecordingError(f"{str(path)!r} is empty; it needs a table with the columns name, x, y, z")
    separator = next((each for each in "\t,;" if each in lines[0]), None)
    split = (lambda line: next(csv.reader([line], delimiter=separator))) if separator else str.split
    header = [cell.strip().casefold() for cell in split(lines[0])]
    columns = [_find_column(header, names, path) for names in (_NAMES, ("x",), ("y",), ("z",))]
    names, xyz = [], []
    for number, line in enumerate(lines[1:], 2):
        cells = split(line)
        if len(cells) <= max(columns):
            raise RecordingError(
                f"row {number} of {str(path)!r} has {len(cells)} cells, but its header {len(header)}; "
                "correct the table"
            )
        names.append(cells[columns[0]].strip())
        xyz.append([_parse(cells[i], number, path) for i in columns[1:]])
    return names, np.array(xyz, np.float64).reshape(-1, 3)


def _read_text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST)
        return content.decode("utf-8-sig")
    except OSError as error:
        raise RecordingError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordingError(f"{str(path)!r} is not text in UTF-8; save the table again") from error


def _find_column(header: list[str], names: tuple[str, ...], path: Path) -> int:
    for name in names:
        if name in header:
            return header.index(name)
    raise RecordingError(
        f"{str(path)!r} has no column {names[0]!r} in its first line ({', '.join(header)[:80]}); it needs "
        "the columns name, x, y, z"
    )


def _parse(cell: str, row: int, path: Path) -> float:
    text = cell.strip()
    if text.casefold() in _MISSING:
        return math.nan
    try:
        return float(text)
    except ValueError:
        raise RecordingError(
            f"row {row} of {str(path)!r} has {text!r} instead of a number; correct the table"
        ) from None
