"""Restore settings and separators from stored models: outputs, model files and states of the daemon."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import IgbssError
from igbss_stream.files.results.stored_model import StoredModel
from igbss_stream.model.poset import Poset
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.stages import LinearStage
from igbss_stream.separation.transform import Exp, restore_transform

# What JSON and datasets of a damaged file can raise: values are of another type, missing or out of range.
DAMAGE = (IgbssError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def restore_settings(stored: StoredModel) -> ModelSettings:
    """Return the settings of a stored model; its random generator is not needed any more.

    Parameters
    ----------
    stored : StoredModel

    Raises
    ------
    DAMAGE
        If they are damaged.
    """
    values = dict(stored.settings)
    if isinstance(values["structure"], list):
        values["structure"] = np.asarray(values["structure"], dtype=np.float64)
    if isinstance(values["transform"], dict):
        values["transform"] = restore_transform(values["transform"])
    if isinstance(values["random_state"], str):
        values["random_state"] = None
    return ModelSettings(**values)


def restore_preparation(stored: StoredModel) -> Preparation:
    """Return the preparation of a stored model; JSON has no tuples.

    Parameters
    ----------
    stored : StoredModel

    Raises
    ------
    DAMAGE
        If it is damaged.
    """
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in stored.preparation.items()
    }
    return Preparation(**values)


def restore_separator(stored: StoredModel, settings: ModelSettings) -> Separator:
    """Return the separator that the model was stored from, identical to the bit.

    Parameters
    ----------
    stored : StoredModel
    settings : ModelSettings
        Settings of the model, or settings that agree with them in structure, order and closure.

    Raises
    ------
    DAMAGE
        If the model is damaged.
    """
    stored.check()
    transform = restore_transform(stored.transform)
    mixing, unmixing = _as_periods(stored.mixing), _as_periods(stored.unmixing)
    if stored.incidence is not None and stored.inverse is not None:
        poset = Poset(
            _as_periods(stored.incidence), settings.order, settings.closure, _as_periods(stored.inverse)
        )
        if settings.is_learned:  # in the memory layout of learning, on which rounding of sums depends
            mixing = mixing.transpose(0, 2, 1).copy().transpose(0, 2, 1)
        stage = LinearStage(mixing, unmixing, stored.mean, stored.cut)
    elif settings.is_learned:
        unit = transform.unit if isinstance(transform, Exp) else 1.0
        poset = Poset(mixing / unit, settings.order, settings.closure, unmixing * unit)
        stage = LinearStage(mixing, unmixing, stored.mean)
    else:
        poset = Poset(mixing, settings.order, settings.closure)
        stage = LinearStage.from_poset(poset)
    plan = SeparationPlan(settings, poset.n_channels)
    return plan.restore(poset, stage, transform, stored.learning, stored.labels)


def _as_periods(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights with an axis of periods."""
    return np.ascontiguousarray(weights if weights.ndim == 3 else weights[None], dtype=np.float64)
