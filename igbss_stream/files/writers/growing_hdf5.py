"""An HDF5 file that grows, and that every reader can open at any moment, also after its writer was killed.

Rows are written behind those that the header tells of, where no reader looks. `commit` then changes the
numbers in the header that tell of them; these lie in the first page of the file, and a kill does not stop
the system within a page. So the file holds, at any moment, what the last commit told of.
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
    are_fields,
    first_page,
    make_header,
)
from igbss_stream.files.writers.locking import claim, lock, partial_of, sync_directory
from igbss_stream.files.writers.write_errors import check_place, why_not_written


class GrowingFile:
    """A file of a few datasets that grow; `create_growing` and `open_growing` make it.

    While it is open, others may read it, with HDF5's locks or without, but none that keeps to the locks can
    write it.

    Attributes
    ----------
    path : Path
    lengths : dict of str to int
        Rows of each dataset, those not committed yet included.
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
        self._addresses = dict(zip(self.lengths, _addresses(fields), strict=True))
        self._page = os.pread(file.fileno(), PAGE, 0)
        self._committed = list(lengths)

    def room(self, name: str) -> bool:
        """Return whether a dataset can take another row."""
        capacity = self._tables[name].capacity
        return capacity is None or self.lengths[name] < capacity

    def append(self, name: str, rows: NDArray[Any]) -> None:
        """Write the next rows of a dataset; readers see them after the next `commit`.

        Parameters
        ----------
        name : str
        rows : array of shape (rows, ...)

        Raises
        ------
        RecordingError
            If the disk does not take them. The rows then count as not written, and may be written again.
        """
        self._put(name, rows, self.lengths[name])
        self.lengths[name] += len(rows)

    def amend(self, name: str, rows: NDArray[Any]) -> None:
        """Write the last rows of a dataset anew; readers who see them see the change at once.

        Parameters
        ----------
        name : str
        rows : array of shape (rows, ...)
            Of a row that readers may see, one aligned number at most may change: it is the old or the new
            one whenever they look, and whenever the writer is killed.

        Raises
        ------
        RecordingError
            If the disk does not take them.
        """
        self._put(name, rows, self.lengths[name] - len(rows))

    def commit(self) -> None:
        """Let readers see what was appended."""
        lengths = list(self.lengths.values())
        if lengths == self._committed:
            return
        with self.guarded():
            _write(self._file, first_page(self._page, self._fields, lengths), 0)
        self._committed = lengths

    def close(self) -> None:
        """Commit, bring all to the disk and close. Closing it twice is allowed.

        Raises
        ------
        RecordingError
            If the disk does not take it.
        """
        if self._file.closed:
            return
        try:
            self.commit()
            with self.guarded():
                _cut(self._file, self._end)
                os.fsync(self._file.fileno())
        finally:
            with suppress(OSError):
                self._file.close()

    def _put(self, name: str, rows: NDArray[Any], at: int) -> None:
        table = self._tables[name]
        stored = np.ascontiguousarray(rows, table.dtype)
        place = self._addresses[name] + at * table.row_bytes
        with self.guarded():
            _write(self._file, stored.reshape(-1).view(np.uint8), place)

    @property
    def _end(self) -> int:
        name, table = list(self._tables.items())[-1]
        return self._addresses[name] + self._committed[-1] * table.row_bytes

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn what the system raises into a `RecordingError` with a remedy."""
        try:
            yield
        except OSError as error:
            rows = self._committed[-1]
            raise RecordingError(
                f"'{self.path}' cannot be written: {why_not_written(error)} "
                f"({rows} samples were written and can be read)"
            ) from error


def create_growing(path: Path, tables: Sequence[Table], attrs: Mapping[str, Any]) -> GrowingFile:
    """Create a file with datasets of no rows; it takes its name when it can be opened.

    Parameters
    ----------
    path : path
        A file that exists is replaced.
    tables : sequence of Table
        The last one is the one that may grow without limit.
    attrs : mapping
        Attributes of the file.

    Returns
    -------
    GrowingFile

    Raises
    ------
    RecordingError
        If the file cannot be written.
    """
    check_place(path)
    header = make_header(tables, attrs)
    partial = partial_of(path)
    file = claim(partial)
    try:
        _write(file, header.image, 0)
        _cut(file, header.addresses[-1])
        os.fsync(file.fileno())
        lock(file, shared=True)
        os.replace(partial, path)
        sync_directory(path.parent)
        return GrowingFile(path, file, tables, header.fields, [0] * len(tables))
    except OSError as error:
        with suppress(OSError):
            os.unlink(partial)
        file.close()
        raise RecordingError(f"'{path}' cannot be written: {why_not_written(error)}") from error


def open_growing(path: Path, tables: Sequence[Table]) -> GrowingFile:
    """Open a file that `create_growing` made, to let it grow further.

    Parameters
    ----------
    path : path
    tables : sequence of Table
        Those that it was made with; their attributes are not looked at.

    Returns
    -------
    GrowingFile

    Raises
    ------
    RecordingError
        If the file is not such a one, was changed by another program, or is in use.
    """
    file = claim_existing(path)
    try:
        fields, lengths = _read_layout(path, tables)
        growing = GrowingFile(path, file, tables, fields, lengths)
        if growing._page != first_page(growing._page, fields, lengths):
            raise _changed(path)
        with growing.guarded():
            _cut(file, growing._end)  # rows that were never committed
    except BaseException:
        file.close()
        raise
    return growing


def claim_existing(path: Path) -> io.BufferedRandom:
    """Open a file, and keep others from writing to it.

    Raises
    ------
    RecordingError
        If it cannot be opened, or is in use.
    """
    try:
        file = open(path, "r+b")  # noqa: SIM115 - the caller closes it
    except OSError as error:
        raise RecordingError(f"'{path}' cannot be written: {why_not_written(error)}") from error
    if not lock(file):
        file.close()
        raise RecordingError(
            f"'{path}' is being recorded to or read by another program; wait until it has finished or "
            "choose another output"
        )
    lock(file, shared=True)
    return file


def _read_layout(path: Path, tables: Sequence[Table]) -> tuple[Fields, list[int]]:
    """Return where the numbers that change lie, and the lengths of the datasets."""
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
        raise RecordingError(f"'{path}' is not a recording that can go on; {_REMEDY}") from error
    if not fit or not are_fields(fields, len(tables)):
        raise _changed(path)
    return fields, lengths


_REMEDY = "choose another output, or record beside it or over it"


def _changed(path: Path) -> IgbssError:
    return RecordingError(
        f"'{path}' was changed by another program and cannot go on as a recording; {_REMEDY}"
    )


def _addresses(fields: Fields) -> list[int]:
    """Return where the rows of the datasets begin: of the fields, those that do not grow."""
    return [a for _, _, _, a, b in fields.tolist() if b == 0]


def _write(file: io.BufferedRandom, data: Any, place: int) -> None:
    """Write all of `data`; the system may take less at a time, e.g. what is left on the disk."""
    view = memoryview(data)
    while len(view):
        n_bytes = os.pwrite(file.fileno(), view, place)
        view, place = view[n_bytes:], place + n_bytes


def _cut(file: io.BufferedRandom, size: int) -> None:
    os.ftruncate(file.fileno(), size)
