"""Describe how a file is read, and check its samples: bad channels, NaN, gaps, rank."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.progress import Progress
from igbss_stream.bad_channels.findings import BadChannel
from igbss_stream.bad_channels.survey import ChannelSurvey
from igbss_stream.errors import IgbssError, printable
from igbss_stream.events import format_counts
from igbss_stream.files.gaps import get_gap_rows
from igbss_stream.files.nonfinite_runs import NonfiniteRuns
from igbss_stream.files.open import open_with_options
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.hdf5.listing import DatasetDescription, FileDescription
from igbss_stream.files.recording import Recording
from igbss_stream.files.results.learned_models import LearnedModel
from igbss_stream.files.signal_choice import SeveralSignalsError, SignalChoice
from igbss_stream.positions import locate_channels
from igbss_stream.separation.statistics import Survey

_BLOCK = 1 << 19  # numbers read at a time
_N_LISTED = 8  # names in the text
_N_LONGEST = 5  # runs in the text
_MOST_RUNS = 10_000  # in the JSON


@dataclass(frozen=True)
class Examination:
    """Description of the recording in a file.

    Parameters
    ----------
    layout, why : str
        Layout of the file, and how it was detected.
    dataset : str
        Empty if the file contains a single signal.
    n_samples, n_channels : int
    rate : float or None
        In Hz.
    unit : str or None
    channels, types, bad : tuple of str
        Bad channels are those that the file marks as bad.
    bad_rows : tuple of (row, n_samples)
        Runs of rows that annotations of the file mark as bad.
    gaps : tuple of (row, n_samples, reason)
    notes : tuple of str
    t0 : float or None
        Unix time of the first sample, in seconds.
    events : dict or None
        Number of events of each label, the most frequent first; None if finding them takes reading the
        samples, which were not read.
    positions : dict or None
        Places of the channels on a map: source, n_located, reason and, if positions are known, their frame
        and xyz in metres.
    flat : tuple of str or None
        Channels that are constant; None if the samples were not read.
    n_not_finite : dict or None
        Number of NaN and infinite samples of each channel that has any.
    n_runs : int or None
        Number of runs of such samples, counted in each channel.
    runs : tuple of (row, n_samples, channel) or None
        These runs, at most the 10,000 longest, sorted by row.
    rank : int or None
        Rank of the channels; None if samples were not read, are not finite, or are too large to be summed.
    faults : tuple of BadChannel or None
        Channels that are bad by their samples, with the reason; None if the samples were not read.
    """

    layout: str
    why: str
    dataset: str
    n_samples: int
    n_channels: int
    rate: float | None
    unit: str | None
    channels: tuple[str, ...]
    types: tuple[str, ...]
    bad: tuple[str, ...]
    bad_rows: tuple[tuple[int, int], ...]
    gaps: tuple[tuple[int, int, str], ...]
    notes: tuple[str, ...]
    t0: float | None = None
    events: dict[str, int] | None = None
    positions: dict[str, Any] | None = None
    flat: tuple[str, ...] | None = None
    n_not_finite: dict[str, int] | None = None
    n_runs: int | None = None
    runs: tuple[tuple[int, int, str], ...] | None = None
    rank: int | None = None
    faults: tuple[BadChannel, ...] | None = None


@dataclass(frozen=True)
class Refusal:
    """Reason why a file cannot be read as a recording.

    Parameters
    ----------
    reason : str
    signals : tuple of SignalChoice
        Signals to choose from, if the choice is ambiguous.
    """

    reason: str
    signals: tuple[SignalChoice, ...] = ()


def examine(
    path: Path, options: ReadOptions, *, read: bool = True, progress: Progress | None = None
) -> Examination | Refusal:
    """Examine the recording in a file, or return why it cannot be read.

    Parameters
    ----------
    path : Path
    options : ReadOptions
    read : bool
        Whether to read the samples.
    progress : callable, optional
        Receives the number of samples read.

    Returns
    -------
    Examination or Refusal
    """
    try:
        with open_with_options(path, options, only_first=not read) as recording:
            return Examination(
                **_describe(recording),
                events=_count_events(recording, read),
                positions=_describe_positions(recording),
                **(_survey_samples(recording, progress) if read else {}),
            )
    except SeveralSignalsError as error:
        return Refusal(str(error), error.signals)
    except IgbssError as error:
        return Refusal(str(error))


def _describe(recording: Recording) -> dict[str, Any]:
    names = ("layout", "why", "dataset", "n_samples", "n_channels", "rate", "unit")
    more = ("channels", "types", "bad", "notes", "t0")
    gaps = tuple(
        (row, gap.n_samples, gap.reason)
        for row, gap in zip(get_gap_rows(recording.gaps), recording.gaps, strict=True)
    )
    bad_rows = tuple((start, stop - start) for start, stop in recording.bad_rows)
    facts = {name: getattr(recording, name) for name in (*names, *more)}
    return facts | {"bad_rows": bad_rows, "gaps": gaps}


def _describe_positions(recording: Recording) -> dict[str, Any]:
    found, stated = locate_channels(recording.channels, recording.positions), recording.positions
    facts: dict[str, Any] = {
        "source": found.source or None,
        "n_located": len(found.channels),
        "reason": found.reason or None,
    }
    if stated is not None and not stated.problem:
        rows = zip(stated.xyz.tolist(), stated.is_known.tolist(), strict=True)
        facts |= {"frame": stated.frame, "xyz": [at if is_known else None for at, is_known in rows]}
    return facts


def _count_events(recording: Recording, read: bool) -> dict[str, int] | None:
    return None if recording.has_events_in_samples and not read else recording.events.count_labels()


def _survey_samples(recording: Recording, progress: Progress | None) -> dict[str, Any]:
    survey = Survey(recording.channels, recording.dtype, recording.n_samples, covariance=True)
    runs, bad = NonfiniteRuns(recording.n_channels, _MOST_RUNS), np.zeros(recording.n_channels, np.int64)
    channels = ChannelSurvey(
        recording.channels, recording.rate, recording.n_samples, types=recording.types, unit=recording.unit
    )
    for start, block in recording.read_blocks(max(1, _BLOCK // recording.n_channels)):
        survey.update(block)
        channels.update(block)
        runs.update(block)
        if survey.n_bad:
            bad += (~np.isfinite(block)).sum(axis=0)
        if progress is not None:
            progress("reading", start + len(block), recording.n_samples)
    names, found = recording.channels, runs.finish()
    return {
        "flat": tuple(names[i] for i in survey.flat),
        "n_not_finite": {name: int(n) for name, n in zip(names, bad, strict=True) if n},
        "n_runs": runs.n_runs,
        "runs": tuple((start, n, names[channel]) for start, n, channel in found.tolist()),
        "rank": survey.rank if survey.is_summable else None,
        "faults": channels.finish(),
    }


def as_json(
    path: Path,
    found: Examination | Refusal,
    description: FileDescription | None,
    models: Sequence[LearnedModel] = (),
) -> str:
    """Format the result as one JSON object; the fields of `Examination` are under ``recording``."""
    refusal = found if isinstance(found, Refusal) else None
    return json.dumps(
        {
            "path": str(path),
            "recording": asdict(found) if isinstance(found, Examination) else None,
            "refused": None if refusal is None else refusal.reason,
            "signals": [] if refusal is None else [asdict(signal) for signal in refusal.signals],
            "datasets": [] if description is None else [_as_dict(d) for d in description.datasets],
            "models": [model.as_dict() for model in models],
        },
        allow_nan=False,
    )


def _as_dict(dataset: DatasetDescription) -> dict[str, Any]:
    fields = asdict(dataset)
    del fields["axes_swapped"]  # the note states it
    return fields


def as_text(found: Examination | Refusal, models: Sequence[LearnedModel] = ()) -> str:
    """Format the result as text, one fact per line; of several models, the last one is described."""
    learned = models[-1].as_lines() if models else []
    if isinstance(found, Refusal):
        lines = [f"not read: {found.reason}", *map(_format_choice, found.signals)]
        return "\n".join(map(printable, [*lines, *learned]))
    rate = "unknown rate" if found.rate is None else f"{found.rate:.12g} Hz"
    missing = sum(n for _, n, _ in found.gaps)
    lines = [
        f"layout: {found.layout}, because {found.why}",
        f"signal: {found.dataset or 'the only one'}, {found.n_samples} samples of {found.n_channels} "
        f"channels, {rate}, unit {found.unit or 'unknown'}",
        f"channels: {_format_names(found.channels)}",
        f"types: {_format_names(tuple(dict.fromkeys(found.types))) or 'unknown'}",
        f"bad by the file: {_format_names(found.bad) or 'none'}",
        f"bad samples by the file: {_format_bad_rows(found.bad_rows)}",
        f"gaps: {len(found.gaps)}, {missing} samples missing",
        f"events: {_format_events(found.events)}",
        f"first sample: {_format_time(found.t0)}",
        f"places on a map: {_format_positions(found)}",
    ]
    if found.n_not_finite is not None and found.flat is not None:
        counts = tuple(f"{name} {n}" for name, n in found.n_not_finite.items())
        lines += [
            f"NaN or infinite: {_format_names(counts) or 'none'}"
            f"{_format_runs(found.runs or (), found.n_runs or 0)}",
            f"flat: {_format_names(found.flat) or 'none'}",
            f"rank: {'unknown' if found.rank is None else f'{found.rank} of {found.n_channels}'}",
            f"bad by their samples: {'' if found.faults else 'none'}".rstrip(),
            *(f"  {fault}" for fault in found.faults or ()),
        ]
    return "\n".join(map(printable, [*lines, *learned, *(f"note: {note}" for note in found.notes)]))


def _format_events(counts: dict[str, int] | None) -> str:
    if counts is None:
        return "in the samples, which --fast does not read"
    return f"{sum(counts.values())}: {format_counts(counts)}" if counts else "none"


def _format_positions(found: Examination) -> str:
    facts = found.positions or {}
    if not facts.get("source"):
        return f"none, because {facts.get('reason')}"
    return f"{facts['n_located']} of {found.n_channels}, by {facts['source']}"


def _format_time(t0: float | None) -> str:
    return "unknown time" if t0 is None else f"{datetime.fromtimestamp(t0, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _format_bad_rows(runs: tuple[tuple[int, int], ...]) -> str:
    if not runs:
        return "none"
    listed = _format_names(tuple(f"{row} to {row + n - 1}" for row, n in runs))
    return f"{sum(n for _, n in runs)}, rows {listed}"


def _format_runs(runs: tuple[tuple[int, int, str], ...], n_runs: int) -> str:
    if not runs:
        return ""
    longest = sorted(runs, key=lambda run: -run[1])[:_N_LONGEST]
    listed = ", ".join(f"{channel} {start} to {start + n - 1} ({n})" for start, n, channel in longest)
    which = "" if n_runs == len(longest) else ", the longest"
    return f"; in {n_runs} run{'s' * (n_runs > 1)} of rows{which}: {listed}"


def _format_choice(signal: SignalChoice) -> str:
    n_samples = "unknown number of" if signal.n_samples is None else signal.n_samples
    rate = "unknown rate" if signal.rate is None else f"{signal.rate:.12g} Hz"
    return (
        f"  {signal.option}: {n_samples} samples of {signal.n_channels} channels, {rate}, "
        f"unit {signal.unit or 'unknown'}; channels {_format_names(signal.channels) or 'without names'}; "
        f"types {_format_names(tuple(dict.fromkeys(signal.types))) or 'unknown'}"
    )


def _format_names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_N_LISTED]) + (f", ... ({len(names)})" if len(names) > _N_LISTED else "")
