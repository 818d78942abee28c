"""Load the model that a stream starts with from a file, and match the stream with it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.model_section import ModelSection
from igbss_stream.errors import ParameterError, RecordingError, printable
from igbss_stream.files.checksum import verify_checksum
from igbss_stream.files.results.output import OutputFile
from igbss_stream.files.results.stored_model import StoredModel
from igbss_stream.preparation.settings import AVERAGE, Preparation
from igbss_stream.separation.cleaning import Cleaner, Cleaning
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.parameters import PARAMETERS
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.streaming.restore import DAMAGE, restore_preparation, restore_separator, restore_settings
from igbss_stream.streaming.stream_model import StreamModel

_N_LISTED = 6  # channels that a message names
_RATE_TOLERANCE = 1e-3  # largest relative difference of device clocks


@dataclass(frozen=True, eq=False)
class Calibration:
    """A model that was learned before the stream, from a recording or another stream.

    Parameters
    ----------
    path : Path
    channels : tuple of str
        Channels that the model separates, in its order.
    unit : str or None
        Unit of the channels, if known.
    rate : float or None
        Sampling rate of the samples that it was learned from, after their preparation, if known.
    settings : ModelSettings
    preparation : Preparation
        Preparation of the samples that it was learned from.
    separator : Separator
        With the cleaner that the file has, if any.
    """

    path: Path
    channels: tuple[str, ...]
    unit: str | None
    rate: float | None
    settings: ModelSettings
    preparation: Preparation
    separator: Separator

    @property
    def model(self) -> StreamModel:
        """The model, active from the first sample."""
        return StreamModel(1, self.separator, 0)

    def match(self, stream: Stream, preparation: Preparation) -> "ChannelOrder":
        """Return how to put the channels of a stream in the order of the model.

        Parameters
        ----------
        stream : Stream
            Description of the stream before its preparation.
        preparation : Preparation
            Preparation of the stream; its reference channels are kept.

        Raises
        ------
        ParameterError
            If channels are missing, or the unit is another one.
        """
        if None not in (stream.unit, self.unit) and stream.unit != self.unit:
            raise ParameterError(
                f"the stream is in {printable(str(stream.unit))}, but the model of '{self.path}' was "
                f"learned in {printable(str(self.unit))}; send samples in that unit (a source of kind file "
                "has the keys factor and unit), or learn a model of such samples."
            )
        wanted = list(self.channels)
        if preparation.reference not in (None, AVERAGE):
            wanted += [name for name in preparation.reference or () if name not in wanted]
        if stream.channels == tuple(wanted):
            return ChannelOrder(stream, np.arange(stream.n_channels))
        missing = [name for name in wanted if name not in stream.channels]
        if missing:
            raise ParameterError(
                f"the stream lacks channels of the model of '{self.path}': {_list(missing)}. It has "
                f"{_list(stream.channels)}; name its channels by source.channels, or learn a model of "
                "these channels."
            )
        repeated = [name for name in wanted if stream.channels.count(name) + wanted.count(name) > 2]
        if repeated:
            raise ParameterError(
                f"several channels are called {_list(dict.fromkeys(repeated))}, so they cannot be matched "
                f"with the model of '{self.path}'; give them different names by source.channels."
            )
        return ChannelOrder(stream, np.array([stream.channels.index(name) for name in wanted]))

    def check_prepared(self, prepared: Stream) -> None:
        """Check that the preparation leaves the channels of the model.

        Parameters
        ----------
        prepared : Stream
            Description of the prepared stream.

        Raises
        ------
        ParameterError
            If it does not.
        """
        if prepared.channels != self.channels:
            differing = sorted({*prepared.channels} ^ {*self.channels})
            raise ParameterError(
                f"prepare.reference leaves other channels than those of the model of '{self.path}': "
                f"{_list(differing)}; leave prepare out to prepare samples as the file states."
            )

    def iter_notes(self, order: "ChannelOrder", prepared: Stream) -> Iterator[str]:
        """Yield how a stream differs from the samples that the model was learned from, for the log.

        Parameters
        ----------
        order : ChannelOrder
            Of the stream.
        prepared : Stream
            Description of the prepared stream.
        """
        if order.left_out:
            yield f"channels that are not in the model of '{self.path}' are left out: {order.left_out}"
        if self.rate is not None and abs(prepared.rate - self.rate) > _RATE_TOLERANCE * self.rate:
            yield (
                f"the model of '{self.path}' was learned at {self.rate:g} Hz, and samples are separated at "
                f"{prepared.rate:g} Hz; prepare.resample sets the rate"
            )
        if (prepared.unit is None) != (self.unit is None):
            known = printable(str(self.unit or prepared.unit))
            what = "the stream has no unit" if prepared.unit is None else "the model has no unit"
            yield f"{what}; its samples are taken to be in {known}, as those of '{self.path}'"


@dataclass(frozen=True, eq=False)
class ChannelOrder:
    """Selects the channels of a model from those of a stream.

    Parameters
    ----------
    sent : Stream
        Description of the stream.
    positions : ndarray of int
        Positions of the selected channels in the stream.
    """

    sent: Stream
    positions: NDArray[np.int_]

    @property
    def is_identity(self) -> bool:
        """Whether the stream has exactly these channels, in this order."""
        return np.array_equal(self.positions, np.arange(self.sent.n_channels))

    @property
    def stream(self) -> Stream:
        """Description of the selected channels."""
        return replace(self.sent, channels=tuple(self.sent.channels[i] for i in self.positions))

    @property
    def left_out(self) -> str:
        """Names of the channels that are not selected, for messages; empty if there are none."""
        return _list([name for i, name in enumerate(self.sent.channels) if i not in self.positions])

    def select(self, item: Chunk | Gap) -> Chunk | Gap:
        """Return the same item with the selected channels.

        Parameters
        ----------
        item : Chunk or Gap
            Of the stream.
        """
        if isinstance(item, Gap) or self.is_identity:
            return item
        return replace(item, data=np.ascontiguousarray(item.data[:, self.positions]))


def load_calibration(path: Path) -> Calibration:
    """Read the model in an output or a model file of `batch`, or in the state of a daemon.

    Parameters
    ----------
    path : Path

    Raises
    ------
    IgbssError
        If the file cannot be read, or its model cannot be applied to a stream.
    """
    if path.is_file():
        verify_checksum(path, only_models=True)
    with OutputFile(path) as file:
        stored, has_choice = file.read_model(), file.has_dataset("excluded")
        rate = file.read_facts().rate
    try:
        settings, preparation = restore_settings(stored), restore_preparation(stored)
        if not settings.has_products:
            separator = restore_separator(stored, settings)
            separator = _restore_cleaning(stored, separator, has_choice)
            return Calibration(
                path,
                stored.channels,
                stored.unit,
                rate or preparation.resample,
                settings,
                preparation,
                separator,
            )
    except DAMAGE as error:
        raise RecordingError(
            f"the model in '{path}' cannot be read: {error}. Copy the file again, or separate again."
        ) from error
    raise ParameterError(
        f"the model in '{path}' has order {settings.order}, and products of sources cannot be applied to a "
        "stream; learn a model with order 1."
    )


def _restore_cleaning(stored: StoredModel, separator: Separator, has_choice: bool) -> Separator:
    """Return the separator with the cleaner of its file, if the file states which sources it removes."""
    if stored.cleaning is None or not has_choice:
        return separator
    cleaning = Cleaning.from_dict(stored.cleaning)
    return separator.with_cleaner(cleaning, Cleaner(separator.stage, stored.excluded))


def apply_cleaning(calibration: Calibration, cleaning: Cleaning | None) -> Calibration:
    """Return a calibration that removes the sources that a configuration names.

    Parameters
    ----------
    calibration : Calibration
    cleaning : Cleaning or None
        None removes the sources that the file names.

    Raises
    ------
    IgbssError
        If a source does not exist, or a choice by channels is not that of the file.
    """
    separator = calibration.separator
    if cleaning is None or cleaning == separator.cleaning:
        return calibration
    cleaning.check(separator.transform, products=False)
    if cleaning.needs_labels and separator.labels is None:
        raise ParameterError(
            f"clean.exclude_labelled needs labels, which '{calibration.path}' does not contain. Name "
            "sources by exclude, or pass --exclude-labelled to batch."
        )
    if cleaning.needs_covariance:
        found = "none" if separator.cleaner is None else str(separator.cleaner)
        raise ParameterError(
            f"clean.exclude_like is not that of '{calibration.path}', which does not state which sources "
            f"are like these channels (it removes: {found}). Leave clean out, name sources by exclude, or "
            "pass the same --exclude-like to batch."
        )
    return replace(
        calibration,
        separator=separator.with_cleaner(
            cleaning, cleaning.make_cleaner(separator.stage, labels=separator.labels)
        ),
    )


def check_parameters(calibration: Calibration, section: ModelSection) -> None:
    """Check that no parameter of the section `model` contradicts the model.

    Parameters
    ----------
    calibration : Calibration
    section : ModelSection

    Raises
    ------
    ParameterError
        If a parameter that is not at its default differs from that of the model.
    """
    given = json.loads(section.as_settings().to_json())
    stored: dict[str, Any] = json.loads(calibration.settings.to_json())
    stored["n_sources"] = calibration.separator.stage.n_sources
    for name, parameter in PARAMETERS.items():
        if getattr(section, name) != parameter.default and given[name] != stored[name]:
            raise ParameterError(
                f"model.{name} is {stored[name]!r} in '{calibration.path}', which model.from names. Got "
                f"{given[name]!r} instead; leave it out."
            )


def _list(names: Sequence[str] | dict[str, None]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _N_LISTED} more" if len(listed) > _N_LISTED else ""
    return ", ".join(map(printable, listed[:_N_LISTED])) + more
