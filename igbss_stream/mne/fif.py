"""Write samples of our files as FIF, the format of MNE."""

import tempfile
import warnings
from pathlib import Path

from igbss_stream._util.memory import check_memory
from igbss_stream.errors import ParameterError
from igbss_stream.files.export.content import Content, ExportReport, Rounding
from igbss_stream.files.export.several_files import move_into_place
from igbss_stream.files.results.series import Series
from igbss_stream.files.writers.write_errors import check_new_output
from igbss_stream.mne.output import IN_SI, make_raw

_LARGEST = "2GB"  # of a file
_BYTES = 8 + 4  # per number: the samples, and a copy in float32 while MNE writes


def write_fif(content: Content, output: Path, *, overwrite: bool) -> ExportReport:
    """Write samples in float32, with date, events, gaps and positions; above 2 GB, into several files.

    Parameters
    ----------
    content : Content
    output : Path
        An existing file is replaced when the new one is complete.
    overwrite : bool
        Whether further files, ``NAME-1.fif`` and so on, may be replaced as well.

    Returns
    -------
    ExportReport

    Raises
    ------
    IgbssError
        If the format cannot represent the samples, or there is not enough memory.
    """
    series = content.series
    if len(set(series.channels)) < series.n_channels:
        raise ParameterError("FIF requires unique channel names; rename channels in the recording.")
    check_memory(
        series.n_samples * series.n_channels * _BYTES,
        "writing FIF, which MNE keeps in memory,",
        "export to .edf, which needs a third of it, or fewer samples or sources",
    )
    factor, notes = _choose_factor(series)
    data, error = content.read_all(factor)
    raw = make_raw(series, content.rate, data)
    with tempfile.TemporaryDirectory(prefix=f"{output.name}.partial-", dir=output.parent) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the ending of the name
            raw.save(Path(folder) / output.name, fmt="single", split_size=_LARGEST, verbose="ERROR")
        for path in Path(folder).iterdir():
            check_new_output(output.with_name(path.name), overwrite=overwrite or path.name == output.name)
        move_into_place(Path(folder), output)
    rounding = Rounding.from_errors(error, content.deviation * factor, series.channels)
    return ExportReport("float32", rounding, tuple(notes))


def _choose_factor(series: Series) -> tuple[float, list[str]]:
    """Return SI units per unit of the samples, and a note if their unit is not one of MNE."""
    if series.unit in IN_SI:
        return IN_SI[series.unit], []
    if series.has_sources:
        return 1.0, []
    stated = "have no unit" if series.unit is None else f"have the unit {series.unit!r}"
    return 1.0, [f"the channels {stated}; MNE takes their numbers as volts"]
