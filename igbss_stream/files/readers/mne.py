"""Read the formats of `mne_formats` with MNE (extra `mne`; some need the extra `eeg`).

Samples are read in blocks, in SI units. Warnings of MNE become notes of the recording. MNE silently joins
interrupted data, fills in skipped samples and resamples channels; here these become gaps, or errors.
"""

import itertools
import math
import warnings
from bisect import bisect_right
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.optional import require
from igbss_stream.chunk import Gap
from igbss_stream.errors import InputError, ParameterError, RecordingError
from igbss_stream.events import Events
from igbss_stream.files.bad_rows import is_bad, merge_rows
from igbss_stream.files.channel_selection import pick_channels
from igbss_stream.files.gaps import get_gap_rows, get_row, make_gaps
from igbss_stream.files.messages import NO_UNIT, as_one_line, check_counts
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.brainvision import find_renamed_files
from igbss_stream.files.readers.edf import choose_single_rate, find_unit, read_edf_header
from igbss_stream.files.readers.fif_parts import find_previous_part
from igbss_stream.files.readers.in_memory import divert_root_log
from igbss_stream.files.readers.mne_events import (
    BOUNDARIES,
    SKIP,
    choose_trigger_channels,
    find_annotated_events,
    find_onsets,
    get_start,
    make_index_map,
)
from igbss_stream.files.readers.mne_formats import FORMATS
from igbss_stream.files.readers.mne_positions import read_positions_of_raw
from igbss_stream.files.recording import Facts, Fill, Recording
from igbss_stream.files.sample_marks import GAP_LABEL

_UNITS = {107: "V", 112: "T", 201: "T/m", 6: "mol"}  # codes of FIF
_NOT_MEASURED = ("stim", "exci", "resp", "chpi", "ias", "syst")
_ROUNDING = 1e-3  # error of a time, in samples


class MneRecording(Recording):
    """A recording opened by MNE; created by `open_with_mne`.

    Parameters
    ----------
    path : Path
    raw : mne.io.BaseRaw
    runs : list of (int, int)
        Start and stop of the samples that are read, as MNE counts them.
    block : int
        Samples that MNE only reads from a multiple of this number on.
    **facts
        Parameters of `Recording`.
    """

    def __init__(self, path: Path, raw: Any, runs: list[tuple[int, int]], block: int, **facts: Any) -> None:
        super().__init__(path, **facts)
        self._raw, self._runs, self._block = raw, runs, block
        self._rows = _compute_rows(runs)
        self._breaks = [*get_gap_rows(self.gaps), self.n_samples]

    def close(self) -> None:
        """Close the file."""
        self._raw = None

    def _make_filler(self, n: int) -> Fill:
        def fill(start: int, out: NDArray[Any]) -> None:
            if self._raw is None:
                raise RecordingError(f"{str(self.path)!r} is closed; open it again to read from it")
            try:
                self._fill(start, out)
            except Exception as error:  # the type depends on the format
                raise RecordingError(
                    f"samples {start} to {start + len(out)} of {str(self.path)!r} cannot be read: "
                    f"{as_one_line(error)}; copy or record it again"
                ) from error

        return fill

    def _fill(self, start: int, out: NDArray[Any]) -> None:
        done = 0
        while done < len(out):
            row = start + done
            i = bisect_right(self._rows, row) - 1
            first = self._runs[i][0] + row - self._rows[i]
            # Not beyond a break either: MNE reads from one part of a file at a time.
            n = min(len(out) - done, self._breaks[bisect_right(self._breaks, row)] - row)
            stop = min(first + n, self._runs[i][1])
            before = first % self._block
            with np.errstate(invalid="ignore"):  # of signalling NaN in damaged files
                read = self._raw.get_data(start=first - before, stop=stop, verbose="ERROR")
            if np.iscomplexobj(read):
                raise ValueError("they are complex numbers")
            out[done : done + stop - first] = read[:, before:].T
            done += stop - first


