"""Say how a file is read, and what its samples are like: bad and flat channels, NaN, gaps, rank."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from igbss_stream.errors import IgbssError, printable
from igbss_stream.ingest.files import open_file_of_any_kind
from igbss_stream.ingest.recording import Recording
from igbss_stream.ingest.wanted import Wanted
from igbss_stream.inspect import FileDescription
from igbss_stream.survey import Survey

_BLOCK = 1 << 19  # numbers read at a time
_LISTED = 8


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
    rank: int | None = None


def examine(path: Path, wanted: Wanted, *, read: bool = True) -> Examination | str:
    """Examine the recording in a file, or return why there is none to be had.

    Parameters
    ----------
    path : Path
    wanted : Wanted
    read : bool
        Whether to read the samples.

    Returns
    -------
    Examination or str
    """
    try:
        with open_file_of_any_kind(path, wanted) as recording:
            return Examination(**_facts(recording), **(_surveyed(recording) if read else {}))
    except IgbssError as error:
        return str(error)


def _facts(recording: Recording) -> dict[str, Any]:
    names = ("layout", "why", "dataset", "n_samples", "n_channels", "rate", "unit")
    more = ("channels", "types", "bad", "notes")
    gaps = tuple((gap.row, gap.n_samples, gap.reason) for gap in recording.breaks)
    return {name: getattr(recording, name) for name in (*names, *more)} | {"gaps": gaps}


def _surveyed(recording: Recording) -> dict[str, Any]:
    survey = Survey(recording.channels, recording.dtype, recording.n_samples, covariance=True)
    bad = [0] * recording.n_channels
    for _, block in recording.blocks(max(1, _BLOCK // recording.n_channels)):
        survey.update(block)
        if survey.n_bad:
            finite = block - block == 0  # neither NaN nor infinite
            bad = [old + int(new) for old, new in zip(bad, (~finite).sum(axis=0), strict=True)]
    return {
        "flat": tuple(recording.channels[i] for i in survey.flat),
        "n_not_finite": {recording.channels[i]: n for i, n in enumerate(bad) if n},
        "rank": None if survey.n_bad else survey.rank,
    }


def as_json(path: Path, found: Examination | str, description: FileDescription | None) -> str:
    """Write what was found as one JSON object; keys of `Examination` are under ``recording``."""
    return json.dumps(
        {
            "path": str(path),
            "recording": None if isinstance(found, str) else asdict(found),
            "refused": found if isinstance(found, str) else None,
            "datasets": [] if description is None else [asdict(d) for d in description.datasets],
        },
        allow_nan=False,
    )


def as_text(found: Examination | str) -> str:
    """Write what was found, a line a fact."""
    if isinstance(found, str):
        return printable(f"not read: {found}")
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
            f"NaN or infinite: {_listed(counts) or 'none'}",
            f"flat: {_listed(found.flat) or 'none'}",
            f"rank: {'unknown' if found.rank is None else f'{found.rank} of {found.n_channels}'}",
        ]
    return "\n".join(map(printable, [*lines, *(f"note: {note}" for note in found.notes)]))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_LISTED]) + (f", ... ({len(names)})" if len(names) > _LISTED else "")
