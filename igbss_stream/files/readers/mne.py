"""Recordings that MNE reads: EDF, BDF, BrainVision, FIF, and EEGLAB sets before MATLAB 7.3 (extra `mne`).

Samples are read in blocks, in SI units. What MNE warns of becomes a note of the recording. Where it would
join, fill in or resample silently, the place is told, or the file is refused.
"""

import itertools
import math
import re
import warnings
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.optional import require
from igbss_stream.chunk import Gap
from igbss_stream.errors import InputError, ParameterError, RecordingError
from igbss_stream.files.channel_selection import picked
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.messages import check_counts, one_line
from igbss_stream.files.read_options import Wanted
from igbss_stream.files.readers.edf import EdfHead, edf_head
from igbss_stream.files.recording import Facts, Fill, Recording
from igbss_stream.files.signal_choice import SeveralSignalsError

_UNITS = {107: "V", 112: "T", 201: "T/m", 6: "mol"}  # codes of FIF
_NOT_MEASURED = ("stim", "exci", "resp", "chpi", "ias", "syst")
_ENDINGS = {
    "EDF": (".edf",),
    "BDF": (".bdf",),
    "BrainVision": (".vhdr", ".ahdr"),
    "FIF": (".fif",),
    "EEGLAB set": (".set",),
}
_ROUNDED = 1e-3  # samples by which a time may be off
_SKIP = "bad_acq_skip"
_BREAKS = ("boundary", "new segment", "edge boundary", "bad boundary")
# As `igbss-stream export` writes it; MNE puts the type of a marker of BrainVision before it.
_GAP = re.compile(r"(?:comment/)?gap: (\d+|unknown number of) samples missing")


class MneRecording(Recording):
    """A recording that MNE has open; `open_with_mne` makes it.

    Parameters
    ----------
    path : Path
    raw : mne.io.BaseRaw
    stretches : list of (int, int)
        The samples of MNE that are taken, each from a first one up to another one.
    **facts
        What `Recording` takes.
    """

    def __init__(self, path: Path, raw: Any, stretches: list[tuple[int, int]], **facts: Any) -> None:
        super().__init__(path, **facts)
        self._raw, self._stretches = raw, stretches
        self._rows = _rows(stretches)

    def close(self) -> None:
        """Close the file."""
        self._raw = None

    def _make_filler(self, n: int) -> Fill:
        def fill(start: int, out: NDArray[Any]) -> None:
            if self._raw is None:
                raise RecordingError(f"{str(self.path)!r} is closed; open it again to read from it")
            try:
                self._fill(start, out)
            except Exception as error:  # MNE raises what each format has it stumble over
                raise RecordingError(
                    f"samples {start} to {start + len(out)} of {str(self.path)!r} cannot be read: "
                    f"{one_line(error)}; copy or record it again"
                ) from error

        return fill

    def _fill(self, start: int, out: NDArray[Any]) -> None:
        done = 0
        while done < len(out):
            i = bisect_right(self._rows, start + done) - 1
            first = self._stretches[i][0] + start + done - self._rows[i]
            stop = min(first + len(out) - done, self._stretches[i][1])
            out[done : done + stop - first] = self._raw.get_data(start=first, stop=stop, verbose="ERROR").T
            done += stop - first


def _rows(stretches: list[tuple[int, int]]) -> list[int]:
    """Return the row that each stretch begins at."""
    lengths = [stop - first for first, stop in stretches]
    return [0, *map(int, np.cumsum(lengths[:-1]))]


