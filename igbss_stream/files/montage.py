"""Find the positions of a recording outside of its file: in a montage, or in a table of BIDS beside it."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.files.readers.electrodes_table import (
    CoordinateSystem,
    read_coordinate_system,
    read_electrodes_table,
)
from igbss_stream.files.recording import Recording
from igbss_stream.positions import Positions

_TABLES = (".tsv", ".csv")
_ENTITY = re.compile(r"([a-z]+)-([^_]+)$")
_ELECTRODES, _SYSTEM = "electrodes.tsv", "coordsystem.json"
_N_LISTED = 4


def load_montage_of(name: str, channels: Sequence[str], what: str) -> Positions:
    """Return the positions of channels in a montage that has at least one of them.

    Parameters
    ----------
    name : str
        See `load_montage`.
    channels : sequence of str
    what : str
        What has the channels, for the error message.

    Raises
    ------
    ParameterError
        If no channel is in the montage, or there is no such montage.
    RecordingError
        If a file cannot be read.
    """
    montage = load_montage(name)
    found = montage.select(channels)
    if not found.is_known.any() and not montage.problem:
        raise ParameterError(
            f"{montage.source} has none of the channels of {what} ({_list(channels)}); its own are "
            f"{_list(montage.names)}. Pass another montage, or a table with the names of the channels."
        )
    return found


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_N_LISTED]) + (", ..." if len(names) > _N_LISTED else "")


def load_montage(name: str) -> Positions:
    """Return the positions of a montage.

    Parameters
    ----------
    name : str
        File, or name of a montage of MNE.

    Raises
    ------
    ParameterError
        If there is no file and no montage of this name.
    RecordingError
        If the file cannot be read, or MNE is needed and not installed.
    """
    path = Path(name)
    if not os.path.isfile(path):
        if path.suffix or len(path.parts) > 1:
            raise ParameterError(
                f"montage must be an existing file. Got {name!r} instead.", parameter="montage"
            )
        from igbss_stream.files.readers.mne_positions import read_named_montage

        return read_named_montage(name)
    if path.suffix.lower() in _TABLES:
        system = _find_system(path)
        return read_electrodes_table(path, f"montage {path.name}", system)
    from igbss_stream.files.readers.mne_positions import read_montage_file

    return read_montage_file(path)


def locate_recording(recording: Recording, montage: str | None) -> None:
    """Replace the positions of a recording by those of a montage, or of the table of BIDS beside it.

    Parameters
    ----------
    recording : Recording
    montage : str or None
        See `load_montage`. A table of BIDS that has no usable positions replaces none of the file.

    Raises
    ------
    ParameterError
        If no channel is in the montage.
    RecordingError
        If a file cannot be read.
    """
    if montage is not None:
        what = repr(str(recording.path))
        recording.positions = load_montage_of(montage, recording.channels, what)
        return
    table = find_electrodes_table(recording.path)
    if table is None:
        return
    found = _read_beside(table).select(recording.channels)
    if recording.positions is None or not found.problem:
        recording.positions = found


def find_electrodes_table(path: Path) -> Path | None:
    """Return the electrodes.tsv of BIDS that applies to a recording in the same folder.

    Parameters
    ----------
    path : Path
        A recording whose name begins with ``sub-``.

    Returns
    -------
    Path or None
        The table that shares most entities with the recording and contradicts none; the entity ``space``
        is free. None for other names.
    """
    own = _split_entities(path.name)
    if "sub" not in own:
        return None
    candidates = []
    for table in sorted(path.parent.glob(f"sub-*_{_ELECTRODES}")):
        stated = _split_entities(table.name)
        if all(own.get(key) == value for key, value in stated.items() if key != "space"):
            candidates.append((-len(stated.keys() - {"space"}), table.name, table))
    return min(candidates)[-1] if candidates else None


def find_montage_files(path: Path, montage: str | None) -> list[Path]:
    """Return the files outside of a recording that state its positions.

    Parameters
    ----------
    path : Path
        The recording.
    montage : str or None
        See `load_montage`.
    """
    table = find_electrodes_table(path) if montage is None else Path(montage)
    if table is None or not os.path.isfile(table):
        return []
    system = _find_system_file(table)
    return [table] if system is None else [table, system]


def _split_entities(name: str) -> dict[str, str]:
    found = (_ENTITY.match(part) for part in name.split(".")[0].split("_"))
    return {match[1]: match[2] for match in found if match}


def _read_beside(table: Path) -> Positions:
    """Read a table of BIDS; a mistake in it must not prevent reading the recording."""
    source = f"positions of {table.name}"
    try:
        return read_electrodes_table(table, source, _find_system(table))
    except RecordingError as error:
        return Positions((), np.empty((0, 3)), "unknown", source, str(error))


def _find_system(table: Path) -> CoordinateSystem | None:
    found = _find_system_file(table)
    return None if found is None else read_coordinate_system(found)


def _find_system_file(table: Path) -> Path | None:
    """Return the coordsystem.json of BIDS beside a table of electrodes."""
    if not table.name.endswith(f"_{_ELECTRODES}"):
        return None
    entities = _split_entities(table.name)
    candidates = []
    for path in sorted(table.parent.glob(f"sub-*_{_SYSTEM}")):
        stated = _split_entities(path.name)
        if all(entities.get(key) == value for key, value in stated.items()):
            candidates.append((-len(stated), path.name, path))
    return min(candidates)[-1] if candidates else None
