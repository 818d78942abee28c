"""The mean of channels, subtracted from each channel."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError, printable
from igbss_stream.preparation.settings import AVERAGE


class Reference:
    """Subtracts the mean of some channels, and leaves out the one that would be zero by it.

    Parameters
    ----------
    reference : {"average"}, tuple of str or None
        See `Preparation`.
    channels : sequence of str
    left_out : sequence of int
        Channels that are left out, also of the mean.

    Attributes
    ----------
    kept : tuple of int
        The channels that come out.

    Raises
    ------
    ParameterError
        If a channel is not there.
    """

    def __init__(
        self,
        reference: str | tuple[str, ...] | None,
        channels: Sequence[str],
        left_out: Sequence[int] = (),
    ) -> None:
        kept = [i for i in range(len(channels)) if i not in left_out]
        self._of: list[int] = kept if reference == AVERAGE else []
        if reference is not None and reference != AVERAGE:
            self._of = [_find_channel(name, channels, kept) for name in reference]
        if len(self._of) == 1:
            kept.remove(self._of[0])
        if len(kept) < 2:
            raise ParameterError(
                f"reference leaves {len(kept)} of {len(channels)} channels; separation needs 2 at least.",
                parameter="reference",
            )
        self.kept_channels = tuple(kept)
        self._keeps_all = len(kept) == len(channels)

    def apply(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return samples with the reference subtracted, in float64; a new array.

        Parameters
        ----------
        x : array of shape (samples, channels)
        """
        y = x.astype(np.float64) if self._keeps_all else x[:, self.kept_channels].astype(np.float64)
        if self._of and len(x):
            # A running sum adds the channels one after the other, whatever the number of rows.
            y -= np.cumsum(x[:, self._of], axis=1, dtype=np.float64)[:, -1:] / len(self._of)
        return y


def _find_channel(name: str, channels: Sequence[str], kept: Sequence[int]) -> int:
    places = [i for i, channel in enumerate(channels) if channel == name]
    if len(places) != 1:
        known = ", ".join(map(printable, channels[:8])) + (", ..." if len(channels) > 8 else "")
        what = "no channel" if not places else "more than one channel"
        raise ParameterError(
            f"reference names {printable(name)}, which is {what} of these: {known}.", parameter="reference"
        )
    if places[0] not in kept:
        raise ParameterError(
            f"reference names {printable(name)}, which is flat and left out; name others.",
            parameter="reference",
        )
    return places[0]