def open_with_mne(path: Path, wanted: Wanted, kind: str, why: str) -> MneRecording:
    """Open a file with MNE.

    Parameters
    ----------
    path : Path
    wanted : Wanted
    kind : str
        Name of the format.
    why : str
        What it was told by.

    Returns
    -------
    MneRecording

    Raises
    ------
    ParameterError, RecordingError, InputError
        If MNE is missing, the file cannot be read, or its samples cannot be separated.
    """
    if wanted.dataset is not None or wanted.axis is not None:
        raise ParameterError(
            f"{str(path)!r} is {kind}, which has one signal; leave --dataset and --axis out"
        )
    found = _edf(path, kind, wanted) if kind in ("EDF", "BDF") else _of_one_rate(path, kind, wanted)
    raw, names = found.raw, tuple(found.raw.ch_names)
    n_samples = sum(stop - first for first, stop in found.stretches)
    _check_size(n_samples, len(found.picks), repr(str(path)))
    no_unit = not (found.unit or wanted.unit or wanted.factor)
    facts = Facts(
        kind,
        why,
        "",
        wanted.rate or float(raw.info["sfreq"]),
        wanted.unit or (None if wanted.factor else found.unit),
        names,
        tuple(raw.get_channel_types()),
        tuple(raw.info["bads"]),
        found.gaps,
        found.notes + (("channels have several units or none, so none is told",) if no_unit else ()),
    )
    gain = None if wanted.factor is None else np.full(len(names), float(wanted.factor))
    return MneRecording(
        path,
        raw,
        found.stretches,
        facts=facts,
        n_samples=n_samples,
        dtype=np.dtype("f8"),
        picks=found.picks,
        gain=gain,
    )


@dataclass(frozen=True)
class _Found:
    """What MNE has open, and what of it is read."""

    raw: Any
    picks: tuple[int, ...]
    unit: str | None
    stretches: list[tuple[int, int]]  # in samples of MNE, from a first one up to another one
    gaps: tuple[Gap, ...]
    notes: tuple[str, ...]


def _of_one_rate(path: Path, kind: str, wanted: Wanted) -> _Found:
    raw, notes = _opened(path, kind, None)
    picks, left = _picked(raw, wanted, repr(str(path)))
    units = {_UNITS.get(int(raw.info["chs"][i]["unit"])) for i in picks}
    unit = units.pop() if len(units) == 1 else None
    return _Found(raw, picks, unit, *_stretches(raw, kind), notes + left)


def _edf(path: Path, kind: str, wanted: Wanted) -> _Found:
    """Open EDF or BDF: channels may have several rates, and records need not follow each other."""
    head, what = edf_head(path, kind), repr(str(path))
    kept = tuple(range(len(head.names)))
    if len(head.counts_of(kept)) > 1:  # MNE would bring all to the highest rate
        chosen = _chosen_of_one_rate(head, wanted, what)
        labels = {head.names[i] for i in chosen}
        kept = tuple(i for i in kept if head.names[i] in labels)
        raw, notes = _opened(path, kind, sorted(labels))
        picks, left = tuple(kept.index(i) for i in chosen), tuple[str, ...]()
    else:
        raw, notes = _opened(path, kind, None)
        picks, left = _picked(raw, wanted, what)
    read = tuple(kept[i] for i in picks)
    stretches, gaps = _stretches(raw, kind)
    if head.interrupted:  # the times of annotations are then not those of rows
        gaps = head.find_gaps(head.counts_of(read).pop())
    return _Found(raw, picks, head.unit(read), stretches, gaps, notes + left)


def _chosen_of_one_rate(head: EdfHead, wanted: Wanted, what: str) -> tuple[int, ...]:
    """Return the channels to read of a file in which they have several rates."""
    reason = f"{what} has channels of different rates ({head.rates()})"
    if wanted.channels is None:
        raise SeveralSignalsError(f"{reason}; pass --channels with those of one rate", head.offered())
    chosen = picked(wanted.channels, head.names, what)
    same_name = tuple(i for i, name in enumerate(head.names) if name in {head.names[i] for i in chosen})
    if len(head.counts_of(same_name)) > 1:
        raise RecordingError(f"{reason}; those that --channels names must have one rate")
    return chosen


