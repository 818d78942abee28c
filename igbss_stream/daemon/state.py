"""Store models between runs of the daemon: one file per stream, without pickle, replaced atomically."""

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
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings, to_plain
from igbss_stream.separation.stages import LinearStage
from igbss_stream.separation.transform import restore_transform
from igbss_stream.streaming.model_updates import StreamModel

_FORMAT = 1
_OPTIONAL = ("mean", "cut")


def get_state_path(folder: Path, name: str) -> Path:
    """Return the path of the state of a stream."""
    return folder / f"{name}.npz"


def save(path: Path, model: StreamModel, preparation: Preparation) -> None:
    """Write a model to a temporary file, and rename it.

    Parameters
    ----------
    path : Path
    model : StreamModel
    preparation : Preparation
        Preparation of the samples from which it was learned.

    Raises
    ------
    StateError
        If it cannot be written.
    """
    separator = model.separator
    stage, poset = separator.stage, separator.poset
    metadata: dict[str, Any] = {
        "format": _FORMAT,
        "version": model.version,
        "settings": json.loads(separator.settings.to_json()) | {"transform": None},
        "transform": to_plain(separator.transform),
        "preparation": json.loads(preparation.to_json()),
    }
    if separator.cleaning is not None and separator.cleaner is not None:
        metadata["clean"] = separator.cleaning.to_dict()
        metadata["excluded"] = [source.to_list() for source in separator.cleaner.excluded]
    arrays = {
        "about": np.frombuffer(json.dumps(metadata).encode(), np.uint8),
        "incidence": poset.incidence,
        "inverse": poset.unmixing,
        "mixing": stage.mixing,
        "unmixing": stage.unmixing,
    }
    arrays |= {name: getattr(stage, name) for name in _OPTIONAL if getattr(stage, name) is not None}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # the stubs mistake the names of arrays for the option allow_pickle
        write_atomically(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
    except OSError as error:
        raise StateError(
            f"the state '{path}' cannot be written: {error.strerror}; check the folder in state.path"
        ) from None


def load(
    path: Path, settings: ModelSettings, preparation: Preparation, cleaning: Cleaning | None = None
) -> StreamModel | None:
    """Read a model, if there is a state.

    Parameters
    ----------
    path : Path
    settings : ModelSettings
        Current settings of the separation.
    preparation : Preparation
        Current settings of the preparation.
    cleaning : Cleaning, optional
        Current settings of the removal of sources.

    Returns
    -------
    StreamModel or None
        Active from the first sample; None if there is no file.

    Raises
    ------
    StateError
        If the file is not a state, or belongs to other settings.
    """
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        metadata = json.loads(arrays["about"].tobytes())
        if metadata["format"] != _FORMAT:
            raise StateError(
                f"the state '{path}' has format {metadata['format']} instead of {_FORMAT}. Remove it "
                "to start without it."
            )
        _check_settings(metadata["settings"], settings)
        _check_preparation(metadata.get("preparation", {}), preparation)
        separator = _restore_separator(arrays, metadata, settings)
        if cleaning is not None:
            separator = separator.with_cleaner(cleaning, _restore_cleaner(metadata, separator, cleaning))
        return StreamModel(metadata["version"], separator, 0)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        zipfile.BadZipFile,
        InputError,
        ParameterError,
    ) as error:
        raise StateError(
            f"the state '{path}' cannot be read: {error}. Remove it to start without it."
        ) from None


def _check_settings(saved: dict[str, Any], settings: ModelSettings) -> None:
    current = json.loads(settings.to_json())
    for name in ("structure", "order", "closure", "scaling"):
        if saved[name] != current[name]:
            raise ParameterError(f"{name} was {saved[name]!r} and is now {current[name]!r}")


def _check_preparation(saved: dict[str, Any], preparation: Preparation) -> None:
    """Refuse a model of samples that were prepared otherwise: its means and weights would be wrong."""
    before = json.loads(Preparation().to_json()) | saved  # older states lack some settings
    for name, value in json.loads(preparation.to_json()).items():
        if before[name] != value:
            raise ParameterError(f"prepare.{name} was {before[name]!r} and is now {value!r}")


def _restore_separator(
    arrays: dict[str, Any], metadata: dict[str, Any], settings: ModelSettings
) -> Separator:
    stage = LinearStage(arrays["mixing"], arrays["unmixing"], *(arrays.get(name) for name in _OPTIONAL))
    poset = Poset(arrays["incidence"], settings.order, settings.closure, arrays["inverse"])
    transform = restore_transform(metadata["transform"])
    return SeparationPlan(settings, poset.n_channels).restore(poset, stage, transform)


def _restore_cleaner(metadata: dict[str, Any], separator: Separator, cleaning: Cleaning) -> Cleaner:
    """Return the cleaner with the sources that were found when the model was learned."""
    if not cleaning.needs_survey:
        return cleaning.make_cleaner(separator.stage)
    saved, current = metadata.get("clean"), cleaning.to_dict()
    if saved != current:
        raise ParameterError(f"clean was {saved or 'left out'} and is now {current}")
    return Cleaner(separator.stage, tuple(Excluded.from_list(row) for row in metadata["excluded"]))
