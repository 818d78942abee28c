"""Read reference channels from the input that were not separated.

They are prepared like the separated channels, except for re-referencing. Their rows match the rows of the
sources.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.closeable import Closeable
from igbss_stream.errors import ParameterError, RecordingError, printable
from igbss_stream.files.open import open_with_options
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.recording import Recording
from igbss_stream.pages.report.data import ReportData
from igbss_stream.preparation.settings import Preparation

Array = NDArray[np.float64]

_BLOCK = 1 << 16  # rows to read at a time


class ReferenceReader(Closeable):
    """Reads channels of the input, row by row with the sources. A context manager that closes the input.

    Parameters
    ----------
    data : ReportData
    names : sequence of str
        Channels that were not separated. If empty, no file is opened.
    input_path : Path or None
        The input. If None, it is searched for next to the output.

    Raises
    ------
    IgbssError
        If the input is missing, is another recording, or does not contain the channels.
    """

    def __init__(self, data: ReportData, names: Sequence[str], input_path: Path | None) -> None:
        self.names = tuple(names)
        self._recording: Recording | None = None
        self._buffer: Array = np.empty((0, len(names)))
        if not names:
            return
        path = _find_input(data, names, input_path)
        self._recording = _prepare(data, open_with_options(path, _make_options(data, names)))
        if self._recording.n_samples != data.sources.n_samples:
            n = self._recording.n_samples
            self.close()
            raise RecordingError(
                f"'{path}' has {n} samples after preparation, but the output has "
                f"{data.sources.n_samples}; pass "
                "the recording that was separated as --input"
            )
        self._blocks = self._recording.read_blocks(_BLOCK)

    def close(self) -> None:
        """Close the input, if it is open."""
        if self._recording is not None:
            self._recording.close()

    def read(self, n: int) -> Array:
        """Return the next n rows, an array of shape (samples, channels)."""
        parts = [self._buffer]
        while sum(map(len, parts)) < n and self.names:
            parts.append(np.array(next(self._blocks)[1][:, : len(self.names)], np.float64))
        joined = np.concatenate(parts)
        self._buffer = joined[n:]
        return joined[:n] if self.names else np.empty((n, 0))


def _find_input(data: ReportData, names: Sequence[str], input_path: Path | None) -> Path:
    name = data.attributes.get("input", "")
    path = data.path.parent / name if input_path is None else input_path
    if input_path is None and not (name and path.is_file()):
        separated = ", ".join(map(printable, data.model.channels[:40]))
        raise ParameterError(
            f"--reference names {', '.join(map(printable, names))}, which is not among the "
            "separated channels "
            f"({separated}), and the recording {printable(name)!r} is not next to the output; "
            "pass it as --input"
        )
    size = ((data.facts.job or {}).get("input") or {}).get("size")
    if size is not None and path.is_file() and os.stat(path).st_size != size:
        raise RecordingError(
            f"'{path}' is not the recording that was separated, which has {size} bytes; pass that "
            "recording "
            "as --input"
        )
    return path


def _make_options(data: ReportData, names: Sequence[str]) -> ReadOptions:
    options: dict[str, Any] = (data.facts.job or {}).get("wanted") or {}
    kept = {name: options.get(name) for name in ("dataset", "axis", "rate", "factor", "missing")}
    # add a separated channel, because a recording must have at least two channels
    return ReadOptions(**kept, channels=[*names, data.model.channels[0]])


def _prepare(data: ReportData, recording: Recording) -> Recording:
    stored = data.model.preparation
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
    preparation = replace(Preparation(**values), reference=None)
    if preparation.does_nothing:
        return recording
    from igbss_stream.preparation.offline import PreparedRecording

    return PreparedRecording(recording, preparation, [])
