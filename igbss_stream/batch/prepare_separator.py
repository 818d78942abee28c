"""What separates a recording, before its first sample: of the settings, or of a model that exists."""

import copy
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from igbss_stream._util.progress import report_to
from igbss_stream.batch.channels import Channels, Progress
from igbss_stream.batch.models import KnownModel
from igbss_stream.batch.segment_context import FirstPass
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.separation.cleaning import Cleaning
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.statistics import Survey


@dataclass(frozen=True, eq=False)
class Start:
    """A separator, and what has to be known of the samples before what it separates can be trusted.

    Parameters
    ----------
    separator : Separator
    survey : Survey
        Empty.
    make_ready : callable
        Takes the survey of all samples: refuses them if they cannot be separated, else makes the separator
        ready.
    looks_first : bool
        Whether that comes before the first sample is separated; else samples are surveyed on the way.
    """

    separator: Separator
    survey: Survey
    make_ready: Callable[[Survey], None]
    looks_first: bool

    def look(self, source: Channels, tell: Progress) -> None:
        """Read all samples, and make the separator ready.

        Parameters
        ----------
        source : Channels
        tell : callable
            Told how far it is.
        """
        for _, block in source.blocks(source.block_length, tell, "surveying"):
            self.survey.update(source.memory.copy(block))
        with report_to(tell):
            self.make_ready(self.survey)


def starting(
    source: Channels, settings: BatchSettings, model: KnownModel | None = None, pool: Executor | None = None
) -> Start:
    """Return what separates a recording.

    Parameters
    ----------
    source : Channels
        In the order of the model, if there is one.
    settings : BatchSettings
    model : KnownModel, optional
        What separates, in place of the settings' model.
    pool : Executor, optional
        Where sums over samples are reckoned.

    Returns
    -------
    Start
    """
    if settings.cleaning is not None:
        settings.cleaning.check_channels(source.names)
    if model is not None:
        return _of_model(model, source, settings.cleaning)
    separator = Separator(settings.model, len(source.names), cleaning=settings.cleaning)
    breaks = [gap.row for gap in source.breaks]
    survey = separator.new_survey(source.names, source.dtype, source.n_samples, pool, breaks)
    ready = partial(separator.prepare, remedy=" with --drop-flat")
    return Start(separator, survey, ready, separator.needs_survey)


def going_on(source: Channels, settings: BatchSettings, model: KnownModel, found: FirstPass) -> Start:
    """Return what separates a segment, whose samples have all been looked at.

    Parameters
    ----------
    source : Channels
        In the order of the model.
    settings : BatchSettings
    model : KnownModel
    found : FirstPass

    Returns
    -------
    Start
    """
    survey = Survey(source.names, source.dtype, source.n_samples)
    return Start(found.separator(model, settings.cleaning), survey, lambda _: None, looks_first=True)


def _of_model(model: KnownModel, source: Channels, cleaning: Cleaning | None) -> Start:
    """Return a model as it starts; sources that are like a channel are found in this recording."""
    separator = copy.copy(model.separator)  # the model may go on to other recordings
    separator.cleaning = cleaning
    finds = cleaning is not None and cleaning.finds
    if cleaning is not None:
        cleaning.check(separator.transform, products=False)
        if not finds:
            separator.cleaner = cleaning.cleaner(separator.stage)

    def ready(survey: Survey) -> None:
        model.check(survey)
        if cleaning is not None and finds:
            separator.cleaner = cleaning.cleaner(separator.stage, survey)

    survey = Survey(source.names, source.dtype, source.n_samples, covariance=finds)
    return Start(separator, survey, ready, finds or not separator.by_sample)
