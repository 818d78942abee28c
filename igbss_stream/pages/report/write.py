"""Write the report on an output to a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from igbss_stream._util.atomic_write import write_atomically
from igbss_stream._util.progress import Progress
from igbss_stream.errors import RecordingError
from igbss_stream.files.results.output import OutputFile
from igbss_stream.files.results.stream_recording import StreamFile, is_stream
from igbss_stream.files.writers.write_errors import explain_write_error
from igbss_stream.pages.report.data import ReportData
from igbss_stream.pages.report.page import DEFAULT_DETAILS, render_page


@dataclass(frozen=True)
class WrittenReport:
    """A report that was written.

    Parameters
    ----------
    path : Path
    size : int
        In bytes.
    n_sources : int
    n_details : int
        Number of sources with a separate section.
    """

    path: Path
    size: int
    n_sources: int
    n_details: int


def get_report_path(output: Path) -> Path:
    """Return the default path of the report on an output: next to the output, with suffix .html."""
    return output.with_suffix(".html")


def write_report(
    output: Path,
    path: Path,
    *,
    references: Sequence[str] = (),
    details: int = DEFAULT_DETAILS,
    input_path: Path | None = None,
    montage: str | None = None,
    progress: Progress | None = None,
) -> WrittenReport:
    """Write the report on an output of `batch`, or on a recording of a stream.

    An existing file is replaced once the new one is complete.

    Parameters
    ----------
    output, path : Path
    references : sequence of str
        Additional reference channels.
    details : int
        Number of sources with a separate section.
    input_path : Path, optional
        The input, needed if reference channels were not separated and the input is not next to the output.
    montage : str, optional
        Positions of the channels, see `igbss_stream.files.montage.load_montage`. Default: those stored.
    progress : callable, optional
        Called with the progress.

    Returns
    -------
    WrittenReport

    Raises
    ------
    IgbssError
        If the output cannot be read or the report cannot be written.
    """
    with _open(output) as file:
        data = (
            ReportData.from_stream(file) if isinstance(file, StreamFile) else ReportData.from_output(file)
        )
        if montage is not None and data.has_weights:
            data = data.place_channels(montage)
        html = render_page(data, references, details, input_path, progress).encode()
        n = data.sources.n_channels
    try:
        write_atomically(path, lambda target: target.write(html))
    except OSError as error:
        raise RecordingError(f"'{path}' cannot be written: {explain_write_error(error)}") from error
    return WrittenReport(path, len(html), n, min(n, details))


def _open(path: Path) -> OutputFile | StreamFile:
    return StreamFile(path) if is_stream(path) else OutputFile(path)
