"""Format the description of an HDF5 file as text."""

from igbss_stream.errors import printable
from igbss_stream.files.readers.hdf5.contents import DatasetDescription, FileDescription, describe_file

__all__ = ["DatasetDescription", "FileDescription", "describe_file", "format_description"]

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


def format_description(description: FileDescription) -> str:
    """Format a description as an aligned table.

    Parameters
    ----------
    description : FileDescription
        Result of `describe_file`.

    Returns
    -------
    str
        A line for the file, and a table with a line per dataset, without a final line break. A dash
        marks missing values.
    """
    title = printable(f"{description.path}: {description.size_bytes} bytes")
    if not description.datasets:
        return f"{title}, no datasets"
    table = [_HEADER, *map(_format_row, description.datasets)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    return "\n".join([title, "", *lines])


def _format_row(d: DatasetDescription) -> tuple[str, ...]:
    """Return the cells of the row of a dataset."""
    cells = (
        d.name,
        _format_shape(d.shape),
        d.dtype,
        _format_shape(d.chunks),
        d.compression,
        None if d.rate is None else f"{d.rate:.12g}",
        d.unit,
        _format_channels(d.channels),
        "yes" if d.usable else "no",
        d.note,
    )
    return tuple(printable(cell) if cell else "-" for cell in cells)


def _format_shape(shape: tuple[int, ...] | None) -> str | None:
    """Format a shape, e.g. ``30504 x 32``."""
    if shape is None:
        return None
    return " x ".join(map(str, shape)) or "scalar"


def _format_channels(names: tuple[str, ...]) -> str:
    """Format the first channel names and their number."""
    if len(names) <= 3:
        return ", ".join(names)
    return f"{', '.join(names[:3])}, ... ({len(names)})"
