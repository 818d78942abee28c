"""Warn of channels of a live stream that count samples."""

import logging

import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.counter_watch import CounterWatch
from igbss_stream.daemon.trigger_channels import TriggerChannels
from igbss_stream.errors import ParameterError

STREAM = Stream("eeg", 250.0, ("a", "packet", "b"))
X = np.random.default_rng(0).normal(size=(600, 3)).astype("f4")


@pytest.mark.parametrize("modulus", [16, 256])
@pytest.mark.parametrize("size", [7, 100, 600])
def test_a_counter_is_named_once_in_each_run(
    modulus: int, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    watch, x = CounterWatch("eeg"), X.copy()
    x[:, 1] = np.arange(600) % modulus
    caplog.set_level(logging.WARNING)
    for run in (0, 1):
        for at in range(0, 600, size):
            watch.look([Chunk(x[at : at + size], at), Gap(at + size, 0, "x")], STREAM, run)
    assert len(caplog.messages) == 2
    assert f"(packet counts modulo {modulus})" in caplog.messages[0]


def test_signals_are_not_named(caplog: pytest.LogCaptureFixture) -> None:
    watch = CounterWatch("eeg")
    watch.look([Chunk(X, 0)], STREAM, 0)
    watch.look([Chunk(np.arange(1800.0).reshape(600, 3), 0)], STREAM, 1)
    assert not caplog.messages


def test_channels_that_are_left_out_are_not_named(caplog: pytest.LogCaptureFixture) -> None:
    x = X.copy()
    x[:, 1] = np.arange(600) % 16
    CounterWatch("eeg", ("packet",)).look([Chunk(x, 0)], STREAM, 0)
    assert not caplog.messages


def test_omitted_channels_are_not_separated() -> None:
    split = TriggerChannels(STREAM, ["a"], ["packet"])
    assert split.stream.channels == ("b",)
    (item,), events = split.split([Chunk(X, 10)])
    assert isinstance(item, Chunk)
    np.testing.assert_array_equal(item.data, X[:, 2:])
    assert set(events.source) == {"a"}
    with pytest.raises(
        ParameterError, match=r"source\.omit names the channel 'c', which .* a, packet, b\.$"
    ):
        TriggerChannels(STREAM, [], ["c"])
    with pytest.raises(ParameterError, match=r"source\.events and source\.omit name every"):
        TriggerChannels(STREAM, ["a", "b"], ["packet"])
