"""What every writer of files shares: locks, names that appear on the disk, and why a write failed."""

import fcntl
import io
import os
import time
from contextlib import suppress
from pathlib import Path

from igbss_stream.errors import RecordingError

_LOOK = 0.1  # seconds between looks whether another run has ended


def partial_of(path: Path) -> Path:
    """Return where a file is written until it is complete."""
    return path.parent / f"{path.name}.partial"


def claim(partial: Path) -> io.BufferedRandom:
    """Open the partial file, empty and locked; one that a killed run left is used again."""

    def create(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CREAT | os.O_NOFOLLOW, 0o666)

    try:
        file = open(partial, "r+b", opener=create)  # noqa: SIM115 - the sink closes it
    except (OSError, ValueError) as error:
        raise RecordingError(
            f"'{partial}' cannot be opened for writing: {error}; choose another output"
        ) from error
    if not lock(file) or not is_at(file, partial):
        file.close()
        raise RecordingError(
            f"'{partial}' is being written by another run; wait until it has finished or choose "
            "another output"
        )
    file.truncate(0)
    return file


def remove_left_over(partial: Path) -> None:
    """Remove the partial file of a run that was killed, unless another run is writing it."""
    if not partial.is_file():
        return
    with suppress(RecordingError, OSError), claim(partial):
        partial.unlink()


def wait_until_free(partial: Path, seconds: float) -> None:
    """Wait while another run is writing a partial file, at most so long.

    Parameters
    ----------
    partial : Path
    seconds : float
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with open(partial, "rb") as file:
                if lock(file, shared=True):
                    return
        except OSError:
            return
        time.sleep(_LOOK)


def lock(file: io.IOBase, *, shared: bool = False) -> bool:
    """Lock a file for this run, as HDF5 does; False if another one holds it.

    Parameters
    ----------
    file : file
    shared : bool
        Whether others may read it, which is what HDF5 asks for when it reads.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Some network disks cannot lock. Refusing to work there would help nobody.
        return True
    return True


def is_at(file: io.BufferedRandom, path: Path) -> bool:
    """Tell whether a file is open and still the one under this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except (OSError, ValueError):
        return False


def sync_directory(folder: Path) -> None:
    """Bring the new name to the disk."""
    # Not every file system can do it, and the file is complete in any case.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
