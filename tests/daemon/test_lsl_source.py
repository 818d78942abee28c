"""The source of an LSL stream waits for its stream and for nothing else."""

import logging
from typing import Any

import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon import lsl_source
from igbss_stream.daemon.config.sources import LslInput
from igbss_stream.errors import FeedError, StreamNotFoundError
from igbss_stream.feeds.timestamps import TimestampIndexer


class Inlet:
    """An inlet whose stream appears at the third attempt to open it."""

    stream = Stream("amplifier", 250.0, ("a", "b"))
    attempts: list[float] = []  # noqa: RUF012 # emptied by the fixture

    def __init__(self, *names: Any, timeout: float, buffer: float, rate: float | None) -> None:
        self.attempts.append(timeout)
        if len(self.attempts) < 3:
            raise StreamNotFoundError("worded in any way")


class Refusing(Inlet):
    """An inlet that finds more than one stream."""

    def __init__(self, *names: Any, timeout: float, buffer: float, rate: float | None) -> None:
        self.attempts.append(timeout)
        raise FeedError("two streams match; none was found within reach")


@pytest.fixture(autouse=True)
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(lsl_source, "LslInlet", Inlet)
    monkeypatch.setattr(Inlet, "attempts", [])
    return Inlet.attempts


def test_it_waits_until_the_stream_appears(attempts: list[float]) -> None:
    source = lsl_source.LslStreamSource("s", LslInput(name="amplifier"))
    assert source.stream == Stream("s", 250.0, ("a", "b"))
    assert len(attempts) == 3


def test_a_limit_of_the_wait_is_kept(attempts: list[float]) -> None:
    with pytest.raises(StreamNotFoundError):
        lsl_source.LslStreamSource("s", LslInput(name="amplifier", wait=2.0))
    assert attempts == [2.0]


def test_another_error_ends_the_wait(attempts: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lsl_source, "LslInlet", Refusing)
    with pytest.raises(FeedError, match="two streams match"):
        lsl_source.LslStreamSource("s", LslInput(name="amplifier"))
    assert len(attempts) == 1


class Contradicting:
    """An inlet that states 256 Hz; the times of its samples say 200."""

    stated_rate = 256.0

    def __init__(self, *names: Any, timeout: float, buffer: float, rate: float | None) -> None:
        self.stream = Stream("amplifier", rate or self.stated_rate, ("a",), None, np.dtype("f8"), 0.0)
        self.indexer = TimestampIndexer(self.stream.rate)

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        index = self.indexer.samples_in + np.arange(20)
        return self.indexer.push(np.zeros((20, 1)), 100.0 + index / 200.0)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (None, "the source states 256 Hz, but its times say 200.0 Hz; set source.rate: 200"),
        (200.0, None),
        (
            100.0,
            "source.rate is 100 Hz, but the times say 200.0 Hz; set source.rate: 200",
        ),
    ],
)
def test_times_that_contradict_the_rate_are_logged_once(
    rate: float | None,
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(lsl_source, "LslInlet", Contradicting)
    source = lsl_source.LslStreamSource("s", LslInput(name="amplifier", rate=rate))
    assert source.stream is not None
    assert source.stream.rate == (rate or 256.0)
    with caplog.at_level(logging.WARNING):
        items = [item for _ in range(600) for item in source.receive(0.0)]
    messages = [f"stream s: {expected}"] if expected else []
    assert [record.getMessage() for record in caplog.records] == messages
    assert all(isinstance(item, Chunk) for item in items)


@pytest.mark.parametrize(("rate", "text"), [(92.951, "92.95"), (1000.2, "1000.2"), (30012.0, "30012.0")])
def test_measured_rates_have_a_decimal(rate: float, text: str) -> None:
    assert lsl_source._format_rate(rate) == text
