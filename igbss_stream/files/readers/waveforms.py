"""Read WFDB with wfdb, and TDMS with npTDMS (an extra each)."""

import logging
import os
import re
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.memory import check_memory
from igbss_stream._util.optional import require
from igbss_stream.errors import InputError, ParameterError, RecordingError
from igbss_stream.files.channel_selection import format_ranges, pick_channels
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.in_memory import (
    MemoryRecording,
    collect_log,
    convert_errors,
    open_array,
    refuse_choice,
)
from igbss_stream.files.readers.wfdb_annotations import read_annotations
from igbss_stream.files.recording import Facts
from igbss_stream.files.signal_choice import SeveralSignalsError, SignalChoice

_COPIES = 3  # of the samples in memory
_REMEDY = "convert it to HDF5 (/data), which is read in blocks, on a computer with more memory"


def open_wfdb(path: Path, options: ReadOptions) -> MemoryRecording:
    """Open a record of WFDB by its header (.hea). Samples are in the units of the header.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Raises
    ------
    RecordingError, InputError, ParameterError
    """
    what = repr(str(path))
    refuse_choice(options, what)
    wfdb = require("wfdb", "wfdb", f"{what} is WFDB, read by wfdb")
    name = str(path.absolute().with_suffix(""))
    with convert_errors(f"{what} is WFDB, and wfdb cannot read it"):
        head = wfdb.rdheader(name)
        if not getattr(head, "file_name", None):
            raise RecordingError(
                f"{what} has no signals, or several segments; pass the header of one segment"
            )
        names = tuple(str(each or f"channel-{i}") for i, each in enumerate(head.sig_name))
        picks = _pick_signals(head, names, path, options)
        n_bytes = 8 * int(head.sig_len or 0) * len(picks) * _COPIES
        check_memory(n_bytes, f"{what} must be read at once, which", _REMEDY)
        record = wfdb.rdrecord(name, channels=list(picks))
        samples, units = np.asarray(record.p_signal, np.float64), set(record.units or ())
        unit = units.pop() if len(units) == 1 else None
        date = (
            None if record.base_datetime is None else record.base_datetime.replace(tzinfo=UTC).timestamp()
        )
        rate = float(record.fs)
    if not 0 < rate < np.inf:
        raise RecordingError(f"{what} states a sampling rate of {rate:g} Hz; correct its header")
    found, notes = read_annotations(wfdb, path, rate)
    notes += () if unit else ("the channels have several units, so the unit is unknown",)
    read = tuple(names[i] for i in picks)
    facts = Facts(
        "WFDB", "its name ends in .hea", "", rate, unit, read, notes=notes, events=found, t0=date
    )  # fmt: skip
    return open_array(path, samples, facts, replace(options, channels=None))


def _pick_signals(head: Any, names: tuple[str, ...], path: Path, options: ReadOptions) -> tuple[int, ...]:
    """Return the signals to read, and check that their files are there and of one rate."""
    what, files = repr(str(path)), [str(each) for each in head.file_name]
    every = tuple(range(len(names)))
    picks = every if options.channels is None else pick_channels(options.channels, names, what)
    outside = [files[i] for i in picks if not re.fullmatch(r"[\w.\- ]+", files[i])]
    if outside:
        raise InputError(
            f"{what} refers to {outside[0]!r}, which may be outside its folder, and is refused; correct it"
        )
    there = [i for i in every if os.path.isfile(path.parent / files[i])]
    missing = [files[i] for i in picks if i not in there]
    if missing:
        others = f", or pass --channels {format_ranges(there)} to read the others" if len(there) > 1 else ""
        raise RecordingError(f"{what} refers to {missing[0]!r}, which is missing; restore it{others}")
    frames = head.samps_per_frame or [1] * len(names)
    if len({frames[i] for i in picks}) > 1:
        raise RecordingError(
            f"{what} has channels at different rates; pass --channels with those of one rate"
        )
    return picks


def open_tdms(path: Path, options: ReadOptions) -> MemoryRecording:
    """Open a group of channels of a TDMS file of LabVIEW.

    Parameters
    ----------
    path : Path
    options : ReadOptions
        `dataset` is the name of a group.

    Raises
    ------
    RecordingError, InputError, ParameterError
    """
    what = repr(str(path))
    if options.axis is not None:
        raise ParameterError(f"{what} has one array a channel; omit --axis")
    nptdms = require("nptdms", "tdms", f"{what} is TDMS, read by npTDMS")
    nptdms.log.log_manager.console_handler.setLevel(logging.CRITICAL)  # its warnings become notes
    failure = f"{what} is TDMS, and npTDMS cannot read it"
    with convert_errors(failure), collect_log("nptdms") as texts, nptdms.TdmsFile.open(path) as file:
        groups = {
            group.name: [each for each in group.channels() if len(each) and each.dtype.kind in "iuf"]
            for group in file.groups()
        }
        name = _choose_group({k: each for k, each in groups.items() if len(each) > 1}, options, what)
        channels = groups[name]
        steps = {each.properties.get("wf_increment") for each in channels}
        if len({len(each) for each in channels}) > 1 or len(steps) > 1:
            raise InputError(
                f"group {name!r} of {what} has channels of different lengths or rates; store those of one "
                "rate in a group"
            )
        n_bytes = 8 * len(channels) * len(channels[0]) * _COPIES
        check_memory(n_bytes, f"{what} must be read at once, which", _REMEDY)
        samples = np.column_stack([each.read_data() for each in channels])
        units = {str(each.properties.get("unit_string") or "") for each in channels}
        begin, step = channels[0].properties.get("wf_start_time"), steps.pop()
        rate = 1 / float(step) if step and 0 < float(step) < np.inf else None
        t0 = None if begin is None else float(np.datetime64(begin, "us").astype(np.int64)) * 1e-6
        names = tuple(each.name for each in channels)
    unit = (units.pop() or None) if len(units) == 1 else None
    notes = tuple(f"npTDMS warns: {text}" for text in texts)
    facts = Facts("TDMS", "it begins with TDSm", name, rate, unit, names, notes=notes, t0=t0)
    return open_array(path, samples, facts, options)


def _choose_group(groups: dict[str, list[Any]], options: ReadOptions, what: str) -> str:
    if options.dataset in groups:
        return options.dataset
    if len(groups) == 1 and options.dataset is None:
        return next(iter(groups))
    if not groups:
        raise InputError(
            f"{what} has no group with several channels of numbers; separation needs at least 2"
        )
    choices = [SignalChoice(f"--dataset {name!r}", None, len(c), None, None) for name, c in groups.items()]
    listed = ", ".join(
        f"{name!r} ({len(channels)} channels)" for name, channels in list(groups.items())[:8]
    )
    raise SeveralSignalsError(
        f"{what} has {len(groups)} groups; pass --dataset with one of: {listed}", choices
    )
