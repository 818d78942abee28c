"""What every writer of files shares: locks, names that appear on the disk, and why a write failed."""

import errno
import fcntl
import io
import os
import time
from contextlib import suppress
from pathlib import Path

from igbss_stream.errors import RecordingError

_LOOK = 0.1  # seconds between looks whether another run has ended

_NO_ROOM = {
    errno.ENOSPC: "the disk is full; free some space or choose an output on another disk",
    errno.EDQUOT: "the disk quota is used up; free some space or choose an output on another disk",
    errno.EFBIG: "the file has reached the limit on file sizes; raise it (ulimit -f) or choose an "
    "output on another disk",
}


def check_place(path: Path) -> None:
    """Refuse a place where no file can be written."""
    folder = path.parent
    if os.path.isdir(path):
        raise RecordingError(f"'{path}' is a directory; add a file name")
    if os.path.exists(path) and not os.path.isfile(path):
        raise RecordingError(f"'{path}' is not a regular file; choose another output")
    if not os.path.isdir(folder):
        raise RecordingError(
            f"'{path}' cannot be written: there is no directory '{folder}'; create it first"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RecordingError(
            f"'{path}' cannot be written: no permission to write to '{folder}'; choose an "
            "output in another directory"
        )


def check_new(path: Path, *, overwrite: bool, source: str | os.PathLike[str] | None = None) -> None:
    """Refuse a place where nothing may be written.

    Parameters
    ----------
    path : Path
    overwrite : bool
        Whether a file that is there is replaced.
    source : path, optional
        The input, which is never replaced.
    """
    check_place(path)
    if source is not None and same_file(path, source):
        raise RecordingError(
            f"'{path}' is the input itself, which is never overwritten; choose another output"
        )
    if os.path.lexists(path) and not overwrite:
        raise RecordingError(
            f"'{path}' already exists; pass --overwrite to replace it or choose another output"
        )


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


def same_file(path: Path, other: str | os.PathLike[str]) -> bool:
    """Tell whether two names, also through links, lead to one file."""
    try:
        return os.path.samefile(path, other)
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


def why_not_written(error: BaseException) -> str:
    """Say in the user's words why a file cannot be written, and what to do."""
    reason = " ".join(str(error).split()) + "; choose another output"
    return _NO_ROOM.get(_error_number(error), reason)


def _error_number(error: BaseException | None) -> int:
    """Return the first system error number in a chain of exceptions, or 0."""
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return error.errno
        error = error.__cause__ or error.__context__
    return 0
