"""Show what an HDF5 file holds, as plain text."""

from igbss_stream.errors import printable
from igbss_stream.files.readers.hdf5.contents import DatasetDescription, FileDescription, describe

__all__ = ["DatasetDescription", "FileDescription", "describe", "render"]

_HEADER = (
    "dataset",
    "shape",
    "dtype",
    "chunks",
    "compression",
    "rate (Hz)",
    "unit",
    "channels",
    "usable",
    "note",
)


def render(description: FileDescription) -> str:
    """Write a description as an aligned table.

    Parameters
    ----------
    description : FileDescription
        What `describe` returned.

    Returns
    -------
    str
        A line for the file, and a table with a line for each dataset, without a line break at the
        end. What a dataset does not have is a dash.
    """
    title = printable(f"{description.path}: {description.size_bytes} bytes")
    if not description.datasets:
        return f"{title}, no datasets"
    table = [_HEADER, *map(_row, description.datasets)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    return "\n".join([title, "", *lines])


def _row(d: DatasetDescription) -> tuple[str, ...]:
    """Return the cells of a dataset."""
    cells = (
        d.name,
        _shape(d.shape),
        d.dtype,
        _shape(d.chunks),
        d.compression,
        None if d.rate is None else f"{d.rate:.12g}",
        d.unit,
        _channels(d.channels),
        "yes" if d.usable else "no",
        d.note,
    )
    return tuple(printable(cell) if cell else "-" for cell in cells)


def _shape(shape: tuple[int, ...] | None) -> str | None:
    """Write a shape, e.g. ``30504 x 32``."""
    if shape is None:
        return None
    return " x ".join(map(str, shape)) or "scalar"


def _channels(names: tuple[str, ...]) -> str:
    """Write the first names of channels, and how many there are."""
    if len(names) <= 3:
        return ", ".join(names)
    return f"{', '.join(names[:3])}, ... ({len(names)})"
