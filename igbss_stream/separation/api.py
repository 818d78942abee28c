"""From samples to sources, in one call: the function `separate`, which takes a whole array."""

import numpy as np
from numpy.typing import ArrayLike

from igbss_stream._util.dtypes import as_samples
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.result import Separation
from igbss_stream.separation.settings import ModelSettings, Start
from igbss_stream.separation.transform import Transform


def separate(
    x: ArrayLike,
    *,
    n_sources: int | None = None,
    structure: str | ArrayLike = "learned",
    order: int = 1,
    transform: str | Transform = "exp",
    closure: str = "strict",
    solver: str = "auto",
    latent_mass: float = 0.0,
    init: Start = "zero",
    tol: float = 1e-10,
    max_iter: int = 1000,
    random_state: int | np.random.Generator | None = None,
    scaling: str = "unit-variance",
    previous: Separation | None = None,
) -> Separation:
    """Separate the sources behind a set of channels.

    Parameters
    ----------
    x : array-like of shape (samples, channels)
        Real numbers of any type and order; float64 and integers of 32 bits and more are processed in
        float64, all else in float32.
    n_sources, structure, order, transform, closure, solver, latent_mass, init, tol, max_iter
    random_state, scaling
        See `igbss_stream.separation.settings.ModelSettings`.
    previous : Separation, optional
        Of earlier samples of the same channels: a learned structure starts from its structure, and keeps
        its order, signs and scale.

    Returns
    -------
    Separation

    Raises
    ------
    ParameterError
        If an option cannot be used.
    InputError
        If the samples cannot be separated; the message says which and why.

    Notes
    -----
    The model is that of Luo, Azizi, Sugiyama (UAI 2021).

    Examples
    --------
    >>> import numpy as np
    >>> from igbss_stream import separate
    >>> x = np.array([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]])
    >>> separate(x, structure="systematic").sources
    array([[ 2. ,  1. ,  0. ],
           [-0.5,  1.5,  0.5]])
    """
    settings = ModelSettings(
        n_sources=n_sources,
        structure=structure,
        order=order,
        transform=transform,
        closure=closure,
        solver=solver,
        latent_mass=latent_mass,
        init=init,
        tol=tol,
        max_iter=max_iter,
        random_state=random_state,
        scaling=scaling,
    )
    samples = as_samples(x)
    names = [f"channel {i}" for i in range(samples.shape[1])]
    before = None if previous is None else previous.stage
    return Separator(settings, samples.shape[1], before).separate(samples, names)
