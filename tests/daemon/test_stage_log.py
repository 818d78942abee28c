"""What the stages of a stream report is logged, and a failure that goes on only once."""

from types import SimpleNamespace
from typing import Any

import pytest

from igbss_stream.daemon.stage_log import StageLog


def test_a_failure_is_logged_again_when_its_reason_or_the_model_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log, pipeline = StageLog("s"), make_pipeline()
    for n, failure, version in (
        (1, "T8 is flat", None),
        (2, "T8 is flat", None),
        (3, "T8 is flat", 1),
        (4, "T8 is flat", 1),
        (4, "another one that is not new", 1),
        (5, "O1 is flat", 1),
    ):
        pipeline.learner.counts.failed, pipeline.learner.failure = n, failure
        pipeline.model = None if version is None else SimpleNamespace(version=version)
        log.update(None, pipeline)
    texts = [
        record.getMessage().removeprefix("stream s: no model could be learned: ")
        for record in caplog.records
    ]
    assert texts == ["T8 is flat", "T8 is flat", "O1 is flat"]


def make_pipeline() -> Any:
    return SimpleNamespace(
        learner=SimpleNamespace(counts=SimpleNamespace(failed=0), failure=""), model=None
    )
