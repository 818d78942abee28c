"""Warn of channels of a live stream that count samples."""

import logging

import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.counter_watch import CounterWatch

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
