"""The command `export`: write samples of our files in formats of other programs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from igbss_stream.cli.console import progress_bar, report_errors, say, warn
from igbss_stream.errors import ParameterError, RecordingError, printable

if TYPE_CHECKING:
    from igbss_stream.files.export.content import Content, ExportReport

_FORMATS = (".edf", ".bdf", ".vhdr", ".fif")
_EXAMPLES = """\b
Examples:
  igbss-stream export sources.h5 -o sources.edf
  igbss-stream export cleaned.h5 --dataset cleaned -o cleaned.vhdr
  igbss-stream export live.h5 -o live_eeg.fif
  igbss-stream export sources.h5 -o sources.bdf --rate 250 --overwrite
  igbss-stream export sources.h5 -o sources.edf --overwrite --json | jq .rounding"""


@click.command(epilog=_EXAMPLES)
@click.argument("source", metavar="FILE.h5", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="File to write; its suffix selects the format: .edf (16 bits), .bdf (24 bits), .vhdr "
    "(BrainVision, float32, with .eeg and .vmrk next to it) or .fif (MNE, float32).",
)
@click.option(
    "--dataset",
    help="Dataset to export, e.g. cleaned.  [default: sources of an output, data of a recorded stream]",
)
@click.option("--rate", type=float, help="Sampling rate in Hz, if it is missing from the file or wrong.")
@click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object that describes the file.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@report_errors
def export(
    source: Path,
    output: Path,
    dataset: str | None,
    rate: float | None,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write an output of batch or a recorded stream as EDF, BDF, BrainVision or FIF."""
    from igbss_stream.files.export.content import Content
    from igbss_stream.files.results.output import OutputFile

    kind = output.suffix.lower()
    if kind not in _FORMATS:
        raise ParameterError(f"--output must end in {', '.join(_FORMATS)}. Got {output.name!r} instead.")
    _check_places(output, kind, overwrite, source)
    with OutputFile(source) as file, progress_bar(quiet) as progress:
        content = Content.from_series(file.open_series(dataset), rate, progress)
        written = _write(content, output, kind, overwrite)
    if as_json:
        say(_format_json(content, written, output))
    elif not quiet:
        for note in written.notes:
            warn(f"Note: {printable(note)}.")
        say(_format_summary(content, written, output))


def _check_places(output: Path, kind: str, overwrite: bool, source: Path) -> None:
    """Check that the output files can be created, before reading anything."""
    from igbss_stream.files.export.brainvision import get_companions
    from igbss_stream.files.writers.write_errors import check_new_output

    for path in (output, *(get_companions(output) if kind == ".vhdr" else ())):
        check_new_output(path, overwrite=overwrite, source=source)


def _write(content: "Content", output: Path, kind: str, overwrite: bool) -> "ExportReport":
    from igbss_stream.files.export.brainvision import write_brainvision
    from igbss_stream.files.export.edf import write_edf
    from igbss_stream.files.writers.write_errors import explain_write_error

    try:
        if kind == ".vhdr":
            return write_brainvision(content, output)
        if kind == ".fif":
            return _write_fif(content, output, overwrite)
        return write_edf(content, output, bits=16 if kind == ".edf" else 24)
    except RecordingError:
        raise
    except OSError as error:
        raise RecordingError(f"'{output}' cannot be written: {explain_write_error(error)}") from error


def _write_fif(content: "Content", output: Path, overwrite: bool) -> "ExportReport":
    try:
        from igbss_stream.mne.fif import write_fif
    except ImportError as error:
        raise RecordingError(str(error)) from error
    return write_fif(content, output, overwrite=overwrite)


def _format_json(content: "Content", written: "ExportReport", output: Path) -> str:
    return json.dumps(
        {
            "output": printable(str(output)),
            "n_channels": content.series.n_channels,
            "n_samples": content.series.n_samples,
            "rate": content.rate,
            "gaps": len(content.series.gaps),
            "numbers": written.numbers,
            "rounding": float(written.rounding.share),
            "rounding_channel": printable(written.rounding.channel),
            "notes": [*map(printable, written.notes)],
        }
    )


def _format_summary(content: "Content", written: "ExportReport", output: Path) -> str:
    series, rounding = content.series, written.rounding
    gaps = f", {len(series.gaps)} gaps marked" if series.gaps else ""
    return (
        f"{series.n_channels} channels x {series.n_samples} samples ({content.seconds:.1f} s at "
        f"{content.rate:g} Hz) -> {output}{gaps}; {written.numbers}, which rounds by at most "
        f"{rounding.share:.1e} of a channel's standard deviation ({printable(rounding.channel)})"
    )
