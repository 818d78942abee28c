"""Find recordings in files, folders, globs and lists of them.

Folders are searched recursively for the extensions of recordings. Outputs of `batch`, and FIF files that
continue another one, are skipped in folders and globs. Files that are named explicitly are always included.
"""

import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.files.open import ENDINGS, is_named_as_recording
from igbss_stream.files.readers.fif_parts import find_previous_part
from igbss_stream.files.readers.mne_formats import is_recording_folder
from igbss_stream.files.results.output import is_output

_MAGIC = re.compile(r"[*?[]")
_PARTIAL = ".partial"


@dataclass(frozen=True)
class FoundRecording:
    """A recording, and where it was found.

    Parameters
    ----------
    path : Path
    relative : Path
        Path relative to the folder that was searched, or to the fixed part of a glob; only the file name if
        the file was named explicitly.
    """

    path: Path
    relative: Path


def is_one_file(inputs: Sequence[str], listed: str | None) -> bool:
    """Return whether the inputs are a single file name, existing or not.

    Parameters
    ----------
    inputs : sequence of str
    listed : str or None
        Name of a list of further inputs.
    """
    return len(inputs) == 1 and listed is None and not (_is_searched(inputs[0]) or _is_glob(inputs[0]))


def find_recordings(inputs: Sequence[str], listed: str | None = None) -> list[FoundRecording]:
    """Find recordings, each once.

    Parameters
    ----------
    inputs : sequence of str
        Files, folders and globs.
    listed : str, optional
        File with further inputs, one per line; ``-`` is standard input.

    Returns
    -------
    list of Found
        In the order of the inputs; the files of a folder or glob are sorted.

    Raises
    ------
    IgbssError
        If a folder or glob contains no recording, or the list cannot be read.
    """
    seen: set[str] = set()
    found = []
    for entry in (*inputs, *(_read_list(listed) if listed is not None else ())):
        for item in _find_entry(entry):
            place = os.path.realpath(item.path)
            if place not in seen:
                seen.add(place)
                found.append(item)
    if not found:
        raise ParameterError("no recording was given; name files, folders or globs, or pass --list FILE")
    return found


def _read_list(listed: str) -> list[str]:
    try:
        if listed == "-":
            text = sys.stdin.read()
        else:
            text = Path(listed).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise RecordingError(f"--list '{listed}' cannot be read: {error.strerror}") from error
    lines = map(str.strip, text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _find_entry(entry: str) -> list[FoundRecording]:
    if _is_searched(entry):
        found = [path for path in _walk(entry) if _is_recording(path)]
        if not found:
            raise RecordingError(
                f"'{entry}' is a directory without recordings (names that end in {', '.join(ENDINGS)}); "
                "give files or a glob"
            )
        return [FoundRecording(path, path.relative_to(entry)) for path in found]
    if not _is_glob(entry):
        return [FoundRecording(Path(entry), Path(Path(entry).name))]
    matches = sorted(map(Path, glob.iglob(entry, recursive=True)))
    found = [
        path
        for path in matches
        if is_recording_folder(path)
        or (
            path.is_file()
            and path.suffix != _PARTIAL
            and not _is_in_recording(path)
            and _is_recording(path)
        )
    ]
    if not found:
        raise RecordingError(f"'{entry}' matches no recording; check the pattern")
    return [FoundRecording(path, path.relative_to(_get_fixed_part(entry))) for path in found]


def _is_searched(entry: str) -> bool:
    """Return whether an input is a folder with recordings, not one that is a recording itself."""
    return os.path.isdir(entry) and not is_recording_folder(Path(entry))


def _is_in_recording(path: Path) -> bool:
    """Return whether a file belongs to a folder that is a recording."""
    return any(is_recording_folder(parent) for parent in path.parents)


def _is_recording(path: Path) -> bool:
    """Return whether a file is neither an output nor the continuation of a FIF file."""
    return not is_output(path) and not (path.suffix.lower() == ".fif" and find_previous_part(path))


def _is_glob(entry: str) -> bool:
    return _MAGIC.search(entry) is not None and not os.path.lexists(entry)


def _get_fixed_part(pattern: str) -> Path:
    """Return the leading folders of a glob that contain no pattern."""
    parts = Path(pattern).parts[:-1]
    first = next((i for i, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    return Path(*parts[:first])


def _walk(folder: str) -> Iterator[Path]:
    """Yield the files with extensions of recordings in a folder tree, sorted."""

    def refuse(error: OSError) -> None:
        raise RecordingError(f"'{error.filename}' cannot be searched: {error.strerror}")

    for at, folders, names in os.walk(folder, onerror=refuse):
        inside = sorted(_skip_hidden(folders))
        folders[:] = [name for name in inside if not is_recording_folder(Path(at, name))]
        recordings = {*inside} - {*folders}
        for name in sorted([*recordings, *_skip_hidden(names)]):
            if name in recordings or is_named_as_recording(Path(at, name)):
                yield Path(at, name)


def _skip_hidden(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith(".")]
