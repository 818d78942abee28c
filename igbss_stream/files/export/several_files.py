"""Put an export of several files in its place.

Several files cannot be replaced at once. They are first written to a temporary folder, under their final
names. Then the old main file, which refers to the others, is removed, the others are moved, and the main
file is moved last, so a main file always refers to complete files.
"""

import os
from pathlib import Path

from igbss_stream.files.writers.locking import sync_directory


def move_into_place(folder: Path, output: Path) -> None:
    """Flush the files of a folder to the disk and move them beside an output, which is moved last.

    Parameters
    ----------
    folder : Path
        On the same disk.
    output : Path
        The main file; one of that name is in the folder.
    """
    written = sorted(folder.iterdir())
    for path in written:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    output.unlink(missing_ok=True)
    for path in written:
        if path.name != output.name:
            path.replace(output.with_name(path.name))
    (folder / output.name).replace(output)
    sync_directory(output.parent)
