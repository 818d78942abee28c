"""Find the channels of a recording that are left out by `--bad-channels`."""

import warnings
from collections.abc import Callable, Sequence

from igbss_stream.bad_channels.findings import list_channels
from igbss_stream.bad_channels.survey import ChannelSurvey
from igbss_stream.errors import IgbssWarning, InputError, printable
from igbss_stream.files.recording import Recording

AUTO, OFF = "auto", "off"
_BLOCK = 1 << 19  # numbers read at a time


def find_faulty_channels(
    recording: Recording,
    choice: str | tuple[str, ...],
    known: Sequence[int],
    progress: Callable[[str, int, int], object],
) -> tuple[int, ...]:
    """Return the positions of channels to leave out; reads the whole recording for ``"auto"``.

    Parameters
    ----------
    recording : Recording
    choice : {"auto", "off"} or tuple of str
        Channels that are bad by their samples, none, or the named ones.
    known : sequence of int
        Positions of channels that are left out anyway.
    progress : callable
        Called with the progress.

    Raises
    ------
    InputError
        If a named channel does not exist.

    Warns
    -----
    IgbssWarning
        With the fault of each channel that is bad by its samples.
    """
    if choice == OFF:
        return ()
    if choice != AUTO:
        return tuple(_find_named(recording, name) for name in choice)
    keep = [i for i in range(recording.n_channels) if i not in known]
    names = [recording.channels[i] for i in keep]
    types = [recording.types[i] for i in keep] if recording.types else ()
    survey = ChannelSurvey(names, recording.rate, recording.n_samples, types=types, unit=recording.unit)
    for start, block in recording.read_blocks(max(1, _BLOCK // recording.n_channels)):
        survey.update(block[:, keep])
        progress("looking for bad channels", start + len(block), recording.n_samples)
    faults = survey.finish()
    if faults:
        reasons = "; ".join(printable(str(fault)) for fault in faults)
        warnings.warn(f"left out by --bad-channels auto: {reasons}", IgbssWarning, stacklevel=2)
    return tuple(keep[names.index(name)] for name in list_channels(faults))


def _find_named(recording: Recording, name: str) -> int:
    if name not in recording.channels:
        known = ", ".join(map(printable, recording.channels[:8])) + ", ..." * (recording.n_channels > 8)
        raise InputError(
            f"--bad-channels names {printable(name)!r}, which is no channel of the recording: {known}"
        )
    return recording.channels.index(name)
