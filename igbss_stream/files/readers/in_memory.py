"""Recordings whose samples are an array: in memory, or mapped from the file."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.dtypes import get_working_dtype
from igbss_stream.errors import IgbssError, InputError, ParameterError, RecordingError
from igbss_stream.files.channel_selection import pick_channels
from igbss_stream.files.messages import as_one_line, check_counts, complete_names
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.mapped_samples import MappedSamples
from igbss_stream.files.recording import Facts, Fill, Recording


class MemoryRecording(Recording):
    """A recording whose samples are an array.

    Parameters
    ----------
    path : Path
    samples : ndarray or MappedSamples, of shape (samples, channels)
    **facts
        Parameters of `Recording`.
    """

    def __init__(self, path: Path, samples: NDArray[Any] | MappedSamples, **facts: Any) -> None:
        super().__init__(path, n_samples=len(samples), **facts)
        self._samples: NDArray[Any] | MappedSamples | None = samples

    @property
    def is_costly_to_read(self) -> bool:
        """False: they are copied."""
        return False

    def close(self) -> None:
        """Release the samples."""
        self._samples = None

    def _make_filler(self, n: int) -> Fill:
        def fill(start: int, out: NDArray[Any]) -> None:
            if self._samples is None:
                raise RecordingError(f"{str(self.path)!r} is closed; open it again to read from it")
            out[:] = self._samples[start : start + len(out)]

        return fill


def orient(matrix: NDArray[Any], options: ReadOptions, what: str) -> NDArray[Any]:
    """Return a matrix as (samples, channels), by the option `axis`, else by the longer axis if it is first.

    Parameters
    ----------
    matrix : ndarray
    options : ReadOptions
    what : str
        Name of the matrix, for messages.

    Raises
    ------
    InputError
        If it has other than two axes, or more columns than rows and no option states the axis.
    """
    if matrix.ndim != 2:
        raise InputError(f"{what} has the shape {matrix.shape}; store it as (samples, channels)")
    if options.axis is None and matrix.shape[1] > matrix.shape[0]:
        raise InputError(
            f"{what} has more channels ({matrix.shape[1]}) than samples ({matrix.shape[0]}); pass --axis 1 "
            "if its axes are swapped, or --axis 0 if they are not"
        )
    return matrix.T if options.axis == 1 else matrix


def open_array(
    path: Path,
    samples: NDArray[Any] | MappedSamples,
    facts: Facts,
    options: ReadOptions,
    *,
    gain: NDArray[np.float64] | None = None,
    offset: NDArray[np.float64] | None = None,
) -> MemoryRecording:
    """Return an array as a recording, with the options applied.

    Parameters
    ----------
    path : Path
    samples : ndarray or MappedSamples, of shape (samples, channels)
    facts : Facts
        As the file states them; channels without names are numbered.
    options : ReadOptions
        Without `dataset` and `axis`, which choose the array.
    gain, offset : array of shape (channels,), optional
        Samples are ``stored * gain + offset``; the option `factor` replaces both.

    Raises
    ------
    ParameterError, InputError
        If the samples cannot be separated, or a channel of the options does not exist.
    """
    what = f"{facts.dataset} of {str(path)!r}" if facts.dataset else repr(str(path))
    names = complete_names(facts.channels, samples.shape[1])
    picks = None if options.channels is None else pick_channels(options.channels, names, what)
    triggers = pick_channels(options.event_names, names, what) if options.event_names else ()
    if picks is None and triggers:
        picks = tuple(i for i in range(len(names)) if i not in triggers)
    check_counts(len(samples), len(names) if picks is None else len(picks), what)
    if options.factor is not None:
        gain, offset = np.full(len(names), float(options.factor)), None
    stated = None if options.factor is not None else facts.unit
    found = replace(facts, channels=names, rate=options.rate or facts.rate, unit=options.unit or stated)
    return MemoryRecording(
        path,
        samples,
        facts=found,
        dtype=get_working_dtype(samples.dtype, what),
        picks=picks,
        gain=gain,
        offset=offset,
        triggers=triggers,
    )


def refuse_choice(options: ReadOptions, what: str) -> None:
    """Refuse the options `dataset` and `axis` for a format with one signal."""
    if options.dataset is not None or options.axis is not None:
        raise ParameterError(f"{what} has one signal; omit --dataset and --axis")


@contextmanager
def convert_errors(failure: str, remedy: str = "copy or record it again") -> Iterator[list[str]]:
    """Convert the exceptions of a library to a `RecordingError`, and collect its warnings.

    The types of the exceptions depend on the damage of a file.

    Parameters
    ----------
    failure : str
        Start of the message: which file cannot be read, and by which library.
    remedy : str
        End of the message.
    """
    texts = list[str]()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            yield texts
        except IgbssError:
            raise
        except Exception as error:  # the type depends on the damage
            raise RecordingError(f"{failure}: {as_one_line(error)}; {remedy}") from error
    texts += dict.fromkeys(as_one_line(warning.message) for warning in warned)


@contextmanager
def collect_log(name: str) -> Iterator[list[str]]:
    """Collect the warnings of a logger instead of printing them."""
    collected: dict[str, None] = {}

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            collected[as_one_line(record.getMessage())] = None

    logger, listener = logging.getLogger(name), Listener(logging.WARNING)
    before, texts = logger.propagate, list[str]()
    logger.propagate = False
    logger.addHandler(listener)
    try:
        yield texts
    finally:
        logger.removeHandler(listener)
        logger.propagate = before
        texts += collected


@contextmanager
def divert_root_log() -> Iterator[list[str]]:
    """Collect what a library logs to the root logger, instead of to one of its own, from warnings on.

    Records of other loggers pass, and what the library changes in the root logger is undone.
    """
    collected, texts, root = dict[str, None](), list[str](), logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def divert(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            collected[as_one_line(record.getMessage())] = None
        return False

    root.addFilter(divert)
    try:
        yield texts
    finally:
        root.removeFilter(divert)
        root.handlers[:] = handlers
        root.setLevel(level)
        texts += collected
