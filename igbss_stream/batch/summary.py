"""Summarise the results of many recordings: a file for programs, totals, and the exit code."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from igbss_stream._util.atomic_write import write_atomically
from igbss_stream._util.version import __version__
from igbss_stream.batch.job import DONE, FAILED, SKIPPED, Result
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.files.writers.write_errors import is_same_file

ENDINGS = (".csv", ".json", ".jsonl")
EXIT_FAULT, EXIT_FAILED = 1, 2
_FORMULA = ("=", "+", "-", "@")  # with which a formula of a spreadsheet begins


def check_summary_path(path: Path, inputs: Sequence[Path], *, replace: bool) -> None:
    """Check that a summary can be written, before anything runs.

    Parameters
    ----------
    path : Path
    inputs : sequence of Path
        Recordings, which are never overwritten.
    replace : bool
        Whether an existing file is replaced.

    Raises
    ------
    IgbssError
        If the summary cannot be written there.
    """
    if path.suffix.lower() not in ENDINGS:
        raise ParameterError(f"--summary '{path}' must have one of the extensions {', '.join(ENDINGS)}")
    if any(is_same_file(path, recording) for recording in inputs):
        raise RecordingError(f"--summary '{path}' is one of the recordings; choose another name")
    if path.exists() and not (replace and path.is_file()):
        raise RecordingError(
            f"--summary '{path}' already exists; pass --overwrite or --resume, or choose another name"
        )
    if not path.parent.is_dir():
        raise RecordingError(f"--summary '{path}' cannot be written: there is no directory '{path.parent}'")


def write_summary(path: Path, results: Sequence[Result]) -> None:
    """Write a summary as CSV, JSON or JSON lines, by the extension of the file.

    Parameters
    ----------
    path : Path
    results : sequence of Result

    Raises
    ------
    RecordingError
        If the file cannot be written.
    """
    rows = [result.row() for result in results]
    text = {".csv": _as_csv, ".json": _as_json, ".jsonl": format_json_lines}[path.suffix.lower()](rows)
    try:
        write_atomically(path, lambda file: file.write(text.encode()))
    except OSError as error:
        raise RecordingError(f"--summary '{path}' cannot be written: {error.strerror}") from error


def format_totals(results: Sequence[Result], n_jobs: int, seconds: float) -> str:
    """Return one line with the number of recordings by status.

    Parameters
    ----------
    results : sequence of Result
    n_jobs : int
        Number of jobs; not all have run if the user interrupted.
    seconds : float

    Returns
    -------
    str
    """
    counts = {status: sum(r.status == status for r in results) for status in (DONE, SKIPPED, FAILED)}
    listed = ", ".join(f"{count} {status}" for status, count in counts.items())
    left = f", {n_jobs - len(results)} not started" if len(results) < n_jobs else ""
    return f"{n_jobs} recording{'s' * (n_jobs != 1)}: {listed}{left} in {seconds:.2f} s"


def get_exit_code(results: Sequence[Result]) -> int:
    """Return 0 if all succeeded, 2 if a recording failed, 1 after a fault of the program.

    Parameters
    ----------
    results : sequence of Result
    """
    if any(result.trace is not None for result in results):
        return EXIT_FAULT
    return EXIT_FAILED if any(result.status == FAILED for result in results) else 0


def _as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as CSV; texts that a spreadsheet would take for a formula begin with an apostrophe."""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0] if rows else ["input"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _as_cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _as_cell(value: Any) -> Any:
    is_formula = isinstance(value, str) and value.lstrip().startswith(_FORMULA)
    return f"'{value}" if is_formula else value


def _as_json(rows: Sequence[dict[str, Any]]) -> str:
    whole = {"igbss_stream_version": __version__, "files": rows}
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def format_json_lines(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows of `Result.row` as JSON lines."""
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
