"""The command `report`: write an HTML report on an output of batch."""

import json
import time
from pathlib import Path

import click

from igbss_stream.cli.console import progress_bar, report_errors, say
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
    help="File to write.  [default: OUT.html next to OUT.h5]",
)
@click.option(
    "--reference",
    "references",
    metavar="CHANNEL",
    multiple=True,
    help="Additional reference channel to compare sources with, besides channels named EOG, ECG or EMG; "
    "may be repeated.",
)
@click.option(
    "--input",
    "input_path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The recording, if a reference channel was not separated.  [default: the file of that name "
    "next to OUT.h5]",
)
@click.option(
    "--montage",
    metavar="NAME|FILE",
    help="Positions of the channels, as for `batch`, for an output without them.  [default: /positions]",
)
@click.option(
    "--details",
    type=int,
    default=64,
    show_default=True,
    help="Number of sources with a separate section; the others appear only in the table.",
)
@click.option("--overwrite", is_flag=True, help="Replace the report if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object that describes the report.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@report_errors
def report(
    output_of_batch: Path,
    output: Path | None,
    references: tuple[str, ...],
    input_path: Path | None,
    montage: str | None,
    details: int,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write an HTML report on an output of batch or on a recorded stream."""
    from igbss_stream.files.writers.write_errors import check_new_output
    from igbss_stream.pages.report.write import get_report_path, write_report

    if details < 0:
        raise ParameterError(f"--details must be a whole number >= 0. Got {details} instead.")
    start = time.perf_counter()
    path = get_report_path(output_of_batch) if output is None else output
    check_new_output(path, overwrite=overwrite, source=output_of_batch)
    with progress_bar(quiet) as progress:
        written = write_report(
            output_of_batch,
            path,
            references=references,
            details=details,
            input_path=input_path,
            montage=montage,
            progress=progress,
        )
    seconds = time.perf_counter() - start
    if as_json:
        counts = {"n_sources": written.n_sources, "n_details": written.n_details, "bytes": written.size}
        name = printable(str(written.path))
        say(json.dumps({"output": name, **counts, "seconds": round(seconds, 6)}))
    elif not quiet:
        say(
            f"{written.n_sources} sources, {written.n_details} in detail -> {written.path} "
            f"({written.size / 1e6:.1f} MB) in {seconds:.2f} s"
        )
