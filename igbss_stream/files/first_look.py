"""Look at the first samples of a recording for counters, and for values that mean missing."""

from igbss_stream.errors import IgbssError, InputError, printable
from igbss_stream.files.counters import SampleCounter, find_counter, find_losses
from igbss_stream.files.recording import Recording
from igbss_stream.files.standing_out import find_outstanding_value

_ROWS = 4096
_MOST_NUMBERS = 1 << 21  # in these rows
_FEWEST = 64  # rows, below which a channel that rises may be a signal


def look_at_first_samples(recording: Recording, *, only_first: bool = False) -> None:
    """Look for channels that count, and note a value that stands out.

    Channels that count are left out, unless the user selected them. Where their count jumps, whether they
    are selected or not, samples are missing. A recording of counters alone is left as it is.

    Parameters
    ----------
    recording : Recording
    only_first : bool, default=False
        Whether to read no other samples, so that losses are not found.

    Raises
    ------
    InputError
        If a single channel is left beside a counter.
    """
    rows = min(_ROWS, recording.n_samples, max(_FEWEST, _MOST_NUMBERS // recording.n_channels))
    try:
        counters = _find_counters(recording, rows)
        if len(counters) < len(recording.stored_channels):
            _leave_out_counters(recording, counters)
            _add_losses(recording, counters, only_first)
        first = next(block.copy() for _, block in recording.read_blocks(rows, 0, rows))
    except InputError:
        raise
    except (IgbssError, StopIteration):  # whoever reads the samples gets the error
        return
    outstanding = find_outstanding_value(first) if recording.missing is None else None
    if outstanding is not None:
        value, n = outstanding
        recording.add_note(
            f"{value:g} occurs {n} times in the first {rows} rows and stands out; if it means that "
            f"samples are missing, pass --missing {value:g}"
        )


def _find_counters(recording: Recording, rows: int) -> dict[int, SampleCounter]:
    """Return the stored channels that count; unless the user selected channels, of those that are read."""
    if rows < _FEWEST:
        return {}
    first = recording.read_stored(rows)
    looked = range(first.shape[1]) if recording.is_selection else recording.picks
    found = ((i, find_counter(first[:, i])) for i in looked)
    return {i: counter for i, counter in found if counter is not None}


def _leave_out_counters(recording: Recording, counters: dict[int, SampleCounter]) -> None:
    """Leave out the channels that count, unless the user selected them."""
    if recording.is_selection or not counters:
        return
    counting = [at for at, i in enumerate(recording.picks) if i in counters]
    if len(counting) == recording.n_channels:
        return
    listed = ", ".join(_describe(recording, i, counter) for i, counter in list(counters.items())[:4])
    if recording.n_channels - len(counting) < 2:
        raise InputError(
            f"{str(recording.path)!r} has one channel beside those that count samples ({listed}); "
            "separation needs at least 2. Pass --channels to read a counter as a channel"
        )
    recording.leave_out(
        tuple(counting), f"channels that count samples are omitted: {listed}; --channels reads them"
    )


def _add_losses(recording: Recording, counters: dict[int, SampleCounter], only_first: bool) -> None:
    """State the samples that the first counter shows as missing, or that it was not read."""
    for i, counter in list(counters.items())[:1]:
        if only_first:
            recording.add_note(
                f"{_describe(recording, i, counter)}; it was not read, so its gaps are unknown"
            )
            return
        values = recording.read_stored(recording.n_samples, [i])[:, 0]
        counter = find_counter(values) or counter  # it may start again after the first samples only
        lost = find_losses(values, counter)
        what = _describe(recording, i, counter)
        if lost is None:
            recording.add_note(f"{what}, but jumps too often to show what is missing")
        else:
            recording.add_losses(lost, f"gaps follow from a counter: {what}")


def _describe(recording: Recording, i: int, counter: SampleCounter) -> str:
    return f"{printable(recording.stored_channels[i])} {counter.describe()}"
