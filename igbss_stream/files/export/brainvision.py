"""Write BrainVision by pybv: a header, markers and samples, three files that name each other.

They cannot appear at once. They are written whole into a folder beside their place, under their final
names; then an older header is taken away, samples and markers move in, and the header comes last: whoever
finds a header finds what it names.
"""

import os
import tempfile
import warnings
from pathlib import Path

import numpy as np

from igbss_stream._util.memory import check_memory
from igbss_stream._util.optional import require
from igbss_stream.errors import ParameterError
from igbss_stream.files.export.content import Array, Content, Rounding, Written, gap_text
from igbss_stream.files.gaps import get_gap_rows
from igbss_stream.files.results.series import Series
from igbss_stream.files.writers.locking import sync_directory

_IN_VOLTS = {"V": 1.0, "mV": 1e-3, "uV": 1e-6, "µV": 1e-6, "μV": 1e-6, "nV": 1e-9}  # the µ of two alphabets
_NO_UNIT = "ARU"  # arbitrary, as readers of the format know it; no unit at all would mean µV
_BYTES = 8 + 8 + 4 + 4  # a number: ours, and the copies that pybv makes


def companions(output: Path) -> tuple[Path, Path]:
    """Return the files beside a header: of samples and of markers."""
    return output.with_suffix(".eeg"), output.with_suffix(".vmrk")


def write_brainvision(content: Content, output: Path) -> Written:
    """Write a header, samples and markers.

    Parameters
    ----------
    content : Content
    output : Path
        The header, ``NAME.vhdr``; what exists is replaced.

    Returns
    -------
    Written

    Raises
    ------
    IgbssError
        If pybv is missing, something does not fit into the format, or memory does not suffice.
    """
    pybv = require("pybv", "export", "BrainVision is written by pybv")
    series = content.series
    _check(series, output)
    unit, factor, notes = _unit(series.unit)
    data, error = _whole(content, factor)
    with tempfile.TemporaryDirectory(prefix=f"{output.name}.partial-", dir=output.parent) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of units: what they are is noted
            pybv.write_brainvision(
                data=data,
                sfreq=content.rate,
                ch_names=list(series.channels),
                fname_base=output.stem,
                folder_out=folder,
                events=[
                    {"onset": row, "description": gap_text(gap), "type": "Comment"}
                    for row, gap in zip(get_gap_rows(series.gaps), series.gaps, strict=True)
                ],
                resolution=1.0,
                unit=[unit] * series.n_channels,
            )
        _move_in(Path(folder), output)
    rounding = Rounding.of(error, content.deviation * factor, series.channels)
    return Written("float32", rounding, tuple(notes))


def _check(series: Series, output: Path) -> None:
    """Refuse what a header cannot say, and what memory cannot hold."""
    if not all(name.isprintable() for name in (output.name, *series.channels)):
        raise ParameterError(
            f"a header of BrainVision is lines of text, and {output.name!r} or a channel has a line break "
            "or the like in its name; rename it."
        )
    if len(set(series.channels)) < series.n_channels:
        raise ParameterError("BrainVision needs channels of different names; rename them in the recording.")
    check_memory(
        series.n_samples * series.n_channels * _BYTES,
        "writing BrainVision, which pybv does as a whole,",
        "export to .edf, which takes a sixth, or fewer samples or sources",
    )


def _whole(content: Content, factor: float) -> tuple[Array, Array]:
    """Return all samples, (channels, samples), and the largest error of float32 in each."""
    series = content.series
    data, error = np.empty((series.n_channels, series.n_samples)), np.zeros(series.n_channels)
    for where, block in content.read_blocks(factor):
        data[:, where] = block.T
        error = np.maximum(error, np.abs(block.astype(np.float32) - block).max(axis=0))
    return data, error


def _unit(unit: str | None) -> tuple[str, float, list[str]]:
    """Return the unit to write, and what samples are multiplied by for pybv, which takes volts."""
    if unit in _IN_VOLTS:
        return "µV", _IN_VOLTS[unit], []
    if unit is None:
        return _NO_UNIT, 1.0, [f"samples have no unit, which is written as {_NO_UNIT} (arbitrary)"]
    return unit, 1.0, [f"BrainVision knows µV alone; other programs may not understand {unit!r}"]


def _move_in(folder: Path, output: Path) -> None:
    """Bring the files to the disk and give them their places, the header last."""
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    output.unlink(missing_ok=True)
    for place in companions(output):
        (folder / place.name).replace(place)
    (folder / f"{output.stem}.vhdr").replace(output)
    sync_directory(output.parent)
