"""Choose the signal of an HDF5 file; list the candidates if the choice is ambiguous."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py

from igbss_stream.errors import RecordingError
from igbss_stream.files.messages import complete_names
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.hdf5.columns import describe_columns, list_columns
from igbss_stream.files.readers.hdf5.contents import DatasetDescription, describe_datasets, list_datasets
from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS, name_dataset
from igbss_stream.files.readers.hdf5.layouts import plain
from igbss_stream.files.readers.hdf5.layouts.values import is_numeric
from igbss_stream.files.readers.hdf5.links import check_parts
from igbss_stream.files.readers.hdf5.signal import LayoutMatch, Signal
from igbss_stream.files.readers.hdf5.written_rows import find_written_rows
from igbss_stream.files.signal_choice import SeveralSignalsError, SignalChoice

_N_LISTED = 8  # datasets in an error message


def choose_signal(
    file: Any, found: LayoutMatch, path: Path, options: ReadOptions
) -> tuple[LayoutMatch, Signal]:
    """Return the selected signal, and the layout by which it is read.

    Parameters
    ----------
    file : h5py.File
    found : LayoutMatch
        Signals that its layout finds.
    path : Path
    options : ReadOptions

    Returns
    -------
    LayoutMatch, Signal

    Raises
    ------
    RecordingError
        If there is no signal, the choice is ambiguous, or required information is missing.
    """
    if options.dataset is None:
        signal = _choose_only_signal(file, found, path)
    elif (columns := describe_columns(file, options.dataset, path)) is not None:
        why = f"{len(columns.columns)} datasets were selected, one a channel"
        found, signal = replace(found, layout=plain.LAYOUT, why=why), columns
    else:
        name = "/" + options.dataset.strip("/")
        known = [signal for signal in found.signals if signal.dataset == name]
        if known:
            signal = known[0]
        else:
            handle = _find_dataset(file, name, path)
            why = found.why if found.layout == plain.LAYOUT else f"{name} was selected, as plain numbers"
            found = replace(found, layout=plain.LAYOUT, why=why)
            signal = plain.describe_signal(handle, name, path, file)
    signal = _leave_out_unwritten_times(file, signal, options, path)
    signal = signal.read_timing(name_dataset(signal.dataset, path))
    if signal.problem and not _is_resolved(signal, options):
        raise RecordingError(signal.problem)
    return found, signal


def _leave_out_unwritten_times(file: Any, signal: Signal, options: ReadOptions, path: Path) -> Signal:
    """Return a signal without the timestamps of rows that were never written."""
    if signal.times is None or signal.raw or signal.fields or signal.columns:
        return signal
    handle, axis = file[signal.dataset], signal.find_axis(options.axis)
    check_parts(handle, name_dataset(signal.dataset, path))
    if axis is None or axis >= handle.ndim or not is_numeric(handle):
        return signal
    written = find_written_rows(handle, axis, signal.times)
    times = replace(signal.times, n_samples=min(written.n_rows, signal.times.n_samples))
    return replace(signal, times=times, written=written)


def _is_resolved(signal: Signal, options: ReadOptions) -> bool:
    """Return whether the options provide what the file does not state."""
    if signal.needs_rate:
        return options.rate is not None
    return signal.axis is None and options.axis is not None


def _choose_only_signal(file: Any, found: LayoutMatch, path: Path) -> Signal:
    multichannel = [signal for signal in found.signals if signal.is_multichannel]
    if len(multichannel) == 1 or len(found.signals) == 1:
        return multichannel[0] if multichannel else found.signals[0]
    if found.layout == plain.LAYOUT:
        raise SeveralSignalsError(
            f"{found.empty_message}; {_list_choices(file, path)}", _list_plain_choices(file, path)
        )
    if not found.signals:
        raise RecordingError(found.empty_message)
    listed = [f"{s.dataset!r} {_format_size(s)}" for s in (multichannel or found.signals)[:_N_LISTED]]
    more = len(multichannel or found.signals) - _N_LISTED
    listed += [f"and {more} more"] if more > 0 else []
    raise SeveralSignalsError(
        f"{str(path)!r} ({found.layout}) has {len(multichannel or found.signals)} signals to choose from; "
        f"pass --dataset with one of: {', '.join(listed)}",
        [_as_choice(signal, path) for signal in multichannel or found.signals],
    )


def _as_choice(signal: Signal, path: Path) -> SignalChoice:
    signal = signal.read_timing(name_dataset(signal.dataset, path), quick=True)
    n_samples, n_channels = signal.shape if len(signal.shape) == 2 else (signal.shape[0], 1)
    channels = complete_names(signal.channels, n_channels)
    option = f"--dataset {signal.dataset!r}"
    return SignalChoice(option, n_samples, n_channels, signal.rate, signal.unit, channels, signal.types)


def _list_plain_choices(file: Any, path: Path) -> list[SignalChoice]:
    """Return the datasets that can be read as plain numbers without further options."""
    found = [(d, d.shape) for d in describe_datasets(file, path) if d.usable]
    return [
        SignalChoice(
            f"--dataset {d.name!r}",
            shape[0],
            shape[1],
            d.rate,
            d.unit,
            complete_names(d.channels, shape[1]),
        )
        for d, shape in found
        if shape is not None and len(shape) == 2
    ]


def _format_size(signal: Signal) -> str:
    if len(signal.shape) != 2:
        return str(signal.shape)
    if signal.axis is None:
        return f"({signal.shape[0]}, {signal.shape[1]})"
    return f"({signal.shape[0]} samples of {signal.shape[1]} channels)"


def _find_dataset(file: Any, name: str, path: Path) -> Any:
    """Return a dataset by name; list the available ones if it is missing."""
    try:
        found = file[name]
    except LIBRARY_ERRORS as error:
        raise RecordingError(
            f"{_explain_missing(file, name, path)}; {_list_choices(file, path)}"
        ) from error
    if isinstance(found, h5py.Dataset):
        return found
    if isinstance(found, h5py.Group):
        raise RecordingError(
            f"{name!r} in {str(path)!r} is a group, not a dataset; {_list_choices(found, path)}"
        )
    raise RecordingError(f"{name!r} in {str(path)!r} is not a dataset; {_list_choices(file, path)}")


def _explain_missing(file: Any, name: str, path: Path) -> str:
    """Return a message about a missing dataset, or a broken link of that name."""
    try:
        link = file.get(name, getlink=True)
    except LIBRARY_ERRORS:
        link = None
    if isinstance(link, h5py.SoftLink | h5py.ExternalLink):
        return f"{name!r} in {str(path)!r} is a link to a missing dataset"
    return f"{str(path)!r} has no dataset {name!r}"


def _list_choices(group: Any, path: Path) -> str:
    """List the datasets of a group in a message, the most likely recordings first."""

    def get_priority(d: DatasetDescription) -> tuple[bool, bool, int, str]:
        return not d.usable, not d.axes_swapped, -math.prod(d.shape or (0,)), d.name

    found = sorted(describe_datasets(group, path), key=get_priority)
    if not found:
        return "it has no datasets"
    columns = list_columns(group, list_datasets(group)) if not any(d.usable for d in found) else []
    if columns:
        return f"pass --dataset {','.join(columns)} to read one dataset a channel"
    listed = [_format_choice(d) for d in found[:_N_LISTED]]
    if len(found) > _N_LISTED:
        listed.append(f"and {len(found) - _N_LISTED} more")
    return "pass --dataset with one of: " + ", ".join(listed)


def _format_choice(d: DatasetDescription) -> str:
    """Format a dataset as a choice."""
    shape = "no data" if d.shape is None else str(d.shape)
    return f"{d.name!r} {shape} {d.dtype}" + (" (with --axis 1)" if d.axes_swapped else "")
