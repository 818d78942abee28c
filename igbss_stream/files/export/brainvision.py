"""Write BrainVision with pybv: header, markers and samples in three files that refer to each other.

Three files cannot be replaced at once; see `several_files`.
"""

import math
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.memory import check_memory
from igbss_stream._util.optional import require
from igbss_stream.errors import ParameterError
from igbss_stream.files.export.content import Content, ExportReport, Rounding
from igbss_stream.files.export.several_files import move_into_place
from igbss_stream.files.results.series import Series
from igbss_stream.files.sample_marks import as_label
from igbss_stream.positions import Positions

_IN_VOLTS = {
    "V": 1.0,
    "mV": 1e-3,
    "uV": 1e-6,
    "µV": 1e-6,
    "μV": 1e-6,
    "nV": 1e-9,
}  # micro sign and Greek letter
_TYPED = re.compile(r"(Stimulus|Response)/[SR] {0,2}([1-9]\d*)$")
_COMMA = r"\1"  # as the format writes a comma within a text
_NO_UNIT = "ARU"  # arbitrary unit; readers assume µV without a unit
_BYTES = 8 + 8 + 4 + 4  # per value: ours, and the copies of pybv


def get_companions(output: Path) -> tuple[Path, Path]:
    """Return the files of samples and markers of a header."""
    return output.with_suffix(".eeg"), output.with_suffix(".vmrk")


def write_brainvision(content: Content, output: Path) -> ExportReport:
    """Write header, samples and markers.

    Parameters
    ----------
    content : Content
    output : Path
        The header, ``NAME.vhdr``; existing files are replaced.

    Returns
    -------
    ExportReport

    Raises
    ------
    IgbssError
        If pybv is missing, the format cannot represent the samples, or there is not enough memory.
    """
    pybv = require("pybv", "export", "BrainVision is written with pybv")
    series = content.series
    _check_content(series, output)
    unit, factor, notes = _choose_unit(series.unit)
    data, error = content.read_all(factor)
    with tempfile.TemporaryDirectory(prefix=f"{output.name}.partial-", dir=output.parent) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about units, which the notes state
            pybv.write_brainvision(
                data=data,
                sfreq=content.rate,
                ch_names=list(series.channels),
                fname_base=output.stem,
                folder_out=folder,
                events=_make_markers(content),
                meas_date=content.start,
                resolution=1.0,
                unit=[unit] * series.n_channels,
            )
        if series.positions is not None and series.positions.is_known.any():
            _insert_coordinates(Path(folder) / output.name, series.positions)
        move_into_place(Path(folder), output)
    rounding = Rounding.from_errors(error, content.deviation * factor, series.channels)
    return ExportReport("float32", rounding, tuple(notes))


def _insert_coordinates(header: Path, positions: Positions) -> None:
    """Insert radius (mm), theta and phi (degrees) of the channels into a header; 0 for no position."""
    lines = []
    for i, (x, y, z) in enumerate(np.nan_to_num(positions.xyz).tolist()):
        side = -1 if x < 0 else 1  # theta is below 0 on the left
        radius, theta = math.sqrt(x * x + y * y + z * z), side * math.atan2(math.hypot(x, y), z)
        phi = math.atan2(side * y, side * x)
        lines.append(f"Ch{i + 1}={1e3 * radius:.3f},{math.degrees(theta):.4f},{math.degrees(phi):.4f}\n")
    section = "[Coordinates]\n; Each entry: Ch<Channel number>=<Radius>,<Theta>,<Phi>\n" + "".join(lines)
    text = header.read_bytes().decode("utf-8")
    before, comment, rest = text.partition("\n[Comment]")  # readers take what follows it as text
    header.write_bytes(f"{before.rstrip()}\n\n{section}{comment}{rest}".encode())


def _make_markers(content: Content) -> list[dict[str, Any]]:
    """Return events and gaps as markers; those of BrainVision keep their type, others are comments."""
    markers = []
    for mark in content.list_marks():
        kind, code = _TYPED.match(mark.text), None
        row = min(max(0, round(mark.row)), content.series.n_samples - 1)
        length = min(max(1, round(mark.duration * content.rate)), content.series.n_samples - row)
        text = kind[1] if kind else "Comment"
        code = int(kind[2]) if kind else as_label(mark.text).replace(",", _COMMA) or " "
        markers.append({"onset": row, "duration": length, "description": code, "type": text})
    return markers


def _check_content(series: Series, output: Path) -> None:
    """Check that a header can state all names, and that the samples fit in memory."""
    if not all(name.isprintable() for name in (output.name, *series.channels)):
        raise ParameterError(
            f"the name {output.name!r} or a channel name has a line break or another unprintable "
            "character, "
            "which a BrainVision header cannot contain; rename it."
        )
    if len(set(series.channels)) < series.n_channels:
        raise ParameterError("BrainVision requires unique channel names; rename channels in the recording.")
    check_memory(
        series.n_samples * series.n_channels * _BYTES,
        "writing BrainVision, which pybv keeps in memory,",
        "export to .edf, which needs a sixth of it, or fewer samples or sources",
    )


def _choose_unit(unit: str | None) -> tuple[str, float, list[str]]:
    """Return the unit to write, the factor to volts (which pybv expects), and notes."""
    if unit in _IN_VOLTS:
        return "µV", _IN_VOLTS[unit], []
    if unit is None:
        return _NO_UNIT, 1.0, [f"samples have no unit; the file states {_NO_UNIT} (arbitrary)"]
    return unit, 1.0, [f"BrainVision defines only µV; other programs may not support {unit!r}"]
