"""Choose the settings of `batch`: those of its options, or of a stored model that they must match."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from igbss_stream.batch.models import KnownModel, check_no_products, load_model
from igbss_stream.cli.model_options import make_model_settings
from igbss_stream.cli.preparation_options import parse_preparation
from igbss_stream.errors import ParameterError
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.settings import ModelSettings

_FIELDS = {  # settings of options that have another name
    "scale": ("transform",),
    "margin": ("transform",),
    "bandpass": ("highpass", "lowpass"),
}


def choose_method(
    model: Path | None, model_per: str, options: dict[str, Any], given: Sequence[str]
) -> tuple[ModelSettings, Preparation]:
    """Return the settings of the separation and of the preparation.

    Parameters
    ----------
    model : Path or None
        A file with a stored model.
    model_per : {"file", "group", "all"}
        Which recordings share a model.
    options : dict
        Options of the preparation and the model, as click passes them.
    given : sequence of str
        Names of the options that the user passed.

    Returns
    -------
    ModelSettings, Preparation

    Raises
    ------
    IgbssError
        If a value cannot be used, options contradict each other or the model, or the model cannot be read.
    """
    preparation = parse_preparation(options)
    settings = make_model_settings(options)
    if model_per != "file":
        if model is not None:
            raise ParameterError(
                f"--model-per {model_per} learns a model; leave out --model-per or --model"
            )
        check_no_products(settings, f"--model-per {model_per} with structure 'learned'")
    if model is None:
        return settings, preparation
    known = load_model(model)
    _check_given(given, settings, preparation, known)
    return known.settings, known.preparation


def _check_given(
    given: Sequence[str], settings: ModelSettings, preparation: Preparation, known: KnownModel
) -> None:
    """Refuse options that differ from the model."""
    requested = _list_fields(settings, preparation)
    stored = _list_fields(known.settings, known.preparation)
    for option in given:
        for field in _FIELDS.get(option, (option,)):
            if requested[field] != stored[field]:
                raise ParameterError(
                    f"--{option.replace('_', '-')} contradicts the model in '{known.path}', which has "
                    f"{field} {stored[field]!r}; leave the option out"
                )


def _list_fields(settings: ModelSettings, preparation: Preparation) -> dict[str, Any]:
    return {**json.loads(settings.to_json()), **json.loads(preparation.to_json())}
