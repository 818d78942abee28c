"""Cross-fade from the prediction of a channel to its samples once it is good again."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


class Fades:
    """Channels that are faded in.

    Parameters
    ----------
    n_samples : int
        Length of a cross-fade.
    """

    def __init__(self, n_samples: int) -> None:
        self._n, self._since = n_samples, dict[int, int]()

    def __bool__(self) -> bool:
        return bool(self._since)

    def begin(self, channel: int, index: int) -> None:
        """Fade in a channel from a sample on."""
        self._since[channel] = index

    def end(self, channel: int) -> None:
        """Fade in a channel no longer."""
        self._since.pop(channel, None)

    def forget_before(self, start: int) -> None:
        """Forget fades that are complete."""
        self._since = {i: since for i, since in self._since.items() if start < since + self._n}

    def mark(self, predicted: Mask, start: int) -> None:
        """Mark the samples, (samples, channels), that are part of a fade; the first has index `start`."""
        for channel, since in self._since.items():
            predicted[: since + self._n - start, channel] = True

    def mix(
        self,
        given: NDArray[Any],
        replaced: Mask,
        estimate: NDArray[Any],
        channels: NDArray[np.int_],
        index: NDArray[np.int_],
    ) -> NDArray[Any]:
        """Return the estimate of channels, or the cross-fade from it to the samples given."""
        if not self._since:
            return estimate
        since = np.array([self._since.get(int(i), 0) for i in channels])
        rising = (index[:, None] - since + 1.0) / (self._n + 1.0)
        weight = np.where(replaced, 0.0, np.minimum(rising, 1.0))
        return np.asarray(weight * np.where(replaced, 0, given) + (1 - weight) * estimate)
