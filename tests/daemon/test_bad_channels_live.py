"""A channel that dies while the daemon runs: no gaps, by default, and what goes out names the channel."""

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import zmq

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.daemon import state
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.config.sources import ZmqInput
from igbss_stream.daemon.daemon import Daemon
from igbss_stream.daemon.sources import SocketSource
from igbss_stream.errors import RecordingError, StateError
from igbss_stream.feeds.encoder import Encoder
from igbss_stream.feeds.wire import MetaMessage, decode
from igbss_stream.playback.simulate import Simulation
from tests.recordings import write_recording
from tests.stream_runners import CollectingSink, create_runner
from tests.waiting import until

RATE = 250.0
SIMULATION = Simulation(8, RATE, seed=9350, montage="10-20")
STREAM = SIMULATION.stream("s")
DEAD, SINCE, UNTIL = 2, 3500, 4500
NAME = STREAM.channels[DEAD]
X = SIMULATION.block(0, 6000)


def die(stop: int | None = None, since: int = SINCE) -> np.ndarray:
    x = X.copy()
    x[since:stop, DEAD] = np.nan
    return x


def run(folder: Path, x: np.ndarray, name: str, action: str = "auto") -> tuple[Daemon, Path]:
    """Run a daemon over a recording; its state is kept in the folder."""
    recording = write_recording(
        folder / f"in-{name}", x, rate=RATE, unit="uV", channels=list(STREAM.channels)
    )
    config, out = folder / "run.yaml", folder / name
    config.write_text(
        f"""
streams:
  - name: s
    source: {{kind: file, path: {recording}, speed: 0}}
    model: {{structure: systematic}}
    bad_channels: {{action: {action}}}
    sinks: [{{kind: hdf5, path: {out}}}]
state: {{path: {folder / "state"}}}
"""
    )
    daemon = Daemon(load(config), config)
    daemon.run()
    return daemon, out


def read_events(path: Path) -> list[tuple[float, str]]:
    with h5py.File(path) as file:
        return (
            []
            if "events" not in file
            else [(row["index"], row["label"].decode()) for row in file["events"]]
        )


def test_a_dead_channel_makes_no_gaps_and_the_recording_names_it(tmp_path: Path) -> None:
    daemon, out = run(tmp_path, die(UNTIL), "out.h5")
    assert daemon.runners[0].samples_gap == 0
    assert read_events(out) == [(3511, f"{NAME} is missing"), (5062, f"{NAME} is good")]
    daemon, out = run(tmp_path, die(UNTIL), "off.h5", action="off")
    assert daemon.runners[0].samples_gap > 900
    assert read_events(out) == []


def test_what_was_learned_of_the_channels_outlives_the_daemon(tmp_path: Path) -> None:
    """A second run begins with the dead channel, and replaces it from its first sample on."""
    run(tmp_path, die(), "first.h5")
    memory = state.load_memory(tmp_path / "state" / "s.h5")
    assert memory is not None
    assert memory.table["kind"].tolist() == [b"missing" if i == DEAD else b"" for i in range(8)]
    daemon, out = run(tmp_path, die(500, since=0)[:3000], "second.h5")
    assert daemon.runners[0].samples_gap == 0
    assert read_events(out) == [(0, f"{NAME} is missing"), (1062, f"{NAME} is good")]
    (tmp_path / "state" / "s.h5").unlink()
    daemon, out = run(tmp_path, die(500, since=0)[:3000], "third.h5")
    assert daemon.runners[0].samples_gap >= 500


def test_a_memory_of_other_channels_is_not_used(tmp_path: Path) -> None:
    run(tmp_path, die(), "first.h5")
    other = STREAM.channels[::-1]
    memory = state.load_memory(tmp_path / "state" / "s.h5")
    assert memory is not None
    assert memory.fits(STREAM.channels, RATE, "uV")
    assert not memory.fits(other, RATE, "uV")
    assert not memory.fits(STREAM.channels, 500.0, "uV")


def test_a_damaged_memory_is_refused(tmp_path: Path) -> None:
    run(tmp_path, die(), "first.h5")
    path = tmp_path / "state" / "s.h5"
    memory = state.load_memory(path)
    assert memory is not None
    with pytest.raises(RecordingError, match="does not fit together"):
        replace(memory, channels=memory.channels[1:])
    with pytest.raises(RecordingError, match="does not fit together"):
        replace(memory, covariance=memory.covariance * np.nan)
    with pytest.raises(RecordingError, match="values that are not numbers"):
        replace(memory, n_rows=-1)
    with h5py.File(path, "r+") as file:
        file["channel_covariance"][0, 0, 0] = np.nan
    with pytest.raises(StateError, match="differs from its checksum"):
        state.load_memory(path)


def test_the_sinks_learn_which_channels_are_bad_before_their_samples() -> None:
    config = ZmqInput(address="tcp://127.0.0.1:*", socket="pull", bind=True)
    source, sink = SocketSource("s", config), CollectingSink()
    runner, encoder = create_runner(source, config, sink), Encoder(STREAM, 1)
    x = die(UNTIL)
    with zmq.Context() as context, context.socket(zmq.PUSH) as sender:
        sender.connect(source.address)
        sender.send_multipart(encoder.encode_meta())
        for at in range(0, len(x), 250):
            sender.send_multipart(encoder.encode(Chunk(x[at : at + 250], at)))
        until(lambda: runner.samples_out == len(x), lambda: runner.step(0.05))
        sender.close(0)
    runner.finish()
    assert not any(isinstance(item, Gap) for item in sink.items)
    (before_bad, bad), (before_good, good) = sink.bad_channels
    assert (bad, good) == ((NAME,), ())
    assert sink.items[before_bad].start <= 3511 < sink.items[before_bad].stop
    assert sink.items[before_good].start <= 5062 < sink.items[before_good].stop
    assert [event.label for event in sink.events] == [f"{NAME} is missing", f"{NAME} is good"]


def test_descriptions_state_bad_channels_while_there_are_any() -> None:
    encoder = Encoder(STREAM, 1)
    assert b"bad_channels" not in encoder.encode_meta()[1]
    encoder.set_bad_channels(("T8", "Ω"))
    meta = decode(encoder.encode_meta())
    assert isinstance(meta, MetaMessage)
    assert meta.bad_channels == ("T8", "Ω")
    encoder.set_bad_channels(())
    assert b"bad_channels" not in encoder.encode_meta()[1]
