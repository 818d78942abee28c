"""Log what the stages of a stream report of channels and models."""

import logging

from igbss_stream.preparation.repair.stage import RepairStage
from igbss_stream.streaming.pipeline import Pipeline

log = logging.getLogger(__name__)


class StageLog:
    """What the stages of a stream have reported.

    Parameters
    ----------
    name : str
        Name of the stream.
    """

    def __init__(self, name: str) -> None:
        self._name, self._n_failures = name, 0
        self._logged: tuple[str, int] | None = None  # last failure, and the model that stayed

    def update(self, repair: RepairStage | None, pipeline: Pipeline | None) -> None:
        """Log events of channels, and failures to learn a model; a failure that goes on is logged once.

        Parameters
        ----------
        repair : RepairStage or None
        pipeline : Pipeline or None
        """
        for event in () if repair is None else repair.pop_events():
            log.warning(
                "stream %s: %s is %s from sample %d", self._name, event.channel, event.kind, event.index
            )
        learner = None if pipeline is None else pipeline.learner
        if learner is not None and learner.counts.failed > self._n_failures:
            self._n_failures = learner.counts.failed
            model = None if pipeline is None else pipeline.model
            failure = str(learner.failure), 0 if model is None else model.version
            if failure != self._logged:
                log.warning("stream %s: no model could be learned: %s", self._name, learner.failure)
            self._logged = failure
