"""Prepare the separator of a recording, from settings or from a stored model."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from igbss_stream._util.progress import report_to
from igbss_stream.batch.channels import Channels, Progress, get_excluded_rows
from igbss_stream.batch.models import KnownModel
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.errors import InputError, ParameterError, printable
from igbss_stream.files.bad_rows import count_rows
from igbss_stream.files.gaps import get_gap_rows
from igbss_stream.separation.cleaning import Cleaning
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.source_labels import LabelContext, is_eeg, label_survey, locate_electrodes
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
    excluded : tuple of (int, int)
        Start and stop of the rows that nothing is learned from, because the file marks them as bad.
    """

    survey: Survey
    solver: str
    prepare: Callable[[Survey], Separator]
    separator: Separator | None
    excluded: tuple[tuple[int, int], ...] = ()

    def look(self, source: Channels, progress: Progress) -> Separator:
        """Survey all samples, and return the separator.

        Parameters
        ----------
        source : Channels
        progress : callable
            Called with the progress.
        """
        for _, block in source.read_lasting_blocks(progress, "surveying"):
            self.survey.update(block)
        with report_to(progress), mention_excluded(self.survey, self.excluded):
            return self.prepare(self.survey)


@contextmanager
def mention_excluded(survey: Survey, excluded: Sequence[tuple[int, int]]) -> Iterator[None]:
    """Mention the rows that nothing is learned from in errors, if most rows are such."""
    try:
        yield
    except InputError as error:
        n = count_rows(excluded)
        if n <= survey.n_seen or survey.n_bad:
            raise
        raise InputError(
            f"{str(error).rstrip('.')}; {n} of {n + survey.n_seen} samples are not learned from, because "
            "the file marks them as bad: pass --keep-bad to learn from all"
        ) from error


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
        _check_channels_of(settings.cleaning, source)
    if model is not None:
        return _of_model(model, source, settings)
    labelling = _choose_labelling(source, settings)
    plan = SeparationPlan(settings.model, len(source.names), None, settings.cleaning, labelling)
    breaks = get_gap_rows(source.gaps)
    excluded = get_excluded_rows(source.recording, settings) if plan.needs_survey else ()
    survey = plan.make_survey(source.names, source.dtype, source.n_samples, pool, breaks, excluded)
    prepare = partial(plan.prepare, remedy=" with --drop-flat")
    separator = None if plan.needs_survey else plan.prepare()
    return PlannedSeparation(survey, plan.solver, prepare, separator, excluded)


def _check_channels_of(cleaning: Cleaning, source: Channels) -> None:
    """Check that the channels of `exclude_like` are separated."""
    for name, _ in cleaning.exclude_like:
        if name in source.bad:
            raise ParameterError(
                f"exclude_like names {printable(name)!r}, which is left out because the file marks it as "
                "bad. Pass --keep-bad to separate it, or name another channel.",
                parameter="exclude_like",
            )
    cleaning.check_channels(source.names)


def _choose_labelling(source: Channels, settings: BatchSettings) -> LabelContext | None:
    """Return what labels need, if they are required, or an EEG's structure is learned."""
    recording = source.recording
    rate, electrodes = recording.rate, locate_electrodes(source.names, recording.positions)
    if settings.cleaning is not None and settings.cleaning.needs_labels:
        if rate is None:
            raise ParameterError(
                "exclude_labelled needs a sampling rate, which the recording does not have; pass --rate.",
                parameter="exclude_labelled",
            )
        return LabelContext(rate, electrodes, is_required=True)
    is_single = settings.model.is_learned and not settings.model.has_products
    if rate is None or not (is_single and is_eeg(source.names, electrodes, recording.unit)):
        return None
    return LabelContext(rate, electrodes)


def _of_model(model: KnownModel, source: Channels, settings: BatchSettings) -> PlannedSeparation:
    """Return a model as it starts; what cleaning needs besides is found in this recording."""
    cleaning = settings.cleaning
    compares = cleaning is not None and cleaning.needs_covariance
    labelling = None
    if cleaning is not None:
        cleaning.check(model.separator.transform, products=False)
        if cleaning.needs_labels and model.separator.labels is None:
            labelling = _choose_labelling(source, settings)
    finds = compares or labelling is not None

    def clean(survey: Survey | None) -> Separator:
        separator = model.separator
        if labelling is not None and survey is not None:
            separator = replace(separator, labels=label_survey(separator.stage, survey, labelling))
        if cleaning is None:
            return separator.with_cleaner(None, None)
        cleaner = cleaning.make_cleaner(separator.stage, survey, separator.labels)
        return separator.with_cleaner(cleaning, cleaner)

    def prepare(survey: Survey) -> Separator:
        model.check(survey)
        return clean(survey)

    excluded = get_excluded_rows(source.recording, settings) if finds else ()
    survey = Survey(
        source.names,
        source.dtype,
        source.n_samples,
        covariance=compares,
        keep_excerpt=labelling is not None,
        breaks=get_gap_rows(source.gaps) if labelling is not None else (),
        excluded=excluded,
    )
    looks_first = finds or not model.separator.by_sample
    separator = None if looks_first else clean(None)
    return PlannedSeparation(survey, model.separator.solver, prepare, separator, excluded)
