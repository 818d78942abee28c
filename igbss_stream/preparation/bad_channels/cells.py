"""Judge the channels of a cell, about a second of samples, by what the others predict."""

import numpy as np
from numpy.typing import NDArray

from igbss_stream.bad_channels.measures import measure_spread
from igbss_stream.preparation.bad_channels.predictor import Array, ChannelPredictor, Mask

_CELLS_TO_LEARN = 8  # before which no channel is unlike the others
_TIMES_OTHERS = 4.0  # least deviation of a channel, as a multiple of the median of all
_MOST_AT_ONCE = 4  # of how many channels at most one can be bad: more are an event of all


class CellJudge:
    """Find channels that deviate from what the others predict, and those that do so no longer.

    Parameters
    ----------
    predictor : ChannelPredictor
    limit : float
        Largest deviation, as a multiple of the usual one.
    """

    def __init__(self, predictor: ChannelPredictor, limit: float) -> None:
        self._predictor, self._limit = predictor, limit

    def find_deviations(self, rows: Array, used: Mask) -> dict[int, float]:
        """Return the channels that deviate, with their deviation as a multiple of the usual one.

        Parameters
        ----------
        rows : ndarray of shape (samples, channels)
            A cell without its mean and slope.
        used : ndarray of shape (channels,)
            Which channels are not left out.

        Returns
        -------
        dict of int to float
            Channels in the order in which they were found, the worst first: it affects the prediction of
            the others, so they are judged without it. Empty if too many deviate.
        """
        left, found = np.flatnonzero(used & self._predictor.is_known), dict[int, float]()
        if self._predictor.n_cells < _CELLS_TO_LEARN:
            return found
        most = len(left) // _MOST_AT_ONCE
        while len(left) > 2:
            errors, usual = self._predictor.compute_errors(rows, left)
            ratios = measure_spread(errors) / usual
            worst = int(np.argmax(ratios))
            ratio = float(ratios[worst])
            if not (ratio > self._limit and ratio > _TIMES_OTHERS * np.median(ratios)):
                return found
            if len(found) >= most:
                return {}
            found[int(left[worst])] = ratio
            left = np.delete(left, worst)
        return found

    def measure_deviation(self, errors: Array, channel: int, others: NDArray[np.int_]) -> float:
        """Return the deviation of a channel that is left out, as a multiple of the usual one.

        Parameters
        ----------
        errors : ndarray of shape (samples,)
            Samples of the channel less their prediction, without their mean and slope.
        channel : int
        others : ndarray of int
            Channels that predict it.
        """
        usual = self._predictor.compute_usual_error(channel, others)
        spread = float(measure_spread(errors[:, None])[0])
        return spread / usual if usual > 0 else 0.0
