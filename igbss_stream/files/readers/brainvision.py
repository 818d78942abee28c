"""Open BrainVision headers whose files were renamed: they still name the old ones."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from igbss_stream.errors import RecordingError

_NAMES = re.compile(rb"^(DataFile|MarkerFile)[ \t]*=[ \t]*([^\r\n]*?)[ \t]*(?=\r?$)", re.MULTILINE)
_ENDINGS = {b"DataFile": (".eeg", ".dat", ".avg", ".seg"), b"MarkerFile": (".vmrk", ".amrk")}


@contextmanager
def find_renamed_files(path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Return a header that names files which exist, and notes about those that were renamed.

    The header is the file itself, or a temporary copy that names the files beside it.

    Parameters
    ----------
    path : Path
        The .vhdr file.

    Raises
    ------
    RecordingError
        If the file of the samples is missing.
    """
    content, notes = path.read_bytes(), list[str]()

    def replace(match: re.Match[bytes]) -> bytes:
        stated = match[2].decode("utf-8", "replace").replace("$b", path.stem)
        if not stated:
            return match[0]
        target = path.parent / stated
        if not os.path.isfile(target):
            beside = (path.with_suffix(ending) for ending in _ENDINGS[match[1]])
            target = next((each for each in beside if os.path.isfile(each)), target)
            if os.path.isfile(target):
                notes.append(
                    f"the header names {stated!r}, which is missing; {target.name!r}, which has the "
                    "name of the header, is read"
                )
            elif match[1] == b"DataFile":
                raise RecordingError(
                    f"{str(path)!r} names the file of its samples, {stated!r}, which is not beside it, "
                    f"and there is no {path.with_suffix('.eeg').name!r}; restore it"
                )
            else:
                return match[0]  # MNE warns
        return match[1] + b"=" + str(target.resolve()).encode()

    changed = _NAMES.sub(replace, content)
    if not notes:
        yield path, ()
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        copy.write_bytes(changed)
        yield copy, tuple(notes)
