"""Re-reference channels: subtract the mean of some of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError, printable
from igbss_stream.preparation.settings import AVERAGE


class Reference:
    """Subtract the mean of the reference channels; drop a single reference, which would be zero.

    Parameters
    ----------
    reference : {"average"}, tuple of str or None
        See `Preparation`.
    channels : sequence of str
    excluded : sequence of int
        Channels to exclude, also from the mean.

    Attributes
    ----------
    kept : tuple of int
        Channels of the output.

    Raises
    ------
    ParameterError
        If a channel does not exist.
    """

    def __init__(
        self,
        reference: str | tuple[str, ...] | None,
        channels: Sequence[str],
        excluded: Sequence[int] = (),
    ) -> None:
        kept = [i for i in range(len(channels)) if i not in excluded]
        self._reference: list[int] = kept if reference == AVERAGE else []
        if reference is not None and reference != AVERAGE:
            self._reference = [_find_channel(name, channels, kept) for name in reference]
        if len(self._reference) == 1:
            kept.remove(self._reference[0])
        if len(kept) < 2:
            raise ParameterError(
                f"reference leaves {len(kept)} of {len(channels)} channels; separation needs at least 2.",
                parameter="reference",
            )
        self.kept_channels = tuple(kept)
        self._keeps_all = len(kept) == len(channels)

    def apply(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return a new array of samples with the reference subtracted, in float64.

        Parameters
        ----------
        x : array of shape (samples, channels)
        """
        y = x.astype(np.float64) if self._keeps_all else x[:, self.kept_channels].astype(np.float64)
        if self._reference and len(x):
            # A cumulative sum adds the channels in the same order for any number of rows.
            y -= np.cumsum(x[:, self._reference], axis=1, dtype=np.float64)[:, -1:] / len(self._reference)
        return y


def _find_channel(name: str, channels: Sequence[str], kept: Sequence[int]) -> int:
    positions = [i for i, channel in enumerate(channels) if channel == name]
    if len(positions) != 1:
        names = ", ".join(map(printable, channels[:8])) + (", ..." if len(channels) > 8 else "")
        what = "no channel" if not positions else "more than one channel"
        raise ParameterError(
            f"reference names {printable(name)}, which is {what} of these: {names}.", parameter="reference"
        )
    if positions[0] not in kept:
        raise ParameterError(
            f"reference names {printable(name)}, which is flat or bad, and excluded; name others.",
            parameter="reference",
        )
    return positions[0]
