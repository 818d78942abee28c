"""Which recordings are meant: files, folders, globs and lists of them.

A folder is searched, with all below it, for names that end as recordings do; what `batch` itself wrote is
left out there, and wherever a glob finds it. What is named outright is taken as it is.
"""

import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.files.open import ENDINGS
from igbss_stream.files.results.output import is_output

_MAGIC = re.compile(r"[*?[]")
_PARTIAL = ".partial"


@dataclass(frozen=True)
class Found:
    """A recording, and where it was found.

    Parameters
    ----------
    path : Path
    relative : Path
        The same below the folder that was searched, or below the part of a glob that is no pattern; its
        name alone if it was named outright.
    """

    path: Path
    relative: Path


def is_one_file(inputs: Sequence[str], listed: str | None) -> bool:
    """Return whether one file is named outright, whether it is there or not.

    Parameters
    ----------
    inputs : sequence of str
    listed : str or None
        A list of more, if there is one.
    """
    return len(inputs) == 1 and listed is None and not (os.path.isdir(inputs[0]) or _is_glob(inputs[0]))


def find(inputs: Sequence[str], listed: str | None = None) -> list[Found]:
    """Find the recordings that are meant, each once.

    Parameters
    ----------
    inputs : sequence of str
        Files, folders and globs.
    listed : str, optional
        A file with more of them, one a line; ``-`` is the standard input.

    Returns
    -------
    list of Found
        In the order of the inputs; what one folder or glob finds is sorted.

    Raises
    ------
    IgbssError
        If a folder or a glob finds nothing, or a list cannot be read.
    """
    seen: set[str] = set()
    found = []
    for entry in (*inputs, *(_entries(listed) if listed is not None else ())):
        for item in _of_entry(entry):
            place = os.path.realpath(item.path)
            if place not in seen:
                seen.add(place)
                found.append(item)
    if not found:
        raise ParameterError("no recording is given; name files, folders or globs, or pass --list FILE")
    return found


def _entries(listed: str) -> list[str]:
    try:
        if listed == "-":
            text = sys.stdin.read()
        else:
            text = Path(listed).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise RecordingError(f"--list '{listed}' cannot be read: {error.strerror}") from error
    lines = map(str.strip, text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _of_entry(entry: str) -> list[Found]:
    if os.path.isdir(entry):
        found = [path for path in _walk(entry) if not is_output(path)]
        if not found:
            raise RecordingError(
                f"'{entry}' is a directory without recordings (names that end in {', '.join(ENDINGS)}); "
                "give files or a glob"
            )
        return [Found(path, path.relative_to(entry)) for path in found]
    if not _is_glob(entry):
        return [Found(Path(entry), Path(Path(entry).name))]
    matches = sorted(map(Path, glob.iglob(entry, recursive=True)))
    found = [p for p in matches if p.is_file() and p.suffix != _PARTIAL and not is_output(p)]
    if not found:
        raise RecordingError(f"'{entry}' matches no recording; check the pattern")
    return [Found(path, path.relative_to(_fixed_part(entry))) for path in found]


def _is_glob(entry: str) -> bool:
    return _MAGIC.search(entry) is not None and not os.path.lexists(entry)


def _fixed_part(pattern: str) -> Path:
    """Return the folders of a glob before the first that is a pattern."""
    parts = Path(pattern).parts[:-1]
    first = next((i for i, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    return Path(*parts[:first])


def _walk(folder: str) -> Iterator[Path]:
    """Yield the files of a folder, and of those below, that are recordings by their names, sorted."""

    def refuse(error: OSError) -> None:
        raise RecordingError(f"'{error.filename}' cannot be searched: {error.strerror}")

    for at, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(_visible(folders))
        for name in sorted(_visible(names)):
            if name.lower().endswith(ENDINGS):
                yield Path(at, name)


def _visible(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith(".")]
