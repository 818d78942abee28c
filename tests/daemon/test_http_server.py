"""The HTTP server of the daemon within its limits, through real sockets."""

import contextlib
import http.client
import json
import logging
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from igbss_stream.daemon import http_server, logs
from igbss_stream.daemon.health import HealthServer
from igbss_stream.daemon.http_server import RequestHead, parse_head
from tests.waiting import DEADLINE, until

HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def server() -> Iterator[HealthServer]:
    server = HealthServer("127.0.0.1", 0, [], ["eeg.example.org"])
    yield server
    server.close()


@contextlib.contextmanager
def connected(server: HealthServer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), DEADLINE) as client:
        yield client


def read_all(client: socket.socket) -> bytes:
    parts = []
    while part := client.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def ask(server: HealthServer, request: bytes) -> tuple[int, bytes]:
    """Send bytes; return the status and the body."""
    with connected(server) as client:
        client.sendall(request)
        answer = http.client.HTTPResponse(client)
        answer.begin()
        return answer.status, answer.read()


def request(*headers: str, target: str = "/health", method: str = "GET", version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/{version}", *headers, "", ""]).encode()


def reset(client: socket.socket) -> None:
    """Close a connection with a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def test_both_pages_are_served(server: HealthServer) -> None:
    status, body = ask(server, HEAD)
    assert (status, json.loads(body)) == (200, {"status": "ok", "streams": {}})
    status, body = ask(server, request("Host: localhost:1", target="/metrics?name=x"))
    assert status == 200
    assert b"# TYPE igbss_samples_total counter" in body


def test_a_head_request_has_no_body(server: HealthServer) -> None:
    with connected(server) as client:
        client.sendall(request("Host: localhost", method="HEAD"))
        head, _, body = read_all(client).partition(b"\r\n\r\n")
    assert b"HTTP/1.1 200 OK" in head
    assert int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]) > 10
    assert body == b""


def test_an_ipv6_address_can_be_bound() -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    server = HealthServer("::1", 0, [])
    try:
        answer = http.client.HTTPConnection("::1", server.port, timeout=DEADLINE)
        answer.request("GET", "/health")
        assert answer.getresponse().status == 200
        answer.close()
    finally:
        server.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request("Host: a", "Host: b"), 400),
        (request("Host: localhost", "Origin: http://localhost", "Origin: http://localhost"), 400),
        (request(), 400),  # HTTP/1.1 needs a host
        (request(version="1.0"), 200),  # such as of a simple health check; no browser sends it
        (b"GET /health\r\n\r\n", 400),
        (b"GET  /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\xff\xfe\r\n\r\n", 400),  # TLS
        (request("Host: localhost", "No colon"), 400),
        (request("Host: localhost", " folded: yes"), 400),
        (request("Host: localhost", "Bad name: 1"), 400),
        (request("Host: localhost", target="/other"), 404),
        (request("Host: localhost", method="POST") + b"body", 405),
        (request("Host: localhost", "X: " + "x" * 9000), 431),
        (request("Host: localhost", *(f"X{i}: 1" for i in range(1500))), 431),
    ],
)
def test_what_is_not_a_request_for_a_page(server: HealthServer, sent: bytes, status: int) -> None:
    assert ask(server, sent)[0] == status
    assert ask(server, HEAD)[0] == 200


def test_a_large_body_does_not_cost_the_sender_the_answer(server: HealthServer) -> None:
    body = b"x" * 100_000
    sent = request("Host: localhost", f"Content-Length: {len(body)}", method="POST") + body
    assert ask(server, sent)[0] == 405


OWN = socket.gethostname()


@pytest.mark.parametrize(
    "headers",
    [
        ("Host: attacker.example",),
        ("Host: attacker.example:9464",),
        ("Host: localhost.attacker.example",),
        ("Host: 127.0.0.1.attacker.example",),
        ("Host: 127.0.0.1@attacker.example",),
        ("Host: eeg.example.org.attacker.example",),
        ("Host: ",),
        ("Host: localhost", "Origin: http://attacker.example"),
        ("Host: localhost", "Origin: null"),
        ("Host: localhost:9464", "Origin: http://localhost:3000"),  # another server of this machine
        ("Host: localhost", "Origin: chrome-extension://localhost"),
    ],
)
def test_a_page_of_another_site_is_refused(server: HealthServer, headers: tuple[str, ...]) -> None:
    for target in ("/health", "/metrics"):
        status, body = ask(server, request(*headers, target=target))
        assert status == 403
        assert b"is not allowed; add its name to health.allowed_hosts" in body


@pytest.mark.parametrize(
    "headers",
    [
        ("Host: localhost",),
        ("Host: LOCALHOST.:9464",),
        ("Host: 127.0.0.1:9464",),
        ("Host: [::1]:9464",),
        ("Host: 192.168.0.7:8000",),
        ("Host: eeg.example.org",),
        ("Host: EEG.example.org:443",),
        ("Host: localhost:9464", "Origin: http://localhost:9464"),
        ("Host: 127.0.0.1:9464", "Origin: https://eeg.example.org"),  # a proxy that changes Host
    ],
)
def test_own_names_and_addresses_are_allowed(server: HealthServer, headers: tuple[str, ...]) -> None:
    assert ask(server, request(*headers))[0] == 200


def test_the_name_of_the_machine_is_allowed_if_others_can_reach_the_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "box-of-eeg")
    for bound, status in ("127.0.0.1", 403), ("0.0.0.0", 200):
        server = HealthServer(bound, 0, [])
        assert ask(server, request("Host: box-of-eeg:9464"))[0] == status
        server.close()


def test_a_refusal_is_logged_once_without_control_characters(
    server: HealthServer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        ask(server, request("Host: \x1b[31mred"))
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "a request with Host \\x1b[31mred was refused; health.allowed_hosts lists further names"
    )


def test_resets_leave_the_log_alone(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traceback would break a log of one JSON object a line."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logs.configure("info", "json")
    server = HealthServer("127.0.0.1", 0, [])
    for sent in (b"", b"GET", HEAD, request("Host: 127.0.0.1", target="/metrics")) * 10:
        client = socket.create_connection(("127.0.0.1", server.port), DEADLINE)
        client.sendall(sent)
        reset(client)
    assert ask(server, HEAD)[0] == 200
    server.close()
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(sys.platform != "linux", reason="open files are read from /proc")
def test_idle_connections_cost_no_threads_and_lock_nobody_out(server: HealthServer) -> None:
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(400)]
        for client in clients[::2]:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: lo")  # and never the rest
        assert ask(server, HEAD)[0] == 200
        assert threading.active_count() == threads
        until(lambda: len(server._open) <= http_server._MAX_CONNECTIONS)
        most = files + 400 + http_server._MAX_CONNECTIONS + 1  # with the one that lists them
        until(lambda: len(os.listdir("/proc/self/fd")) <= most)
        began = time.monotonic()
        assert ask(server, HEAD)[0] == 200
        assert time.monotonic() - began < 1


@pytest.mark.parametrize("is_reader_slow", [False, True])
def test_slow_clients_are_cut_off(
    server: HealthServer, monkeypatch: pytest.MonkeyPatch, is_reader_slow: bool
) -> None:
    """A byte now and then buys no more time, nor does an answer that is not fetched."""
    monkeypatch.setattr(http_server, "_TIMEOUT", 0.3)
    if is_reader_slow:
        page = http_server.WebResponse("text/plain", bytes(1 << 24))
        monkeypatch.setitem(server._pages, "/large", lambda: page)
    with connected(server) as client:
        if is_reader_slow:
            client.sendall(request("Host: localhost", target="/large"))
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while server._open or time.monotonic() < began + 0.1:
                assert time.monotonic() < began + DEADLINE
                if not is_reader_slow:
                    client.sendall(b"x")
                time.sleep(0.02)
    assert ask(server, HEAD)[0] == 200


def test_a_fault_of_a_page_is_logged_and_the_server_continues(
    server: HealthServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(server._pages, "/health", lambda: 1 / 0)
        assert ask(server, HEAD)[0] == 500
    assert "ZeroDivisionError" in caplog.text
    assert ask(server, HEAD)[0] == 200


def test_closing_ends_open_connections_at_once(server: HealthServer) -> None:
    with connected(server) as client:
        client.sendall(b"GET")
        until(lambda: len(server._open) == 1)
        began = time.monotonic()
        server.close()
        server.close()
        assert time.monotonic() - began < http_server._CLOSE_TIMEOUT
        assert not server._thread.is_alive()
        with contextlib.suppress(ConnectionError):
            assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), DEADLINE)


def test_a_head_is_parsed_as_written() -> None:
    head = parse_head(b"GET /a?b HTTP/1.1\r\nHost:  x \r\nA: 1\r\na: 2\r\n\r\n")
    assert head == RequestHead("GET", "/a?b", "HTTP/1.1", {"host": ["x"], "a": ["1", "2"]})
