"""Label the sources of a model from the samples that it is learned from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.blas_threads import limit_blas_threads
from igbss_stream._util.electrodes import find_positions
from igbss_stream.errors import ParameterError
from igbss_stream.labels.labelling import MIN_SECONDS, Labelling, label_sources
from igbss_stream.labels.maps import MIN_POSITIONS
from igbss_stream.positions import Positions, locate_channels
from igbss_stream.separation.stages import LinearStage, Stage
from igbss_stream.separation.statistics import Survey

Array = NDArray[np.float64]

_VOLTAGES = {"V", "mV", "uV", "\u00b5V", "\u03bcV", "nV"}


@dataclass(frozen=True, eq=False)
class LabelContext:
    """What labels need besides samples.

    Parameters
    ----------
    rate : float
        Sampling rate in Hz.
    positions : mapping of int to ndarray of shape (3,), optional
        Directions of the channels; by their names if omitted. See `igbss_stream.label_sources`.
    is_required : bool
        Whether sources that cannot be labelled are an error.
    """

    rate: float
    positions: Mapping[int, Array] | None = None
    is_required: bool = False


def is_eeg(names: Sequence[str], electrodes: Mapping[int, Array] | None, unit: str | None) -> bool:
    """Return whether enough channels are electrodes on a head, so that labels have a meaning.

    Parameters
    ----------
    names : sequence of str
        Names of the channels.
    electrodes : mapping of int to ndarray of shape (3,), optional
        See `locate_electrodes`. Only those of voltages count: sensors of light have positions too.
    unit : str or None
    """
    by_name = len(find_positions(names)) >= MIN_POSITIONS
    return by_name or (len(electrodes or ()) >= MIN_POSITIONS and unit in _VOLTAGES)


def locate_electrodes(names: Sequence[str], positions: Positions | None) -> Mapping[int, Array] | None:
    """Return the directions of the channels from the centre of the head; None if only names can show them.

    Parameters
    ----------
    names : sequence of str
        Names of the channels.
    positions : Positions or None
    """
    located = locate_channels(names, positions)
    return dict(zip(located.channels.tolist(), located.directions, strict=True)) or None


def label_survey(stage: Stage, survey: Survey, context: LabelContext) -> Labelling | None:
    """Return the labels of the sources that a stage makes of the excerpt of a survey.

    Parameters
    ----------
    stage : LinearStage or PolynomialStage
    survey : Survey
        With an excerpt.
    context : LabelContext

    Returns
    -------
    Labelling or None
        None if sources cannot be labelled and labels are not required.

    Raises
    ------
    ParameterError
        If labels are required and the samples are too short, or the sources are not one linear map of the
        channels.
    """
    is_linear = isinstance(stage, LinearStage) and len(stage.mixing) == 1
    is_long = len(survey.excerpt) >= MIN_SECONDS * context.rate
    if not context.is_required and not (is_linear and is_long):
        return None
    if not is_linear:
        raise ParameterError(
            "exclude_labelled needs order = 1 and a structure that is the same for all samples. Name "
            "sources by exclude.",
            parameter="exclude_labelled",
        )
    courses = stage.unmix(np.ascontiguousarray(survey.excerpt))
    with limit_blas_threads():  # scores are the same to the bit with any number of threads
        return label_sources(
            courses,
            stage.mixing[0],
            survey.names,
            context.rate,
            positions=context.positions,
            breaks=survey.excerpt_breaks,
        )
