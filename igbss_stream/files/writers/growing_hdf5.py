"""Write an HDF5 file that grows and is readable at any moment, even after its writer was killed.

Rows are first written after the end of the data that the header describes, where no reader reads. `commit`
then updates the numbers in the header. They are in the first page of the file, and a killed process does
not interrupt the system within a page, so the file always has the state of the last commit.

HDF5 reads the end of the file when it opens it, and refuses datasets beyond it. A program that opened the
file before a commit and reads the length of a dataset after it would therefore fail. The header states an
end some MiB ahead, and the file has this size, without taking space; closing it cuts it to its rows.
"""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import IgbssError, RecordingError
from igbss_stream.files.writers.growing_header import (
    LAYOUT,
    PAGE,
    Fields,
    Table,
    get_end,
    has_valid_fields,
    make_first_page,
    make_header,
    state_end,
)
from igbss_stream.files.writers.locking import (
    claim,
    get_partial_path,
    lock,
    sync_directory,
    sync_in_background,
    unlock,
)
from igbss_stream.files.writers.write_errors import check_output_path, explain_write_error

_AHEAD = 1 << 24  # bytes; the stated end of the file is a multiple, and at least half of it ahead


class GrowingFile:
    """A file of datasets that grow; created by `create_growing` and `open_growing`.

    While it is open, other programs may read it, with or without HDF5 locks. Programs that respect the
    locks cannot write to it.

    Attributes
    ----------
    path : Path
    lengths : dict of str to int
        Number of rows of each dataset, including rows that are not committed yet.
    """

    def __init__(
        self,
        path: Path,
        file: io.BufferedRandom,
        tables: Sequence[Table],
        fields: Fields,
        lengths: Sequence[int],
    ) -> None:
        self.path = path
        self.lengths = dict(zip((table.name for table in tables), lengths, strict=True))
        self._tables = {table.name: table for table in tables}
        self._file = file
        self._fields = fields
        self._addresses = dict(zip(self.lengths, _get_addresses(fields), strict=True))
        self._page = os.pread(file.fileno(), PAGE, 0)
        self._committed = list(lengths)
        self._stated_end = 0

    @property
    def is_in_place(self) -> bool:
        """Whether the file still has its name; False if it was deleted, renamed or replaced."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # unknown, e.g. on a network disk that does not respond
            return True

    def count_data_bytes(self, n_more: int) -> int:
        """Return the size of the last dataset, which grows without limit, with a number of further rows."""
        name, table = list(self._tables.items())[-1]
        return (self.lengths[name] + n_more) * table.row_bytes

    @property
    def n_visible(self) -> int:
        """Number of rows of the last dataset that readers see."""
        return self._committed[-1]

    def has_room(self, name: str, n_rows: int = 1) -> bool:
        """Return whether a dataset has room for more rows."""
        capacity = self._tables[name].capacity
        return capacity is None or self.lengths[name] + n_rows <= capacity

    def append(self, name: str, rows: NDArray[Any]) -> None:
        """Write the next rows of a dataset; readers see them after the next `commit`.

        Parameters
        ----------
        name : str
        rows : array of shape (rows, ...)

        Raises
        ------
        RecordingError
            If they cannot be written. They can be written again later.
        """
        self._put(name, rows, self.lengths[name])
        self.lengths[name] += len(rows)

    def amend(self, name: str, rows: NDArray[Any]) -> None:
        """Overwrite the last rows of a dataset; readers see the change at once.

        Parameters
        ----------
        name : str
        rows : array of shape (rows, ...)
            In a committed row at most one aligned number may change. Readers then see either the old or the
            new value, even if the writer is killed.

        Raises
        ------
        RecordingError
            If they cannot be written.
        """
        self._put(name, rows, self.lengths[name] - len(rows))

    def commit(self) -> None:
        """Make appended rows visible to readers."""
        if list(self.lengths.values()) != self._committed:
            self.write_header()

    def write_header(self, *, is_last: bool = False) -> None:
        """Write the lengths of the datasets and the end of the file; it is ahead unless `is_last`."""
        lengths = list(self.lengths.values())
        end = self._get_end(lengths)
        with self.guard_errors():
            if is_last:
                self._stated_end = end
            elif end + _AHEAD // 2 > self._stated_end:
                self._stated_end = _reserve(self._file, end)
            page = make_first_page(self._page, self._fields, lengths)
            _write(self._file, state_end(page, self._fields, self._stated_end), 0)
        self._committed = lengths

    def close(self, *, wait: bool = True) -> None:
        """Commit, flush to the disk and close. Closing it twice is allowed.

        Parameters
        ----------
        wait : bool
            Whether to wait until the file is on the disk.

        Raises
        ------
        RecordingError
            If the file cannot be written.
        """
        if self._file.closed:
            return
        try:
            self.write_header(is_last=True)
            with self.guard_errors():
                _truncate(self._file, self._stated_end)
                if wait:
                    os.fsync(self._file.fileno())
                else:
                    sync_in_background(self._file)
        finally:
            unlock(self._file)
            with suppress(OSError):
                self._file.close()

    def _put(self, name: str, rows: NDArray[Any], at: int) -> None:
        table = self._tables[name]
        stored = np.ascontiguousarray(rows, table.dtype)
        place = self._addresses[name] + at * table.row_bytes
        with self.guard_errors():
            _write(self._file, stored.reshape(-1).view(np.uint8), place)

    def _get_end(self, lengths: Sequence[int]) -> int:
        name, table = list(self._tables.items())[-1]
        return self._addresses[name] + lengths[-1] * table.row_bytes

    @contextmanager
    def guard_errors(self) -> Iterator[None]:
        """Convert exceptions of the system to a `RecordingError` with a remedy."""
        try:
            yield
        except OSError as error:
            rows = self._committed[-1]
            raise RecordingError(
                f"'{self.path}' cannot be written: {explain_write_error(error)} "
                f"({rows} samples were written and can be read)"
            ) from error


def create_growing(
    path: Path, tables: Sequence[Table], attrs: Mapping[str, Any], *, wait: bool = True
) -> GrowingFile:
    """Create a file with empty datasets; it gets its name when it is readable.

    Parameters
    ----------
    path : path
        A file that exists is replaced.
    tables : sequence of Table
        Only the last one may grow without limit.
    attrs : mapping
        Attributes of the file.
    wait : bool
        Whether to wait until the file is on the disk.

    Returns
    -------
    GrowingFile

    Raises
    ------
    RecordingError
        If the file cannot be written.
    """
    check_output_path(path)
    header = make_header(tables, attrs)
    partial = get_partial_path(path)
    file = claim(partial)
    try:
        _write(file, header.image, 0)
        growing = GrowingFile(path, file, tables, header.fields, [0] * len(tables))
        growing.write_header()
        if wait:
            os.fsync(file.fileno())
        lock(file, shared=True)
        os.replace(partial, path)
        if wait:
            sync_directory(path.parent)
        else:
            sync_in_background(file, path.parent)
        return growing
    except OSError as error:
        with suppress(OSError):
            os.unlink(partial)
        file.close()
        if isinstance(error, RecordingError):
            raise
        raise RecordingError(f"'{path}' cannot be written: {explain_write_error(error)}") from error


def open_growing(path: Path, tables: Sequence[Table]) -> GrowingFile:
    """Open a file of `create_growing`, to append rows.

    Parameters
    ----------
    path : path
    tables : sequence of Table
        Those with which it was created; their attributes are ignored.

    Returns
    -------
    GrowingFile

    Raises
    ------
    RecordingError
        If the file was not created by `create_growing`, was changed by another program, or is in use.
    """
    file = claim_existing(path)
    try:
        fields, lengths = _read_layout(path, tables)
        growing = GrowingFile(path, file, tables, fields, lengths)
        if growing._page != _make_expected_page(growing._page, fields, lengths):
            raise _make_changed_error(path)
        growing.write_header(is_last=True)
        with growing.guard_errors():
            _truncate(file, growing._stated_end)  # rows that were never committed
        growing.write_header()
    except BaseException:
        file.close()
        raise
    return growing


def claim_existing(path: Path) -> io.BufferedRandom:
    """Open a file, and lock it against other writers.

    Raises
    ------
    RecordingError
        If it cannot be opened, or is in use.
    """
    try:
        file = open(path, "r+b")  # noqa: SIM115 - the caller closes it
    except OSError as error:
        raise RecordingError(f"'{path}' cannot be written: {explain_write_error(error)}") from error
    if not lock(file):
        file.close()
        raise RecordingError(
            f"'{path}' is being recorded to or read by another program; wait until it has finished or "
            "choose another output"
        )
    lock(file, shared=True)
    return file


def _read_layout(path: Path, tables: Sequence[Table]) -> tuple[Fields, list[int]]:
    """Return the fields of the header, and the lengths of the datasets."""
    try:
        with h5py.File(path, "r") as file:
            fields = np.asarray(file.attrs[LAYOUT], np.int64)
            datasets = [file[table.name] for table in tables]
            fit = all(
                dataset.dtype == table.dtype and dataset.shape[1:] == table.width
                for dataset, table in zip(datasets, tables, strict=True)
            )
            lengths = [len(dataset) for dataset in datasets]
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise RecordingError(f"'{path}' is not a recording that can be continued; {_REMEDY}") from error
    if not fit or not has_valid_fields(fields, len(tables)):
        raise _make_changed_error(path)
    return fields, lengths


_REMEDY = "choose another output, or number the recordings or overwrite it (if_exists)"


def _make_changed_error(path: Path) -> IgbssError:
    return RecordingError(f"'{path}' was changed by another program and cannot be continued; {_REMEDY}")


def _make_expected_page(page: bytes, fields: Fields, lengths: Sequence[int]) -> bytes:
    """Return the first page of an unchanged file; one that was not closed states an end ahead."""
    return state_end(make_first_page(page, fields, lengths), fields, get_end(page, fields))


def _get_addresses(fields: Fields) -> list[int]:
    """Return the addresses of the datasets, which are the fields that do not depend on a length."""
    return [a for _, _, _, a, b in fields.tolist() if b == 0]


def _write(file: io.BufferedRandom, data: Any, place: int) -> None:
    """Write all of `data`; a single system call may write less, e.g. on a full disk."""
    view = memoryview(data)
    while len(view):
        n_bytes = os.pwrite(file.fileno(), view, place)
        view, place = view[n_bytes:], place + n_bytes


def _reserve(file: io.BufferedRandom, end: int) -> int:
    """Extend a file ahead of its rows, without taking space; return the new end."""
    ahead = (end // _AHEAD + 2) * _AHEAD
    try:
        _truncate(file, ahead)
    except OSError:  # a limit on file sizes: less is possible
        _truncate(file, end)
        return end
    return ahead


def _truncate(file: io.BufferedRandom, size: int) -> None:
    os.ftruncate(file.fileno(), size)
