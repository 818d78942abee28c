"""Channels of the input that were not separated, for sources to be compared with.

They are prepared as those that were, but for re-referencing: row by row they go with the sources.
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
from igbss_stream.pages.report.contents import Contents
from igbss_stream.preparation.settings import Preparation

Array = NDArray[np.float64]

_BLOCK = 1 << 16  # rows that are read at a time


class Aside(Closeable):
    """Some channels of the input, in step with the sources. A context manager, which closes it.

    Parameters
    ----------
    contents : Contents
    names : sequence of str
        Channels that were not separated. With none, nothing is opened.
    given : Path or None
        The input; else it is looked for beside the output.

    Raises
    ------
    IgbssError
        If it is not there, is another recording, or has no such channels.
    """

    def __init__(self, contents: Contents, names: Sequence[str], given: Path | None) -> None:
        self.names = tuple(names)
        self._recording: Recording | None = None
        self._held: Array = np.empty((0, len(names)))
        if not names:
            return
        path = _input(contents, names, given)
        self._recording = _prepared(contents, open_with_options(path, _wanted(contents, names)))
        if self._recording.n_samples != contents.sources.n_samples:
            n = self._recording.n_samples
            self.close()
            raise RecordingError(
                f"'{path}' has {n} samples as they were prepared, where the output has "
                f"{contents.sources.n_samples} of its sources: pass the recording that it was made of "
                "as --input"
            )
        self._blocks = self._recording.read_blocks(_BLOCK)

    def close(self) -> None:
        """Close the input, if it is open."""
        if self._recording is not None:
            self._recording.close()

    def take(self, n: int) -> Array:
        """Return the rows that come next, (samples, channels)."""
        parts = [self._held]
        while sum(map(len, parts)) < n and self.names:
            parts.append(np.array(next(self._blocks)[1][:, : len(self.names)], np.float64))
        joined = np.concatenate(parts)
        self._held = joined[n:]
        return joined[:n] if self.names else np.empty((n, 0))


def _input(contents: Contents, names: Sequence[str], given: Path | None) -> Path:
    told = contents.attributes.get("input", "")
    path = contents.path.parent / told if given is None else given
    if given is None and not (told and path.is_file()):
        shown = ", ".join(map(printable, contents.model.channels[:40]))
        raise ParameterError(
            f"--reference names {', '.join(map(printable, names))}, which is none of the channels "
            f"that were separated ({shown}), and the recording {printable(told)!r} is not beside the "
            "output; pass it as --input"
        )
    size = ((contents.facts.job or {}).get("input") or {}).get("size")
    if size is not None and path.is_file() and os.stat(path).st_size != size:
        raise RecordingError(
            f"'{path}' is not the recording that the output was made of, which had {size} bytes; "
            "pass that as --input"
        )
    return path


def _wanted(contents: Contents, names: Sequence[str]) -> ReadOptions:
    told: dict[str, Any] = (contents.facts.job or {}).get("wanted") or {}
    kept = {name: told.get(name) for name in ("dataset", "axis", "rate", "factor")}
    # one that was separated as well: a recording has two channels at least
    return ReadOptions(**kept, channels=[*names, contents.model.channels[0]])


def _prepared(contents: Contents, recording: Recording) -> Recording:
    told = contents.model.preparation
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in told.items()}
    preparation = replace(Preparation(**values), reference=None)
    if preparation.does_nothing:
        return recording
    from igbss_stream.preparation.offline import PreparedRecording

    return PreparedRecording(recording, preparation, [])
