"""Recordings that MNE reads: EDF, BDF, BrainVision, FIF, and EEGLAB sets before MATLAB 7.3 (extra `mne`).

Samples are read in blocks, in SI units. What MNE warns of becomes a note of the recording. Where it would
resample or fill in silently, the file is refused or the place is told.
"""

import importlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError, ParameterError, RecordingError
from igbss_stream.ingest.hdf5_file import check_counts, one_line
from igbss_stream.ingest.picking import picked
from igbss_stream.ingest.recording import Break, Facts, Fill, Recording
from igbss_stream.ingest.wanted import Wanted

_UNITS = {107: "V", 112: "T", 201: "T/m", 6: "mol"}  # codes of FIF
_NOT_MEASURED = ("stim", "exci", "resp", "chpi", "ias", "syst")
_BREAKS = ("boundary", "new segment", "edge boundary", "bad boundary", "bad_acq_skip")
_EDF_HEAD = 256  # bytes of the head, and of the head of each channel


class MneRecording(Recording):
    """A recording that MNE has open; `open_with_mne` makes it.

    Parameters
    ----------
    path : Path
    raw : mne.io.BaseRaw
    **facts
        What `Recording` takes.
    """

    def __init__(self, path: Path, raw: Any, **facts: Any) -> None:
        super().__init__(path, **facts)
        self._raw = raw

    def close(self) -> None:
        """Close the file."""
        self._raw = None

    def _filler(self, n: int) -> Fill:
        def fill(start: int, out: NDArray[Any]) -> None:
            if self._raw is None:
                raise RecordingError(f"{str(self.path)!r} is closed; open it again to read from it")
            try:
                out[:] = self._raw.get_data(start=start, stop=start + len(out), verbose="ERROR").T
            except Exception as error:  # MNE raises what each format has it stumble over
                raise RecordingError(
                    f"samples {start} to {start + len(out)} of {str(self.path)!r} cannot be read: "
                    f"{one_line(error)}; copy or record it again"
                ) from error

        return fill


@dataclass(frozen=True)
class _EdfHead:
    """What the head of an EDF or BDF file says, as far as MNE would not tell."""

    interrupted: bool
    rates: dict[str, int]  # samples in a record, by channel


def open_with_mne(path: Path, wanted: Wanted, kind: str, why: str) -> MneRecording:
    """Open a file with MNE.

    Parameters
    ----------
    path : Path
    wanted : Wanted
    kind : str
        Name of the format.
    why : str
        What it was told by.

    Returns
    -------
    MneRecording

    Raises
    ------
    ParameterError, RecordingError, InputError
        If MNE is missing, the file cannot be read, or its samples cannot be separated.
    """
    if wanted.dataset is not None or wanted.axis is not None:
        raise ParameterError(
            f"{str(path)!r} is {kind}, which has one signal; leave --dataset and --axis out"
        )
    raw, notes = _opened(path, kind, wanted)
    names = tuple(raw.ch_names)
    types = tuple(raw.get_channel_types())
    if wanted.channels is None:
        picks = tuple(i for i, type_ in enumerate(types) if type_ not in _NOT_MEASURED)
        left = [names[i] for i in range(len(names)) if i not in picks]
        notes += (f"channels that measure nothing are left out: {', '.join(left)}",) if left else ()
    else:
        picks = picked(wanted.channels, names, repr(str(path)))
    check_counts(raw.n_times, len(picks), repr(str(path)))
    if len(picks) > raw.n_times:
        raise InputError(
            f"{str(path)!r} has {len(picks)} channels and {raw.n_times} samples, fewer than channels; pass "
            f"--channels with at most {raw.n_times} of them"
        )
    units = {_UNITS.get(int(raw.info["chs"][i]["unit"])) for i in picks}
    notes += ("channels have different units, so none is told",) if len(units) > 1 else ()
    unit = units.pop() if len(units) == 1 else None
    facts = Facts(
        kind,
        why,
        "",
        wanted.rate or float(raw.info["sfreq"]),
        wanted.unit or (None if wanted.factor else unit),
        names,
        types,
        tuple(raw.info["bads"]),
        _breaks(raw),
        notes,
    )
    gain = None if wanted.factor is None else np.full(len(names), float(wanted.factor))
    return MneRecording(
        path, raw, facts=facts, n_samples=raw.n_times, dtype=np.dtype("f8"), picks=picks, gain=gain
    )


def _opened(path: Path, kind: str, wanted: Wanted) -> tuple[Any, tuple[str, ...]]:
    """Open a file, and return what MNE warned of."""
    if kind in ("EDF", "BDF"):
        _check_edf(path, kind)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            mne = importlib.import_module("mne")
            raw = mne.io.read_raw(path, preload=False, verbose="ERROR")
    except ImportError as error:
        raise RecordingError(
            f"{str(path)!r} is {kind}, which MNE reads, and that cannot be imported ({error}); install it "
            "with: pip install 'igbss-stream[mne]'"
        ) from error
    except Exception as error:  # MNE raises what each format has it stumble over
        raise RecordingError(
            f"{str(path)!r} is {kind}, and MNE cannot read it: {one_line(error)}; copy or record it again"
        ) from error
    said = dict.fromkeys(one_line(w.message) for w in warned if issubclass(w.category, RuntimeWarning))
    return raw, tuple(f"MNE warns: {text}" for text in said)


def _breaks(raw: Any) -> tuple[Break, ...]:
    """Return where annotations say that what follows does not continue what came before."""
    found = []
    for annotation in raw.annotations:
        text = str(annotation["description"]).lower()
        if any(text.startswith(start) for start in _BREAKS):
            row = round((annotation["onset"] - raw.first_time) * raw.info["sfreq"])
            if 0 < row < raw.n_times:
                found.append(Break(row, 0, "boundary"))
    return tuple(sorted(set(found), key=lambda b: b.row))


def _check_edf(path: Path, kind: str) -> None:
    """Refuse what MNE would join or resample without a word."""
    head = _edf_head(path, kind)
    if head.interrupted:
        raise RecordingError(
            f"{str(path)!r} is {kind}+D: interrupted, which is not read yet; convert it to {kind}+C, one "
            "file for each stretch, with EDFbrowser"
        )
    if len(set(head.rates.values())) > 1:
        listed = ", ".join(f"{name} {n}" for name, n in list(head.rates.items())[:8])
        raise RecordingError(
            f"{str(path)!r} has channels of different rates (samples a record: {listed}); write those of "
            "one rate to a file of their own, with EDFbrowser"
        )


def _edf_head(path: Path, kind: str) -> _EdfHead:
    try:
        with open(path, "rb") as file:
            head = file.read(_EDF_HEAD)
            n = int(head[252:256])
            if not 0 < n <= 4096:
                raise ValueError(f"{n} channels")
            table = file.read(n * _EDF_HEAD)
        names = [table[16 * i : 16 * i + 16].decode("latin-1").strip() for i in range(n)]
        counts = [int(table[216 * n + 8 * i : 216 * n + 8 * i + 8]) for i in range(n)]
    except (OSError, ValueError) as error:
        raise RecordingError(
            f"{str(path)!r} has a damaged head of {kind} ({one_line(error)}); copy or record it again"
        ) from error
    rates = {name: c for name, c in zip(names, counts, strict=True) if not name.endswith("Annotations")}
    return _EdfHead(head[192:197] in (b"EDF+D", b"BDF+D"), rates)
