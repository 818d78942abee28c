"""A structure learned from a survey, in the terms of the model and as the stage that separates."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import IgbssWarning, InputError
from igbss_stream.model.poset import Poset
from igbss_stream.model.structure import back_project, learn_structure, rescale_like
from igbss_stream.separation.e_projection import check_positive
from igbss_stream.separation.linear import LinearStage
from igbss_stream.separation.polynomial import PolynomialStage
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.statistics import Survey
from igbss_stream.separation.transform import Centred, Exp, Transform

Array = NDArray[np.float64]
Stage = LinearStage | PolynomialStage
_LEAST_SAMPLES = 3  # a source, to learn a structure from: with fewer, any direction can look separated


@dataclass(frozen=True, eq=False)
class Prepared:
    """What was learned.

    Parameters
    ----------
    transform : Transform
        Centred, so that log v has mean zero.
    poset : Poset
        The sample space.
    stage : LinearStage or PolynomialStage
        From samples to sources.
    losses : tuple of float
        Negative log-likelihood a sample before each step, see `igbss_stream.model.structure`; none where
        products are learned, whose loss changes from step to step.
    """

    transform: Transform
    poset: Poset
    stage: Stage
    losses: tuple[float, ...] = ()


def learned_structure(
    survey: Survey, settings: ModelSettings, transform: Transform, previous: Stage | None
) -> Prepared:
    """Learn a structure.

    Parameters
    ----------
    survey : Survey
        Checked, with an excerpt.
    settings : ModelSettings
    transform : Transform
        With its state.
    previous : LinearStage, optional
        Where to start from; order, signs and scale are kept.

    Returns
    -------
    Prepared

    Raises
    ------
    InputError
        If there are too few samples, a channel rests in them, or they have no logarithm.

    Warns
    -----
    IgbssWarning
        If there are fewer sources than channels because the rank is lower.
    """
    n_sources = survey.rank if settings.n_sources is None else settings.n_sources
    excerpt = _excerpt(survey, n_sources)
    if settings.n_sources is None and n_sources < excerpt.shape[1]:
        warnings.warn(
            f"the {excerpt.shape[1]} channels have rank {n_sources} (as after average reference or ICA "
            f"cleaning): {n_sources} sources are separated.",
            IgbssWarning,
            stacklevel=5,
        )
    if settings.has_products:
        return _products(excerpt, n_sources, settings, transform)
    return _linear(excerpt, survey.excerpt_breaks, n_sources, settings, transform, previous)


def _excerpt(survey: Survey, n_sources: int) -> Array:
    """Return the samples to learn from."""
    if survey.n_seen < _LEAST_SAMPLES * n_sources:
        raise InputError(
            f"a structure of {n_sources} sources is learned from at least {_LEAST_SAMPLES * n_sources} "
            f"samples. Got {survey.n_seen} instead; use structure 'systematic', or fewer sources."
        )
    excerpt = survey.excerpt
    resting = np.flatnonzero(np.ptp(excerpt, axis=0) == 0)
    if resting.size:
        raise InputError(
            f"{survey.names[resting[0]]} rests in all stretches that a structure is learned from, as a "
            "trigger does. Leave the channel out."
        )
    return excerpt


def _linear(
    x: Array,
    breaks: Sequence[int],
    n_sources: int,
    settings: ModelSettings,
    transform: Transform,
    previous: Stage | None,
) -> Prepared:
    if not isinstance(transform, Exp):
        x = transform.log(x)
        check_positive(x, "structure 'learned'", 0)
    if previous is not None:
        learned = rescale_like(
            learn_structure(x, n_sources, previous.unmixing[0], breaks), previous.mixing[0]
        )
    else:
        learned = learn_structure(x, n_sources, None, breaks)
        if settings.scaling == "back-projected":
            learned = back_project(learned)
    weights, inverse = learned.mixing[None], learned.unmixing[None]
    if isinstance(transform, Exp):
        unit, mean = transform.unit, learned.mean
        transform = replace(transform, center=mean)
    else:
        unit, mean = 1.0, None
        transform = Centred(transform, learned.mean)
    poset = Poset(weights / unit, 1, settings.closure, inverse * unit)
    return Prepared(transform, poset, LinearStage(weights, inverse, mean), learned.losses)


def _products(x: Array, n_sources: int, settings: ModelSettings, transform: Transform) -> Prepared:
    from igbss_stream.model.interactions.learn import learn_interactions  # its kernels are for this alone

    if not isinstance(transform, Exp):
        raise TypeError("products are learned with transform 'exp'")
    stage = PolynomialStage(learn_interactions(x, n_sources, settings.order))
    own, unit = stage.mixing[:, :, :n_sources], transform.unit
    poset = Poset(own / unit, settings.order, settings.closure, stage.unmixing * unit)
    return Prepared(replace(transform, center=stage.mean), poset, stage)
