"""Apply choices of sources to a stream while it runs.

Any thread may request a choice. The thread of the streams applies it between two chunks, so that it begins
at a known sample, and answers the request.
"""

import logging
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from igbss_stream.daemon.choice import ChoiceRequest, SourceChoice, format_choice
from igbss_stream.errors import IgbssError, ParameterError
from igbss_stream.events import Event
from igbss_stream.feeds.cleaning_facts import CleaningFacts

if TYPE_CHECKING:
    from igbss_stream.streaming.pipeline import Pipeline
    from igbss_stream.streaming.stream_model import StreamModel

log = logging.getLogger(__name__)

EVENT_SOURCE = "choice"
"""Source of the events of choices."""


class SourceChooser:
    """Holds the choice of one stream, and the requests to change it.

    Parameters
    ----------
    stream : str
        Name of the stream.
    initial : tuple of int, optional
        Sources that are taken out unless others are chosen. Default: those of the model.
    choice : SourceChoice, optional
        Choice of an earlier run.

    Attributes
    ----------
    choice : SourceChoice
    facts : CleaningFacts or None
        What applies to the next samples; None until the first samples of a model.
    """

    def __init__(
        self, stream: str, initial: tuple[int, ...] | None = None, choice: SourceChoice | None = None
    ) -> None:
        self.choice = choice or SourceChoice()
        self.facts: CleaningFacts | None = None
        self._stream, self._initial = stream, initial
        self._saved = self.choice
        self._requests: deque[tuple[ChoiceRequest, Future[CleaningFacts]]] = deque()

    @property
    def excluded(self) -> tuple[int, ...] | None:
        """Sources to take out of the channels; None for those of the model."""
        return self._initial if self.choice.excluded is None else self.choice.excluded

    @property
    def stated(self) -> CleaningFacts | None:
        """What the description of the stream states; None if there is nothing to state."""
        facts = self.facts
        return None if facts is None or (facts.excluded is None and not facts.names) else facts

    def take_unsaved(self) -> bool:
        """Return whether the choice has changed since the last call."""
        before, self._saved = self._saved, self.choice
        return before is not self.choice

    def request(self, request: ChoiceRequest) -> "Future[CleaningFacts]":
        """Request a change, which is applied soon. Any thread may call this.

        Returns
        -------
        Future of CleaningFacts
            What applies after the change. Raises an `IgbssError` if it is refused.
        """
        future: Future[CleaningFacts] = Future()
        self._requests.append((request, future))
        return future

    def apply(self, pipeline: "Pipeline | None", index: int | None) -> list[Event]:
        """Apply the requests to a pipeline, and answer them.

        Parameters
        ----------
        pipeline : Pipeline or None
        index : int or None
            Index of the next published sample, if any was published.

        Returns
        -------
        list of Event
            What was changed, in indices of the published samples. If it is not empty, `facts` has changed.
        """
        events: list[Event] = []
        while self._requests:
            request, future = self._requests.popleft()
            if not future.set_running_or_notify_cancel():  # nobody waits for it any more
                continue
            try:
                events += self._apply(request, pipeline, index)
            except IgbssError as error:
                future.set_exception(error)
            else:
                assert self.facts is not None
                future.set_result(self.facts)
        return events

    def _apply(self, request: ChoiceRequest, pipeline: "Pipeline | None", index: int | None) -> list[Event]:
        if pipeline is None or pipeline.model is None or index is None:
            raise ParameterError(
                f"stream {self._stream} has no sources yet; try again once it publishes sources."
            )
        model = pipeline.model
        if request.changes_sources and model.cleaner is None:
            raise ParameterError(
                f"stream {self._stream} has no cleaned channels; add a section clean to it in the "
                "configuration (clean: {} removes nothing until a source is chosen), and start the daemon "
                "again."
            )
        n_sources = model.separator.stage.n_sources
        for source, _ in request.names:
            if source >= n_sources:
                raise ParameterError(f"there is no source {source}; name one of 0 to {n_sources - 1}.")
        current = () if model.cleaner is None else model.cleaner.sources
        before, after = self.choice, self.choice.follow(request, current)
        pipeline.choose(self._initial if after.excluded is None else after.excluded)
        self.choice = after
        self.describe(pipeline.model, index)
        return [Event(index, label, 0.0, EVENT_SOURCE) for label in self._list_changes(before)]

    def describe(self, model: "StreamModel", index: int) -> CleaningFacts:
        """Return what applies to the samples of a model from an index on, and keep it as `facts`."""
        choice, cleaner = self.choice, model.cleaner
        facts = CleaningFacts(
            start=index,
            excluded=None if cleaner is None else cleaner.sources,
            names=choice.names,
            chosen=cleaner is not None and choice.excluded is not None,
            undo=len(choice.earlier),
        )
        if not facts.is_same(self.facts):
            self.facts = facts
        assert self.facts is not None
        return self.facts

    def begin_run(self) -> None:
        """Forget where the choice began: indices of a new run begin again."""
        self.facts = None

    def list_labels(self) -> list[str]:
        """Return the labels of events that describe the whole choice; none if nothing was ever chosen."""
        return list(self._list_changes(SourceChoice()))

    def _list_changes(self, before: SourceChoice) -> Iterator[str]:
        """Yield the labels of events for what has changed, and log them."""
        if self.choice.excluded != before.excluded and self.facts is not None:
            is_configured = self.choice.excluded is None
            yield format_choice(self.facts.excluded or (), is_configured=is_configured)
        names = dict(self.choice.names)
        for source in sorted(names.keys() | dict(before.names).keys()):
            name = names.get(source, "")
            if name != dict(before.names).get(source, ""):
                yield f"name {source} {name}".rstrip()
