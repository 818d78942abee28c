"""Look at the first samples of a recording for counters, and for values that mean missing."""

import numpy as np

from igbss_stream.errors import IgbssError, InputError, printable
from igbss_stream.files.counters import find_counter
from igbss_stream.files.recording import Recording
from igbss_stream.files.standing_out import find_outstanding_value

_ROWS = 4096
_MOST_NUMBERS = 1 << 21  # in these rows
_FEWEST = 64  # rows, below which a channel that rises may be a signal


def look_at_first_samples(recording: Recording) -> None:
    """Leave out channels that count, unless the user selected them, and note a value that stands out.

    A recording of counters alone is left as it is.

    Parameters
    ----------
    recording : Recording

    Raises
    ------
    InputError
        If a single channel is left beside a counter.
    """
    rows = min(_ROWS, recording.n_samples, max(_FEWEST, _MOST_NUMBERS // recording.n_channels))
    try:
        first = next(block.copy() for _, block in recording.read_blocks(rows, 0, rows))
    except (IgbssError, StopIteration):  # whoever reads the samples gets the error
        return
    counting = {}
    if not recording.is_selection and rows >= _FEWEST:
        found = [find_counter(first[:, i]) for i in range(recording.n_channels)]
        counting = {i: each for i, each in enumerate(found) if each is not None}
    if 0 < len(counting) < recording.n_channels:
        names = ", ".join(
            f"{printable(recording.channels[i])} {each.describe()}"
            for i, each in list(counting.items())[:4]
        )
        if recording.n_channels - len(counting) < 2:
            raise InputError(
                f"{str(recording.path)!r} has one channel beside those that count samples ({names}); "
                "separation needs at least 2. Pass --channels to read a counter as a channel"
            )
        recording.leave_out(
            tuple(counting), f"channels that count samples are omitted: {names}; --channels reads them"
        )
        first = np.delete(first, list(counting), axis=1)
    outstanding = find_outstanding_value(first) if recording.missing is None else None
    if outstanding is not None:
        value, n = outstanding
        recording.add_note(
            f"{value:g} occurs {n} times in the first {rows} rows and stands out; if it means that "
            f"samples are missing, pass --missing {value:g}"
        )