def _picked(raw: Any, wanted: Wanted, what: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the channels to read, and what is left out unasked."""
    names = tuple(raw.ch_names)
    if wanted.channels is not None:
        return picked(wanted.channels, names, what), ()
    types = raw.get_channel_types()
    picks = tuple(i for i, type_ in enumerate(types) if type_ not in _NOT_MEASURED)
    left = [name for name, type_ in zip(names, types, strict=True) if type_ in _NOT_MEASURED]
    return picks, (f"channels that measure nothing are left out: {', '.join(left)}",) if left else ()


def _check_size(n_samples: int, n_channels: int, what: str) -> None:
    check_counts(n_samples, n_channels, what)
    if n_channels > n_samples:
        raise InputError(
            f"{what} has {n_channels} channels and {n_samples} samples, fewer than channels; pass "
            f"--channels with at most {n_samples} of them"
        )


def _opened(path: Path, kind: str, include: list[str] | None) -> tuple[Any, tuple[str, ...]]:
    """Open a file, or only some channels of it, and return what MNE warned of."""
    if not path.name.lower().endswith(_ENDINGS[kind]):
        raise RecordingError(
            f"{str(path)!r} is {kind}, which MNE reads only where the name ends in {_ENDINGS[kind][0]}; "
            "rename it"
        )
    options = {} if include is None else {"include": include}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        mne = require("mne", "mne", f"{str(path)!r} is {kind}, read by MNE")
        try:
            raw = mne.io.read_raw(path, preload=False, verbose="ERROR", **options)
        except Exception as error:  # MNE raises what each format has it stumble over
            raise RecordingError(
                f"{str(path)!r} is {kind}, and MNE cannot read it: {one_line(error)}; copy or record it "
                "again"
            ) from error
    said = dict.fromkeys(one_line(w.message) for w in warned if issubclass(w.category, RuntimeWarning))
    return raw, tuple(f"MNE warns: {text}" for text in said)


def _stretches(raw: Any, kind: str) -> tuple[list[tuple[int, int]], tuple[Gap, ...]]:
    """Return the samples that were taken, and where annotations say that something is missing between rows.

    Where acquisition was skipped MNE hands zeros over; they take no rows here, and are a break of their
    number. Other breaks are of unknown length, but for those of EEGLAB and of our own exports.
    """
    skips, edges = list[tuple[int, int]](), dict[int, int]()
    for annotation in raw.annotations:
        text = str(annotation["description"]).lower()
        first = (annotation["onset"] - raw.first_time) * raw.info["sfreq"]
        length = annotation["duration"] * raw.info["sfreq"]
        length = round(length) if math.isfinite(length) else 0  # EEGLAB has NaN where it does not know
        if text.startswith(_SKIP):
            skips.append((round(first), round(first) + length))
        elif text.startswith(_BREAKS):
            # EEGLAB has a boundary lie between two samples, and last as long as what was cut out.
            edges[math.ceil(first - _ROUNDED)] = length if kind == "EEGLAB set" else 0
        elif gap := _GAP.match(text):
            edges[round(first)] = int(gap[1]) if gap[1].isdigit() else 0
    stretches = _between(skips, raw.n_times)
    rows = _rows(stretches)
    places = {(_row(stretches, edge), missing, "boundary") for edge, missing in edges.items()}
    for row, (before, after) in zip(rows[1:], itertools.pairwise(stretches), strict=True):
        places.add((row, after[0] - before[1], "skip"))
    n_samples = sum(stop - first for first, stop in stretches)
    inside = sorted((p for p in places if 0 < p[0] < n_samples), key=lambda p: (p[0], -p[1]))
    return stretches, make_gaps(inside)


def _between(skips: list[tuple[int, int]], n_samples: int) -> list[tuple[int, int]]:
    """Return what lies between skips, which may overlap."""
    stretches, at = [], 0
    for first, stop in [*sorted(skips), (n_samples, n_samples)]:
        if first > at:
            stretches.append((at, min(first, n_samples)))
        at = max(at, stop)
    return stretches


def _row(stretches: list[tuple[int, int]], sample: int) -> int:
    """Return how many rows lie before a sample of MNE."""
    return sum(max(0, min(stop, sample) - first) for first, stop in stretches)
