"""Load a model that an earlier run learned, for other recordings of the same channels."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from igbss_stream.batch.resume import digest
from igbss_stream.errors import IgbssWarning, InputError, ParameterError, RecordingError, printable
from igbss_stream.files.checksum import verify_checksum
from igbss_stream.files.results.output import OutputFile
from igbss_stream.files.results.stored_model import Origin
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.statistics import Survey
from igbss_stream.streaming.restore import DAMAGE, restore_preparation, restore_separator, restore_settings

_LISTED = 6  # channels that a message names


@dataclass(frozen=True, eq=False)
class KnownModel:
    """A stored model and its channels.

    Parameters
    ----------
    path : Path
        Path of the file.
    channels : tuple of str
    unit : str or None
        Unit of the channels, if known.
    settings : ModelSettings
    preparation : Preparation
        Preparation of the samples that it was learned from.
    separator : Separator
        Needs no samples.
    digest : str
        Equal for equal models.
    origin : Origin
        Recordings that it was learned from.
    """

    path: Path
    channels: tuple[str, ...]
    unit: str | None
    settings: ModelSettings
    preparation: Preparation
    separator: Separator
    digest: str
    origin: Origin

    def positions(
        self, channels: Sequence[str], unit: str | None, bad: Sequence[str] = ()
    ) -> NDArray[np.int_]:
        """Return the positions of the channels of the model in a recording.

        Parameters
        ----------
        channels : sequence of str
            Channels of the recording: the same names in any order, or in the same order if names are not
            unique.
        unit : str or None
            Unit of the recording.
        bad : sequence of str
            Channels that are left out because the file marks them as bad, for the message.

        Returns
        -------
        ndarray of int

        Raises
        ------
        InputError
            If channels or unit differ from those of the model.
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
        keeping = "--keep-bad, " if set(bad) & set(self.channels) else ""
        raise InputError(
            f"the channels are not those of the model of '{self.path}': "
            f"{describe_channel_differences(channels, self.channels, bad)}; pass {keeping}--channels, or "
            "another model"
        )

    def check(self, survey: Survey) -> None:
        """Check that samples are finite, and warn about flat channels, which a stored model accepts.

        Parameters
        ----------
        survey : Survey
            Survey of all samples.
        """
        if survey.n_bad:
            survey.check()
        flat = [survey.names[i] for i in survey.flat]
        if flat:
            warnings.warn(
                f"{_named(flat)} flat (constant); the model is applied all the same.",
                IgbssWarning,
                stacklevel=2,
            )


def load_model(path: Path) -> KnownModel:
    """Read the model in an output or a model file of `batch`.

    Parameters
    ----------
    path : Path

    Returns
    -------
    KnownModel

    Raises
    ------
    IgbssError
        If the file cannot be read, or the model cannot be applied to other recordings.
    """
    if path.is_file():
        verify_checksum(path, only_models=True)
    with OutputFile(path) as output:
        stored = output.read_model()
    with _report_damage(path):
        settings, preparation = restore_settings(stored), restore_preparation(stored)
    check_no_products(settings, f"the model in '{path}'")
    with _report_damage(path):
        separator = restore_separator(stored, settings)
    return KnownModel(
        path,
        stored.channels,
        stored.unit,
        settings,
        preparation,
        separator,
        digest(
            *(stored.mixing, stored.unmixing, stored.mean),
            *(stored.channels, stored.settings, stored.transform, stored.preparation),
        ),
        stored.origin,
    )


@contextmanager
def _report_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:
        raise RecordingError(f"the model in '{path}' cannot be read: {error}") from error


def check_no_products(settings: ModelSettings, what: str) -> None:
    """Check that a model has no products of sources, which cannot be applied to other recordings.

    Parameters
    ----------
    settings : ModelSettings
    what : str
        Description of the model, for the message.

    Raises
    ------
    ParameterError
        If the model has products of sources.
    """
    if settings.has_products:
        raise ParameterError(
            f"{what} has order {settings.order}, and products of sources cannot be applied to other "
            "recordings; learn a model with order 1"
        )


def describe_channel_differences(
    channels: Sequence[str],
    wanted: Sequence[str],
    bad: Sequence[str] = (),
    bad_in_model: Sequence[str] = (),
) -> str:
    """Describe how channels differ from those of the model.

    Parameters
    ----------
    channels, wanted : sequence of str
    bad, bad_in_model : sequence of str
        Channels that are left out because the file, or that of the model, marks them as bad.

    Returns
    -------
    str
    """
    missing = [name for name in wanted if name not in {*channels, *bad}]
    marked = [name for name in wanted if name in set(bad)]
    extra = [name for name in channels if name not in {*wanted, *bad_in_model}]
    marked_there = [name for name in channels if name in set(bad_in_model)]
    parts = []
    if missing:
        parts.append(f"{_named(missing)} missing")
    if marked:
        parts.append(f"{_named(marked)} marked as bad in the file")
    if extra:
        parts.append(f"{_named(extra)} not in the model")
    if marked_there:
        parts.append(f"{_named(marked_there)} not in the model, whose file marks them as bad")
    return ", ".join(parts) or f"{len(channels)} in another order, with names that are not unique"


def _named(names: Sequence[str]) -> str:
    listed = ", ".join(map(printable, names[:_LISTED]))
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{listed}{more} {'is' if len(names) == 1 else 'are'}"
