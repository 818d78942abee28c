"""The linear stage: sources from samples and samples from sources, one sample at a time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError
from igbss_stream.model import _sample_kernels
from igbss_stream.model.poset import Poset
from igbss_stream.transform import Transform


def unmix(
    poset: Poset, x: NDArray[Any], start: int = 0, mean: NDArray[np.float64] | None = None
) -> NDArray[Any]:
    """Return the pseudo-inverse of W applied to each sample, the same to the bit however x is cut.

    Parameters
    ----------
    poset : Poset
    x : ndarray of shape (samples, channels)
        C-ordered float32 or float64.
    start : int
        Index of the first sample, where the incidence has periods.
    mean : ndarray of shape (channels,), optional
        Taken off the samples first; for an incidence that does not change from sample to sample.

    Returns
    -------
    ndarray of shape (samples, sources), of the type of x
    """
    out = np.empty((len(x), poset.n_sources), x.dtype)
    cut = poset.cut
    if cut is None or mean is not None:
        offset = np.zeros(poset.n_sources) if mean is None else -poset.unmixing[0] @ mean
        _sample_kernels.unmix(
            x, np.ascontiguousarray(poset.unmixing.transpose(0, 2, 1)), offset, start, out
        )
    else:
        in_order = bool((cut == np.arange(len(cut))).all())
        _sample_kernels.unmix_complement(x, cut, in_order, 1.0 / (len(cut) - 1), out)
    return out


def mix(
    poset: Poset, transform: Transform, sources: NDArray[Any], mean: NDArray[np.float64] | None = None
) -> NDArray[Any]:
    """Return the channels that sources make up: the forward model, without interactions.

    Parameters
    ----------
    poset : Poset
    transform : Transform
        With its state.
    sources : ndarray of shape (samples, sources)
        C-ordered float32 or float64, in the unit of the channels.
    mean : ndarray of shape (channels,), optional
        Added to the channels.

    Returns
    -------
    ndarray of shape (samples, channels), of the type of the sources
    """
    if sources.shape[1] != poset.n_sources:
        raise InputError(f"expected {poset.n_sources} sources, got {sources.shape[1]}.")
    values = sources if transform.linear else transform.log(sources)
    out = np.empty((len(sources), poset.n_channels), values.dtype)
    offset = np.zeros(poset.n_channels) if mean is None else np.asarray(mean, dtype=np.float64)
    _sample_kernels.unmix(values, np.ascontiguousarray(poset.incidence.transpose(0, 2, 1)), offset, 0, out)
    return out if transform.linear else transform.inverse(out).astype(sources.dtype, copy=False)
