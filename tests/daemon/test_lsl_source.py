"""The source of an LSL stream waits for its stream and for nothing else."""

from typing import Any

import pytest

from igbss_stream.chunk import Stream
from igbss_stream.daemon import lsl_source
from igbss_stream.daemon.config.sources import LslInput
from igbss_stream.errors import FeedError, StreamNotFoundError


class Inlet:
    """An inlet whose stream appears at the third attempt to open it."""

    stream = Stream("amplifier", 250.0, ("a", "b"))
    attempts: list[float] = []  # noqa: RUF012 # emptied by the fixture

    def __init__(self, *names: Any, timeout: float, buffer: float) -> None:
        self.attempts.append(timeout)
        if len(self.attempts) < 3:
            raise StreamNotFoundError("worded in any way")


class Refusing(Inlet):
    """An inlet that finds more than one stream."""

    def __init__(self, *names: Any, timeout: float, buffer: float) -> None:
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