def _compute_rows(runs: list[tuple[int, int]]) -> list[int]:
    """Return the first row of each run."""
    lengths = [stop - first for first, stop in runs]
    return [0, *map(int, np.cumsum(lengths[:-1]))]


def open_with_mne(path: Path, options: ReadOptions, kind: str, why: str) -> MneRecording:
    """Open a file with MNE.

    Parameters
    ----------
    path : Path
    options : ReadOptions
    kind : str
        Name of the format.
    why : str
        How the format was detected.

    Returns
    -------
    MneRecording

    Raises
    ------
    ParameterError, RecordingError, InputError
        If MNE is missing, the file cannot be read, or its samples cannot be separated.
    """
    if options.dataset is not None or options.axis is not None:
        raise ParameterError(f"{str(path)!r} is {kind}, which has one signal; omit --dataset and --axis")
    found = (
        _open_edf(path, kind, options) if kind in ("EDF", "BDF") else _open_single_rate(path, kind, options)
    )
    raw, names = found.raw, tuple(found.raw.ch_names)
    n_samples = sum(stop - first for first, stop in found.runs)
    check_counts(n_samples, len(found.picks), repr(str(path)))
    no_unit = not (found.unit or options.unit or options.factor)
    facts = Facts(
        kind,
        why,
        "",
        options.rate or float(raw.info["sfreq"]),
        options.unit or (None if options.factor else found.unit),
        names,
        () if FORMATS[kind].guesses_types else tuple(raw.get_channel_types()),
        tuple(raw.info["bads"]),
        found.bad_rows,
        found.gaps,
        found.notes + ((NO_UNIT,) if no_unit else ()),
        _find_events(found, kind, options, repr(str(path))),
        get_start(raw, found.runs) if found.dated else None,
        None if kind in ("EDF", "BDF") else read_positions_of_raw(raw, kind),
    )
    gain = None if options.factor is None else np.full(len(names), float(options.factor))
    return MneRecording(
        path,
        raw,
        found.runs,
        FORMATS[kind].block,
        facts=facts,
        n_samples=n_samples,
        dtype=np.dtype("f8"),
        picks=found.picks,
        gain=gain,
    )


@dataclass(frozen=True)
class _MneFile:
    """A file opened by MNE, and the part of it that is read."""

    raw: Any
    picks: tuple[int, ...]
    unit: str | None
    runs: list[tuple[int, int]]  # start and stop, as MNE counts samples
    gaps: tuple[Gap, ...]
    bad_rows: tuple[tuple[int, int], ...]
    notes: tuple[str, ...]
    events: Events  # in the annotations
    dated: bool = True  # whether the date of measurement is that of the recording


def _find_events(
    found: _MneFile, kind: str, options: ReadOptions, what: str
) -> Events | Callable[[], Events]:
    """Return the events of a file; a function if it has trigger channels, which must be read."""
    channels = choose_trigger_channels(found.raw, kind, options.event_names, what)
    if not channels:
        return found.events
    onsets = (found.raw, kind, channels, found.runs, found.gaps)
    return lambda: Events.join([found.events, find_onsets(*onsets)])


def _open_single_rate(path: Path, kind: str, options: ReadOptions) -> _MneFile:
    raw, notes = _open_raw(path, kind, None)
    picks, pick_notes = _pick(raw, options, repr(str(path)))
    units = {_UNITS.get(int(raw.info["chs"][i]["unit"])) for i in picks}
    unit = "V" if FORMATS[kind].guesses_types else (units.pop() if len(units) == 1 else None)
    runs, gaps = _find_runs(raw, kind)
    bad_rows = _find_bad_rows(raw.annotations, raw, lambda sample: _get_row(runs, sample), runs)
    to_index = make_index_map(runs, gaps)
    events = find_annotated_events(
        raw.annotations, kind, lambda onset: to_index((onset - raw.first_time) * raw.info["sfreq"])
    )
    date = raw.info["meas_date"]
    is_dated = not (kind == "nedf" and date is not None and date.timestamp() == 0)  # if it states none
    return _MneFile(raw, picks, unit, runs, gaps, bad_rows, notes + pick_notes, events, is_dated)


