"""A model that an earlier run learned, made ready for another recording of the same channels."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.batch.fingerprint import digest
from igbss_stream.errors import IgbssWarning, InputError, ParameterError, RecordingError, printable
from igbss_stream.files.results.output import OutputFile
from igbss_stream.files.results.stored_model import Origin, StoredModel
from igbss_stream.model.poset import Poset
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.stages import LinearStage
from igbss_stream.separation.statistics import Survey
from igbss_stream.separation.transform import Exp, Transform, restore_transform

_LISTED = 6  # channels that a message names


@dataclass(frozen=True, eq=False)
class KnownModel:
    """A model, with the channels that it is for.

    Parameters
    ----------
    path : Path
        Where it was read.
    channels : tuple of str
    unit : str or None
        Of the channels, if known.
    settings : ModelSettings
    preparation : Preparation
        Of the samples that it was learned from.
    separator : Separator
        Needs no samples.
    digest : str
        The same for equal models.
    origin : Origin
        What it was made of.
    """

    path: Path
    channels: tuple[str, ...]
    unit: str | None
    settings: ModelSettings
    preparation: Preparation
    separator: Separator
    digest: str
    origin: Origin

    def positions(self, channels: Sequence[str], unit: str | None) -> NDArray[np.int_]:
        """Return where the channels of the model are among those of a recording.

        Parameters
        ----------
        channels : sequence of str
            Of the recording: the same names, in any order; in the same order if names are not unique.
        unit : str or None
            Of the recording.

        Returns
        -------
        ndarray of int

        Raises
        ------
        InputError
            If the recording has other channels, or another unit.
        """
        if unit is not None and self.unit is not None and unit != self.unit:
            raise InputError(
                f"the recording is in {printable(unit)}, and the model of '{self.path}' was learned in "
                f"{printable(self.unit)}; pass --factor and --unit to read it in {printable(self.unit)}"
            )
        if tuple(channels) == self.channels:
            return np.arange(len(channels))
        if sorted(channels) == sorted(self.channels) and len(set(channels)) == len(channels):
            return np.array([list(channels).index(name) for name in self.channels])
        raise InputError(
            f"the channels are not those of the model of '{self.path}': "
            f"{unlike(channels, self.channels)}; pass --channels, or another model"
        )

    def check(self, survey: Survey) -> None:
        """Refuse samples that are not finite; warn of channels that are flat, which a known model takes.

        Parameters
        ----------
        survey : Survey
            Of all samples.
        """
        if survey.n_bad:
            survey.check()
        flat = [survey.names[i] for i in survey.flat]
        if flat:
            warnings.warn(
                f"{_named(flat)} flat (constant): the sources are those of the model all the same.",
                IgbssWarning,
                stacklevel=2,
            )


def known_model(path: Path) -> KnownModel:
    """Read a model that `batch` wrote, with sources or on its own.

    Parameters
    ----------
    path : Path

    Returns
    -------
    KnownModel

    Raises
    ------
    IgbssError
        If it cannot be read, or is none that can be used again.
    """
    with OutputFile(path) as output:
        stored = output.model()
    try:
        settings = _settings(stored.settings)
        transform = restore_transform(stored.transform)
        preparation = _preparation(stored.preparation)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(f"the model in '{path}' cannot be read: {error}") from error
    refuse_products(settings, f"the model in '{path}'")
    return KnownModel(
        path,
        stored.channels,
        stored.unit,
        settings,
        preparation,
        _separator(stored, settings, transform),
        digest(
            *(stored.mixing, stored.unmixing, stored.mean),
            *(stored.channels, stored.settings, stored.transform, stored.preparation),
        ),
        stored.origin,
    )


def refuse_products(settings: ModelSettings, what: str) -> None:
    """Refuse to share a model with products of sources: they are learned anew for each recording.

    Parameters
    ----------
    settings : ModelSettings
    what : str
        For the message.

    Raises
    ------
    ParameterError
        If there are products.
    """
    if settings.has_products:
        raise ParameterError(
            f"{what} has order {settings.order}: products of sources are learned anew for each recording, "
            "and cannot be applied to others"
        )


def _settings(described: dict[str, Any]) -> ModelSettings:
    """Return settings from their JSON; a generator of random numbers is not needed any more."""
    values = dict(described)
    if isinstance(values["structure"], list):
        values["structure"] = np.asarray(values["structure"], dtype=np.float64)
    if isinstance(values["transform"], dict):
        values["transform"] = restore_transform(values["transform"])
    if isinstance(values["random_state"], str):
        values["random_state"] = None
    return ModelSettings(**values)


def _preparation(described: dict[str, Any]) -> Preparation:
    """Return a preparation from its JSON, which knows no tuples."""
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in described.items()}
    return Preparation(**values)


def _separator(stored: StoredModel, settings: ModelSettings, transform: Transform) -> Separator:
    """Return what separated the samples that the model was learned from, the same to the bit."""
    mixing, unmixing = (
        np.ascontiguousarray(w if w.ndim == 3 else w[None], dtype=np.float64)
        for w in (stored.mixing, stored.unmixing)
    )
    if not settings.is_learned:
        poset = Poset(mixing, settings.order, settings.closure)
        stage = LinearStage.from_poset(poset)
        return SeparationPlan(settings, poset.n_channels).restore(poset, stage, transform, stored.losses)
    unit = transform.unit if isinstance(transform, Exp) else 1.0
    poset = Poset(mixing / unit, settings.order, settings.closure, unmixing * unit)
    stage = LinearStage(mixing, unmixing, stored.mean)
    return SeparationPlan(settings, poset.n_channels).restore(poset, stage, transform, stored.losses)


def unlike(channels: Sequence[str], wanted: Sequence[str]) -> str:
    """Say how channels differ from those that are wanted.

    Parameters
    ----------
    channels, wanted : sequence of str

    Returns
    -------
    str
    """
    missing = [name for name in wanted if name not in set(channels)]
    extra = [name for name in channels if name not in set(wanted)]
    parts = []
    if missing:
        parts.append(f"{_named(missing)} missing")
    if extra:
        parts.append(f"{_named(extra)} not in the model")
    return ", ".join(parts) or f"{len(channels)} in another order, with names that are not unique"


def _named(names: Sequence[str]) -> str:
    listed = ", ".join(map(printable, names[:_LISTED]))
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{listed}{more} {'is' if len(names) == 1 else 'are'}"
