"""Read positions with MNE: of a file that MNE opened, of its montages, and of files of montages."""

import difflib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.optional import require
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.files.messages import as_one_line
from igbss_stream.positions import HEAD, Positions

_PARTS = {"EEGLAB set": "EEGLAB chanlocs", "BrainVision": "BrainVision Coordinates"}
_OPTICAL = ("hbo", "hbr", "fnirs_cw_amplitude", "fnirs_fd_ac_amplitude", "fnirs_fd_phase", "fnirs_od")
_DEVICE, _UNKNOWN_FRAME = 1, 0  # codes of FIF
_N_SIMILAR = 3


def read_positions_of_raw(raw: Any, kind: str) -> Positions | None:
    """Return the positions of EEG channels; without any, those of fNIRS channels or magnetometers.

    Parameters
    ----------
    raw : mne.io.BaseRaw
    kind : str
        Name of the format.

    Returns
    -------
    Positions or None
        Of all channels. None if the file states none.
    """
    types = raw.get_channel_types()
    located = next((group for group in (("eeg",), _OPTICAL, ("mag",)) if {*group} & {*types}), ())
    xyz = np.full((len(types), 3), np.nan)
    for i, (type_, channel) in enumerate(zip(types, raw.info["chs"], strict=True)):
        if type_ in located:
            xyz[i] = _to_head(channel, raw.info["dev_head_t"])
    if np.isnan(xyz).all():
        return None
    frames = {int(raw.info["chs"][i]["coord_frame"]) for i in np.flatnonzero(np.isfinite(xyz[:, 0]))}
    frame = "unknown" if _UNKNOWN_FRAME in frames else HEAD
    source = f"positions of the file ({_PARTS.get(kind, kind)})"
    return Positions.from_table(raw.ch_names, xyz, frame, source)


def _to_head(channel: Any, device: Any) -> Any:
    """Return the position of a channel; that of a sensor of a device, in the frame of the head."""
    at = np.asarray(channel["loc"][:3], np.float64)
    if channel["coord_frame"] != _DEVICE:
        return at
    return np.full(3, np.nan) if device is None else device["trans"][:3, :3] @ at + device["trans"][:3, 3]


def read_named_montage(name: str) -> Positions:
    """Return the positions of a montage of MNE.

    Parameters
    ----------
    name : str
        In upper or lower case.

    Raises
    ------
    ParameterError
        If MNE has no montage of this name.
    RecordingError
        If MNE is not installed.
    """
    mne = require("mne", "mne", f"montage {name!r} is not a file, and named montages are read by MNE")
    with _quiet():
        known = {each.casefold(): each for each in mne.channels.get_builtin_montages()}
        found = known.get(name.casefold())
        if found is None:
            similar = difflib.get_close_matches(name.casefold(), known, _N_SIMILAR) or sorted(known)
            raise ParameterError(
                f"montage must be a file or the name of a montage of MNE, such as "
                f"{', '.join(known[each] for each in similar[:_N_SIMILAR])}. Got {name!r} instead.",
                parameter="montage",
            )
        return _place(mne, mne.channels.make_standard_montage(found), f"montage {found}")


def read_montage_file(path: Path) -> Positions:
    """Return the positions in a file of any format that MNE reads as a montage.

    Parameters
    ----------
    path : Path

    Raises
    ------
    RecordingError
        If MNE is not installed, or cannot read the file.
    """
    mne = require("mne", "mne", f"montage {str(path)!r} is read by MNE; tables (.tsv, .csv) are not")
    with _quiet():
        try:
            return _place(mne, mne.channels.read_custom_montage(path), f"montage {path.name}")
        except Exception as error:  # the type depends on the format
            raise RecordingError(
                f"montage {str(path)!r} cannot be read by MNE: {as_one_line(error)}; pass a table with the "
                "columns name, x, y, z (.tsv, .csv)"
            ) from error


def _place(mne: Any, montage: Any, source: str) -> Positions:
    """Return the positions of a montage in the head frame."""
    names = montage.ch_names
    info = mne.create_info(names, 1.0, "eeg")
    info.set_montage(montage, verbose="ERROR")
    at = [channel["loc"][:3] for channel in info["chs"]]
    return Positions.from_table(names, np.array(at), HEAD, source)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what MNE says of montages that it renames, and of those without points of the head."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
