"""Bad channels of a stream of the daemon: what is logged, counted, and not learned from."""

import numpy as np
import pytest

from igbss_stream.chunk import Chunk
from igbss_stream.daemon.bad_channels import WatchedChannels
from igbss_stream.daemon.config.bad_channels_section import BadChannelsSection
from igbss_stream.daemon.config.schema import StreamSection
from igbss_stream.daemon.config.sinks import ZmqOutput
from igbss_stream.daemon.config.sources import ZmqInput
from igbss_stream.events import Events
from igbss_stream.playback.simulate import Simulation


def test_spans_of_a_stream_are_those_of_its_bad_channel_at_the_new_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    simulation = Simulation(8, 250.0, seed=9332)
    x = simulation.block(0, 8000).copy()
    x[4000:6000, 2] = np.nan
    sink, source = (
        ZmqOutput(address="tcp://127.0.0.1:5560"),
        ZmqInput(address="tcp://127.0.0.1:5559", topic="s"),
    )
    bad_channels, announced = BadChannelsSection(action="replace"), list[Events]()
    watched = WatchedChannels(
        StreamSection(name="s", source=source, sinks=(sink,), bad_channels=bad_channels),
        announced.append,
    )
    watched.begin(simulation.stream("s"), 125.0)
    for at in range(0, 5000, 250):
        watched.push(Chunk(x[at : at + 250], at))
    ((start, stop),) = watched.get_spans()
    assert (start in range(2000, 2010), stop > 10**9) == (True, True)
    assert watched.bad == (simulation.stream("s").channels[2],)
    for at in range(5000, 8000, 250):
        watched.push(Chunk(x[at : at + 250], at))
    ((start, stop),) = watched.get_spans()
    assert stop == (6562 + 50) / 2  # a quarter of a second after that second
    assert not watched.bad
    assert watched.get_counts()["bad_channels_returned"] == 1
    name = simulation.stream("s").channels[2]
    assert f"stream s: {name} is missing from sample " in caplog.text
    assert f"stream s: {name} is good from sample 6562" in caplog.text
    rows = [(event.index, event.label, event.source) for table in announced for event in table]
    assert rows == [(4011, f"{name} is missing", "bad channels"), (6562, f"{name} is good", "bad channels")]
    watched.begin(simulation.stream("s"), 125.0)
    assert watched.get_counts()["bad_channels_left_out"] == 1  # counters never decrease
