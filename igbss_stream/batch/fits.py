"""Write how the fit of each window went."""

import numpy as np

from igbss_stream.batch.windows import FitWindow
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from igbss_stream.separation.result import Separation

FIT = np.dtype(
    [
        ("start", "i8"),
        ("n_samples", "i8"),
        ("n_iter", "i8"),
        ("kl", "f8"),
        ("kl_row", "i8"),
        ("converged", "?"),  # last, because some readers cannot find fields after an enumeration
    ]
)


class FitWriter:
    """Write ``fits``, one row per window, and ``fits_kl``, the divergence of each iteration.

    Parameters
    ----------
    sink : Hdf5Sink
    n_windows : int
        Number of windows to fit.

    Attributes
    ----------
    n_windows : int
    n_failed : int
        Number of fits so far that did not converge.
    """

    def __init__(self, sink: Hdf5Sink, n_windows: int) -> None:
        self.n_windows, self.n_failed = n_windows, 0
        self._sink, self._n_values = sink, 0
        sink.create("fits", (n_windows,), FIT)

    def add(self, window: FitWindow, separation: Separation) -> None:
        """Append the fit of the next window."""
        kl, converged = separation.kl, separation.converged
        row = (window.row, window.n_samples, separation.n_iter, kl[-1], self._n_values, converged)
        self._sink.append("fits", np.array([row], FIT))
        self._sink.gather("fits_kl", kl)
        self._n_values += len(kl)
        self.n_failed += not converged
