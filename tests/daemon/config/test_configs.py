"""Run each file of configs/ with its addresses replaced, and keys in place of placeholders.

The input is a mixture of known sources, sent as fast as possible; learning periods are those of the files.
"""

import importlib.util
import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.signal
import zmq
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.cli.demo import draw_mixing
from igbss_stream.feeds.encoder import Encoder
from igbss_stream.feeds.keys import ClientKeys, ServerKeys, derive_public_key
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.preparation.resampling import get_polyphase_filter
from igbss_stream.separation.metrics import sir
from igbss_stream.subscriber import Subscriber
from tests.commands import Spawn
from tests.daemons import DaemonProcess, free_port
from tests.feeds.test_openephys import one_channel
from tests.recordings import write_recording
from tests.waiting import DEADLINE, until

pytestmark = pytest.mark.jit  # the process compiles or loads its kernels, and learns

CONFIGS = Path(__file__).parents[3] / "configs"
BLOCK = 50  # samples in a message
GOOD = 15.0  # dB; the channels themselves have about 0

Array = NDArray[np.float64]
RunFile = Callable[..., DaemonProcess]
Item = Chunk | Gap


@pytest.fixture
def run_file(spawn: Spawn, tmp_path: Path) -> RunFile:
    """Run a file of configs/ in a temporary folder, with some of its text replaced."""

    def run(name: str, replaced: dict[str, object], health: int = 0, **env: str) -> DaemonProcess:
        text = (CONFIGS / f"{name}.yaml").read_text()
        for old, new in replaced.items():
            assert text.count(old) == 1, old
            text = text.replace(old, str(new))
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        return DaemonProcess(spawn("run", path, env=env), health)

    return run


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def local(port: object) -> str:
    return f"tcp://127.0.0.1:{port}"


def simulate(
    n_samples: int, n_channels: int, n_sources: int | None = None, seed: int = 0
) -> tuple[Array, Array]:
    """Return sources with the kurtosis of EEG, in uV, and channels that are mixtures of them."""
    n_sources = n_sources or n_channels
    rng = np.random.default_rng(seed)
    truth = 10.0 * rng.laplace(size=(n_samples, n_sources))
    x = truth @ draw_mixing(seed, n_channels, n_sources).T
    return truth, x + (0.01 * rng.normal(size=x.shape) if n_channels > n_sources else 0.0)


def send_until(samples: Callable[[int], None], n_first: int, came: Callable[[], object]) -> None:
    """Send the samples for the first model, and more until sources arrive.

    `samples` sends the block that begins at an index.
    """
    for start in range(0, n_first, BLOCK):
        samples(start)
    at = iter(range(n_first, 10**9, BLOCK))
    until(came, lambda: samples(next(at)))


def collect_chunks(subscriber: Subscriber, n_samples: int) -> tuple[Callable[[], bool], list[Item]]:
    """Return a check whether a number of samples has arrived, and the list in which they are collected."""
    items: list[Item] = []

    def came() -> bool:
        items.extend(subscriber.receive(0))
        return sum(len(item.data) for item in items if isinstance(item, Chunk)) >= n_samples

    return came, items


def assert_separated(
    items: list[Item], truth: Array, lost: Callable[[NDArray[np.int_]], NDArray[np.bool_]] | None = None
) -> None:
    """Compare sources with the true ones at the same indices, except lost ones; the signal repeats."""
    for before, after in pairwise(items):
        assert after.start == before.stop
    chunks = [item for item in items if isinstance(item, Chunk)]
    index = np.concatenate([np.arange(chunk.start, chunk.stop) for chunk in chunks])
    sources = np.concatenate([chunk.data for chunk in chunks])
    kept = np.ones(len(index), bool) if lost is None else ~lost(index)
    assert sir(sources[kept], truth[index[kept] % len(truth)]).min() > GOOD


def wait_until_served(subscriber: Subscriber, daemon: DaemonProcess, stream: str) -> Subscriber:
    """Wait until the daemon serves at least one subscriber; return it."""
    until(lambda: daemon.count("subscriptions", stream) > 0, describe=lambda: daemon.get("metrics"))
    return subscriber


