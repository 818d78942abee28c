"""Write EDF and BDF with edfio."""

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.atomic_write import write_atomically
from igbss_stream._util.memory import check_memory
from igbss_stream._util.optional import require
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.files.export.content import Content, ExportReport, Rounding
from igbss_stream.files.export.records import RecordCut, find_cuts
from igbss_stream.files.sample_marks import as_label, describe_padding

# Units in which a physical range fits into eight characters, and the factor of samples.
_UNITS = {
    "V": ("uV", 1e6),
    "µV": ("uV", 1.0),  # micro sign
    "μV": ("uV", 1.0),  # Greek
    "T": ("fT", 1e15),
    "T/m": ("fT/cm", 1e13),
}
_LABEL, _UNIT = 16, 8  # characters
_FIRST_YEAR, _LAST_YEAR = 1985, 2084  # the header has two digits for the year
_NOTED_DRIFT = 0.01  # of a sample, at the end of the file
_LARGEST_RANGE = 1.1  # physical range relative to the range of the samples


def write_edf(content: Content, output: Path, *, bits: int) -> ExportReport:
    """Write EDF (16 bits) or BDF (24 bits).

    Parameters
    ----------
    content : Content
    output : Path
        An existing file is replaced when the new one is complete.
    bits : {16, 24}

    Returns
    -------
    ExportReport

    Raises
    ------
    IgbssError
        If edfio is missing, the format cannot represent the samples, or there is not enough memory.
    """
    edfio = require("edfio", "export", "EDF and BDF are written with edfio")
    kinds: dict[int, tuple[Any, Any, Any]] = {
        16: (edfio.Edf, edfio.EdfSignal, np.int16),
        24: (edfio.Bdf, edfio.BdfSignal, np.int32),
    }
    file_kind, signal_kind, dtype = kinds[bits]
    series = content.series
    unit, factor, notes = _choose_unit(series.unit)
    labels = _shorten_labels(series.channels, notes)
    row_bytes = series.n_channels * bits // 8
    check_memory(
        series.n_samples * (row_bytes + series.n_channels * np.dtype(dtype).itemsize),
        f"writing {output.suffix}, which edfio keeps in memory,",
        "export fewer samples or sources, or close other programs",
    )
    ranges = _compute_ranges(signal_kind, content, factor)

    def make_file(cut: RecordCut) -> Any:
        """Return the file with zeros as samples, which are filled in later."""
        digital = np.zeros((series.n_channels, series.n_samples + cut.padding), dtype)
        signals = [
            signal_kind.from_digital(
                row, cut.rate, label=label, physical_dimension=unit, physical_range=range_
            )
            for row, label, range_ in zip(digital, labels, ranges, strict=True)
        ]
        marks = [
            edfio.EdfAnnotation(max(0.0, mark.row) / cut.rate, mark.duration or None, as_label(mark.text))
            for mark in content.list_marks()
        ] + _make_padding_mark(edfio, content, cut)
        return file_kind(
            signals,
            data_record_duration=cut.seconds,
            annotations=marks or None,
            **_state_start(edfio, content.start),
        )

    file, cut = _make_first_accepted(make_file, find_cuts(series.n_samples, content.rate, row_bytes))
    rounding = _fill_signals(file.signals, content, factor)
    notes += _make_notes(content, cut)
    if not _state_start(edfio, content.start):
        notes.append("the date of the recording is not known; the file states so, with 1 January 1985")
    write_atomically(output, file.write)
    return ExportReport(f"{bits} bits", rounding, tuple(notes))


def _state_start(edfio: Any, start: datetime | None) -> dict[str, Any]:
    """Return the start as arguments of edfio; none if it is not known, or the format cannot state it."""
    if start is None or not _FIRST_YEAR <= start.year <= _LAST_YEAR:
        return {}
    # Many readers overlook a fraction of a second, which EDF+ states as an offset of all annotations.
    time = start.time().replace(microsecond=0)
    return {"recording": edfio.Recording(startdate=start.date()), "starttime": time}


