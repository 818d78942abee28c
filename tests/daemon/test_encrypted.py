"""Encrypted streams: which clients are admitted by a publisher and a daemon, and what the others learn."""

import json
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml
import zmq
from click.testing import Result

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.cli.key_file import read_secret_key
from igbss_stream.errors import FeedError, ParameterError
from igbss_stream.feeds import socket_monitor
from igbss_stream.feeds.encoder import Encoder
from igbss_stream.feeds.keys import ClientKeys, ServerKeys, derive_public_key, is_key
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.subscriber import Subscriber
from tests.commands import Command, Refusal, Spawn
from tests.daemons import DaemonProcess, free_port
from tests.waiting import DEADLINE, until

SERVER, FRIEND, STRANGER = (zmq.curve_keypair()[1].decode() for _ in range(3))
STREAM = Stream("s", 250.0, ("source-0", "source-1"), None, np.dtype("f4"), 1000.0)
FOR_FRIENDS, FOR_ALL = ServerKeys(SERVER, (derive_public_key(FRIEND),)), ServerKeys(SERVER, None)
SERVER_KEY = derive_public_key(SERVER)
NO_KEYS = "it encrypts and no keys were given"
OTHER_KEYS = (
    "its public key differs from the given one, or it does not encrypt: check the public key "
    "(--server-key; in Python, server_key)"
)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """Return a file with the allowed key, in the form of `igbss-stream make-keys`."""
    path = tmp_path / "client.env"
    path.touch(0o600)
    path.write_text(f"IGBSS_KEY={FRIEND}\n")
    return path


@contextmanager
def serving(sink: ZmqPublisher) -> Iterator[ZmqPublisher]:
    """Describe a stream and admit readers in a thread."""
    over = threading.Event()
    sink.start(STREAM)

    def serve() -> None:
        while not over.wait(0.01):
            sink.serve()

    server = threading.Thread(target=serve)
    server.start()
    try:
        yield sink
    finally:
        over.set()
        server.join()


def serve_both(sink: ZmqPublisher, reader: Subscriber) -> list[Chunk | Gap]:
    """Do the periodic work of both sides."""
    sink.serve()
    return reader.receive(0.01)


CASES: dict[str, tuple[ServerKeys | None, ClientKeys | None, str]] = {
    "a friend": (FOR_FRIENDS, ClientKeys(SERVER_KEY, FRIEND), ""),
    "anybody": (FOR_ALL, ClientKeys(SERVER_KEY), ""),
    "in the clear": (None, None, ""),
    "no keys": (FOR_FRIENDS, None, NO_KEYS),
    "no keys where every client is admitted": (FOR_ALL, None, NO_KEYS),
    "a stranger": (
        FOR_FRIENDS,
        ClientKeys(SERVER_KEY, STRANGER),
        f"it does not allow the public key '{derive_public_key(STRANGER)}': add it to curve.allowed",
    ),
    "a random key": (FOR_FRIENDS, ClientKeys(SERVER_KEY), "it admits only known keys"),
    "another server": (FOR_FRIENDS, ClientKeys(derive_public_key(STRANGER), FRIEND), OTHER_KEYS),
    "keys for a publisher without encryption": (None, ClientKeys(SERVER_KEY, FRIEND), OTHER_KEYS),
}


@pytest.mark.parametrize(("server", "client", "refusal"), CASES.values(), ids=CASES)
def test_a_rejected_client_learns_why(
    server: ServerKeys | None, client: ClientKeys | None, refusal: str
) -> None:
    with (
        ZmqPublisher("*", keys=server) as sink,
        Subscriber(sink.address, keys=client, timeout=0.1) as reader,
    ):
        sink.start(STREAM)
        until(lambda: reader.described or reader.refusal, lambda: serve_both(sink, reader))
        until(lambda: bool(reader.refusal) == bool(refusal), lambda: serve_both(sink, reader))
        assert reader.refusal.startswith(refusal)
        assert reader.described == (not refusal)
        if refusal:
            with pytest.raises(FeedError, match=rf"^nothing came from '{sink.address}' for 0.1 s: it"):
                _ = reader.stream


