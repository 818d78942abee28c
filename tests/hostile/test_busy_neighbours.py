"""A stream that keeps the daemon busy does not keep others waiting."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
import zmq

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.daemon import Daemon
from igbss_stream.feeds.encoder import Encoder
from igbss_stream.feeds.keys import derive_public_key
from tests.daemons import free_port
from tests.waiting import until

STREAM = Stream("s", 1000.0, ("a", "b"), "uV", np.dtype(np.float32))
SERVER, FRIEND = (zmq.curve_keypair()[1].decode() for _ in range(2))
CONFIG = """\
streams:
  - name: busy
    source: {{kind: zmq, socket: pull, bind: true, address: "tcp://127.0.0.1:{busy}"}}
    model: {{structure: systematic}}
    sinks: [{{kind: zmq, address: "tcp://127.0.0.1:*"}}]
  - name: private
    source:
      kind: zmq
      socket: pull
      bind: true
      address: "tcp://127.0.0.1:{private}"
      curve: {{role: server, secret_key: "${{SERVER_KEY}}", allowed: ["{friend}"]}}
    model: {{structure: systematic}}
    sinks: [{{kind: zmq, address: "tcp://127.0.0.1:*"}}]
"""


def test_a_sender_is_admitted_beside_a_busy_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", SERVER)
    busy, private = free_port(), free_port()
    path = tmp_path / "run.yaml"
    path.write_text(CONFIG.format(busy=busy, private=private, friend=derive_public_key(FRIEND)))
    daemon = Daemon(load(path), path)
    encoder, samples, over = Encoder(STREAM, 1), np.zeros((5, 2), np.float32), threading.Event()

    def keep_busy() -> None:
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.set(zmq.LINGER, 0)
            socket.connect(f"tcp://127.0.0.1:{busy}")
            for i in range(10**9):
                if over.is_set():
                    break
                socket.send_multipart(encoder.encode(Chunk(samples, 5 * i)))
                time.sleep(0.001)

    runner = threading.Thread(target=daemon.run)
    sender = threading.Thread(target=keep_busy)
    runner.start()
    sender.start()
    try:
        until(lambda: daemon.runners[0].samples_in > 100)
        began = time.monotonic()
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.set(zmq.LINGER, 0)
            socket.curve_secretkey = FRIEND.encode()
            socket.curve_publickey = derive_public_key(FRIEND).encode()
            socket.curve_serverkey = derive_public_key(SERVER).encode()
            socket.connect(f"tcp://127.0.0.1:{private}")
            socket.send_multipart(Encoder(STREAM, 2).encode(Chunk(samples, 0)))
            until(lambda: daemon.runners[1].samples_in == 5)
        assert time.monotonic() - began < 5.0  # the time of a handshake is 10 s
    finally:
        over.set()
        sender.join()
        daemon.stop()
        runner.join()
