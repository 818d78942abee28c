"""Read arrays of NumPy (.npy), and WAV and MATLAB files before version 7.3 with SciPy."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.memory import check_memory
from igbss_stream.errors import InputError, RecordingError
from igbss_stream.files.messages import ask_for_axis
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.in_memory import (
    MemoryRecording,
    convert_errors,
    open_array,
    orient,
    refuse_choice,
)
from igbss_stream.files.readers.matlab5 import check_matlab_file
from igbss_stream.files.recording import Facts
from igbss_stream.files.signal_choice import SeveralSignalsError, SignalChoice

_RATES = ("srate", "fs", "Fs", "fsample", "sampling_rate", "SamplingRate", "sfreq", "rate", "samplerate")
_CLASSES = ("double", "single", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))


def open_npy(path: Path, options: ReadOptions) -> MemoryRecording:
    """Open an array that NumPy has saved, mapped from the file. Pickled objects are refused.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Raises
    ------
    RecordingError, InputError, ParameterError
    """
    what = repr(str(path))
    if options.dataset is not None:
        raise InputError(f"{what} has one array; omit --dataset")
    with convert_errors(f"{what} cannot be read as .npy", "save it again"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    return open_array(
        path, orient(array, options, what), Facts("NumPy", "it begins as .npy", "", None, None, ()), options
    )


def open_wav(path: Path, options: ReadOptions) -> MemoryRecording:
    """Open a WAV file. Its numbers are returned as stored, without a unit.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Raises
    ------
    RecordingError, InputError, ParameterError
    """
    from scipy.io import wavfile

    what = repr(str(path))
    refuse_choice(options, what)
    check_memory(
        2 * path.stat().st_size, f"{what} must be read at once, which", "store it as /data in HDF5"
    )
    with convert_errors(f"{what} is WAV, and SciPy cannot read it", "convert it to PCM") as texts:
        rate, samples = wavfile.read(path)
    if not rate > 0:
        raise RecordingError(f"{what} states a sampling rate of {rate} Hz; correct its header")
    notes = tuple(f"SciPy warns: {text}" for text in texts)
    samples = np.atleast_2d(samples.T).T
    return open_array(
        path, samples, Facts("WAV", "it begins as RIFF", "", float(rate), None, (), notes=notes), options
    )


def open_matlab(path: Path, options: ReadOptions) -> MemoryRecording:
    """Open a matrix of a MATLAB file before version 7.3, which does not state what its rows are.

    Parameters
    ----------
    path : Path
    options : ReadOptions
        `dataset` is the name of a variable.

    Raises
    ------
    RecordingError, InputError, ParameterError
    """
    from scipy import io

    what = repr(str(path))
    with open(path, "rb") as file:
        if file.read(128)[126:] in (b"IM", b"MI"):
            check_matlab_file(path)
    with convert_errors(f"{what} is MATLAB, and SciPy cannot read it", "copy or save it again"):
        found = {
            name: shape
            for name, shape, kind in io.whosmat(path)
            if kind in _CLASSES and len(shape) == 2 and min(shape) > 1
        }
        name = _choose(found, options, what)
        rows, columns = found[name]
        check_memory(
            16 * rows * columns, f"{name} of {what} must be read at once, which", "save it as -v7.3"
        )
        loaded = io.loadmat(path, variable_names=[name, *_RATES])
        matrix: NDArray[Any] = np.asarray(loaded[name])
    if options.axis is None:
        raise InputError(ask_for_axis(f"{name} of {what}", rows, columns))
    rates = {_as_rate(loaded[key]) for key in _RATES if key in loaded} - {None}
    rate = rates.pop() if len(rates) == 1 else None
    facts = Facts("MATLAB", "it is a MATLAB file before version 7.3", name, rate, None, ())
    return open_array(path, orient(matrix, options, f"{name} of {what}"), facts, options)


def _choose(found: dict[str, tuple[int, ...]], options: ReadOptions, what: str) -> str:
    """Return the name of the selected matrix."""
    if options.dataset in found:
        return options.dataset
    if len(found) == 1 and options.dataset is None:
        return next(iter(found))
    if not found:
        raise RecordingError(
            f"{what} has no matrix of numbers on its top level; save its samples as one, or if it is an "
            "EEGLAB set, rename it to .set"
        )
    listed = ", ".join(f"{name} ({rows} x {columns})" for name, (rows, columns) in list(found.items())[:8])
    choices = [
        SignalChoice(f"--dataset {name!r}", shape[0], shape[1], None, None) for name, shape in found.items()
    ]
    raise SeveralSignalsError(
        f"{what} has {len(found)} matrices; pass --dataset with one of: {listed}", choices
    )


def _as_rate(value: Any) -> float | None:
    found = np.asarray(value)
    if found.size != 1 or found.dtype.kind not in "iuf" or not 0 < float(found.item()) < np.inf:
        return None
    return float(found.item())
