"""Write the sources of a recording to HDF5, all of them or none.

The samples go to ``NAME.partial`` beside the output. Only a file that is complete, closed and on
the disk takes the final name, so whoever finds a file under that name may trust it, and an older
output stays whole until the new one replaces it.

HDF5 writes through a Python file object, not through its own driver. With its own driver a write
that fails on a full disk makes closing fail too, and the interpreter then crashes on the file that
is half closed (HDF5 2.0 still does). A file object can be told to accept everything once the result
is lost.
"""

import io
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
import numpy.typing as npt

from igbss_stream.errors import RecordingError
from igbss_stream.files.writers.hdf5_datasets import (
    Gathered,
    Rows,
    _group,
    _last,
    _storable,
    create_file,
    create_virtual,
    set_attributes,
    stored,
)
from igbss_stream.files.writers.locking import claim, is_at, partial_of, sync_directory
from igbss_stream.files.writers.write_errors import check_new, same_file, why_not_written


class Stream:
    """The file object that HDF5 sees.

    Its methods are functions written in C, so that no signal handler can run, and raise, in the
    middle of a write of HDF5.

    Parameters
    ----------
    file : file
    """

    def __init__(self, file: io.BufferedRandom) -> None:
        self.file = file
        self.seek: Callable[..., object] = file.seek
        self.tell: Callable[[], int] = file.tell
        self.read: Callable[..., bytes | None] = file.read
        self.readinto: Callable[..., int | None] = file.readinto
        self.write: Callable[[Any], int] = file.write
        self.truncate: Callable[[int], int] = file.truncate
        self.flush: Callable[[], object] = file.flush

    def accept_everything(self) -> None:
        """Drop what is written from now on, so that a file that cannot be saved can be closed."""
        raw = self.file.raw
        self.seek, self.tell, self.read, self.readinto = raw.seek, raw.tell, raw.read, raw.readinto
        self.write, self.truncate, self.flush = len, int, bool

    def close(self) -> None:
        """Close the file; HDF5 may still hold on to it if a signal interrupted its own closing."""
        self.accept_everything()
        self.seek, self.tell = "".format, int
        # What the buffer holds by now is worthless if it cannot be written.
        with suppress(OSError):
            self.file.close()


