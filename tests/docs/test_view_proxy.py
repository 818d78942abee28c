"""The nginx configuration of docs/view.md serves the page with its WebSocket, and only with the password."""

import base64
import contextlib
import grp
import http.client
import os
import pwd
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import COMMAND
from tests.daemons import free_port
from tests.doc_pages import blocks
from tests.waiting import DEADLINE, until

pytest.importorskip("bokeh")
pytestmark = pytest.mark.skipif(
    not (shutil.which("nginx") and shutil.which("openssl")), reason="needs nginx and openssl"
)

NAME = "eeg.example.org"
PASSWORD = {"Authorization": f"Basic {base64.b64encode(b'me:secret').decode()}"}
WEBSOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
}


def run(*words: object) -> str:
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[int]:
    """Start the page and nginx, with the ports and files of the test; yield the port of nginx."""
    page, port = free_port(), free_port()
    key, certificate, passwords = (tmp_path / name for name in ("key.pem", "cert.pem", "htpasswd"))
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={NAME}", "-days", 2,
        "-keyout", key, "-out", certificate)  # fmt: skip
    passwords.write_text(f"me:{run('openssl', 'passwd', '-apr1', 'secret')}")
    (block,) = blocks("docs/view.md", "nginx")
    server = block.text
    for old, new in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/certs/eeg.example.org.pem": certificate,
        "/etc/ssl/private/eeg.example.org.key": key,
        "/etc/nginx/eeg.htpasswd": passwords,
        "http://127.0.0.1:5006": f"http://127.0.0.1:{page}",
    }.items():
        assert server.count(old) == 1
        server = server.replace(old, str(new))
    config = tmp_path / "nginx.conf"
    temporary = "".join(
        f"{kind}_temp_path {tmp_path / kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config.write_text(
        f"daemon off; pid {tmp_path / 'pid'}; error_log {tmp_path / 'log'}; events {{}}\n"
        f"user {pwd.getpwuid(os.getuid()).pw_name} {grp.getgrgid(os.getgid()).gr_name};\n"
        f"http {{ access_log off; {temporary}\n{server} }}\n"
    )
    view = [sys.executable, "-c", COMMAND, "view", str(free_port()), "--port", str(page)]
    with contextlib.ExitStack() as ends:
        for command in [*view, "--allowed-host", NAME], ["nginx", "-p", str(tmp_path), "-c", str(config)]:
            process = ends.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            ends.callback(process.terminate)
        yield port


def ask(port: int, target: str, **headers: str) -> tuple[int, str]:
    """Return the status and the body; none of either while nobody listens, or of a WebSocket."""
    connection = http.client.HTTPSConnection(
        "127.0.0.1", port, timeout=DEADLINE, context=ssl._create_unverified_context()
    )
    with contextlib.closing(connection):
        try:
            connection.request("GET", target, headers={"Host": NAME, **headers})
        except ConnectionError:
            return 0, ""
        with contextlib.closing(connection.getresponse()) as answer:
            return answer.status, answer.read().decode() if answer.status != 101 else ""


def get_status(port: int, target: str, **headers: str) -> int:
    return ask(port, target, **headers)[0]


def test_the_proxy_of_the_page_asks_for_a_password(proxy: int) -> None:
    until(lambda: get_status(proxy, "/", **PASSWORD) == 200)  # 502 until the page is ready
    assert get_status(proxy, "/") == 401
    assert get_status(proxy, "/ws", **WEBSOCKET) == 401
    assert get_status(proxy, "/static/js/bokeh.min.js", **PASSWORD) == 200
    page = ask(proxy, "/", **PASSWORD)[1]
    token = page.split('"token":"')[1].split('"')[0]
    handshake = {**PASSWORD, **WEBSOCKET, "Sec-WebSocket-Protocol": f"bokeh, {token}"}
    assert get_status(proxy, "/ws", **handshake, Origin=f"https://{NAME}") == 101
    assert get_status(proxy, "/ws", **handshake, Origin="https://attacker.example") == 403
