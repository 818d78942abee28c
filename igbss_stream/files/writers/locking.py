"""Lock outputs, and write them under temporary names until they are complete."""

import fcntl
import io
import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from igbss_stream.errors import RecordingError

log = logging.getLogger(__name__)

_POLL = 0.1  # seconds between checks whether another run has ended


def get_partial_path(path: Path) -> Path:
    """Return the temporary name of a file that is being written."""
    return path.parent / f"{path.name}.partial"


def claim(partial: Path) -> io.BufferedRandom:
    """Open a partial file, empty and locked; a leftover of a killed run is reused."""

    def create(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CREAT | os.O_NOFOLLOW, 0o666)

    try:
        file = open(partial, "r+b", opener=create)  # noqa: SIM115 - the caller closes it
    except (OSError, ValueError) as error:
        raise RecordingError(
            f"'{partial}' cannot be opened for writing: {error}; choose another output"
        ) from error
    if not lock(file) or not is_still_at(file, partial):
        file.close()
        raise RecordingError(
            f"'{partial}' is being written by another run; wait until it has finished or choose "
            "another output"
        )
    file.truncate(0)
    return file


def remove_leftover(partial: Path) -> None:
    """Remove the partial file of a killed run, unless another run is writing it."""
    if not partial.is_file():
        return
    with suppress(RecordingError, OSError), claim(partial):
        partial.unlink()


def wait_until_free(partial: Path, seconds: float) -> None:
    """Wait until no other run is writing a partial file.

    Parameters
    ----------
    partial : Path
    seconds : float
        Longest time to wait.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with open(partial, "rb") as file:
                if lock(file, shared=True):
                    return
        except OSError:
            return
        time.sleep(_POLL)


def lock(file: io.IOBase, *, shared: bool = False) -> bool:
    """Lock a file as HDF5 does; return False if another program has locked it.

    Parameters
    ----------
    file : file
    shared : bool
        Whether to allow shared locks of others; HDF5 takes one for reading.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Some network disks cannot lock files; work without a lock there.
        return True
    return True


def unlock(file: io.IOBase) -> None:
    """Unlock a file that another thread may still flush to the disk."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)


def is_still_at(file: io.BufferedRandom, path: Path) -> bool:
    """Return whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except (OSError, ValueError):
        return False


def sync_in_background(file: io.BufferedRandom, folder: Path | None = None) -> None:
    """Flush a file, and a new name in a folder, to the disk in another thread.

    Flushing may take seconds, for which a stream must not wait. The process waits for it before it ends.

    Parameters
    ----------
    file : file
        May be closed meanwhile.
    folder : Path, optional
    """
    descriptor = os.dup(file.fileno())

    def sync() -> None:
        try:
            os.fsync(descriptor)
        except OSError as error:
            log.error("'%s' may be incomplete after a power failure: %s", file.name, error)
        finally:
            os.close(descriptor)
        if folder is not None:
            sync_directory(folder)

    threading.Thread(target=sync, name="sync").start()


def sync_directory(folder: Path) -> None:
    """Flush a new name in a folder to the disk."""
    # Not all file systems support it; the file is complete in any case.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
