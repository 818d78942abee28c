"""Read recordings of Persyst: a text header (.lay), and a file of interleaved integers (.dat)."""

import itertools
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import InputError, RecordingError
from igbss_stream.events import Events
from igbss_stream.files.bad_rows import find_bad_rows
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.binary.start_time import parse_start
from igbss_stream.files.readers.in_memory import MemoryRecording, convert_errors, open_array, refuse_choice
from igbss_stream.files.readers.mapped_samples import MappedFile, MappedSamples
from igbss_stream.files.recording import Facts

_TYPES = {"0": "<i2", "7": "<i4"}
_MICROVOLT = 1e-6
_REFERENCE = re.compile(r"-ref$", re.IGNORECASE)
_DATES = ("%m/%d/%Y", "%d-%m-%Y", "%Y.%m.%d", "%Y/%m/%d")
_SHORTEST_GAP = 0.1  # seconds; the times of a recording may drift by less
_LONGEST_NAME = 256

Sections = dict[str, list[tuple[str, str]]]


@dataclass(frozen=True)
class _Layout:
    """What the header states about the file of the samples."""

    data: Path
    n_bytes: int
    dtype: str
    rate: float
    factor: float
    names: tuple[str, ...]


def open_persyst(path: Path, options: ReadOptions) -> MemoryRecording:
    """Open a recording of Persyst by its header (.lay).

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Raises
    ------
    RecordingError, InputError, ParameterError
    """
    what, notes = repr(str(path)), list[str]()
    refuse_choice(options, what)
    with convert_errors(f"{what} is a damaged header of Persyst"):
        sections = _read_sections(path)
        layout = _find_layout(path, sections, notes)
        n_samples = max(0, layout.data.stat().st_size - layout.n_bytes) // (
            np.dtype(layout.dtype).itemsize * len(layout.names)
        )
        file = MappedFile(layout.data)
        rows = file.get_array(layout.dtype, layout.n_bytes, (n_samples, len(layout.names)))
        samples = MappedSamples(file, [rows[:, i : i + 1] for i in range(len(layout.names))])
        gaps = _find_gaps(sections.get("sampletimes", []), layout.rate, n_samples)
        found = _find_events(sections.get("comments", []), layout.rate)
        patient = dict(sections.get("patient", []))
    facts = Facts(
        "Persyst",
        "it begins with [FileInfo]",
        "",
        layout.rate,
        "V",
        layout.names,
        bad_rows=find_bad_rows(found, layout.rate, gaps, n_samples),
        gaps=gaps,
        notes=tuple(notes),
        events=found,
        t0=parse_start(patient.get("testdate", ""), patient.get("testtime", ""), _DATES, notes),
    )
    return open_array(path, samples, facts, options, gain=np.full(len(layout.names), layout.factor))


def _read_sections(path: Path) -> Sections:
    """Return the lines of each section as pairs of key and value; keys in lower case, except for names."""
    sections: Sections = {}
    lines = sections.setdefault("", [])
    for line in path.read_text(encoding="latin-1").splitlines():
        text = line.strip()
        if text.startswith("[") and text.endswith("]"):
            lines = sections.setdefault(text[1:-1].lower(), [])
        elif lines is sections.get("comments"):
            lines.append(("", text))
        elif "=" in text and lines is sections.get("channelmap"):
            name, _, column = text.rpartition("=")
            lines.append((name.strip(), column.strip()))
        elif "=" in text:
            key, _, value = text.partition("=")
            lines.append((key.strip().lower(), value.strip()))
    return sections


def _find_data(path: Path, stated: str, notes: list[str]) -> Path:
    """Return the file of the samples, which is beside the header."""
    name = re.split(r"[\\/]", stated)[-1]
    if os.path.isfile(path.parent / name):  # unlike Path.is_file, also for names that are too long
        return path.parent / name
    renamed = path.with_suffix(".dat")
    if not renamed.is_file():
        raise RecordingError(
            f"{str(path)!r} names the file of its samples, {name!r}, which is not beside it, and there is "
            f"no {renamed.name!r}; restore it"
        )
    notes.append(
        f"the header names {name!r}, which is missing; {renamed.name!r}, which has the name of the header, "
        "is read"
    )
    return renamed


def _find_layout(path: Path, sections: Sections, notes: list[str]) -> _Layout:
    stated, what = dict(sections.get("fileinfo", [])), repr(str(path))
    data = _find_data(path, stated.get("file", ""), notes)
    if (
        stated.get("filetype", "Interleaved").lower() != "interleaved"
        or stated.get("datatype") not in _TYPES
    ):
        raise InputError(
            f"{what} states a file of type {stated.get('filetype')!r} with data of type "
            f"{stated.get('datatype')!r}; only interleaved integers of 16 and 32 bits are read: export it "
            "from Persyst as EDF"
        )
    n, channels = int(stated["waveformcount"]), sections.get("channelmap", [])
    if not 0 < n == len(channels):
        raise ValueError(f"{len(channels)} names of {n} channels")
    names = [_REFERENCE.sub("", name[:_LONGEST_NAME]) for name, _ in channels]
    columns = [int(column) - 1 for _, column in channels]
    if sorted(columns) == list(range(n)):
        names = [names[columns.index(i)] for i in range(n)]
    rate = float(stated["samplingrate"])
    if not 0 < rate < np.inf:
        raise ValueError(f"a rate of {rate:g} Hz")
    return _Layout(
        data,
        int(stated.get("headerlength") or 0),
        _TYPES[stated["datatype"]],
        rate,
        float(stated["calibration"]) * _MICROVOLT,
        tuple(names),
    )


def _find_gaps(rows: Iterable[tuple[str, str]], rate: float, n_samples: int) -> tuple[Gap, ...]:
    """Return the gaps that the times of samples show."""
    times = sorted((int(sample), float(time)) for sample, time in rows)
    places = list[tuple[int, int, str]]()
    for (before, start), (after, stop) in itertools.pairwise(times):
        late = stop - start - (after - before) / rate
        if 0 < after < n_samples and abs(late) >= _SHORTEST_GAP:
            places.append((after, max(0, round(late * rate)), "missing" if late > 0 else "boundary"))
    return make_gaps(places)


def _find_events(rows: Iterable[tuple[str, str]], rate: float) -> Events:
    """Return the comments: onset, duration, two numbers and a text."""
    cells = [text.split(",", 4) for _, text in rows if text.count(",") >= 4]
    numbers: NDArray[np.float64] = np.array(
        [(float(onset), float(duration)) for onset, duration, *_ in cells]
    ).reshape(-1, 2)
    return Events(numbers[:, 0] * rate, [each[4] for each in cells], numbers[:, 1], "comments")
