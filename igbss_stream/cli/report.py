"""The command `report`: one HTML page on an output of batch."""

import json
import time
from pathlib import Path

import click

from igbss_stream.cli.console import progress_bar, report_errors
from igbss_stream.errors import ParameterError, printable

_EXAMPLES = """\b
Examples:
  igbss-stream report sources.h5
  igbss-stream report live.h5
  igbss-stream report sources.h5 -o night.html --reference Fp1 --overwrite
  igbss-stream report sources.h5 --overwrite --json | jq .bytes"""


@click.command(epilog=_EXAMPLES)
@click.argument("output_of_batch", metavar="OUT.h5", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write.  [default: OUT.html beside OUT.h5]",
)
@click.option(
    "--reference",
    "references",
    metavar="CHANNEL",
    multiple=True,
    help="A channel that sources are compared with, beside those named EOG, ECG or EMG; may be repeated.",
)
@click.option(
    "--input",
    "given",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The recording, if a reference was not separated.  [default: that of its name beside OUT.h5]",
)
@click.option(
    "--details",
    type=int,
    default=64,
    show_default=True,
    help="Sources that have a section of their own; the others are in the table.",
)
@click.option("--overwrite", is_flag=True, help="Replace the report if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on what was written.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@report_errors
def report(
    output_of_batch: Path,
    output: Path | None,
    references: tuple[str, ...],
    given: Path | None,
    details: int,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write what batch made of a recording, or a stream that was recorded, as one HTML page."""
    from igbss_stream.files.writers.write_errors import check_new_output
    from igbss_stream.pages.report.write import report_place, write_report

    if details < 0:
        raise ParameterError(f"--details must be a whole number >= 0. Got {details} instead.")
    began = time.perf_counter()
    place = report_place(output_of_batch) if output is None else output
    check_new_output(place, overwrite=overwrite, source=output_of_batch)
    with progress_bar(quiet) as tell:
        written = write_report(
            output_of_batch, place, references=references, details=details, given=given, tell=tell
        )
    seconds = time.perf_counter() - began
    if as_json:
        told = {"n_sources": written.n_sources, "n_details": written.n_details, "bytes": written.size}
        name = printable(str(written.path))
        click.echo(json.dumps({"output": name, **told, "seconds": round(seconds, 6)}))
    elif not quiet:
        click.echo(
            f"{written.n_sources} sources, {written.n_details} in detail -> {written.path} "
            f"({written.size / 1e6:.1f} MB) in {seconds:.2f} s"
        )
