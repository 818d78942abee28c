"""What `batch` separates by: what its options say, or a model that exists, which they must fit."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from igbss_stream.batch.models import KnownModel, known_model, refuse_products
from igbss_stream.cli.model_options import model_settings_from
from igbss_stream.cli.preparation_options import preparation_from
from igbss_stream.errors import ParameterError
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.settings import ModelSettings

_FIELDS = {  # of settings that options go into, where they are called otherwise
    "scale": ("transform",),
    "margin": ("transform",),
    "bandpass": ("highpass", "lowpass"),
}


def method_of(
    model: Path | None, model_per: str, options: dict[str, Any], given: Sequence[str]
) -> tuple[ModelSettings, Preparation]:
    """Return what samples are separated by, and how they are prepared.

    Parameters
    ----------
    model : Path or None
        A file with a model that exists.
    model_per : {"file", "group", "all"}
        Who shares a model.
    options : dict
        Those of the preparation and of the model, as click hands them over.
    given : sequence of str
        Those of them that the user gave.

    Returns
    -------
    ModelSettings, Preparation

    Raises
    ------
    IgbssError
        If a value cannot be used, options contradict each other or the model, or that cannot be read.
    """
    preparation = preparation_from(options)
    settings = model_settings_from(options)
    if model_per != "file":
        if model is not None:
            raise ParameterError(f"--model-per {model_per} learns a model; leave it out or --model")
        refuse_products(settings, f"--model-per {model_per} with structure 'learned'")
    if model is None:
        return settings, preparation
    known = known_model(model)
    _check_given(given, settings, preparation, known)
    return known.settings, known.preparation


def _check_given(
    given: Sequence[str], settings: ModelSettings, preparation: Preparation, known: KnownModel
) -> None:
    """Refuse options that ask for something other than what the model has."""
    asked, there = _fields(settings, preparation), _fields(known.settings, known.preparation)
    for option in given:
        for field in _FIELDS.get(option, (option,)):
            if asked[field] != there[field]:
                raise ParameterError(
                    f"--{option.replace('_', '-')} does not go with the model in '{known.path}', which has "
                    f"{field} {there[field]!r}; leave the option out"
                )


def _fields(settings: ModelSettings, preparation: Preparation) -> dict[str, Any]:
    return {**json.loads(settings.to_json()), **json.loads(preparation.to_json())}