def _open_edf(path: Path, kind: str, options: ReadOptions) -> _MneFile:
    """Open EDF or BDF, where channels may differ in rate and records may be interrupted."""
    head, what = read_edf_header(path, kind), repr(str(path))
    if not head.names:
        raise InputError(
            f"{what} contains annotations alone, without samples; pass the recording that they belong to"
        )
    included = tuple(range(len(head.names)))
    if len(head.get_counts(included)) > 1:  # MNE would resample all channels to the highest rate
        chosen = choose_single_rate(head, options, what)
        labels = {head.names[i] for i in chosen}
        included = tuple(i for i in included if head.names[i] in labels)
        raw, notes = _open_raw(path, kind, sorted(labels))
        picks, pick_notes = tuple(included.index(i) for i in chosen), tuple[str, ...]()
    else:
        raw, notes = _open_raw(path, kind, None)
        picks, pick_notes = _pick(raw, options, what)
    read = tuple(included[i] for i in picks)
    unit, unit_notes = find_unit(head, read, options, what)
    runs, gaps = _find_runs(raw, kind)
    annotations = raw.annotations
    if head.interrupted:  # annotations do not count rows then, and MNE drops those after the last row
        gaps = head.find_gaps(head.get_counts(read).pop())
        annotations = require("mne", "mne", what).read_annotations(path)
    bad_rows = _find_bad_rows(
        annotations,
        raw,
        lambda sample: get_row(gaps, sample) if head.interrupted else _get_row(runs, sample),
        runs,
    )
    to_index = (lambda sample: sample) if head.interrupted else make_index_map(runs, gaps)
    events = find_annotated_events(annotations, kind, lambda onset: to_index(onset * raw.info["sfreq"]))
    return _MneFile(
        raw, picks, unit, runs, gaps, bad_rows, notes + pick_notes + unit_notes, events, head.dated
    )


