"""Store models between runs of the daemon: one HDF5 file per stream, replaced atomically.

The file has the datasets and attributes of a model of `batch`, and those that
`igbss_stream.files.writers.model_file.write_stream_state` adds.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream.bad_channels.memory import ChannelMemory
from igbss_stream.daemon.choice import SourceChoice, decode_choice, encode_choice
from igbss_stream.errors import ParameterError, StateError
from igbss_stream.files.checksum import verify_checksum
from igbss_stream.files.results.output import OutputFile
from igbss_stream.files.results.stored_model import StoredModel
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from igbss_stream.files.writers.model_file import (
    write_channel_memory,
    write_choice,
    write_excluded,
    write_model,
    write_stream_state,
)
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.cleaning import Cleaner, Cleaning
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.streaming.restore import DAMAGE, restore_separator
from igbss_stream.streaming.stream_model import StreamModel


def save(
    path: Path,
    model: StreamModel,
    preparation: Preparation,
    channels: Sequence[str],
    unit: str | None,
    memory: ChannelMemory | None = None,
    choice: SourceChoice | None = None,
) -> None:
    """Write a model to a temporary file, and rename it.

    Parameters
    ----------
    path : Path
        Named after the stream.
    model : StreamModel
    preparation : Preparation
        Preparation of the samples from which it was learned.
    channels : sequence of str
        Names of the channels.
    unit : str or None
        Unit of the channels, if known.
    memory : ChannelMemory, optional
        What the stream has learned of its channels.
    choice : SourceChoice, optional
        Choice of sources while the stream ran.

    Raises
    ------
    StateError
        If it cannot be written.
    """
    separator = model.separator
    # a later model of a stream has the fitted transform of the first in its settings
    settings = replace(separator.settings, transform=separator.transform.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with Hdf5Sink(path, overwrite=True, checksum=True) as sink:
            described = replace(separator, settings=settings)
            write_model(sink, channels, unit, described, preparation.to_json())
            if separator.cleaner is not None:
                write_excluded(sink, separator.cleaner)
            write_stream_state(sink, separator, path.stem, model.version)
            if memory is not None:
                write_channel_memory(sink, memory)
            if choice is not None and not choice.is_default:
                write_choice(sink, encode_choice(choice))
    except (OSError, ValueError) as error:
        raise StateError(
            f"the state '{path}' cannot be written: {_get_reason(error)}; check the folder in state.path"
        ) from None


def load(
    path: Path,
    settings: ModelSettings,
    preparation: Preparation,
    cleaning: Cleaning | None = None,
    channels: Sequence[str] | None = None,
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
    channels : sequence of str, optional
        Channels that the model must have, in this order, if they are known before the stream begins.

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
        _check_no_old_state(path.with_suffix(".npz"))
        return None
    try:
        verify_checksum(path, only_models=True)
        with OutputFile(path) as file:
            stored = file.read_model() if file.is_output else None
        if stored is None or stored.version is None or stored.incidence is None:
            raise StateError(
                f"'{path}' is not a state of a daemon; move it, or choose another folder in state.path"
            )
        _check_settings(stored.settings, settings)
        _check_preparation(stored.preparation, preparation)
        if channels is not None and stored.channels != tuple(channels):
            raise ParameterError("its channels, or their order, are not those of the model in model.from")
        separator = restore_separator(stored, settings)
        if cleaning is not None:
            separator = separator.with_cleaner(cleaning, _restore_cleaner(stored, separator, cleaning))
        return StreamModel(stored.version, separator, 0)
    except DAMAGE as error:
        raise StateError(
            f"the state '{path}' cannot be read: {error}. Remove it to start without it."
        ) from None


def load_memory(path: Path) -> ChannelMemory | None:
    """Read what a stream has learned of its channels, from a state that `load` has read; None if nothing.

    Parameters
    ----------
    path : Path

    Raises
    ------
    StateError
        If it is damaged.
    """
    try:
        with OutputFile(path) as file:
            return file.read_channel_memory()
    except DAMAGE as error:
        raise StateError(
            f"the state '{path}' cannot be read: {error}. Remove it to start without it."
        ) from None


def load_choice(path: Path, fixed: Separator | None = None) -> SourceChoice | None:
    """Read the choice of sources, if there is a state with one.

    Parameters
    ----------
    path : Path
    fixed : Separator, optional
        The model of the stream, if it is not the one of the state. The choice is for its sources only if
        both have the same weights.

    Raises
    ------
    StateError
        If the file is damaged, or the choice is for the sources of another model.
    """
    if not path.exists():
        return None
    try:
        with OutputFile(path) as file:
            found = file.read_choice()
            stored = file.read_model() if found is not None and fixed is not None else None
        choice = None if found is None else decode_choice(found)
    except DAMAGE as error:
        raise StateError(
            f"the choice of sources in the state '{path}' cannot be read: {error}. Remove the state to "
            "start without it."
        ) from None
    if stored is not None and fixed is not None:
        mixing = fixed.stage.mixing
        if not np.array_equal(stored.mixing.reshape(-1), mixing.reshape(-1)):
            raise StateError(
                f"the state '{path}' has a choice of sources of another model than that of model.from; "
                "remove the state, and choose again"
            )
    return choice


def _get_reason(error: Exception) -> str:
    """Return the reason of the system, if an error has one."""
    cause = error.__cause__ or error
    return (isinstance(cause, OSError) and cause.strerror) or str(error)


def _check_no_old_state(path: Path) -> None:
    if path.exists():
        raise StateError(
            f"the state '{path}' was written by version 0.1 and cannot be read; remove it to start from "
            "scratch"
        )


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


def _restore_cleaner(stored: StoredModel, separator: Separator, cleaning: Cleaning) -> Cleaner:
    """Return the cleaner with the sources that were found when the model was learned."""
    if not cleaning.needs_survey:
        return cleaning.make_cleaner(separator.stage)
    current = cleaning.to_dict()
    if stored.cleaning != current:
        raise ParameterError(f"clean was {stored.cleaning or 'left out'} and is now {current}")
    return Cleaner(separator.stage, stored.excluded)
