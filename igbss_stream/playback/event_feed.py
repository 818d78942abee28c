"""Release the events of a recording together with its samples."""

import numpy as np

from igbss_stream.events import Events


class EventFeed:
    """Release each event when the sample that it belongs to has been released.

    Parameters
    ----------
    events : Events
        Sorted by index, as in a table.
    period : int, optional
        Number of indices after which the recording, and its events, begin again.
    """

    def __init__(self, events: Events, period: int | None = None) -> None:
        self._events, self._period = events, period
        self._n_taken = 0  # in this pass over the recording
        self._offset = 0  # index of the first sample of this pass

    def take(self, stop: int) -> Events:
        """Return the events of the samples before an index that were not returned before.

        Parameters
        ----------
        stop : int
            Index after the last released sample.
        """
        if not len(self._events):
            return self._events
        parts = []
        while True:
            n = int(np.searchsorted(self._events.index, stop - self._offset - 0.5))
            part = self._events[self._n_taken : n]
            parts.append(part.move(part.index + self._offset))
            self._n_taken = max(n, self._n_taken)
            if self._period is None or stop < self._offset + self._period:
                return Events.join(parts)
            self._offset += self._period
            self._n_taken = 0
