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
from igbss_stream.separation.stages import LinearStage, Stage
from igbss_stream.separation.statistics import Survey

Array = NDArray[np.float64]


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


def is_eeg(names: Sequence[str], positions: Mapping[int, Array] | None = None) -> bool:
    """Return whether enough channels have known positions, so that labels have a meaning.

    Parameters
    ----------
    names : sequence of str
        Names of the channels.
    positions : mapping of int to ndarray of shape (3,), optional
    """
    return len(find_positions(names) if positions is None else positions) >= MIN_POSITIONS


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
