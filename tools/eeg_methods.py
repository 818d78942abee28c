"""The methods that tools/bench_eeg.py compares, each from channels to an unmixing matrix.

All of them get the same channels, and those of the field the same whitening. Each has the settings that its
users get: extended where it may be, its own tolerance, and enough iterations to reach it.
"""

import logging
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from igbss_stream import separate

Array = NDArray[np.float64]

LEAST_VARIANCE = 1e-10  # of a principal direction, as a share of the largest; below it lies rounding
_ITERATIONS = 1000


@dataclass(frozen=True)
class Decomposer:
    """A way to find an unmixing matrix.

    Parameters
    ----------
    title : str
    fit : callable
        From centred channels (samples, channels) and the number of sources to (sources, channels).
    needs : str, optional
        The module that must be importable.
    package : str, optional
        What to install for it.
    """

    title: str
    fit: Callable[[Array, int], Array]
    needs: str | None = None
    package: str | None = None

    @property
    def is_installed(self) -> bool:
        """Whether the module that is needed can be imported."""
        return self.needs is None or find_spec(self.needs) is not None


def compute_whitening(x: Array, n_sources: int) -> Array:
    """Return the whitening by leading principal directions, (sources, channels)."""
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    return np.asarray((vectors[:, ::-1] / np.sqrt(np.abs(values[::-1])))[:, :n_sources].T)


def count_sources(x: Array) -> int:
    """Return the number of directions of centred channels that have variance."""
    values = np.linalg.eigvalsh(np.corrcoef(x.T))
    return int(np.sum(values > LEAST_VARIANCE * values[-1]))


def fit_igbss(x: Array, n_sources: int) -> Array:
    """Learn the structure with the default settings."""
    return np.asarray(separate(x, n_sources=n_sources).unmixing)


def fit_fastica(x: Array, n_sources: int) -> Array:
    """Run scikit-learn's FastICA: symmetric, logcosh."""
    from sklearn.decomposition import FastICA

    model = FastICA(n_sources, whiten="unit-variance", random_state=0, max_iter=_ITERATIONS)
    return np.asarray(model.fit(x).components_)


def fit_picard(x: Array, n_sources: int) -> Array:
    """Run extended Picard with uncorrelated sources, its default."""
    from picard import picard

    whitening = compute_whitening(x, n_sources)
    rotation = picard(
        whitening @ x.T,
        whiten=False,
        ortho=True,
        extended=True,
        random_state=0,
        max_iter=_ITERATIONS,
    )[1]
    return np.asarray(rotation @ whitening)


def fit_infomax(x: Array, n_sources: int) -> Array:
    """Run MNE's extended infomax."""
    from mne.preprocessing import infomax

    whitening = compute_whitening(x, n_sources)
    rotation = infomax(
        x @ whitening.T, extended=True, rng=np.random.RandomState(0), max_iter=_ITERATIONS, verbose="error"
    )
    return np.asarray(rotation @ whitening)


def fit_amica(x: Array, n_sources: int, max_iter: int = 500) -> Array:
    """Run AMICA by jamica: one model, three densities a source, its own tolerance."""
    os.environ.setdefault("AMICA_NO_JAX", "1")  # on one core it is not slower, and JAX would take them all
    from jamica import amica

    logging.getLogger("jamica").setLevel(logging.ERROR)  # its progress
    whitening = compute_whitening(x, n_sources)
    rotation = amica(whitening @ x.T, whiten=False, random_state=0, max_iter=max_iter)[1]
    return np.asarray(rotation @ whitening)


METHODS = {
    "igbss": Decomposer("igbss_stream", fit_igbss),
    "picard": Decomposer("Picard", fit_picard, "picard", "python-picard"),
    "fastica": Decomposer("FastICA", fit_fastica, "sklearn", "scikit-learn"),
    "infomax": Decomposer("infomax (MNE)", fit_infomax, "mne", "mne"),
    "amica": Decomposer("AMICA (jamica)", fit_amica, "jamica", "jamica"),
}


def fit_quietly(method: Decomposer, x: Array, n_sources: int) -> tuple[Array, list[str]]:
    """Return the unmixing matrix, and the first line of each warning: of convergence, for the most part."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        unmixing = method.fit(x, n_sources)
    said = [str(each.message).partition("\n")[0] for each in caught if _is_for_users(each)]
    return unmixing, list(dict.fromkeys(said))


def _is_for_users(said: warnings.WarningMessage) -> bool:
    return not issubclass(said.category, DeprecationWarning | FutureWarning | PendingDeprecationWarning)


def warm_up(method: Decomposer) -> None:
    """Separate a little noise, so that what is imported and compiled first is not timed."""
    fit_quietly(method, np.random.default_rng(0).laplace(size=(600, 3)), 3)
