"""Prepare the separator of a recording, from settings or from a stored model."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from igbss_stream._util.progress import report_to
from igbss_stream.batch.channels import Channels, Progress
from igbss_stream.batch.models import KnownModel
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.files.gaps import get_gap_rows
from igbss_stream.separation.cleaning import Cleaning
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.statistics import Survey


@dataclass(frozen=True, eq=False)
class PlannedSeparation:
    """A separator, or the way to make one from a survey of the samples.

    Parameters
    ----------
    survey : Survey
        Empty.
    solver : str
        Name of the solver.
    prepare : callable
        Function of the survey of all samples; raises if they cannot be separated, else returns the
        separator.
    separator : Separator or None
        None if it depends on the samples. Otherwise samples may be surveyed while they are separated.
    """

    survey: Survey
    solver: str
    prepare: Callable[[Survey], Separator]
    separator: Separator | None

    def look(self, source: Channels, progress: Progress) -> Separator:
        """Survey all samples, and return the separator.

        Parameters
        ----------
        source : Channels
        progress : callable
            Called with the progress.
        """
        for _, block in source.read_blocks(source.block_length, progress, "surveying"):
            self.survey.update(source.memory.copy(block))
        with report_to(progress):
            return self.prepare(self.survey)


def prepare_separator(
    source: Channels, settings: BatchSettings, model: KnownModel | None = None, pool: Executor | None = None
) -> PlannedSeparation:
    """Return the separator of a recording, or the way to make it.

    Parameters
    ----------
    source : Channels
        Channels in the order of the model, if there is one.
    settings : BatchSettings
    model : KnownModel, optional
        Model to use instead of the model of the settings.
    pool : Executor, optional
        Pool that computes sums over samples.

    Returns
    -------
    Start
    """
    if settings.cleaning is not None:
        settings.cleaning.check_channels(source.names)
    if model is not None:
        return _of_model(model, source, settings.cleaning)
    plan = SeparationPlan(settings.model, len(source.names), cleaning=settings.cleaning)
    breaks = get_gap_rows(source.gaps)
    survey = plan.make_survey(source.names, source.dtype, source.n_samples, pool, breaks)
    prepare = partial(plan.prepare, remedy=" with --drop-flat")
    return PlannedSeparation(survey, plan.solver, prepare, None if plan.needs_survey else plan.prepare())


def _of_model(model: KnownModel, source: Channels, cleaning: Cleaning | None) -> PlannedSeparation:
    """Return a model as it starts; sources that are like a channel are found in this recording."""
    finds = cleaning is not None and cleaning.needs_survey
    if cleaning is not None:
        cleaning.check(model.separator.transform, products=False)

    def clean(survey: Survey | None) -> Separator:
        separator = model.separator
        cleaner = None if cleaning is None else cleaning.make_cleaner(separator.stage, survey)
        return separator.with_cleaner(cleaning, cleaner)

    def prepare(survey: Survey) -> Separator:
        model.check(survey)
        return clean(survey)

    survey = Survey(source.names, source.dtype, source.n_samples, covariance=finds)
    looks_first = finds or not model.separator.by_sample
    return PlannedSeparation(survey, model.separator.solver, prepare, None if looks_first else clean(None))
