"""Read the channels to separate, prepared, block by block."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.compute_pool import BlockPool, is_limited
from igbss_stream._util.memory import may_cache
from igbss_stream.batch.faulty_channels import find_faulty_channels
from igbss_stream.batch.interpolation import BadChannelInterpolation
from igbss_stream.batch.models import KnownModel
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.errors import InputError
from igbss_stream.files.recording import Recording
from igbss_stream.preparation.offline import PreparedRecording
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.statistics import Survey

BLOCK_BYTES = 1 << 21  # blocks and their sources fit into the cache of the processor

Progress = Callable[[str, int, int], None]
"""Called with the name of the step, the samples processed and the total."""


@dataclass(frozen=True)
class LeftOut:
    """Channels of a recording that are not separated.

    Parameters
    ----------
    flat : tuple of int
        Positions of channels that are constant, if the settings drop them.
    bad : tuple of int
        Positions of channels that are bad: those that the file marks, unless the settings or the user keep
        them, and those that `BatchSettings.bad_channels` asks for.
    """

    flat: tuple[int, ...] = ()
    bad: tuple[int, ...] = ()

    @property
    def positions(self) -> list[int]:
        """Positions of all of them, sorted."""
        return sorted({*self.flat, *self.bad})


def find_left_out(recording: Recording, settings: BatchSettings, progress: Progress) -> LeftOut:
    """Return the channels that are left out; reads the whole recording if its samples decide.

    Parameters
    ----------
    recording : Recording
    settings : BatchSettings
    progress : callable
        Called with the progress.

    Returns
    -------
    LeftOut

    Raises
    ------
    InputError
        If fewer than two channels are left, or samples are not finite.
    """
    bad: tuple[int, ...] = ()
    if not (settings.keep_bad or recording.is_selection):
        bad = tuple(i for i, name in enumerate(recording.channels) if name in recording.bad)
    if len(bad) > recording.n_channels - 2:
        raise InputError(
            f"the file marks {len(bad)} of {recording.n_channels} channels as bad: separation needs at "
            "least 2 that are not. Pass --keep-bad to separate them all the same."
        )
    bad = tuple(sorted({*bad, *find_faulty_channels(recording, settings.bad_channels, bad, progress)}))
    if len(bad) > recording.n_channels - 2:
        raise InputError(
            f"{len(bad)} of {recording.n_channels} channels are bad: separation needs at least 2 that are "
            "not. Leave out fewer with --bad-channels."
        )
    flat = _find_flat_channels(recording, settings, bad, progress) if settings.drop_flat else ()
    return LeftOut(flat, bad)


def _find_flat_channels(
    recording: Recording, settings: BatchSettings, bad: Sequence[int], progress: Progress
) -> tuple[int, ...]:
    """Return the positions of constant channels among those that are not bad."""
    source = Channels(recording, np.setdiff1d(np.arange(recording.n_channels), bad))
    excluded = get_excluded_rows(recording, settings)
    survey = Survey(source.names, recording.dtype, recording.n_samples, excluded=excluded)
    for _, block in source.read_blocks(source.block_length, progress, "looking for flat channels"):
        survey.update(block)
    if survey.n_bad:
        survey.check()
    if not survey.n_seen:
        return ()  # refused later, with the reason
    if len(survey.flat) > len(source.names) - 2:
        raise InputError(
            f"{len(survey.flat)} of {len(source.names)} channels are flat (constant): "
            "separation needs at least 2 that are not."
        )
    return tuple(int(source.keep[i]) for i in survey.flat)


def get_excluded_rows(recording: Recording, settings: BatchSettings) -> tuple[tuple[int, int], ...]:
    """Return the rows, as (start, stop), that nothing is learned from."""
    return () if settings.keep_bad else recording.bad_rows


def prepare_recording(
    recording: Recording, preparation: Preparation, left_out: LeftOut
) -> tuple[Recording, NDArray[np.int_]]:
    """Return the prepared recording, and the positions of the channels to separate.

    Parameters
    ----------
    recording : Recording
    preparation : Preparation
    left_out : LeftOut
    """
    positions = left_out.positions
    if not preparation.does_nothing:  # a flat or bad channel must not enter a reference
        recording = PreparedRecording(recording, preparation, positions, remedy=" with --drop-flat")
        positions = []
    return recording, np.setdiff1d(np.arange(recording.n_channels), positions)


def choose_channels(
    recording: Recording,
    settings: BatchSettings,
    left_out: LeftOut,
    model: KnownModel | None,
    rows: tuple[int, int] | None = None,
) -> "Channels":
    """Return the channels to separate, prepared, and in the order of the model if there is one.

    Parameters
    ----------
    recording : Recording
    settings : BatchSettings
    left_out : LeftOut
    model : KnownModel, optional
    rows : (int, int), optional
        See `Channels`.

    Raises
    ------
    InputError
        If the channels are not those of the model, or bad ones cannot be interpolated.
    """
    stored, bad = recording, [recording.channels[i] for i in left_out.bad]
    recording, keep = prepare_recording(recording, settings.preparation, left_out)
    if model is not None:
        keep = keep[model.positions([recording.channels[i] for i in keep], recording.unit, bad)]
    channels = Channels(recording, keep, rows, bad)
    if settings.interpolate_bads and bad:
        channels.interpolation = BadChannelInterpolation(stored, channels.names, bad)
    return channels


class Channels:
    """The channels of a recording that are separated, read block by block.

    Parameters
    ----------
    recording : Recording
    keep : ndarray of int
        Positions of the channels, in the order of separation.
    rows : (int, int), optional
        First row and the row after the last; all rows by default.
    bad : sequence of str
        Names of channels that are left out as bad.

    Attributes
    ----------
    interpolation : BadChannelInterpolation or None
        Adds the bad channels to the cleaned ones.
    """

    def __init__(
        self,
        recording: Recording,
        keep: NDArray[np.int_],
        rows: tuple[int, int] | None = None,
        bad: Sequence[str] = (),
    ) -> None:
        self.recording, self.keep, self.bad = recording, keep, bad
        self.interpolation: BadChannelInterpolation | None = None
        self._first, self._stop = (0, recording.n_samples) if rows is None else rows
        self._whole = np.array_equal(keep, np.arange(recording.n_channels))
        self.names = [recording.channels[i] for i in keep]
        self.n_samples, self.gaps = self._stop - self._first, recording.gaps
        self.dtype = recording.dtype
        self.block_length = min(_block_length(recording), self.n_samples)
        self._memory = BlockPool(self.block_length, len(keep), recording.dtype)
        self._kept: NDArray[Any] | None = None
        self._is_kept = False

    @property
    def cleaned_names(self) -> list[str]:
        """Names of the cleaned channels."""
        return self.names if self.interpolation is None else self.interpolation.channels

    def complete(self, cleaned: NDArray[Any] | None) -> NDArray[Any] | None:
        """Return cleaned channels with those that are interpolated."""
        return (
            cleaned if self.interpolation is None or cleaned is None else self.interpolation.add_to(cleaned)
        )

    def read_blocks(
        self, length: int, progress: Progress, doing: str
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (start, samples), and report progress after each block.

        A block is valid only until the next one is requested.
        """
        for start, block in self._read_kept(length) if self._is_kept else self._read(length):
            yield start, block
            progress(doing, start + len(block) - self._first, self.n_samples)

    def read_lasting_blocks(self, progress: Progress, doing: str) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield blocks as `read_blocks` does, which are valid while `map_in_order` processes them."""
        for start, block in self.read_blocks(self.block_length, progress, doing):
            yield start, block if self._is_kept else self._copy(start, block)
        self._is_kept = self._kept is not None

    def keep_samples(self) -> None:
        """Keep in memory what `read_lasting_blocks` reads next, for later passes, if this saves time.

        Samples are not kept if they take more than a fifth of the available memory, or several processes
        share it.
        """
        n_bytes = self.n_samples * len(self.keep) * self.dtype.itemsize
        if self.recording.is_costly_to_read and not is_limited() and may_cache(n_bytes):
            self._kept = np.empty((self.n_samples, len(self.keep)), self.dtype)

    def _read(self, length: int) -> Iterator[tuple[int, NDArray[Any]]]:
        for start, block in self.recording.read_blocks(length, self._first, self._stop):
            yield start, block if self._whole else np.ascontiguousarray(block[:, self.keep])

    def _read_kept(self, length: int) -> Iterator[tuple[int, NDArray[Any]]]:
        if self._kept is None:
            raise RuntimeError("no samples were kept")
        for at in range(0, self.n_samples, length):
            yield self._first + at, self._kept[at : at + length]

    def _copy(self, start: int, block: NDArray[Any]) -> NDArray[Any]:
        if self._kept is None:
            return self._memory.copy(block)
        at = start - self._first
        rows = self._kept[at : at + len(block)]
        rows[:] = block
        return rows


def _block_length(recording: Recording) -> int:
    return max(1, BLOCK_BYTES // (recording.n_channels * recording.dtype.itemsize))