def test_a_rejected_client_is_admitted_once_its_key_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libzmq by itself would not retry."""
    monkeypatch.setattr(socket_monitor, "_RETRY_INTERVAL", 0.1)
    with Subscriber(f"127.0.0.1:{free_port()}", keys=ClientKeys(SERVER_KEY, FRIEND)) as reader:
        with ZmqPublisher(reader._receiver.address, keys=ServerKeys(SERVER, ())) as sink:
            until(lambda: reader.refusal.startswith("it does not allow"), lambda: serve_both(sink, reader))
        with ZmqPublisher(reader._receiver.address) as sink:
            until(lambda: reader.refusal == OTHER_KEYS, lambda: serve_both(sink, reader))
        with ZmqPublisher(reader._receiver.address, keys=FOR_FRIENDS) as sink:
            sink.start(STREAM)
            until(lambda: reader.described and not reader.refusal, lambda: serve_both(sink, reader))


def test_a_key_is_read_from_a_file_of_its_owner_only(key_file: Path) -> None:
    for text in (f"IGBSS_KEY={FRIEND}\n", FRIEND, f"# of the monitor\n\nKEY='{FRIEND}'\nPORT=5560\n"):
        key_file.write_text(text)
        assert read_secret_key(key_file) == FRIEND
    for text, words in (
        ("", "It contains none"),
        (FRIEND[:-1], "It contains none"),
        (f"A={FRIEND}\nB={SERVER}", "It contains 2"),
        ("\xff" * 40, "It contains none"),
    ):
        key_file.write_bytes(text.encode("latin-1"))
        with pytest.raises(ParameterError, match=words) as caught:
            read_secret_key(key_file)
        assert FRIEND[:-1] not in str(caught.value)
    for mode in (0o640, 0o604):
        key_file.chmod(mode)
        with pytest.raises(ParameterError, match=r"is readable by other users; run chmod 600"):
            read_secret_key(key_file)


def test_incomplete_keys_are_refused(refused: Refusal, key_file: Path) -> None:
    for command in ("listen", "view"):
        assert "--key-file needs the public key of the publisher as well: pass --server-key" in refused(
            command, 5560, "--key-file", key_file
        )
        message = refused(command, 5560, "--server-key", f"KEY={FRIEND}")  # a secret key by mistake
        assert "--server-key must be a public key of 40 characters (Z85), in single quotes" in message
        assert FRIEND not in message
        assert "cannot be read: No such file" in refused(
            command, 5560, "--server-key", SERVER_KEY, "--key-file", key_file.with_name("none")
        )
    assert "--channels-server-key requires --channels" in refused(
        "view", 5560, "--channels-server-key", SERVER_KEY
    )
    message = refused("view", 5560, "--channels", 5555, "--channels-server-key", "short")
    assert "--channels-server-key must be a public key" in message


def test_listen_reads_an_encrypted_stream_or_states_why_not(igbss: Command, key_file: Path) -> None:
    with ZmqPublisher("*", keys=FOR_FRIENDS) as sink, serving(sink):

        def listened(words: str, seconds: float, *options: object) -> Result:
            """Listen, for longer each time, until the output holds the words: handshakes need time."""
            results: list[Result] = []

            def listen() -> None:
                longer = seconds * (1 + len(results))
                results.append(igbss("listen", sink.address, *options, "--seconds", longer))

            until(
                lambda: results and re.search(words, results[-1].output),
                listen,
                lambda: [result.output for result in results],
            )
            return results[-1]

        keys = ("--server-key", SERVER_KEY, "--key-file", key_file)
        result = listened('"stream": *"s"', 0.5, *keys, "--json")
        assert (result.exit_code, json.loads(result.output.splitlines()[-1])["stream"]) == (0, "s")
        assert FRIEND not in result.output
        result = listened(NO_KEYS, 1, "--quiet")
        assert (result.exit_code, result.output[:7], result.output.count("\n")) == (2, "Error: ", 1)
        listened(
            r"waiting \d+ s  refused it admits only known keys: give a secret key",
            1.2, "--server-key", SERVER_KEY,
        )  # fmt: skip


def test_a_page_has_keys_for_sources_and_channels_and_states_missing_ones() -> None:
    pytest.importorskip("bokeh")
    from igbss_stream.pages.view.feed import Feed
    from igbss_stream.pages.view.status import describe_state

    keys, channels_server = ClientKeys(SERVER_KEY, FRIEND), zmq.curve_keypair()[1].decode()
    with (
        ZmqPublisher("*", keys=FOR_FRIENDS) as sink,
        ZmqPublisher("*", keys=ServerKeys(channels_server, (derive_public_key(FRIEND),))) as raw,
        serving(sink),
        serving(raw),
    ):
        right = ClientKeys(derive_public_key(channels_server), FRIEND)

        def start_and_read(feed: Feed) -> Callable[[], str]:
            feed.start()
            return lambda: describe_state(feed.report, feed.state, feed.address)

        with Feed(sink.address) as feed:
            until(
                lambda: start_and_read(feed)().startswith(
                    f"{sink.address} does not let the page in: {NO_KEYS}"
                )
            )
        with Feed(sink.address, keys=keys, channels=raw.address, channels_keys=right) as feed:
            feed.start()
            until(lambda: feed.state.channels is not None and feed.state.problem == "")
        with Feed(sink.address, keys=keys, channels=raw.address, channels_keys=keys) as feed:
            feed.start()
            refused = f"No channels: {raw.address} does not let the page in: {OTHER_KEYS}."
            until(lambda: feed.state.problem == refused, describe=lambda: feed.state.problem)


class Forwarder:
    """Publish several streams at one address."""

    def __init__(self, *names: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.XPUB)
        self._socket.linger = 0
        self.address = f"tcp://127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self._encoders = {name: Encoder(Stream(name, 250.0, ("a",)), 1) for name in names}
        self._sent = 0
        self.topics: list[str] = []

    def send(self) -> None:
        """Send the next samples of each stream, and note subscriptions to topics."""
        for encoder in self._encoders.values():
            self._socket.send_multipart(encoder.encode_meta())
            self._socket.send_multipart(encoder.encode(Chunk(np.ones((5, 1), np.float32), self._sent)))
        self._sent += 5
        while self._socket.poll(0):
            self.topics.append(self._socket.recv()[1:].decode())

    def end(self, name: str) -> None:
        self._socket.send_multipart(self._encoders.pop(name).encode_end())

    def close(self) -> None:
        self._socket.close()
        self._context.term()


def test_other_streams_at_an_address_are_listed_with_the_option_that_selects_them() -> None:
    pytest.importorskip("bokeh")
    from igbss_stream.pages.view.feed import Feed
    from igbss_stream.pages.view.status import list_figures
    from igbss_stream.playback.monitoring import Monitor
    from igbss_stream.playback.render import format_line

    with (
        closing(Forwarder("eeg", "ecg", "meg")) as all_,
        Feed(all_.address, "ecg") as one,
        Feed(all_.address) as any_,
    ):
        one.start()
        any_.start()
        until(lambda: any_.report and len(any_.report.others) == 2, all_.send)
        assert any_.report is not None
        taken = any_.report.stream
        named = ", ".join(sorted({"eeg", "ecg", "meg"} - {taken})) + " (--topic NAME)"
        figure = next(figure for figure in list_figures(any_.report, None) if figure.name == "others")
        assert (figure.value, "view --topic NAME shows one" in figure.about) == (named, True)
        assert f"  others {named}" in format_line(any_.report)
        until(lambda: one.report and one.report.stream == "ecg", all_.send)
        assert one.report is not None
        assert "others" not in format_line(one.report)
        with Subscriber(all_.address) as subscriber:
            until(lambda: subscriber.receive(0.02) and subscriber.others, all_.send)
            report = Monitor(0.0).report(1.0, others=subscriber.others)
            assert format_line(report).startswith("waiting 1 s  others ")


def test_a_page_keeps_its_stream_among_others() -> None:
    pytest.importorskip("bokeh")
    from igbss_stream.pages.view.feed import Feed

    with closing(Forwarder("eeg", "ecg")) as both, Feed(both.address) as feed:
        feed.start()
        until(lambda: feed.report and feed.report.others, both.send)
        assert feed.report is not None
        taken = feed.report.stream
        assert taken is not None
        both.end(taken)
        until(lambda: taken in both.topics, both.send)


@pytest.mark.jit  # the process compiles or loads its kernels
def test_the_page_of_a_daemon_is_admitted_by_its_encrypted_sink(tmp_path: Path, spawn: Spawn) -> None:
    pytest.importorskip("bokeh")
    out, health = free_port(), free_port()
    curve = {"role": "server", "secret_key": "${KEY}", "allowed": [derive_public_key(STRANGER)]}
    stream = {
        "name": "s",
        "source": {"kind": "zmq", "address": f"{free_port()}"},
        "sinks": [{"kind": "zmq", "address": f"{out}", "curve": curve}],
    }
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"streams": [stream], "view": {"port": 0}, "health": {"port": health}}))
    process = spawn("run", path, env={"KEY": SERVER})
    daemon = DaemonProcess(process, health)
    url = daemon.wait_for_line("page of stream s at ")["message"].split()[-1]
    daemon.wait_for_line("running 1 stream(s)")

    def opened() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
                return bool(answer.read())  # the page begins to read
        except OSError:
            return False

    until(opened)
    until(lambda: daemon.count("subscriptions") == 1)
    assert daemon.count("denied") == 0
    with Subscriber(str(out), keys=ClientKeys(SERVER_KEY, FRIEND)) as friend:  # not allowed here
        until(lambda: friend.refusal, lambda: friend.receive(0.05))
        until(lambda: daemon.count("denied") >= 1, lambda: friend.receive(0.05))
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    words = [
        word.removeprefix("--server-key=")
        for word in Path(f"/proc/{child}/cmdline").read_text().split("\0")
    ]
    assert [word for word in words if is_key(word)] == [SERVER_KEY]
    daemon.end(15)
    assert SERVER not in str(daemon.lines)
