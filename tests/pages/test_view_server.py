"""Who can open the page and its WebSocket, and how much of each, through real sockets."""

import base64
import contextlib
import http.client
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.commands import Refusal
from tests.daemons import free_port
from tests.waiting import DEADLINE

pytest.importorskip("bokeh")

from igbss_stream.pages.view import web_server
from igbss_stream.pages.view.feed import Feed
from igbss_stream.pages.view.serve import serve

Visit = Callable[..., None]


@pytest.fixture
def visit() -> Iterator[Visit]:
    """Serve a page while a function, which gets its port, visits it in another thread."""
    with Feed(f"127.0.0.1:{free_port()}") as feed:

        def run(visitor: Callable[[int], None], *allowed_hosts: str) -> None:
            outcome: list[BaseException | None] = []

            def work(port: int) -> None:
                try:
                    visitor(port)
                except BaseException as error:  # raised in the thread of the test
                    outcome.append(error)
                else:
                    outcome.append(None)

            def on_ready(url: str) -> None:
                port = int(url.rstrip("/").rpartition(":")[2])
                threading.Thread(target=work, args=(port,), daemon=True).start()

            serve(feed, 0, on_ready, lambda: bool(outcome), allowed_hosts)
            if outcome[0] is not None:
                raise outcome[0]

        yield run


def ask(port: int, host: str, target: str = "/", **headers: str) -> tuple[int, str]:
    """Return status and body of a page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    with contextlib.closing(connection):
        connection.putrequest("GET", target, skip_host=True)
        for name, value in {"Host": host, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def open_websocket(port: int, host: str, page: str, **headers: str) -> socket.socket:
    """Send the handshake that the script of a page sends; return the connection."""
    found = re.search(r'"token":"([^"]+)"', page)
    assert found is not None
    client = socket.create_connection(("127.0.0.1", port), DEADLINE)
    lines = {
        "Host": host,
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Protocol": f"bokeh, {found[1]}",
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    client.sendall(f"GET /ws HTTP/1.1\r\n{head}\r\n".encode())
    return client


def get_websocket_status(port: int, host: str, page: str, **headers: str) -> int:
    with contextlib.closing(open_websocket(port, host, page, **headers)) as client:
        return int(client.recv(12).split()[1])


def test_the_page_and_its_websocket_open_under_own_names(visit: Visit) -> None:
    def check(port: int) -> None:
        for netloc in f"127.0.0.1:{port}", f"localhost:{port}", "localhost:8000", "[::1]:8000":
            status, page = ask(port, netloc)
            assert status == 200
            assert get_websocket_status(port, netloc, page, Origin=f"http://{netloc}") == 101
        status, page = ask(port, "eeg.example.org")  # through a proxy that encrypts
        assert status == 200
        for host in "eeg.example.org", f"127.0.0.1:{port}":  # which passes the name, or does not
            assert get_websocket_status(port, host, page, Origin="https://eeg.example.org") == 101

    visit(check, "eeg.example.org")


def test_other_sites_reach_neither_the_page_nor_its_websocket(visit: Visit) -> None:
    """A name that resolves to this machine, and pages of other servers of this machine."""

    def check(port: int) -> None:
        own = f"127.0.0.1:{port}"
        page = ask(port, own)[1]
        for host in "attacker.example", f"attacker.example:{port}", f"localhost.attacker.example:{port}":
            for target in "/", "/autoload.js", "/metadata", "/static/js/bokeh.min.js", "/ws":
                status, body = ask(port, host, target)
                assert status == 403
                assert body == (
                    f"Host {host} is not allowed; add its name with --allowed-host or view.allowed_hosts\n"
                )
            assert get_websocket_status(port, host, page, Origin=f"http://{host}") == 403
        for origin in "http://attacker.example", "http://127.0.0.1:1", "null":
            assert ask(port, own, Origin=origin)[0] == 403
            assert get_websocket_status(port, own, page, Origin=origin) == 403
        assert ask(port, own)[0] == 200

    visit(check)


def test_two_names_are_refused(visit: Visit) -> None:
    def check(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), DEADLINE) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 400"

    visit(check)


def test_too_many_pages_are_refused(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bokeh builds a page for each request, whether or not a browser ever shows it."""
    monkeypatch.setattr(web_server, "_MAX_PAGES", 3)

    def check(port: int) -> None:
        own = f"127.0.0.1:{port}"
        pages = [ask(port, own)[1] for _ in range(3)]
        for target in "/", "/autoload.js?bokeh-autoload-element=1":
            status, body = ask(port, own, target)
            assert (status, body[:16]) == (503, "3 pages are open")
        assert ask(port, own, "/static/js/bokeh.min.js")[0] == 200
        assert get_websocket_status(port, own, pages[2], Origin=f"http://{own}") == 101

    visit(check)


def test_idle_connections_are_bounded_in_number_and_time(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "_MAX_CONNECTIONS", 20)
    monkeypatch.setattr(web_server, "_IDLE_TIMEOUT", 1.0)

    def check(port: int) -> None:
        threads = threading.active_count()
        with contextlib.ExitStack() as ends:
            clients = [
                ends.enter_context(socket.create_connection(("127.0.0.1", port), DEADLINE))
                for _ in range(30)
            ]
            clients[0].sendall(b"GET / HTTP/1.1\r\nHost: lo")  # and never the rest
            assert [client.recv(1) for client in clients] == [b""] * 30  # closed by the server
            assert threading.active_count() == threads
        assert ask(port, f"127.0.0.1:{port}")[0] == 200

    visit(check)


def test_an_open_websocket_may_be_idle(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "_IDLE_TIMEOUT", 0.2)

    def check(port: int) -> None:
        own = f"127.0.0.1:{port}"
        page = ask(port, own)[1]
        with contextlib.closing(open_websocket(port, own, page, Origin=f"http://{own}")) as client:
            client.settimeout(0.1)
            until = time.monotonic() + 1.0
            while time.monotonic() < until:
                with contextlib.suppress(TimeoutError):
                    assert client.recv(1 << 16) != b""

    visit(check)


@pytest.mark.parametrize("name", ["https://eeg.example.org", "eeg.example.org:443", "", "a b"])
def test_a_name_that_no_browser_sends_is_refused(refused: Refusal, name: str) -> None:
    assert "--allowed-host must be a host name without a port" in refused(
        "view", "5560", "--allowed-host", name
    )
