"""A report from an output, as a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from igbss_stream._util.atomic_write import write_atomically
from igbss_stream._util.progress import Progress
from igbss_stream.errors import RecordingError
from igbss_stream.files.results.output import OutputFile
from igbss_stream.files.results.stream_recording import StreamFile, is_stream
from igbss_stream.files.writers.write_errors import explain_write_error
from igbss_stream.pages.report.contents import Contents
from igbss_stream.pages.report.page import DETAILS, page


@dataclass(frozen=True)
class Written:
    """A report that was written.

    Parameters
    ----------
    path : Path
    size : int
        In bytes.
    n_sources : int
    n_details : int
        How many of them have a section of their own.
    """

    path: Path
    size: int
    n_sources: int
    n_details: int


def report_place(output: Path) -> Path:
    """Return where the report on an output goes if nothing else is asked for: beside it."""
    return output.with_suffix(".html")


def write_report(
    output: Path,
    place: Path,
    *,
    references: Sequence[str] = (),
    details: int = DETAILS,
    given: Path | None = None,
    tell: Progress | None = None,
) -> Written:
    """Write the report on an output of `batch`, or on a recording of a stream.

    An older file is replaced when the new one is complete.

    Parameters
    ----------
    output, place : Path
    references : sequence of str
        Channels that are references, beside those that are known to be.
    details : int
        How many sources have a section of their own.
    given : Path, optional
        The input, if references were not separated and it is not beside the output.
    tell : callable, optional
        Told how far it is.

    Returns
    -------
    Written

    Raises
    ------
    IgbssError
        If the output cannot be read, or the report not be written.
    """
    with _opened(output) as file:
        contents = Contents.of_stream(file) if isinstance(file, StreamFile) else Contents.of(file)
        html = page(contents, references, details, given, tell).encode()
        n = contents.sources.n_channels
    try:
        write_atomically(place, lambda target: target.write(html))
    except OSError as error:
        raise RecordingError(f"'{place}' cannot be written: {explain_write_error(error)}") from error
    return Written(place, len(html), n, min(n, details))


def _opened(path: Path) -> OutputFile | StreamFile:
    return StreamFile(path) if is_stream(path) else OutputFile(path)
