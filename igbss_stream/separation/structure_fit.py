"""Learn a structure from a survey, and express it as sample space, stage and transform."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import IgbssWarning, InputError
from igbss_stream.model.learning import Learning
from igbss_stream.model.poset import Poset
from igbss_stream.model.selection import MAX_CORRELATION
from igbss_stream.model.structure import LearnedStructure, back_project, learn_structure, rescale_like
from igbss_stream.separation.e_projection import check_positive
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.stages import LinearStage, PolynomialStage, Stage
from igbss_stream.separation.statistics import Survey
from igbss_stream.separation.transform import Centred, Exp, Transform

Array = NDArray[np.float64]
_SQUARABLE = 1e-100, 1e100  # sizes of samples whose fourth powers neither vanish nor overflow
_MIN_RELIABILITY = 0.0  # dB, without a warning
_N_NAMED = 5  # sources or pairs in a warning
_MIN_SAMPLES = 3  # samples per source, at least: with fewer, any direction can look separated


@dataclass(frozen=True, eq=False)
class StructureFit:
    """A learned structure.

    Parameters
    ----------
    transform : Transform
        Centred: log v has mean zero.
    poset : Poset
        The sample space.
    stage : LinearStage or PolynomialStage
        Maps samples to sources.
    learning : Learning, optional
        How the structure was learned; None for products of sources.
    """

    transform: Transform
    poset: Poset
    stage: Stage
    learning: Learning | None = None


def fit_structure(
    survey: Survey, settings: ModelSettings, transform: Transform, previous: Stage | None
) -> StructureFit:
    """Learn a structure.

    Parameters
    ----------
    survey : Survey
        Checked, with an excerpt.
    settings : ModelSettings
    transform : Transform
        With its state.
    previous : LinearStage, optional
        Where to start; its order, signs and scale are kept.

    Returns
    -------
    StructureFit

    Raises
    ------
    InputError
        If there are too few samples, a channel is constant in them, or they have no logarithm.

    Warns
    -----
    IgbssWarning
        If there are fewer sources than channels because of the rank.
    """
    n_sources = survey.rank if settings.n_sources is None else settings.n_sources
    excerpt = _get_excerpt(survey, n_sources)
    if settings.n_sources is None and n_sources < excerpt.shape[1]:
        warnings.warn(
            f"the {excerpt.shape[1]} channels have rank {n_sources} (as after average reference or ICA "
            f"cleaning): {n_sources} sources are separated.",
            IgbssWarning,
            stacklevel=5,
        )
    if settings.has_products:
        return _learn_polynomial(excerpt, n_sources, settings, transform)
    return _learn_linear(excerpt, survey.excerpt_breaks, n_sources, settings, transform, previous)


def _get_excerpt(survey: Survey, n_sources: int) -> Array:
    """Return the samples to learn from, checked."""
    n_required = _MIN_SAMPLES * n_sources
    if survey.n_seen < n_required:
        n_channels = len(survey.names)
        swapped = f" There are {n_channels} channels: check that rows are samples, and columns channels."
        raise InputError(
            f"learning {n_sources} sources requires at least {n_required} samples. "
            f"Got {survey.n_seen} instead; use structure 'systematic', or fewer sources."
            f"{swapped if n_channels > survey.n_seen else ''}"
        )
    excerpt = survey.excerpt
    constant = np.flatnonzero(np.ptp(excerpt, axis=0) == 0)
    if constant.size:
        raise InputError(
            f"{survey.names[constant[0]]} is constant in all samples that the structure is learned from, "
            "like a trigger. Leave the channel out."
        )
    return excerpt


def _learn_linear(
    x: Array,
    breaks: Sequence[int],
    n_sources: int,
    settings: ModelSettings,
    transform: Transform,
    previous: Stage | None,
) -> StructureFit:
    if not isinstance(transform, Exp):
        x = transform.log(x)
        check_positive(x, "structure 'learned'", 0)
    size = _choose_size(x)
    x = x if size == 1 else x / size
    before = None if previous is None else previous.unmixing[0] * size
    learned = learn_structure(
        x, n_sources, before, breaks, view=settings.view, keep_drift=settings.drift == "keep"
    )
    if previous is not None:
        learned = rescale_like(learned, previous.mixing[0] / size)
    else:
        _warn_about_doubtful_sources(learned)
        if settings.scaling == "back-projected":
            learned = back_project(learned)
    weights, inverse = learned.mixing[None] * size, learned.unmixing[None] / size
    if isinstance(transform, Exp):
        unit, mean = transform.unit, learned.mean * size
        transform = replace(transform, center=mean)
    else:
        unit, mean = 1.0, None
        transform = Centred(transform, learned.mean)
    poset = Poset(weights / unit, 1, settings.closure, inverse * unit)
    return StructureFit(transform, poset, LinearStage(weights, inverse, mean), learned.learning)


def _warn_about_doubtful_sources(learned: LearnedStructure) -> None:
    """Warn of sources that correlate, or that the samples do not determine."""
    pairs = np.argwhere(np.triu(np.abs(learned.correlation) > MAX_CORRELATION, 1))
    if len(pairs):
        values = [f"{i} and {j} ({learned.correlation[i, j]:.2f})" for i, j in pairs[:_N_NAMED]]
        warnings.warn(
            f"sources correlate by more than {MAX_CORRELATION}: {_join(values, len(pairs))}. Removing one "
            "of them from the channels distorts the other; use fewer sources, more samples, or view = 5.",
            IgbssWarning,
            stacklevel=6,
        )
    doubtful = np.flatnonzero(learned.learning.reliability < _MIN_RELIABILITY)
    if len(doubtful):
        names = _join([str(i) for i in doubtful[:_N_NAMED]], len(doubtful))
        warnings.warn(
            f"sources are not determined by the samples: {names}. The predicted interference of other "
            "sources is at least as strong. Use fewer sources, or more samples.",
            IgbssWarning,
            stacklevel=6,
        )


def _join(names: Sequence[str], n_all: int) -> str:
    more = n_all - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _choose_size(x: Array) -> float:
    """Return the power of two by which samples are divided before learning; 1 unless squares need it."""
    largest = float(max(x.max(), -x.min()))
    return 1.0 if _SQUARABLE[0] < largest < _SQUARABLE[1] else 2.0 ** math.frexp(largest)[1]


def _learn_polynomial(
    x: Array, n_sources: int, settings: ModelSettings, transform: Transform
) -> StructureFit:
    # imported here: only products need its kernels
    from igbss_stream.model.interactions.learn import learn_interactions

    if not isinstance(transform, Exp):
        raise TypeError("products are learned with transform 'exp'")
    if _choose_size(x) != 1:
        raise InputError(
            f"products of sources are learned from samples of {_SQUARABLE[0]:g} to {_SQUARABLE[1]:g}. Got "
            f"{np.abs(x).max():g} instead; convert the samples to another unit, or use order = 1."
        )
    stage = PolynomialStage(learn_interactions(x, n_sources, settings.order))
    single, unit = stage.mixing[:, :, :n_sources], transform.unit
    poset = Poset(single / unit, settings.order, settings.closure, stage.unmixing * unit)
    return StructureFit(replace(transform, center=stage.mean), poset, stage)