def test_eeg_zmq(run_file: RunFile, ends: ExitStack, tmp_path: Path) -> None:
    truth, x = simulate(5000, 8)
    out, health = free_port(), free_port()
    sender = ends.enter_context(ZmqPublisher("tcp://127.0.0.1:*"))
    sender.start(Stream("eeg", 250.0, tuple("abcdefgh"), "uV"))
    daemon = run_file("eeg-zmq", {local(5555): sender.address, local(5560): local(out), "port: 9464": f"port: {health}"}, health)  # fmt: skip
    until(lambda: sender.subscriptions == 1, sender.serve)
    came, items = collect_chunks(
        wait_until_served(ends.enter_context(Subscriber(local(out), "eeg")), daemon, "eeg"), 5000
    )

    def send(start: int) -> None:
        data = x[np.arange(start, start + BLOCK) % 5000].astype(np.float32)
        if start % 1000 == 500:  # a packet of 10 is lost
            sender.publish(Chunk(data[:20], start))
            sender.publish(Chunk(data[30:], start + 30))
        else:
            sender.publish(Chunk(data, start))

    send_until(send, 5000, came)
    assert {item.reason for item in items if isinstance(item, Gap)} == {"learning"}
    assert_separated(items, truth, lambda index: (index % 1000 >= 520) & (index % 1000 < 530))
    assert daemon.state("eeg")["status"] == "ok"
    assert daemon.count("repair_samples_filled", "eeg") > 0
    daemon.end(signal.SIGTERM)
    assert (tmp_path / "state" / "eeg.h5").exists()


