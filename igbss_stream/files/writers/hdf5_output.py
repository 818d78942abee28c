"""Write an HDF5 output completely or not at all.

Samples are written to ``NAME.partial`` next to the output. The file gets its final name only when it is
complete, closed and on the disk, so a file of that name is always complete, and an older output stays
intact until the new one replaces it.

HDF5 writes through a Python file object instead of its own driver. With its own driver, a write that fails
on a full disk makes closing fail too, and the interpreter crashes on the half-closed file (even with HDF5
2.0). `DiscardableFile` can discard all writes after a failure.
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
from igbss_stream.files.checksum import BLOCK_BYTES, write_checksum
from igbss_stream.files.writers.hdf5_datasets import (
    RowWriter,
    SpooledRows,
    as_storable,
    create_dataset,
    create_file,
    create_virtual,
    get_base_name,
    get_group,
    set_attributes,
)
from igbss_stream.files.writers.locking import claim, get_partial_path, is_still_at, sync_directory
from igbss_stream.files.writers.write_errors import check_new_output, explain_write_error, is_same_file


class DiscardableFile:
    """File object through which HDF5 writes, and which can discard all further writes.

    Its methods are C functions, so no signal handler can run and raise during a write of HDF5.

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

    def discard_writes(self) -> None:
        """Discard all further writes, so that a file that cannot be saved can be closed."""
        raw = self.file.raw
        self.seek, self.tell, self.read, self.readinto = raw.seek, raw.tell, raw.read, raw.readinto
        self.write, self.truncate, self.flush = len, int, bool

    def close(self) -> None:
        """Close the file. HDF5 may still use the object if a signal interrupted its closing."""
        self.discard_writes()
        self.seek, self.tell = "".format, int
        # The content of the buffer is not needed if it cannot be written.
        with suppress(OSError):
            self.file.close()


