"""Compute covariances of channels in frequency bands."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_MAX_BANDS = 32
_MIN_BINS = 50  # per band


@dataclass(frozen=True)
class Bands:
    """Covariances of channels in bands of equal width.

    Parameters
    ----------
    covariances : ndarray of shape (bands, channels, channels)
        Their weighted mean over the bands is the covariance of the samples.
    weights : ndarray of shape (bands,)
        Sum to 1.
    """

    covariances: Array
    weights: Array


def compute_bands(x: Array) -> Bands:
    """Return the band covariances of channels, (channels, samples)."""
    n_samples = x.shape[1]
    spectrum = np.fft.rfft(x, axis=1)[:, 1:]
    spectrum *= math.sqrt(2.0) / n_samples
    n_bins = spectrum.shape[1]
    edges = np.linspace(
        0, n_bins, min(_MAX_BANDS, max(1, n_bins // max(_MIN_BINS, 2 * len(x)))) + 1
    ).astype(int)
    parts = [spectrum[:, a:b] for a, b in itertools.pairwise(edges)]
    covariances = np.array([(part @ part.conj().T).real / part.shape[1] for part in parts])
    return Bands(covariances * n_bins, np.diff(edges) / n_bins)


def compute_overlap(bands: Bands) -> float:
    """Return the overlap of the spectra of two sources of white channels, the mean over all pairs.

    It is 1 for white sources. Divided by the number of samples, it is the variance of the correlation that
    two independent sources have by chance. A rotation of the channels does not change it.
    """
    spectrum = np.trace(bands.covariances, axis1=1, axis2=2) / bands.covariances.shape[1]
    return float(bands.weights @ spectrum**2)
