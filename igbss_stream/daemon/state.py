"""Models from one run of the daemon to the next: a file a stream, without pickle, replaced as a whole."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.atomic_write import write_atomically
from igbss_stream.errors import InputError, ParameterError, StateError
from igbss_stream.model.poset import Poset
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.cleaning import Cleaner, Cleaning, Excluded
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.linear import LinearStage
from igbss_stream.separation.settings import ModelSettings, plain
from igbss_stream.separation.transform import transform_of
from igbss_stream.streaming.model_updates import StreamModel

_FORMAT = 1
_OPTIONAL = ("mean", "cut")


def state_file(folder: Path, name: str) -> Path:
    """Return where the state of a stream is kept."""
    return folder / f"{name}.npz"


def save(path: Path, model: StreamModel, preparation: Preparation) -> None:
    """Write a model, beside and then under its name.

    Parameters
    ----------
    path : Path
    model : StreamModel
    preparation : Preparation
        Of the samples that it was learned from.

    Raises
    ------
    StateError
        If it cannot be written.
    """
    separator = model.separator
    stage, poset = separator.stage, separator.poset
    about = {
        "format": _FORMAT,
        "version": model.version,
        "settings": json.loads(separator.settings.to_json()) | {"transform": None},
        "transform": plain(separator.transform),
        "preparation": json.loads(preparation.to_json()),
    }
    if separator.cleaning is not None and separator.cleaner is not None:
        about["clean"] = separator.cleaning.plain()
        about["excluded"] = [one.plain() for one in separator.cleaner.excluded]
    arrays = {
        "about": np.frombuffer(json.dumps(about).encode(), np.uint8),
        "incidence": poset.incidence,
        "inverse": poset.unmixing,
        "mixing": stage.mixing,
        "unmixing": stage.unmixing,
    }
    arrays |= {name: getattr(stage, name) for name in _OPTIONAL if getattr(stage, name) is not None}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # its stubs take the names of arrays for its option allow_pickle
        write_atomically(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
    except OSError as error:
        raise StateError(f"the state '{path}' cannot be written: {error.strerror}") from None


def load(
    path: Path, settings: ModelSettings, preparation: Preparation, cleaning: Cleaning | None = None
) -> StreamModel | None:
    """Read a model, if there is one.

    Parameters
    ----------
    path : Path
    settings : ModelSettings
        How the stream is separated now.
    preparation : Preparation
        How it is prepared now.
    cleaning : Cleaning, optional
        What is taken out of its channels now.

    Returns
    -------
    StreamModel or None
        In force from the first sample; None if there is no file.

    Raises
    ------
    StateError
        If the file is not a state, or is one of other settings.
    """
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(arrays["about"].tobytes())
        if about["format"] != _FORMAT:
            raise StateError(f"the state '{path}' is of format {about['format']}; remove it to start anew.")
        _check_settings(about["settings"], settings)
        _check_preparation(about.get("preparation", {}), preparation)
        separator = _separator(arrays, about, settings)
        if cleaning is not None:
            separator.cleaning, separator.cleaner = cleaning, _cleaner(about, separator, cleaning)
        return StreamModel(about["version"], separator, 0)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        zipfile.BadZipFile,
        InputError,
        ParameterError,
    ) as error:
        raise StateError(f"the state '{path}' cannot be read: {error}. Remove it to start anew.") from None


def _check_settings(saved: dict[str, Any], now: ModelSettings) -> None:
    current = json.loads(now.to_json())
    for name in ("structure", "order", "closure", "scaling"):
        if saved[name] != current[name]:
            raise ParameterError(f"{name} was {saved[name]!r} and is {current[name]!r} now")


def _check_preparation(saved: dict[str, Any], now: Preparation) -> None:
    """Refuse a model of other samples: its means and weights would be wrong for these."""
    before = json.loads(Preparation().to_json()) | saved  # older states do not tell
    for name, value in json.loads(now.to_json()).items():
        if before[name] != value:
            raise ParameterError(f"prepare.{name} was {before[name]!r} and is {value!r} now")


def _separator(arrays: dict[str, Any], about: dict[str, Any], settings: ModelSettings) -> Separator:
    stage = LinearStage(arrays["mixing"], arrays["unmixing"], *(arrays.get(name) for name in _OPTIONAL))
    poset = Poset(arrays["incidence"], settings.order, settings.closure, arrays["inverse"])
    return Separator.known(settings, poset, stage, transform_of(about["transform"]))


def _cleaner(about: dict[str, Any], separator: Separator, cleaning: Cleaning) -> Cleaner:
    """Return what is taken out: the sources that were found when the model was learned."""
    if not cleaning.finds:
        return cleaning.cleaner(separator.stage)
    saved, now = about.get("clean"), cleaning.plain()
    if saved != now:
        raise ParameterError(f"clean was {saved or 'left out'} and is {now} now")
    return Cleaner(separator.stage, tuple(Excluded.of(row) for row in about["excluded"]))
