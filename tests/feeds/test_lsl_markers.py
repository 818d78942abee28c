"""Markers of the Lab Streaming Layer on this machine: events go out as markers."""

from dataclasses import replace

import numpy as np
import pylsl
import pytest

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.events import Events
from igbss_stream.feeds.lsl_publisher import LslPublisher
from tests import lsl_settings
from tests.waiting import DEADLINE, until

assert lsl_settings

STREAM = Stream("marked", 250.0, ("a", "b"), "uV")


@pytest.mark.parametrize("t0", [None, 1.7e9])
def test_events_are_markers_at_the_times_of_their_samples(t0: float | None) -> None:
    """Also those that come before the time of a sample is known."""
    stream = replace(STREAM, t0=t0)
    with LslPublisher() as sink:
        with pytest.raises(RuntimeError, match="start"):
            sink.publish_events(Events())
        sink.start(stream)
        infos = [pylsl.resolve_byprop("name", name, 1, DEADLINE)[0] for name in ("marked", "marked-events")]
        samples, markers = (pylsl.StreamInlet(info) for info in infos)
        for inlet in (samples, markers):
            inlet.open_stream(DEADLINE)
        sink.publish(Gap(0, 100, "learning"))
        sink.publish_events(Events([40.0], ["in the gap"]))
        sink.publish(Chunk(np.zeros((50, 2), np.float32), 100))
        sink.publish_events(Events([110.0, 120.5], ["square", ""], [0.5, 0.0], "stim"))
        _, times = samples.pull_chunk(DEADLINE, 50, min_samples=50)
        found: list[tuple[str, float]] = []

        def pull() -> None:
            texts, stamps = markers.pull_chunk(0.1)
            found.extend(zip((text for (text,) in texts), stamps, strict=True))

        until(lambda: len(found) == 3, pull)
        assert [text for text, _ in found] == ["in the gap", "square", ""]
        index = [100 + (time - times[0]) * 250.0 for _, time in found]
        np.testing.assert_allclose(index, [40.0, 110.0, 120.5], atol=1e-3)
        about = markers.info(DEADLINE)
        assert (about.type(), about.nominal_srate(), about.channel_count()) == ("Markers", 0.0, 1)
        assert about.source_id() == infos[0].source_id() + "-events"
        assert about.get_channel_labels() == ["label"]