def test_eeg_prepared(run_file: RunFile, ends: ExitStack) -> None:
    """Offsets, drift, mains and a noisy reference, all larger than the sources, are removed before learning."""
    n_samples, t = 20_000, np.arange(20_000) / 500  # in which mains and drift repeat
    truth, x = simulate(n_samples, 8, 4)
    x += 4000 * np.arange(8) + 200 * np.sin(2 * np.pi * 0.025 * t)[:, None]
    x += np.outer(10 * np.sin(2 * np.pi * 50 * t), np.arange(1, 9))
    x += 50 * np.random.default_rng(1).normal(size=(n_samples, 1))
    out = free_port()
    sender = ends.enter_context(ZmqPublisher("tcp://127.0.0.1:*"))
    sender.start(Stream("eeg", 500.0, tuple("abcdefgh"), "uV"))
    daemon = run_file("eeg-prepared", {local(5555): sender.address, local(5560): local(out)})
    until(lambda: sender.subscriptions == 1, sender.serve)
    subscriber = ends.enter_context(Subscriber(local(out), "eeg"))
    came, items = collect_chunks(subscriber, 5000)

    def send(start: int) -> None:
        data = x[np.arange(start, start + BLOCK) % n_samples].astype(np.float32)
        sender.publish(Chunk(data, start))

    send_until(send, 17_500, came)
    assert (subscriber.stream.rate, subscriber.stream.delay, subscriber.stream.n_channels) == (250.0, 26, 4)
    chunks = [item for item in items if isinstance(item, Chunk)]
    index = np.concatenate([np.arange(chunk.start, chunk.stop) for chunk in chunks])
    sources = np.concatenate([chunk.data for chunk in chunks])
    twice = filter_truth(np.concatenate([truth, truth]))[n_samples // 2 :]  # the second time nothing begins
    # weights about an average have both signs, and so have the sources
    assert sir(np.hstack([sources, -sources]), twice[index % len(twice)]).min() > GOOD
    daemon.end(signal.SIGTERM)


def filter_truth(truth: Array) -> Array:
    """Apply the preparation of eeg-prepared.yaml to sources at 500 Hz, using SciPy."""
    x = scipy.signal.sosfilt(scipy.signal.butter(4, 0.5, "highpass", output="sos", fs=500), truth, axis=0)
    for frequency in (50, 100):
        x = scipy.signal.lfilter(*scipy.signal.iirnotch(frequency, frequency / 2, fs=500), x, axis=0)
    return np.asarray(scipy.signal.resample_poly(x, 1, 2, axis=0, window=get_polyphase_filter(1, 2).taps))


def test_clean_eeg(run_file: RunFile, ends: ExitStack, tmp_path: Path) -> None:
    """Cleaned channels lack the known sources of the eyes."""
    truth, x = simulate(7500, 8)
    eyes = np.array(
        [[60.0, 20.0, 12.0, 6.0, 3.0, 1.0, 4.0, 4.0], [15.0, 60.0, 3.0, 2.0, 1.0, 0.5, 6.0, -6.0]]
    )
    without = x - truth[:, :2] @ draw_mixing(0, 8, 8)[:, :2].T
    x = without + truth[:, :2] @ eyes / 10.0
    out = [free_port(), free_port()]
    sender = ends.enter_context(ZmqPublisher("tcp://127.0.0.1:*"))
    sender.start(Stream("eeg", 250.0, tuple("abcdefgh"), "uV"))
    daemon = run_file("clean-eeg", {local(5555): sender.address, local(5560): local(out[0]), local(5561): local(out[1])})  # fmt: skip
    until(lambda: sender.subscriptions == 1, sender.serve)
    subscriber = ends.enter_context(Subscriber(local(out[0]), "eeg"))
    came, items = collect_chunks(subscriber, 5000)

    def send(start: int) -> None:
        sender.publish(Chunk(x[np.arange(start, start + BLOCK) % 7500].astype(np.float32), start))

    send_until(send, 7500, came)
    assert subscriber.stream.channels == ("EOG1", "EOG2", "Fz", "Cz", "Pz", "Oz", "C3", "C4")
    assert subscriber.stream.unit == "uV"
    chunks = [item for item in items if isinstance(item, Chunk)]
    index = np.concatenate([np.arange(chunk.start, chunk.stop) for chunk in chunks]) % 7500
    cleaned = np.concatenate([chunk.data for chunk in chunks])
    high_pass = scipy.signal.butter(4, 1.0, "highpass", output="sos", fs=250)
    want = scipy.signal.sosfilt(high_pass, np.concatenate([without, without]), axis=0)[7500:]
    assert (cleaned - want[index]).std() < 0.08 * (x - without).std()
    daemon.end(signal.SIGTERM)
    assert (tmp_path / "state" / "eeg.h5").exists()


def test_sensors_pull(run_file: RunFile, ends: ExitStack, tmp_path: Path) -> None:
    addresses = [local(free_port()) for _ in range(2)]
    sockets = [f"ipc://{tmp_path}/{name}" for name in ("vibration", "gas")]
    daemon = run_file(
        "sensors-pull",
        dict(
            zip(
                (local(5571), local(5572), "ipc:///tmp/igbss-vibration", "ipc:///tmp/igbss-gas"),
                (*addresses, *sockets), strict=True,
            )
        ),
    )  # fmt: skip
    # Kernels are compiled by then: what is sent before would come all at once, after half of the patience.
    until(lambda: all(Path(one.removeprefix("ipc://")).exists() for one in sockets))
    context = ends.enter_context(zmq.Context())
    for address, published, rate, n_first, (truth, x) in zip(
        addresses,
        sockets,
        (200.0, 1.0),
        (1000, 900),
        (simulate(1000, 3), simulate(1000, 5, 3)),
        strict=True,
    ):
        subscriber = ends.enter_context(Subscriber(published))
        sender = ends.enter_context(context.socket(zmq.PUSH))
        sender.linger, sender.sndtimeo = 0, round(1000 * DEADLINE)
        sender.connect(address)
        stream = Stream("group", rate, tuple(f"{i}" for i in range(x.shape[1])), "m/s2")
        encoder = Encoder(stream, 1)
        sender.send_multipart(encoder.encode_meta())
        came, items = collect_chunks(subscriber, 500)

        def send(start: int, sender: Any = sender, encoder: Encoder = encoder, x: Array = x) -> None:
            data = x[np.arange(start, start + BLOCK) % 1000].astype(np.float32)
            sender.send_multipart(encoder.encode(Chunk(data, start)))

        send_until(send, n_first, came)
        assert_separated(items, truth)
        assert (subscriber.stream.n_channels, subscriber.stream.rate) == (3, rate)
        assert subscriber.stream.name == ("gas" if rate == 1.0 else "vibration")
    daemon.end(signal.SIGINT)


@pytest.mark.skipif(importlib.util.find_spec("pylsl") is None, reason="pylsl is not installed")
def test_lsl(run_file: RunFile, ends: ExitStack) -> None:
    from tests import lsl_settings  # before liblsl is loaded, here and in the daemon

    assert lsl_settings
    from igbss_stream.feeds.lsl_inlet import LslInlet
    from igbss_stream.feeds.lsl_publisher import LslPublisher

    truth, x = simulate(1000, 4)
    outlet = ends.enter_context(LslPublisher("EEG"))
    outlet.start(Stream("amplifier", 100.0, ("a", "b", "c", "d"), None, np.dtype("f4")))
    daemon = run_file("lsl", {})
    until(lambda: outlet.has_receivers)
    at = iter(range(0, 10**9, BLOCK))

    def send() -> None:
        start = next(at)
        outlet.publish(Chunk(x[np.arange(start, start + BLOCK) % 1000].astype(np.float32), start))

    for _ in range(1200 // BLOCK):
        send()
    source = ends.enter_context(LslInlet("eeg-sources", timeout=DEADLINE))
    items: list[Item] = []

    def came() -> bool:
        items.extend(source.receive(0))
        return sum(len(item.data) for item in items if isinstance(item, Chunk)) >= 500

    until(came, send)
    sources = np.concatenate([item.data for item in items if isinstance(item, Chunk)])
    # an outlet has no index: search the lag at which the sources match
    assert max(
        sir(sources[:500], truth[np.arange(lag, lag + 500) % 1000]).min() for lag in range(1000)
    ) > GOOD  # fmt: skip
    daemon.end(signal.SIGTERM)


def test_openephys(run_file: RunFile, ends: ExitStack, tmp_path: Path) -> None:
    truth, x = simulate(10_000, 16, 8)
    out = free_port()
    context = ends.enter_context(zmq.Context())
    plugin = ends.enter_context(context.socket(zmq.XPUB))
    plugin.linger = 0
    plugin.sndhwm = 0  # it must not drop: the test is not about that
    port = plugin.bind_to_random_port("tcp://127.0.0.1")
    daemon = run_file("openephys", {local(5556): local(port), local(5560): local(out)})
    assert plugin.poll(round(1000 * DEADLINE))
    subscriber = ends.enter_context(Subscriber(local(out), "lfp"))
    came, items = collect_chunks(subscriber, 2000)

    def send(start: int) -> None:
        data = x[np.arange(start, start + BLOCK) % 10_000]
        for channel in range(16):
            plugin.send_multipart(one_channel(start, channel, data[:, channel], sample_rate=1000.0))

    send_until(send, 12_000, came)
    assert_separated(items, truth)
    assert (subscriber.stream.unit, subscriber.stream.n_channels) == (None, 8)
    daemon.end(signal.SIGTERM)
    until(lambda: subscriber.ended, lambda: items.extend(subscriber.receive(0.05)))
    chunks = [item.data for item in items if isinstance(item, Chunk)]
    parts = []
    for path in sorted(tmp_path.glob("lfp-sources-*Z.h5")):  # two if midnight passes
        with h5py.File(path) as file:
            parts.append(file["data"][()])
    recorded = np.concatenate(parts)
    published = np.concatenate(chunks)
    np.testing.assert_array_equal(recorded[-len(published) :][: len(published)], published)


def secret_key() -> str:
    return zmq.curve_keypair()[1].decode()


def test_secure(run_file: RunFile, ends: ExitStack) -> None:
    """The daemon authenticates itself to its sender, and only a listed subscriber receives data."""
    daemon_key, bedside, monitor, stranger = (secret_key() for _ in range(4))
    truth, x = simulate(2500, 4)
    out, health = free_port(), free_port()
    sender = ends.enter_context(
        ZmqPublisher("tcp://127.0.0.1:*", keys=ServerKeys(bedside, (derive_public_key(daemon_key),)))
    )
    sender.start(Stream("ward-3", 250.0, tuple("abcd"), "uV"))
    daemon = run_file(
        "secure",
        {
            "tcp://bedside.example.org:5555": sender.address,
            "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7": derive_public_key(bedside),
            "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID": derive_public_key(monitor),
            "tcp://*:5560": f"tcp://*:{out}",
            "port: 9464": f"port: {health}",
        },
        health,
        IGBSS_KEY=daemon_key,
    )  # fmt: skip
    until(lambda: sender.subscriptions == 1, sender.serve)

    server = derive_public_key(daemon_key)
    allowed = ends.enter_context(Subscriber(local(out), keys=ClientKeys(server, monitor)))
    refused = [
        ends.enter_context(Subscriber(local(out))),  # no key
        ends.enter_context(Subscriber(local(out), keys=ClientKeys(server, stranger))),  # not listed
        # listed, but it takes another for the daemon
        ends.enter_context(Subscriber(local(out), keys=ClientKeys(derive_public_key(bedside), monitor))),
    ]
    wait_until_served(allowed, daemon, "ward-3")
    until(lambda: daemon.count("denied", "ward-3") > 0, describe=lambda: daemon.get("metrics"))
    came, items = collect_chunks(allowed, 1000)

    def send(start: int) -> None:
        sender.publish(Chunk(x[np.arange(start, start + BLOCK) % 2500].astype(np.float32), start))

    send_until(send, 3000, came)
    assert_separated(items, truth)
    assert daemon.count("subscriptions", "ward-3") == 1
    for subscriber in refused:
        assert subscriber.receive(0.3) == []
        assert not subscriber.described
    daemon.end(signal.SIGTERM)
    assert daemon_key not in str(daemon.lines)


def test_record(run_file: RunFile, tmp_path: Path) -> None:
    truth, x = simulate(5000, 3)
    write_recording(tmp_path / "recording.h5", x.astype(np.float32), rate=250.0, unit="uV")
    (tmp_path / "recording-sources.h5").write_bytes(b"of an earlier run")
    daemon = run_file("record", {})
    _, errors = daemon.process.communicate(timeout=DEADLINE)
    assert daemon.process.returncode == 0, errors
    with h5py.File(tmp_path / "recording-sources.h5") as file:
        sources = file["data"][()]
        models = file["models"][()]
    start = int(models["start"][0])
    assert len(models) == 1  # learned once
    assert start >= 2500
    assert start + len(sources) == 5000
    assert sir(sources, truth[start:]).min() > GOOD
    assert not [json.loads(line) for line in errors.splitlines() if re.search("warning|error", line)]