class Hdf5Sink:
    """An HDF5 file that gets its name when it is complete.

    A context manager: the file is published when the ``with`` block ends without an exception. On any
    exception, including `KeyboardInterrupt` and `SystemExit`, the partial file is removed and an older
    output is not changed. The same input gives the same bytes.

    Parameters
    ----------
    path : str or path
        The output. A link is replaced; its target is not changed.
    overwrite : bool, default=False
        Whether an existing file may be replaced.
    source : str or path, optional
        The input, which is never overwritten, even if `overwrite` is True.
    virtual : bool, default=False
        Whether `join` is used; reading the file then requires HDF5 1.10.
    checksum : bool, default=False
        Whether the file begins with a checksum of its content (`igbss_stream.files.checksum`). Reading the
        file then reads all its bytes first, so it is for files without samples.

    Raises
    ------
    RecordingError
        On entry, if the output must not or cannot be written, or another run is writing it; on exit, if it
        cannot be flushed to the disk.
    RuntimeError
        On exit, if a dataset did not receive all its rows.

    Notes
    -----
    POSIX only: the partial file stays locked until it has its final name.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        source: str | os.PathLike[str] | None = None,
        virtual: bool = False,
        checksum: bool = False,
    ) -> None:
        self.path = Path(path)
        self._virtual, self._checksum = virtual, checksum
        self.overwrite = overwrite
        self.source = source
        self._partial = get_partial_path(self.path)
        self._file: Any = None
        self._reserved: dict[str, RowWriter] = {}
        self._buffers: dict[str, SpooledRows] = {}

    def __enter__(self) -> Self:
        check_new_output(self.path, overwrite=self.overwrite, source=self.source)
        if self.source is not None and is_same_file(self._partial, self.source):
            raise RecordingError(
                f"'{self._partial}' is the input, and also the temporary file of the output "
                f"'{self.path}'; choose another output"
            )
        self._stream = DiscardableFile(claim(self._partial))
        try:
            with self._guard_errors():
                newest = h5py.h5f.LIBVER_V110 if self._virtual else h5py.h5f.LIBVER_V18
                self._file = create_file(
                    self._stream, newest=newest, user_block=BLOCK_BYTES if self._checksum else 0
                )
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
        """Reserve a dataset, which `append` fills.

        Parameters
        ----------
        name : str
            Name of the dataset, e.g. ``"sources"``.
        shape : tuple of int
            Final shape; the first axis is samples.
        dtype : dtype
            Dtype of the numbers in the file.
        compression : {"none", "gzip", "lz4"}
            Compression of the numbers.
        **attrs
            Attributes of the dataset: numbers, arrays, text or sequences of text. Text is stored as UTF-8
            of variable length. Attributes that are None are skipped.

        Raises
        ------
        RecordingError
            If the disk has no room for it. Not checked with compression, as the size is not known yet.
        """
        dtype = np.dtype(dtype)
        if compression == "none":
            self._check_room(name, math.prod(shape) * dtype.itemsize)
        with self._guard_errors():
            dataset = create_dataset(
                get_group(self._file, name), get_base_name(name), shape, dtype, compression
            )
            set_attributes(dataset, attrs)
        self._reserved[name] = RowWriter(dataset, self._stream.file.fileno())

    def join(
        self,
        name: str,
        shape: tuple[int, int],
        dtype: npt.DTypeLike,
        pieces: Sequence[tuple[str, int]],
        **attrs: Any,
    ) -> None:
        """Create a virtual dataset from datasets of the same name in other files, without copying them.

        Parameters
        ----------
        name, shape, dtype, pieces
            See `igbss_stream.files.writers.hdf5_datasets.create_virtual`.
        **attrs
            Attributes of the dataset, as in `create`.

        Raises
        ------
        RecordingError
            If the file cannot be written, e.g. because the disk is full.
        """
        with self._guard_errors():
            set_attributes(create_virtual(self._file, name, shape, dtype, pieces), attrs)

    def append(self, name: str, block: npt.NDArray[Any]) -> None:
        """Write the next rows of a dataset.

        Parameters
        ----------
        name : str
            A dataset reserved by `create`.
        block : ndarray of shape (rows, ...)
            The next rows. Zero rows are allowed.

        Raises
        ------
        ValueError
            If the rows do not fit: too many, another width, or a dtype that cannot be converted.
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
        with self._guard_errors():
            reserved.append(block)

    def gather(self, name: str, block: npt.NDArray[Any]) -> None:
        """Append rows of a dataset whose length is not known yet; it is written at the end.

        Parameters
        ----------
        name : str
            Name of the dataset.
        block : ndarray of shape (rows,)
            Always of the same dtype.

        Raises
        ------
        RecordingError
            If they cannot be buffered, e.g. because the disk is full.
        """
        with self._guard_errors():
            if name not in self._buffers:
                self._buffers[name] = SpooledRows(self.path.parent, block.dtype)
            self._buffers[name].append(block)

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
        with self._guard_errors():
            group = get_group(self._file, name)
            set_attributes(group.create_dataset(get_base_name(name), data=as_storable(array)), attrs)

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
        with self._guard_errors():
            set_attributes(self._file, attrs)

    def _check_room(self, name: str, n_bytes: int) -> None:
        """Check that the disk has room for a dataset of `n_bytes` bytes."""
        written, total = self._count_bytes()
        needed = n_bytes + total - written
        with self._guard_errors():
            free = shutil.disk_usage(self.path.parent).free
        if needed > free:
            raise RecordingError(
                f"'{self.path}' needs {needed} more bytes for dataset {name!r}, but only {free} "
                f"bytes are free in '{self.path.parent}'; free some space or choose an output on "
                "another disk"
            )

    def _count_bytes(self) -> tuple[int, int]:
        """Return the numbers of sample bytes written and reserved."""
        written = sum(r.rows * r.row_bytes for r in self._reserved.values())
        return written, sum(r.all_rows * r.row_bytes for r in self._reserved.values())

    @contextmanager
    def _guard_errors(self) -> Iterator[None]:
        """Convert exceptions of h5py and the system to a `RecordingError` with a remedy."""
        try:
            yield
        except (OSError, RuntimeError) as error:
            written, total = self._count_bytes()
            raise RecordingError(
                f"'{self.path}' cannot be written: {explain_write_error(error)} "
                f"({written} of {total} bytes of samples were written)"
            ) from error

    def _publish(self) -> None:
        """Flush the complete file to the disk and rename it."""
        for name, buffer in self._buffers.items():
            self.create(name, (buffer.rows,), buffer.dtype)
            for block in buffer.read_blocks():
                self.append(name, block)
            buffer.close()
        for name, reserved in self._reserved.items():
            if reserved.rows != reserved.all_rows:
                raise RuntimeError(
                    f"dataset {name!r} of '{self.path}' received {reserved.rows} of "
                    f"{reserved.all_rows} rows"
                )
        with self._guard_errors():
            # Flush first: a failed flush can be handled, a failed close cannot.
            self._file.flush()
            self._file.close()
            if self._checksum:
                write_checksum(self._stream.file)
            self._stream.flush()
            os.fsync(self._stream.file.fileno())
        if os.path.lexists(self.path) and not self.overwrite:
            raise RecordingError(
                f"'{self.path}' was created by another program in the meantime; pass --overwrite to "
                "replace it or choose another output"
            )
        with self._guard_errors():
            os.replace(self._partial, self.path)
        # Unlock at once, so that others can open the file as soon as it has its name.
        self._stream.close()
        sync_directory(self.path.parent)

    def _discard(self) -> None:
        """Close all files and remove the partial file, in any state."""
        self._stream.discard_writes()
        for buffer in self._buffers.values():
            with suppress(OSError):  # the disk may be full
                buffer.close()
        with suppress(OSError, RuntimeError):
            if self._file is not None:
                self._file.close()
        # Remove the file before unlocking it, and only if no other run has replaced it.
        if is_still_at(self._stream.file, self._partial):
            with suppress(OSError):
                os.unlink(self._partial)
        self._stream.close()
