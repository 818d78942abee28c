"""Separate a whole array of samples: the function `separate`."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from igbss_stream._util.dtypes import as_samples
from igbss_stream.separation.parameters import Start
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.result import Separation
from igbss_stream.separation.settings import ModelSettings
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
    view: float | None = None,
    drift: str = "remove",
    previous: Separation | None = None,
) -> Separation:
    """Separate the sources behind a set of channels.

    Parameters
    ----------
    x : array-like of shape (samples, channels)
        Real numbers. float64 and integers of at least 32 bits are processed in float64, all other types
        in float32.
    n_sources : int, optional
        Number of sources. Default: the number of channels, or of columns of a matrix; the rank of the
        samples if the structure is learned.
    structure : {"learned", "systematic", "cyclic", "random"} or array-like, default="learned"
        Which sources reach which channels: "learned" from the samples; "systematic", where source n misses
        channel n, as published; "cyclic", where the missed channel moves from sample to sample; or
        "random", where each source misses a channel drawn at random. A matrix (channels, sources) contains
        finite weights, at least 0.
    order : int, default=1
        Largest number of sources that interact. Above 1, a learned structure includes products of up to
        this number of sources, which requires few sources and several thousand samples.
    transform : {"exp", "min-max", "sum"} or Transform, default="exp"
        How samples become probabilities: "exp", "min-max" or "sum". An object of
        `igbss_stream.separation.transform` has a scale of your choice.
    closure : {"strict", "full"}, default="strict"
        Which received nodes are above a mixing node: those that its sources reach ("strict"), or all of
        them ("full").
    solver : {"auto", "closed-form", "joint", "blocked", "gradient"}, default="auto"
        Solver of the fit: "closed-form", "joint", "blocked" or "gradient". "auto" uses the closed form
        where it is exact, otherwise the joint natural gradient ("joint").
    latent_mass : float, default=0.0
        Share of probability on the latent states, below 1. Above 0, the optimum is unique and in the
        interior.
    init : {"zero", "random"} or (theta_z, theta_a), default="zero"
        Start of a fit: "zero" or "random". A pair contains the natural parameters to start from.
    tol : float, default=1e-10
        Largest relative gradient of a converged fit: the deviation of eta from eta_hat, divided by eta_hat.
    max_iter : int, default=1000
        Largest number of iterations of a fit.
    random_state : int or numpy.random.Generator, optional
        Seed of structure "random" and init "random".
    scaling : {"unit-variance", "back-projected"}, default="unit-variance"
        Scale of learned sources: "unit-variance", with the unit in the mixing; or "back-projected", in the
        unit of the channel where each source is strongest.
    view : float, optional
        Ridge of the view of the sources that a structure is learned from: 0 for innovations, which are most
        accurate without sensor noise; 20 for a robust view, close to the samples. Default: the most
        accurate view that the samples do not contradict.
    drift : {"remove", "keep"}, default="remove"
        Slow drift that dominates the samples: "remove" it from the copy that a structure is learned from,
        or "keep" it. The sources are those of the samples as they are.
    previous : Separation, optional
        Result for earlier samples of the same channels. A learned structure starts from it, and keeps its
        order, signs, scale and view.

    Returns
    -------
    Separation

    Raises
    ------
    ParameterError
        If a parameter cannot be used.
    InputError
        If the samples cannot be separated; the message states which and why.

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
        view=view,
        drift=drift,
    )
    samples = as_samples(x)
    names = [f"channel {i}" for i in range(samples.shape[1])]
    before = None if previous is None else previous.stage
    if view is None and previous is not None:
        settings = replace(settings, view=previous.view)  # sources hold while the view does
    separator = SeparationPlan(settings, samples.shape[1], before).prepare_for(samples, names)
    return separator.separate_window(samples)
