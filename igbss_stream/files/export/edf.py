"""Write EDF and BDF by edfio."""

from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.atomic_write import write_atomically
from igbss_stream._util.memory import check_memory
from igbss_stream._util.optional import require
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.files.export.content import Content, Rounding, Written, gap_text
from igbss_stream.files.export.records import Records, cuts
from igbss_stream.files.gaps import get_gap_rows

# Units that suit the eight characters of a physical range, and what samples are multiplied by.
_UNITS = {
    "V": ("uV", 1e6),
    "µV": ("uV", 1.0),  # micro sign
    "μV": ("uV", 1.0),  # Greek
    "T": ("fT", 1e15),
    "T/m": ("fT/cm", 1e13),
}
_LABEL, _UNIT = 16, 8  # characters
_NOTED_DRIFT = 0.01  # of a sample, at the end
_COARSER = 1.1  # than the samples need, that steps may be


def write_edf(content: Content, output: Path, *, bits: int) -> Written:
    """Write EDF (16 bits) or BDF (24 bits).

    Parameters
    ----------
    content : Content
    output : Path
        Replaced if it exists, when the new file is complete.
    bits : {16, 24}

    Returns
    -------
    Written

    Raises
    ------
    IgbssError
        If edfio is missing, something does not fit into the format, or memory does not suffice.
    """
    edfio = require("edfio", "export", "EDF and BDF are written by edfio")
    kinds: dict[int, tuple[Any, Any, Any]] = {
        16: (edfio.Edf, edfio.EdfSignal, np.int16),
        24: (edfio.Bdf, edfio.BdfSignal, np.int32),
    }
    file_kind, signal_kind, held = kinds[bits]
    series = content.series
    unit, factor, notes = _unit(series.unit)
    labels = _labels(series.channels, notes)
    row_bytes = series.n_channels * bits // 8
    check_memory(
        series.n_samples * (row_bytes + series.n_channels * np.dtype(held).itemsize),
        f"writing {output.suffix}, which edfio holds as a whole,",
        "export fewer samples or sources, or close other programs",
    )
    ranges = _ranges(signal_kind, content, factor)

    def assembled(cut: Records) -> Any:
        """Return the file with zeros for samples: they are filled in where they lie."""
        digital = np.zeros((series.n_channels, series.n_samples + cut.padding), held)
        signals = [
            signal_kind.from_digital(
                row, cut.rate, label=label, physical_dimension=unit, physical_range=range_
            )
            for row, label, range_ in zip(digital, labels, ranges, strict=True)
        ]
        marks = [
            edfio.EdfAnnotation(row / cut.rate, None, gap_text(gap))
            for row, gap in zip(get_gap_rows(series.gaps), series.gaps, strict=True)
        ] + _padding_mark(edfio, content, cut)
        return file_kind(signals, data_record_duration=cut.seconds, annotations=marks or None)

    file, cut = _first_that_fits(assembled, cuts(series.n_samples, content.rate, row_bytes))
    rounding = _fill(file.signals, content, factor)
    notes += _about(content, cut)
    write_atomically(output, file.write)
    return Written(f"{bits} bits", rounding, tuple(notes))


def _first_that_fits(assembled: Any, candidates: list[Records]) -> tuple[Any, Records]:
    """Return the file by the first cut that edfio takes: it compares durations in floating point."""
    refusal = None
    for cut in candidates:
        try:
            return assembled(cut), cut
        except ValueError as error:
            refusal = error
    raise RecordingError(f"edfio cannot write this: {refusal}; export to .vhdr") from refusal


def _unit(unit: str | None) -> tuple[str, float, list[str]]:
    name, factor = _UNITS.get(unit or "", (unit or "", 1.0))
    if not name.isascii() or len(name) > _UNIT:
        return "", 1.0, [f"unit {unit!r} does not fit into eight characters of ASCII and is left out"]
    return name, factor, []


def _labels(channels: tuple[str, ...], notes: list[str]) -> list[str]:
    """Return labels of at most 16 characters of ASCII, and note what had to be changed."""
    labels = [name.encode("ascii", "replace").decode()[:_LABEL] for name in channels]
    changed = [
        f"{name!r} is {label!r}" for name, label in zip(channels, labels, strict=True) if name != label
    ]
    if len(set(labels)) < len(labels):
        raise ParameterError(
            "EDF and BDF have 16 characters of ASCII for a label, with which channels cannot be told "
            f"apart: {', '.join(changed[:4])}; export to .vhdr."
        )
    if changed:
        notes.append(f"labels are shortened: {', '.join(changed[:8])}{', ...' if changed[8:] else ''}")
    return labels


def _ranges(signal_kind: Any, content: Content, factor: float) -> list[tuple[float, float]]:
    """Return the physical range of each channel, as eight characters state it."""
    ranges = []
    for name, ends in zip(
        content.series.channels, np.column_stack([content.low, content.high]), strict=True
    ):
        low, high = sorted(float(end) for end in ends * factor)
        high = high if high > low else low + 1.0
        try:
            stated = signal_kind(np.array([low, high]), 1.0).physical_range
        except ValueError:
            stated = (0.0, np.inf)
        fits = stated[1] - stated[0] <= _COARSER * (high - low) and all(_plain(end) for end in stated)
        if not fits:
            raise ParameterError(
                f"samples of {name} go from {low:g} to {high:g}, and EDF has eight characters without "
                "exponent for either number, too coarse; export to .vhdr."
            )
        ranges.append((float(stated[0]), float(stated[1])))
    return ranges


def _plain(number: float) -> bool:
    return "e" not in str(float(number)) and np.isfinite(number)


def _fill(signals: Any, content: Content, factor: float) -> Rounding:
    """Write the samples into the signals, and return how far they are from what they were."""
    gain, offset, lowest, highest = (
        np.array(column)
        for column in zip(*((*_scale(signal), *signal.digital_range) for signal in signals), strict=True)
    )
    error = np.zeros(len(signals))
    for where, block in content.read_blocks(factor):
        steps = np.clip(np.round(block / gain - offset), lowest, highest)
        error = np.maximum(error, np.abs((steps + offset) * gain - block).max(axis=0))
        for signal, column in zip(signals, steps.T, strict=True):
            signal.digital[where] = column
    for signal in signals:
        signal.digital[content.series.n_samples :] = signal.digital[content.series.n_samples - 1]
    return Rounding.of(error, content.deviation * abs(factor), content.series.channels)


def _scale(signal: Any) -> tuple[float, float]:
    """Return gain and offset: physical = (digital + offset) * gain."""
    low, high = signal.digital_range
    gain = (signal.physical_max - signal.physical_min) / (high - low)
    return gain, signal.physical_max / gain - high


def _padding_mark(edfio: Any, content: Content, cut: Records) -> list[Any]:
    if not cut.padding:
        return []
    end = content.series.n_samples / cut.rate
    return [edfio.EdfAnnotation(end, None, f"end: {cut.padding} samples of padding follow")]


def _about(content: Content, cut: Records) -> list[str]:
    notes = []
    if cut.drift * content.series.n_samples > _NOTED_DRIFT:
        notes.append(
            f"{content.rate!r} Hz is stated as {cut.length} samples in {cut.seconds!r} s, which drifts "
            f"{cut.drift * content.seconds * 1e3:.2g} ms over the whole"
        )
    if cut.padding:
        notes.append(
            f"the last record is filled up with {cut.padding} samples that repeat the last one; an "
            "annotation says where"
        )
    return notes