def _pick(raw: Any, options: ReadOptions, what: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the channels to read, and a note about omitted ones."""
    names = tuple(raw.ch_names)
    if options.channels is not None:
        return pick_channels(options.channels, names, what), ()
    types = raw.get_channel_types()
    picks = tuple(i for i, type_ in enumerate(types) if type_ not in _NOT_MEASURED)
    omitted = [name for name, type_ in zip(names, types, strict=True) if type_ in _NOT_MEASURED]
    return picks, (f"channels without measurements are omitted: {', '.join(omitted)}",) if omitted else ()


def _open_raw(path: Path, kind: str, include: list[str] | None) -> tuple[Any, tuple[str, ...]]:
    """Open a file, or only some channels of it; return it and the warnings of MNE."""
    form, what = FORMATS[kind], f"{str(path)!r} is {kind}"
    if form.endings and not path.name.lower().endswith(form.endings):
        raise RecordingError(
            f"{what}, which MNE reads only where the name ends in {form.endings[0]}; rename it"
        )
    if form.check is not None:  # MNE may not return from damaged ones, or crash
        form.check(path)
    keywords = form.keywords | ({} if include is None else {"include": include})
    renamed = find_renamed_files(path) if kind == "BrainVision" else nullcontext((path, ()))
    with (
        renamed as (header, notes),
        divert_root_log() as logged,
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        mne = require("mne", "mne", f"{what}, read by MNE")
        for library in form.libraries:
            require(library, "eeg", f"{what}, read by MNE with {library}")
        try:
            raw = getattr(mne.io, form.reader)(header, preload=False, verbose="WARNING", **keywords)
            raw.get_channel_types()  # of a damaged file, unknown ones
            _ = raw.n_times  # of a damaged file, more than MNE can count
        except Exception as error:  # the type depends on the format
            raise RecordingError(
                f"{what}, and MNE cannot read it: {as_one_line(error)}; copy or record it again"
            ) from error
    if not isinstance(raw, mne.io.BaseRaw):
        raise RecordingError(f"{what} and contains epochs; export the continuous recording")
    if not 0 < raw.info["sfreq"] < math.inf:
        raise RecordingError(
            f"{what} and states a sampling rate of {raw.info['sfreq']:g} Hz; correct its header"
        )
    shown = (as_one_line(w.message) for w in warned if issubclass(w.category, RuntimeWarning))
    texts = dict.fromkeys([*shown, *logged])
    return raw, (*notes, *(f"MNE warns: {text}" for text in texts), *_note_part(path, kind))


def _note_part(path: Path, kind: str) -> tuple[str, ...]:
    """Return a note if a file continues another one."""
    previous = find_previous_part(path) if kind == "FIF" else None
    return (
        () if previous is None else (f"this file continues {previous.name!r}; open that one for the whole",)
    )


def _find_runs(raw: Any, kind: str) -> tuple[list[tuple[int, int]], tuple[Gap, ...]]:
    """Return the runs of samples to read, and the gaps that annotations mark.

    MNE returns zeros where acquisition was skipped; here these samples are a gap of the same length. Other
    gaps have an unknown length, except in EEGLAB sets and in our own exports.
    """
    skips, edges = list[tuple[int, int]](), dict[int, int]()
    for annotation in raw.annotations:
        text = str(annotation["description"]).lower()
        first = (annotation["onset"] - raw.first_time) * raw.info["sfreq"]
        length = annotation["duration"] * raw.info["sfreq"]
        length = round(length) if math.isfinite(length) else 0  # EEGLAB writes NaN for an unknown length
        if text.startswith(SKIP):
            skips.append((round(first), round(first) + length))
        elif gap := GAP_LABEL.match(text):
            edges[round(first)] = int(gap[1]) if gap[1].isdigit() else 0
        elif text.startswith(BOUNDARIES):
            # EEGLAB puts a boundary between two samples; its duration is that of the removed samples.
            edges[math.ceil(first - _ROUNDING)] = length if kind == "EEGLAB set" else 0
    runs = _invert_skips(skips, raw.n_times)
    if not runs:
        raise InputError(f"{str(raw.filenames[0])!r} has no samples; copy or record it again")
    rows = _compute_rows(runs)
    places = {(_get_row(runs, edge), missing, "boundary") for edge, missing in edges.items()}
    for row, (before, after) in zip(rows[1:], itertools.pairwise(runs), strict=True):
        places.add((row, after[0] - before[1], "skip"))
    n_samples = sum(stop - first for first, stop in runs)
    inside = sorted((p for p in places if 0 < p[0] < n_samples), key=lambda p: (p[0], -p[1]))
    return runs, make_gaps(inside)


def _find_bad_rows(
    annotations: Any, raw: Any, to_row: Callable[[int], int], runs: list[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Return the rows that annotations mark as bad; `to_row` converts the samples of MNE."""
    spans = []
    for annotation in annotations:
        if is_bad(str(annotation["description"])) and math.isfinite(annotation["duration"]):
            first = annotation["onset"] - raw.first_time
            edges = (round(time * raw.info["sfreq"]) for time in (first, first + annotation["duration"]))
            start, stop = map(to_row, edges)
            spans.append((start, stop))
    return merge_rows(spans, sum(stop - first for first, stop in runs))


def _invert_skips(skips: list[tuple[int, int]], n_samples: int) -> list[tuple[int, int]]:
    """Return the runs between skips, which may overlap."""
    runs, at = [], 0
    for first, stop in [*sorted(skips), (n_samples, n_samples)]:
        if first > at:
            runs.append((at, min(first, n_samples)))
        at = max(at, stop)
    return runs


def _get_row(runs: list[tuple[int, int]], sample: int) -> int:
    """Return the number of rows before a sample, as MNE counts samples."""
    return sum(max(0, min(stop, sample) - first) for first, stop in runs)
