"""Which of the signals in an HDF5 file is meant; where that cannot be told, what to choose from."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py

from igbss_stream.errors import RecordingError
from igbss_stream.files.messages import numbered
from igbss_stream.files.read_options import Wanted
from igbss_stream.files.readers.hdf5.contents import DatasetDescription, descriptions
from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS, naming
from igbss_stream.files.readers.hdf5.layouts import plain
from igbss_stream.files.readers.hdf5.signal import Contents, Signal
from igbss_stream.files.signal_choice import Offered, SeveralSignalsError

_LISTED = 8  # datasets that an error message names


def chosen(file: Any, found: Contents, path: Path, wanted: Wanted) -> tuple[Contents, Signal]:
    """Return the signal that is meant, and the layout that it is read by.

    Parameters
    ----------
    file : h5py.File
    found : Contents
        What its layout finds in it.
    path : Path
    wanted : Wanted

    Returns
    -------
    Contents, Signal

    Raises
    ------
    RecordingError
        If none is meant, or more than one could be, or something must be known that nobody told.
    """
    if wanted.dataset is None:
        signal = _only_one(file, found, path)
    else:
        name = "/" + wanted.dataset.strip("/")
        known = [signal for signal in found.signals if signal.dataset == name]
        if known:
            signal = known[0]
        else:
            handle = _find(file, name, path)
            why = found.why if found.layout == plain.LAYOUT else f"{name} was asked for, as plain numbers"
            found = replace(found, layout=plain.LAYOUT, why=why)
            signal = plain.described(handle, name, path, file)
    signal = signal.timed(naming(signal.dataset, path))
    if signal.trouble and not _resolved(signal, wanted):
        raise RecordingError(signal.trouble)
    return found, signal


def _resolved(signal: Signal, wanted: Wanted) -> bool:
    """Return whether the caller says what the file does not."""
    if signal.untimed:
        return wanted.rate is not None
    return signal.axis is None and wanted.axis is not None


def _only_one(file: Any, found: Contents, path: Path) -> Signal:
    several = [signal for signal in found.signals if signal.several]
    if len(several) == 1 or len(found.signals) == 1:
        return several[0] if several else found.signals[0]
    if found.layout == plain.LAYOUT:
        raise SeveralSignalsError(f"{found.nothing}; {_choices(file, path)}", _plain_ones(file, path))
    if not found.signals:
        raise RecordingError(found.nothing)
    listed = [f"{s.dataset!r} {_size(s)}" for s in (several or found.signals)[:_LISTED]]
    more = len(several or found.signals) - _LISTED
    listed += [f"and {more} more"] if more > 0 else []
    raise SeveralSignalsError(
        f"{str(path)!r} ({found.layout}) has {len(several or found.signals)} signals and does not tell "
        f"which one is meant; pass --dataset with one of: {', '.join(listed)}",
        [_offered(signal, path) for signal in several or found.signals],
    )


def _offered(signal: Signal, path: Path) -> Offered:
    signal = signal.timed(naming(signal.dataset, path), glance=True)
    n_samples, n_channels = signal.shape if len(signal.shape) == 2 else (signal.shape[0], 1)
    channels = numbered(signal.channels, n_channels)
    option = f"--dataset {signal.dataset!r}"
    return Offered(option, n_samples, n_channels, signal.rate, signal.unit, channels, signal.types)


def _plain_ones(file: Any, path: Path) -> list[Offered]:
    """Return the datasets that can be read as plain numbers, given nothing but their name."""
    found = [(d, d.shape) for d in descriptions(file, path) if d.usable]
    return [
        Offered(f"--dataset {d.name!r}", shape[0], shape[1], d.rate, d.unit, numbered(d.channels, shape[1]))
        for d, shape in found
        if shape is not None and len(shape) == 2
    ]


def _size(signal: Signal) -> str:
    if len(signal.shape) != 2:
        return str(signal.shape)
    if signal.axis is None:
        return f"({signal.shape[0]}, {signal.shape[1]})"
    return f"({signal.shape[0]} samples of {signal.shape[1]} channels)"


def _find(file: Any, name: str, path: Path) -> Any:
    """Return a dataset, or say which ones there are."""
    try:
        found = file[name]
    except LIBRARY_ERRORS as error:
        raise RecordingError(f"{_missing(file, name, path)}; {_choices(file, path)}") from error
    if isinstance(found, h5py.Dataset):
        return found
    if isinstance(found, h5py.Group):
        raise RecordingError(
            f"{name!r} in {str(path)!r} is a group, not a dataset; {_choices(found, path)}"
        )
    raise RecordingError(f"{name!r} in {str(path)!r} is not a dataset; {_choices(file, path)}")


def _missing(file: Any, name: str, path: Path) -> str:
    """Say that a dataset is missing, and whether its name is that of a broken link."""
    try:
        link = file.get(name, getlink=True)
    except LIBRARY_ERRORS:
        link = None
    if isinstance(link, h5py.SoftLink | h5py.ExternalLink):
        return f"{name!r} in {str(path)!r} is a link to a dataset that is missing"
    return f"{str(path)!r} has no dataset {name!r}"


def _choices(group: Any, path: Path) -> str:
    """List the datasets of a group, the likeliest recordings first."""

    def likeliest(d: DatasetDescription) -> tuple[bool, bool, int, str]:
        return not d.usable, "--axis" not in d.note, -math.prod(d.shape or (0,)), d.name

    found = sorted(descriptions(group, path), key=likeliest)
    if not found:
        return "there are no datasets in it"
    listed = [_choice(d) for d in found[:_LISTED]]
    if len(found) > _LISTED:
        listed.append(f"and {len(found) - _LISTED} more")
    return "pass --dataset with one of: " + ", ".join(listed)


def _choice(d: DatasetDescription) -> str:
    """Name a dataset as one to choose."""
    shape = "no data" if d.shape is None else str(d.shape)
    return f"{d.name!r} {shape} {d.dtype}" + (" (with --axis 1)" if "--axis" in d.note else "")
