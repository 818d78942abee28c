"""Read the channels to separate, prepared, block by block."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.compute_pool import BlockPool
from igbss_stream.errors import InputError
from igbss_stream.files.recording import Recording
from igbss_stream.preparation.offline import PreparedRecording
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.statistics import Survey

BLOCK_BYTES = 1 << 21  # blocks and their sources fit into the cache of the processor

Progress = Callable[[str, int, int], None]
"""Called with the name of the step, the samples processed and the total."""


def find_flat_channels(recording: Recording, progress: Progress) -> list[int]:
    """Return the positions of constant channels; reads the whole recording.

    Parameters
    ----------
    recording : Recording
    progress : callable
        Called with the progress.

    Returns
    -------
    list of int

    Raises
    ------
    InputError
        If fewer than two channels vary, or samples are not finite.
    """
    survey = Survey(recording.channels, recording.dtype, recording.n_samples)
    for start, block in recording.read_blocks(_block_length(recording)):
        survey.update(block)
        progress("looking for flat channels", start + len(block), recording.n_samples)
    if survey.n_bad:
        survey.check()
    if len(survey.flat) > recording.n_channels - 2:
        raise InputError(
            f"{len(survey.flat)} of {recording.n_channels} channels are flat (constant): "
            "separation needs at least 2 that are not."
        )
    return survey.flat


def prepare_recording(
    recording: Recording, preparation: Preparation, flat: Sequence[int]
) -> tuple[Recording, NDArray[np.int_]]:
    """Return the prepared recording, and the positions of the channels to separate.

    Parameters
    ----------
    recording : Recording
    preparation : Preparation
    flat : sequence of int
        Channels that are left out.
    """
    if not preparation.does_nothing:  # a flat channel must not enter a reference
        recording = PreparedRecording(recording, preparation, flat, remedy=" with --drop-flat")
        flat = []
    return recording, np.setdiff1d(np.arange(recording.n_channels), flat)


class Channels:
    """The channels of a recording that are separated, read block by block.

    Parameters
    ----------
    recording : Recording
    keep : ndarray of int
        Positions of the channels, in the order of separation.
    rows : (int, int), optional
        First row and the row after the last; all rows by default.
    """

    def __init__(
        self, recording: Recording, keep: NDArray[np.int_], rows: tuple[int, int] | None = None
    ) -> None:
        self.recording, self._keep = recording, keep
        self._first, self._stop = (0, recording.n_samples) if rows is None else rows
        self._whole = np.array_equal(keep, np.arange(recording.n_channels))
        self.names = [recording.channels[i] for i in keep]
        self.n_samples, self.gaps = self._stop - self._first, recording.gaps
        self.dtype = recording.dtype
        self.block_length = min(_block_length(recording), self.n_samples)
        self.memory = BlockPool(self.block_length, len(keep), recording.dtype)

    def read_blocks(
        self, length: int, progress: Progress, doing: str
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (start, samples), and report progress after each block."""
        for start, block in self.recording.read_blocks(length, self._first, self._stop):
            yield start, block if self._whole else np.ascontiguousarray(block[:, self._keep])
            progress(doing, start + len(block) - self._first, self.n_samples)


def _block_length(recording: Recording) -> int:
    return max(1, BLOCK_BYTES // (recording.n_channels * recording.dtype.itemsize))
