"""Say how a file is read, and what its samples are like: bad and flat channels, NaN, gaps, rank."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.progress import Progress
from igbss_stream.errors import IgbssError, printable
from igbss_stream.files.gaps import get_gap_rows
from igbss_stream.files.nonfinite_runs import Runs
from igbss_stream.files.open import open_file_of_any_kind
from igbss_stream.files.read_options import Wanted
from igbss_stream.files.readers.hdf5.listing import FileDescription
from igbss_stream.files.recording import Recording
from igbss_stream.files.signal_choice import Offered, SeveralSignalsError
from igbss_stream.separation.statistics import Survey

_BLOCK = 1 << 19  # numbers read at a time
_LISTED = 8
_LONGEST = 5  # runs that the text lists
_MOST_RUNS = 10_000  # that JSON lists


@dataclass(frozen=True)
class Examination:
    """What is known of the recording in a file.

    Parameters
    ----------
    layout, why : str
        How the file is read, and what it was told by.
    dataset : str
        Empty where a file holds one signal alone.
    n_samples, n_channels : int
    rate : float or None
        In Hz.
    unit : str or None
    channels, types, bad : tuple of str
        Bad channels are those that the file calls so.
    gaps : tuple of (row, n_samples, reason)
    notes : tuple of str
    flat : tuple of str or None
        Channels that do not move; None if the samples were not read.
    n_not_finite : dict or None
        How many samples are NaN or infinite, by channel that has any.
    n_runs : int or None
        In how many runs of one channel they lie.
    runs : tuple of (row, n_samples, channel) or None
        These runs, the 10,000 longest at most, by row.
    rank : int or None
        Channels that are no combination of others; None where samples were not read or are not finite.
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
    gaps: tuple[tuple[int, int, str], ...]
    notes: tuple[str, ...]
    flat: tuple[str, ...] | None = None
    n_not_finite: dict[str, int] | None = None
    n_runs: int | None = None
    runs: tuple[tuple[int, int, str], ...] | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Refusal:
    """Why there is no recording to be had.

    Parameters
    ----------
    reason : str
    signals : tuple of Offered
        What there is to choose from, if that is the reason.
    """

    reason: str
    signals: tuple[Offered, ...] = ()


def examine(
    path: Path, wanted: Wanted, *, read: bool = True, progress: Progress | None = None
) -> Examination | Refusal:
    """Examine the recording in a file, or return why there is none to be had.

    Parameters
    ----------
    path : Path
    wanted : Wanted
    read : bool
        Whether to read the samples.
    progress : callable, optional
        Told how far they are read.

    Returns
    -------
    Examination or Refusal
    """
    try:
        with open_file_of_any_kind(path, wanted) as recording:
            return Examination(**_facts(recording), **(_surveyed(recording, progress) if read else {}))
    except SeveralSignalsError as error:
        return Refusal(str(error), error.signals)
    except IgbssError as error:
        return Refusal(str(error))


def _facts(recording: Recording) -> dict[str, Any]:
    names = ("layout", "why", "dataset", "n_samples", "n_channels", "rate", "unit")
    more = ("channels", "types", "bad", "notes")
    gaps = tuple(
        (row, gap.n_samples, gap.reason)
        for row, gap in zip(get_gap_rows(recording.gaps), recording.gaps, strict=True)
    )
    return {name: getattr(recording, name) for name in (*names, *more)} | {"gaps": gaps}


def _surveyed(recording: Recording, progress: Progress | None) -> dict[str, Any]:
    survey = Survey(recording.channels, recording.dtype, recording.n_samples, covariance=True)
    runs, bad = Runs(recording.n_channels, _MOST_RUNS), np.zeros(recording.n_channels, np.int64)
    for start, block in recording.read_blocks(max(1, _BLOCK // recording.n_channels)):
        survey.update(block)
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
        "rank": None if survey.n_bad else survey.rank,
    }


def as_json(path: Path, found: Examination | Refusal, description: FileDescription | None) -> str:
    """Write what was found as one JSON object; keys of `Examination` are under ``recording``."""
    refusal = found if isinstance(found, Refusal) else None
    return json.dumps(
        {
            "path": str(path),
            "recording": asdict(found) if isinstance(found, Examination) else None,
            "refused": None if refusal is None else refusal.reason,
            "signals": [] if refusal is None else [asdict(signal) for signal in refusal.signals],
            "datasets": [] if description is None else [asdict(d) for d in description.datasets],
        },
        allow_nan=False,
    )


def as_text(found: Examination | Refusal) -> str:
    """Write what was found, a line a fact."""
    if isinstance(found, Refusal):
        return "\n".join(map(printable, [f"not read: {found.reason}", *map(_choice, found.signals)]))
    rate = "unknown rate" if found.rate is None else f"{found.rate:.12g} Hz"
    missing = sum(n for _, n, _ in found.gaps)
    lines = [
        f"layout: {found.layout}, because {found.why}",
        f"signal: {found.dataset or 'the only one'}, {found.n_samples} samples of {found.n_channels} "
        f"channels, {rate}, unit {found.unit or 'unknown'}",
        f"channels: {_listed(found.channels)}",
        f"types: {_listed(tuple(dict.fromkeys(found.types))) or 'unknown'}",
        f"bad by the file: {_listed(found.bad) or 'none'}",
        f"gaps: {len(found.gaps)}, {missing} samples missing",
    ]
    if found.n_not_finite is not None and found.flat is not None:
        counts = tuple(f"{name} {n}" for name, n in found.n_not_finite.items())
        lines += [
            f"NaN or infinite: {_listed(counts) or 'none'}{_told(found.runs or (), found.n_runs or 0)}",
            f"flat: {_listed(found.flat) or 'none'}",
            f"rank: {'unknown' if found.rank is None else f'{found.rank} of {found.n_channels}'}",
        ]
    return "\n".join(map(printable, [*lines, *(f"note: {note}" for note in found.notes)]))


def _told(runs: tuple[tuple[int, int, str], ...], n_runs: int) -> str:
    if not runs:
        return ""
    longest = sorted(runs, key=lambda run: -run[1])[:_LONGEST]
    listed = ", ".join(f"{channel} {start} to {start + n - 1} ({n})" for start, n, channel in longest)
    which = "" if n_runs == len(longest) else ", the longest"
    return f"; in {n_runs} run{'s' * (n_runs > 1)} of rows{which}: {listed}"


def _choice(signal: Offered) -> str:
    n_samples = "unknown number of" if signal.n_samples is None else signal.n_samples
    rate = "unknown rate" if signal.rate is None else f"{signal.rate:.12g} Hz"
    return (
        f"  {signal.option}: {n_samples} samples of {signal.n_channels} channels, {rate}, "
        f"unit {signal.unit or 'unknown'}; channels {_listed(signal.channels) or 'without names'}; "
        f"types {_listed(tuple(dict.fromkeys(signal.types))) or 'unknown'}"
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_LISTED]) + (f", ... ({len(names)})" if len(names) > _LISTED else "")