def _make_first_accepted(make_file: Any, candidates: list[RecordCut]) -> tuple[Any, RecordCut]:
    """Return the file for the first record length that edfio, which rounds, accepts."""
    refusal = None
    for cut in candidates:
        try:
            return make_file(cut), cut
        except ValueError as error:
            refusal = error
    raise RecordingError(f"edfio cannot write this: {refusal}; export to .vhdr") from refusal


def _choose_unit(unit: str | None) -> tuple[str, float, list[str]]:
    name, factor = _UNITS.get(unit or "", (unit or "", 1.0))
    if not name.isascii() or len(name) > _UNIT:
        return "", 1.0, [f"unit {unit!r} does not fit into eight ASCII characters and is omitted"]
    return name, factor, []


def _shorten_labels(channels: tuple[str, ...], notes: list[str]) -> list[str]:
    """Return labels of at most 16 ASCII characters, and add a note about changed ones."""
    labels = [name.encode("ascii", "replace").decode()[:_LABEL] for name in channels]
    changed = [
        f"{name!r} is {label!r}" for name, label in zip(channels, labels, strict=True) if name != label
    ]
    if len(set(labels)) < len(labels):
        raise ParameterError(
            "labels of EDF and BDF have 16 ASCII characters, with which some channels have the same label: "
            f"{', '.join(changed[:4])}; export to .vhdr."
        )
    if changed:
        notes.append(f"labels are shortened: {', '.join(changed[:8])}{', ...' if changed[8:] else ''}")
    return labels


def _compute_ranges(signal_kind: Any, content: Content, factor: float) -> list[tuple[float, float]]:
    """Return the physical range of each channel, as stated in eight characters."""
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
        fits = stated[1] - stated[0] <= _LARGEST_RANGE * (high - low) and all(
            _has_no_exponent(end) for end in stated
        )
        if not fits:
            raise ParameterError(
                f"samples of {name} range from {low:g} to {high:g}, which EDF cannot state precisely "
                "in eight "
                "characters without exponent; export to .vhdr."
            )
        ranges.append((float(stated[0]), float(stated[1])))
    return ranges


def _has_no_exponent(number: float) -> bool:
    return "e" not in str(float(number)) and np.isfinite(number)


def _fill_signals(signals: Any, content: Content, factor: float) -> Rounding:
    """Write the samples to the signals, and return the rounding error."""
    gain, offset, lowest, highest = (
        np.array(column)
        for column in zip(
            *((*_get_scale(signal), *signal.digital_range) for signal in signals), strict=True
        )
    )
    error = np.zeros(len(signals))
    for where, block in content.read_blocks(factor):
        steps = np.clip(np.round(block / gain - offset), lowest, highest)
        error = np.maximum(error, np.abs((steps + offset) * gain - block).max(axis=0))
        for signal, column in zip(signals, steps.T, strict=True):
            signal.digital[where] = column
    for signal in signals:
        signal.digital[content.series.n_samples :] = signal.digital[content.series.n_samples - 1]
    return Rounding.from_errors(error, content.deviation * abs(factor), content.series.channels)


def _get_scale(signal: Any) -> tuple[float, float]:
    """Return gain and offset: physical = (digital + offset) * gain."""
    low, high = signal.digital_range
    gain = (signal.physical_max - signal.physical_min) / (high - low)
    return gain, signal.physical_max / gain - high


def _make_padding_mark(edfio: Any, content: Content, cut: RecordCut) -> list[Any]:
    if not cut.padding:
        return []
    end = content.series.n_samples / cut.rate
    return [edfio.EdfAnnotation(end, None, describe_padding(cut.padding))]


def _make_notes(content: Content, cut: RecordCut) -> list[str]:
    notes = []
    if cut.drift * content.series.n_samples > _NOTED_DRIFT:
        notes.append(
            f"{content.rate!r} Hz is stated as {cut.length} samples in {cut.seconds!r} s, which drifts "
            f"{cut.drift * content.seconds * 1e3:.2g} ms over the whole file"
        )
    if cut.padding:
        notes.append(
            f"the last record is padded with the last sample (padding: {cut.padding} samples); an "
            "annotation marks it"
        )
    return notes
