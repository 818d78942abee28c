"""Add the bad channels to the cleaned channels, interpolated from the good ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.bad_channels.splines import SphericalSplines
from igbss_stream.errors import InputError, printable
from igbss_stream.files.recording import Recording


class BadChannelInterpolation:
    """Interpolates the bad channels of a recording by spherical splines.

    Parameters
    ----------
    recording : Recording
        As stored, not prepared.
    good, bad : sequence of str
        Names of the channels that are separated, and of those that are not because they are bad.

    Attributes
    ----------
    channels : list of str
        Names of all of them, in the order of the recording.

    Raises
    ------
    InputError
        If the place of a bad channel, or of enough good ones, is not known.
    """

    def __init__(self, recording: Recording, good: Sequence[str], bad: Sequence[str]) -> None:
        self.channels = [name for name in recording.channels if name in {*good, *bad}]
        splines = SphericalSplines(self.channels, recording.positions)
        self._good, self._bad = (
            np.array([self.channels.index(name) for name in names], np.intp) for names in (good, bad)
        )
        if not splines.can_interpolate(self._bad, self._good):
            lost = [name for name, i in zip(bad, self._bad, strict=True) if not splines.is_located[i]]
            what = splines.reason or (
                f"the position of {', '.join(map(printable, lost))} is not known"
                if lost
                else "fewer than four good channels have positions"
            )
            raise InputError(
                f"bad channels cannot be interpolated: {what}. Pass positions with --montage, name "
                "channels by the 10-20 system, or omit --interpolate-bads."
            )
        self._weights = splines.compute_weights(self._bad, self._good)

    def add_to(self, cleaned: NDArray[Any]) -> NDArray[Any]:
        """Return the good channels with the bad ones, (samples, all channels).

        Parameters
        ----------
        cleaned : ndarray of shape (samples, good channels)
        """
        out = np.empty((len(cleaned), len(self.channels)), cleaned.dtype)
        out[:, self._good] = cleaned
        # not by BLAS: the order of its sums depends on the number of samples
        out[:, self._bad] = np.einsum("mi,ij->mj", cleaned.astype(np.float64), self._weights)
        return out
