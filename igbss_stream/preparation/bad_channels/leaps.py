"""Find single samples that are far from what the other channels predict."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from igbss_stream.model.kernels import channels
from igbss_stream.preparation.bad_channels.predictor import Array, ChannelPredictor, DeviationTest, Mask

_CELLS_TO_LEARN = 7  # before which no sample is a leap
_TIMES_USUAL = 3.0  # of the largest deviation so far
_LEAST = 15.0  # standard deviations
_TIMES_OTHERS = 10.0  # of the median of the channels: muscle makes all of them hard to predict
_MOST_AT_ONCE = 4  # of how many channels at most one can leap: more are an event of all
_NONE, _NOTHING = np.zeros(0, np.int64), np.zeros((2, 0), np.float32)  # channels, and found in them


class Screen:
    """A test in single precision, which nearly all samples pass, and what it has found so far.

    Only channels that the others explain are compared with their prediction: the rest may do as they like.

    Parameters
    ----------
    test : DeviationTest
    usual : ndarray of shape (all channels,)
        Largest deviation of each channel so far.
    least : float
        Least deviation that is a leap.
    dtype : dtype
        Of the samples.

    Attributes
    ----------
    test : DeviationTest
    channels : ndarray of int, of shape (used,)
        Channels that are compared with their prediction.
    center, weights, bounds, found : ndarray
        See `igbss_stream.model.kernels.channels.screen`.
    n_samples : int
        Number of samples that were compared.
    """

    def __init__(self, test: DeviationTest, usual: Array, least: float, dtype: DTypeLike) -> None:
        self.test, self.channels, self.weights = test, test.explained, test.screen_weights
        self.center, rounding = np.empty(len(usual), dtype), np.empty(len(usual), np.float32)
        self.bounds = np.empty((2, len(self.channels)), np.float32)
        channels.begin_screen(
            test.level, usual, self.channels, least, _TIMES_USUAL, self.center, rounding, self.bounds[1]
        )
        with np.errstate(invalid="ignore"):
            self.bounds[0] = rounding @ self.weights[: len(rounding)]  # the rounding of a high level
        self.found = np.zeros((2, len(self.channels)), np.float32)
        self.n_samples = 0


class LeapDetector:
    """Compare samples with the prediction by the other channels.

    Parameters
    ----------
    n_channels : int
    patience : int
        Number of samples after a leap in which a channel is not trusted: it may pass through what is usual.
    dtype : dtype
        Of the samples.

    Attributes
    ----------
    is_trusted : bool
        Whether all channels are trusted.
    usual : ndarray of shape (channels,)
        Largest deviation of a sample of a good channel so far.
    n_cells : int
        Number of cells that this was learned from.
    """

    def __init__(self, n_channels: int, patience: int, dtype: DTypeLike) -> None:
        self._patience, self._dtype = patience, dtype
        self._n_since = np.full(n_channels, patience, np.int64)  # samples since the last leap
        self.is_trusted = True
        self._largest = np.zeros(n_channels)  # deviation of a sample in this cell, by earlier screens
        self._screen: Screen | None = None
        self._predictor: ChannelPredictor | None = None  # which the screen is from, ...
        self._left_out: Mask | None = None  # ... with these channels left out
        self.usual = np.zeros(n_channels)
        self.n_cells = 0

    def set_usual(self, usual: Array, n_cells: int) -> None:
        """Set what is usual, as an earlier run of the stream learned it.

        Parameters
        ----------
        usual : ndarray of shape (channels,)
        n_cells : int
        """
        self.usual, self.n_cells = usual.copy(), n_cells

    def get_screen(self, predictor: ChannelPredictor, left_out: Mask) -> Screen:
        """Return the screen for the next samples, in which some channels are left out."""
        screen = self._screen
        if screen is not None and predictor is self._predictor and left_out is self._left_out:
            return screen  # nearly always
        self._predictor, self._left_out = predictor, left_out
        test = predictor.get_test(left_out)
        if screen is None or test is not screen.test:
            self._end_screen()
            screen = self._screen = Screen(test, self.usual, self._least, self._dtype)
        return screen

    def find(self, predictor: ChannelPredictor, x: NDArray[Any], left_out: Mask) -> Mask | None:
        """Return which samples are leaps.

        Parameters
        ----------
        predictor : ChannelPredictor
        x : ndarray of shape (samples, channels)
            Samples of the channels that are not left out are finite.
        left_out : ndarray of shape (channels,)

        Returns
        -------
        ndarray of shape (samples, channels), or None
            None if there are none. There are none in rows where more than a quarter of the channels would
            be one.
        """
        screen, is_far = self.get_screen(predictor, left_out), np.empty(len(x), bool)
        if left_out.any():
            x = np.where(left_out, screen.center, x)
        screen.n_samples += len(x)
        if not channels.find_far(
            x, screen.center, screen.weights, screen.bounds[0], screen.bounds[1], screen.found, is_far
        ):
            return None
        leaps, rows = np.zeros(x.shape, bool), np.flatnonzero(is_far)
        marking = _Marking(predictor, x, self._get_limits, leaps)
        most = int((~left_out).sum()) // _MOST_AT_ONCE
        marking.mark(rows, np.full(len(rows), np.inf), marking.measure(rows, left_out), left_out, most)
        return leaps if leaps.any() else None

    def extend(self, leaps: Mask | None, n_samples: int) -> Mask | None:
        """Return leaps with the samples after them, of the next samples of the stream."""
        if leaps is None:
            if self.is_trusted:
                return None
            leaps = np.zeros((n_samples, len(self._n_since)), bool)
        rows = np.arange(n_samples)[:, None]
        latest = np.maximum.accumulate(np.where(leaps, rows, -1 - self._n_since), axis=0)
        n_since = rows - latest
        self._n_since = np.minimum(n_since[-1], self._patience)
        self.is_trusted = bool((self._n_since >= self._patience).all())
        return np.asarray(n_since < self._patience)

    def skip(self) -> None:
        """Note that a cell is incomplete: nothing is learned from it."""
        self._screen, self._largest[:] = None, 0.0

    def finish_cell(self, good: Mask, n_samples: int, *, is_learned: bool) -> float | None:
        """End a cell, and learn what is usual from the channels that were good in it.

        Parameters
        ----------
        good : ndarray of shape (channels,)
        n_samples : int
            Of the cell.
        is_learned : bool
            Whether deviations were measured in the cell.

        Returns
        -------
        float or None
            Largest sum of the squares of the deviations of a channel over the cell, of those that the
            others explain; None if they are not all by one test.
        """
        screen, self._screen = self._screen, None
        found, used = (_NOTHING, _NONE) if screen is None else (screen.found, screen.channels)
        power = channels.finish_deviations(found, used, good, is_learned, self._largest, self.usual)
        self.n_cells += is_learned
        return power if screen is not None and screen.n_samples == n_samples else None

    def _end_screen(self) -> None:
        """Keep the largest deviations that the screen has found."""
        if self._screen is not None:
            at = self._screen.channels
            self._largest[at] = np.fmax(self._largest[at], self._screen.found[0])
        self._screen = None

    @property
    def _least(self) -> float:
        """Least deviation that is a leap, in any channel."""
        return _LEAST if self.n_cells >= _CELLS_TO_LEARN else np.inf

    def _get_limits(self, test: DeviationTest) -> Array:
        """Return the largest deviation of each channel that is no leap."""
        limits = np.full(len(self.usual), np.inf)
        usual = self.usual[test.explained]  # 0 of channels that the others explain since this cell
        limits[test.explained] = np.where(usual > 0, np.maximum(self._least, _TIMES_USUAL * usual), np.inf)
        return limits


class _Marking:
    """Mark the leaps of some samples.

    Parameters
    ----------
    predictor : ChannelPredictor
    x : ndarray of shape (samples, channels)
    get_limits : callable
        Returns the limits of the channels by a test.
    leaps : ndarray of shape (samples, channels)
        To be filled.
    """

    def __init__(self, predictor: ChannelPredictor, x: NDArray[Any], get_limits: Any, leaps: Mask) -> None:
        self._predictor, self._x, self._get_limits, self._leaps = predictor, x, get_limits, leaps

    def mark(
        self, rows: NDArray[np.int_], least: Array, distance: Array, left_out: Mask, n_left: int
    ) -> None:
        """Mark the worst channel of each row, then judge the row without it.

        `least` is the smallest distance of the channels that were marked in a row. It must stand out from
        the distances of the others, once they are predicted without the marked channels.
        """
        ratio = distance / self._find_limits(left_out)
        worst = ratio.argmax(axis=1)
        is_far = ratio[np.arange(len(rows)), worst] > 1.0
        if not is_far.any() and np.isinf(least).all():
            return
        stands_out = least > _TIMES_OTHERS * np.median(distance[:, ~left_out], axis=1)
        self._leaps[rows[(is_far & (n_left == 0)) | (~is_far & ~stands_out)]] = False
        self._unmark_swamped(rows, left_out)
        far = np.flatnonzero(is_far) if n_left else np.empty(0, np.int64)
        for channel in np.unique(worst[far]):
            at = far[worst[far] == channel]
            self._leaps[rows[at], channel] = True
            without = left_out.copy()
            without[channel] = True
            again = self.measure(rows[at], without)
            nearest = np.minimum(least[at], distance[at, channel])
            self.mark(rows[at], nearest, again, without, n_left - 1)

    def measure(self, rows: NDArray[np.int_], left_out: Mask) -> Array:
        """Return the distances of rows, (rows, channels); 0 for channels that do not take part."""
        test = self._predictor.get_test(left_out)
        distance = np.zeros((len(rows), self._x.shape[1]))
        distance[:, test.channels] = np.abs(self._predictor.compute_deviations(self._x[rows], test))
        return distance

    def _find_limits(self, left_out: Mask) -> Array:
        return np.asarray(self._get_limits(self._predictor.get_test(left_out)))

    def _unmark_swamped(self, rows: NDArray[np.int_], left_out: Mask) -> None:
        """Unmark channels that only seemed far from others because these leap."""
        marked = self._leaps[rows]
        for channel in np.flatnonzero(marked.any(axis=0)) if (marked.sum(axis=1) > 1).any() else ():
            at = np.flatnonzero(marked[:, channel])
            with_it = left_out.copy()
            with_it[channel] = False
            distance = self.measure(rows[at], with_it)[:, channel]
            limit = self._find_limits(with_it)[channel]
            self._leaps[rows[at[distance <= limit]], channel] = False