class Hdf5Sink:
    """An HDF5 file that appears under its name only when it is complete.

    A context manager: the file is published when the ``with`` block ends without an exception. On
    any exception, also `KeyboardInterrupt` and `SystemExit`, what was written is removed and an
    older output is left as it was. The same input gives the same bytes.

    Parameters
    ----------
    path : str or path
        The output. If it is a link, the link is replaced and its target left alone.
    overwrite : bool, default=False
        Whether an existing file may be replaced.
    source : str or path, optional
        The file that is being read; it is never written to, whatever `overwrite` says.
    virtual : bool, default=False
        Whether `join` is used, which takes HDF5 1.10 to read.

    Raises
    ------
    RecordingError
        On entry, if the output may not or cannot be written, or if another run is writing it; on
        exit, if it cannot be brought to the disk.
    RuntimeError
        On exit, if a dataset did not receive all its rows.

    Notes
    -----
    For POSIX systems: the lock on the partial file is held until the file has its final name.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        source: str | os.PathLike[str] | None = None,
        virtual: bool = False,
    ) -> None:
        self.path = Path(path)
        self._virtual = virtual
        self.overwrite = overwrite
        self.source = source
        self._partial = partial_of(self.path)
        self._file: Any = None
        self._reserved: dict[str, Rows] = {}
        self._gathered: dict[str, Gathered] = {}

    def __enter__(self) -> Self:
        check_new(self.path, overwrite=self.overwrite, source=self.source)
        if self.source is not None and same_file(self._partial, self.source):
            raise RecordingError(
                f"'{self._partial}' is the input, and the output '{self.path}' would be written "
                "through a file of that name; choose another output"
            )
        self._stream = Stream(claim(self._partial))
        try:
            with self._guarded():
                newest = h5py.h5f.LIBVER_V110 if self._virtual else h5py.h5f.LIBVER_V18
                self._file = create_file(self._stream, newest=newest)
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            self._publish()
        except BaseException:
            self._discard()
            raise

    def create(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        *,
        compression: str = "none",
        **attrs: Any,
    ) -> None:
        """Reserve a dataset, to be filled by `append`.

        Parameters
        ----------
        name : str
            Name of the dataset, e.g. ``"sources"``.
        shape : tuple of int
            Final shape; the first axis runs over samples.
        dtype : dtype
            Type of the numbers in the file.
        compression : {"none", "gzip", "lz4"}
            How they are stored.
        **attrs
            Attributes of the dataset: numbers, arrays, text or sequences of text, which are stored
            as UTF-8 of variable length. An attribute that is None is left out.

        Raises
        ------
        RecordingError
            If the disk has no room for it; how large it is compressed, nobody knows yet.
        """
        dtype = np.dtype(dtype)
        if compression == "none":
            self._check_room(name, math.prod(shape) * dtype.itemsize)
        with self._guarded():
            dataset = stored(_group(self._file, name), _last(name), shape, dtype, compression)
            set_attributes(dataset, attrs)
        self._reserved[name] = Rows(dataset, self._stream.file.fileno())

    def join(
        self,
        name: str,
        shape: tuple[int, int],
        dtype: npt.DTypeLike,
        pieces: Sequence[tuple[str, int]],
        **attrs: Any,
    ) -> None:
        """Make a dataset of those of that name in other files, which are not copied.

        Parameters
        ----------
        name, shape, dtype, pieces
            See `igbss_stream.files.writers.hdf5_virtual.create_virtual`.
        **attrs
            Attributes of the dataset, as in `create`.

        Raises
        ------
        RecordingError
            If the file cannot be written, e.g. because the disk is full.
        """
        with self._guarded():
            set_attributes(create_virtual(self._file, name, shape, dtype, pieces), attrs)

    def append(self, name: str, block: npt.NDArray[Any]) -> None:
        """Write the next rows of a dataset.

        Parameters
        ----------
        name : str
            A dataset that `create` has reserved.
        block : ndarray of shape (rows, ...)
            The rows that follow those already written. Zero rows are allowed.

        Raises
        ------
        ValueError
            If the rows do not fit: more than are left, another width, or a type that the dataset
            cannot hold.
        RecordingError
            If the file cannot be written, e.g. because the disk is full.
        """
        reserved = self._reserved[name]
        start, stop = reserved.rows, reserved.rows + len(block)
        if stop > reserved.all_rows or block.shape[1:] != reserved.shape[1:]:
            raise ValueError(
                f"rows {start} to {stop} of shape {block.shape} do not fit into dataset {name!r} "
                f"of shape {reserved.shape}"
            )
        if not np.can_cast(block.dtype, reserved.dtype, "same_kind"):
            raise ValueError(f"{block.dtype} does not fit into dataset {name!r} of {reserved.dtype}")
        with self._guarded():
            reserved.append(block)

    def gather(self, name: str, block: npt.NDArray[Any]) -> None:
        """Take the next rows of a dataset whose length nobody knows yet; it is made when all have come.

        Parameters
        ----------
        name : str
            Name of the dataset.
        block : ndarray of shape (rows,)
            Of the same type each time.

        Raises
        ------
        RecordingError
            If they cannot be kept, e.g. because the disk is full.
        """
        with self._guarded():
            if name not in self._gathered:
                self._gathered[name] = Gathered(self.path.parent, block.dtype)
            self._gathered[name].append(block)

    def write(self, name: str, array: npt.ArrayLike, **attrs: Any) -> None:
        """Write a small array at once, e.g. the mixing matrix.

        Parameters
        ----------
        name : str
            Name of the dataset.
        array : array-like
            Numbers, or text, which is stored as UTF-8 of variable length.
        **attrs
            Attributes of the dataset, as in `create`.

        Raises
        ------
        RecordingError
            If the file cannot be written, e.g. because the disk is full.
        """
        with self._guarded():
            group = _group(self._file, name)
            set_attributes(group.create_dataset(_last(name), data=_storable(array)), attrs)

    def set_attrs(self, **attrs: Any) -> None:
        """Set attributes of the file itself.

        Parameters
        ----------
        **attrs
            Attributes, as in `create`.

        Raises
        ------
        RecordingError
            If the file cannot be written, e.g. because the disk is full.
        """
        with self._guarded():
            set_attributes(self._file, attrs)

    def _check_room(self, name: str, n_bytes: int) -> None:
        """Refuse a dataset of `n_bytes` bytes that the disk has no room for."""
        written, total = self._progress()
        needed = n_bytes + total - written
        with self._guarded():
            free = shutil.disk_usage(self.path.parent).free
        if needed > free:
            raise RecordingError(
                f"'{self.path}' needs {needed} bytes more for dataset {name!r}, but only {free} "
                f"bytes are free in '{self.path.parent}'; free some space or choose an output on "
                "another disk"
            )

    def _progress(self) -> tuple[int, int]:
        """Count the bytes of samples that were written, and those that were reserved."""
        written = sum(r.rows * r.row_bytes for r in self._reserved.values())
        return written, sum(r.all_rows * r.row_bytes for r in self._reserved.values())

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn what h5py and the system raise into a `RecordingError` with a remedy."""
        try:
            yield
        except (OSError, RuntimeError) as error:
            written, total = self._progress()
            raise RecordingError(
                f"'{self.path}' cannot be written: {why_not_written(error)} "
                f"({written} of {total} bytes of samples were written)"
            ) from error

    def _publish(self) -> None:
        """Bring the complete file to the disk and give it its final name."""
        for name, gathered in self._gathered.items():
            self.create(name, (gathered.rows,), gathered.dtype)
            for block in gathered.read_blocks():
                self.append(name, block)
            gathered.close()
        for name, reserved in self._reserved.items():
            if reserved.rows != reserved.all_rows:
                raise RuntimeError(
                    f"dataset {name!r} of '{self.path}' received {reserved.rows} of "
                    f"{reserved.all_rows} rows"
                )
        with self._guarded():
            # Flushing first: a flush that fails can be recovered from, a close that fails cannot.
            self._file.flush()
            self._file.close()
            self._stream.flush()
            os.fsync(self._stream.file.fileno())
        if os.path.lexists(self.path) and not self.overwrite:
            raise RecordingError(
                f"'{self.path}' was created by another program meanwhile; pass --overwrite to "
                "replace it or choose another output"
            )
        with self._guarded():
            os.replace(self._partial, self.path)
        # Unlocked at once: whoever waits for the name should find a file that opens.
        self._stream.close()
        sync_directory(self.path.parent)

    def _discard(self) -> None:
        """Close what is open and remove the partial file, whatever state it is in."""
        self._stream.accept_everything()
        for gathered in self._gathered.values():
            with suppress(OSError):  # of what a full disk did not take
                gathered.close()
        with suppress(OSError, RuntimeError):
            if self._file is not None:
                self._file.close()
        # Removed while the lock is held, and only if it is ours: the name may be another's now.
        if is_at(self._stream.file, self._partial):
            with suppress(OSError):
                os.unlink(self._partial)
        self._stream.close()
