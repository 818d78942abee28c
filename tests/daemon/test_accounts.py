"""Every sample is accounted for from the socket to the sinks, if messages are lost, late or duplicate."""

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest
import zmq

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.daemon.config.sources import ZmqInput
from igbss_stream.daemon.sources import SocketSource
from igbss_stream.daemon.stream_counts import collect_counts
from igbss_stream.feeds.encoder import Encoder
from tests import published
from tests.feeds.test_sequencer import disturbed
from tests.stream_runners import CollectingSink, create_runner
from tests.waiting import until

RATE = 250.0
REACH = 8  # messages by which one may be displaced
LONGEST = 20  # samples of a message
STREAM = Stream("s", RATE, ("a", "b", "c"), "uV")
QUICK = 5  # seeds that CI runs


def split(rng: random.Random, x: np.ndarray) -> Iterator[Chunk]:
    """Split samples into messages of 1 to 20."""
    start = 0
    while start < len(x):
        length = rng.randint(1, LONGEST)
        yield Chunk(x[start : start + length], start)
        start += length


@pytest.mark.parametrize(
    "seed", [*range(QUICK), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(QUICK, 100))]
)
def test_samples_in_equal_samples_out_plus_gaps(seed: int) -> None:
    """10 % are lost, 5 % come twice, all may be displaced; counters and indices cover every sample."""
    rng = random.Random(seed)
    x = np.random.default_rng(seed).normal(size=(3000, 3)).astype(np.float32)
    encoder = Encoder(STREAM, 1)
    sent = [(chunk.start, chunk.stop, encoder.encode(chunk)) for chunk in split(rng, x)]
    arrived = disturbed(rng, sent, REACH)
    config = ZmqInput(
        address="tcp://127.0.0.1:*", socket="pull", bind=True, reorder_window=LONGEST * (REACH + 2) / RATE
    )
    sink, source = CollectingSink(), SocketSource("s", config)
    with zmq.Context() as context, context.socket(zmq.PUSH) as sender:
        sender.linger = 0
        sender.connect(source.address)
        runner = create_runner(source, config, sink)
        for frames in (encoder.encode_meta(), *(frames for *_, frames in arrived), encoder.encode_end()):
            sender.send_multipart(frames)
        until(lambda: source.get_counts()["messages"] >= len(arrived) + 2, lambda: runner.step(0.05))
        runner.finish()

    came = {i for start, stop, _ in arrived for i in range(start, stop)}
    counts = collect_counts(runner)
    assert (runner.samples_in, runner.samples_out, runner.samples_gap) == (
        len(came),
        len(came),
        3000 - len(came),
    )
    assert counts["samples_lost"] == 3000 - len(came)
    assert counts["samples_in"] == sum(stop - start for start, stop, _ in arrived)
    assert counts["duplicates"] == len(arrived) - len({start for start, *_ in arrived})
    assert [counts[name] for name in ("late", "strays", "restarts")] == [0, 0, 0]

    assert (sink.items[0].start, sink.items[-1].stop) == (0, 3000)
    assert all(after.start == before.stop for before, after in itertools.pairwise(sink.items))
    want = published.separate(x).sources
    out = set()
    for item in sink.items:
        if isinstance(item, Chunk):
            np.testing.assert_array_equal(item.data, want[item.start : item.stop])
            out |= set(range(item.start, item.stop))
        else:
            assert item.reason == "lost"
    assert out == came
