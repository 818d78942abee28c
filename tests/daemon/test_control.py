"""The control server: choices over HTTP, only with the token, and only from its own names."""

import http.client
import json
import socket
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from igbss_stream.daemon import control
from igbss_stream.daemon.check import find_obstacles, find_warnings
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.config.web_sections import ControlSection
from igbss_stream.daemon.control import ControlServer, open_control
from igbss_stream.daemon.control_token import load_token
from igbss_stream.errors import ConfigError, FeedError, ParameterError
from tests.daemon.test_source_choice import Live, noise
from tests.waiting import DEADLINE, until

TOKEN = "0123456789abcdef-token"
KEYS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


class Served:
    """A control server of a stream that a thread serves."""

    def __init__(self) -> None:
        self.live = Live()
        self.live.push(noise(0))
        self.server = ControlServer("127.0.0.1", 0, [self.live.runner], TOKEN, ["eeg.example.org"])
        self.is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self.is_over.wait(0.002):
            self.live.runner.serve()

    def close(self) -> None:
        self.is_over.set()
        self._thread.join(DEADLINE)
        self.server.close()

    def send(
        self, body: bytes, headers: Mapping[str, str] = KEYS, method: str = "POST", path: str = "/choice"
    ) -> tuple[int, str, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=DEADLINE)
        with closing(connection):
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())

    @property
    def excluded(self) -> Any:
        return self.live.runner.chooser.choice.excluded


@pytest.fixture
def served() -> Iterator[Served]:
    with closing(Served()) as served:
        yield served


def test_a_choice_is_applied_and_answered(served: Served) -> None:
    status, body, _ = served.send(b'{"stream": "s", "exclude": [1], "names": [[1, "blink"]]}')
    assert (status, json.loads(body)) == (
        200,
        {"stream": "s", "start": 100, "excluded": [1], "names": [[1, "blink"]], "chosen": True, "undo": 1},
    )
    assert served.excluded == (1,)
    status, body, _ = served.send(b"{}")
    assert (status, json.loads(body)["excluded"]) == (200, [1])


WITHOUT_TOKEN = {name: value for name, value in KEYS.items() if name != "Authorization"}


@pytest.mark.parametrize(
    "headers",
    [
        WITHOUT_TOKEN,
        *(
            KEYS | {"Authorization": value}
            for value in ("", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN)
        ),
        KEYS | {"Authorization": "Bearer \u00e9"},
    ],
)  # fmt: skip
def test_a_wrong_token_is_refused(served: Served, headers: dict[str, str]) -> None:
    status, body, found = served.send(b'{"exclude": [1]}', headers)
    assert (status, body) == (401, "the token is wrong or missing\n")
    assert found["WWW-Authenticate"] == "Bearer"
    assert served.excluded is None


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"Host": "attacker.example"}, 403, "is not allowed; add its name to control.allowed_hosts"),
        ({"Origin": "http://attacker.example"}, 403, "Origin http://attacker.example is not allowed"),
        ({"Origin": "null"}, 403, "Origin null"),
        ({"Content-Type": "text/plain"}, 415, "Content-Type must be application/json"),
        ({"Content-Length": "300000"}, 413, "the body of a request may have 262144 bytes"),
        ({"Content-Length": "-1"}, 411, "Content-Length must be"),
        ({"Transfer-Encoding": "chunked"}, 411, "Content-Length must be"),
    ],
)
def test_requests_that_are_not_read(
    served: Served, changes: dict[str, str], status: int, words: str
) -> None:
    found = served.send(b'{"exclude": [1]}', KEYS | changes)
    assert found[0] == status
    assert words in found[1]
    assert served.excluded is None


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "the request is not valid: "),
        (b'{"stream": "t"}', 400, "stream must be one of s. Got 't' instead."),
        (b'{"exclude": [9]}', 409, "source 9 cannot be removed: there are 3 sources"),
        (b'{"undo": true}', 409, "there is no choice to undo"),
    ],
)
def test_a_choice_that_cannot_be_applied_says_why(
    served: Served, body: bytes, status: int, words: str
) -> None:
    found = served.send(body)
    assert (found[0], found[1][: len(words)]) == (status, words)


def test_other_methods_and_pages(served: Served) -> None:
    status, _, found = served.send(b"", method="GET")
    assert (status, found["Allow"]) == (405, "POST")
    assert served.send(b"", method="GET", path="/")[0] == 404
    assert served.send(b"{}", path="/other")[0] == 405


def test_a_proxy_with_an_allowed_name_may_pass_requests_on(served: Served) -> None:
    assert (
        served.send(b"{}", KEYS | {"Host": "eeg.example.org", "Origin": "https://eeg.example.org"})[0]
        == 200
    )


def test_clients_that_end_early_do_no_harm(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    head = "\r\n".join(["POST /choice HTTP/1.1", "Host: localhost", "Content-Length: 9", *(f"{k}: {v}" for k, v in KEYS.items()), "", ""])  # fmt: skip
    with socket.create_connection(("127.0.0.1", served.server.port), DEADLINE) as client:
        client.sendall(head.encode() + b"{")
    assert served.send(b"{}")[0] == 200
    assert caplog.text == ""


def test_a_stream_that_does_not_answer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_TIMEOUT", 0.1)
    served.is_over.set()
    served._thread.join(DEADLINE)
    assert served.send(b'{"exclude": [1]}')[:2] == (
        503,
        "stream s does not answer; see the log of the daemon\n",
    )
    served.live.runner.serve()
    assert served.excluded is None


def test_requests_of_two_clients_do_not_undo_each_other(served: Served) -> None:
    """Each page adds a source to what is taken out then, wherever it stands."""
    threads = [threading.Thread(target=served.send, args=(b'{"add": [%d]}' % source,)) for source in (0, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    until(lambda: served.excluded == (0, 2), describe=lambda: served.excluded)


def test_a_token_file_is_created_for_its_owner_alone_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    caplog.set_level("INFO")
    for _ in range(2):
        open_control(ControlSection(port=0, token_file=path), []).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = load_token(path)
    assert len(token) == 43
    first, second = (record.getMessage() for record in caplog.records)
    assert first.endswith(f"/choice, token in '{path}'")
    assert token not in first + second


def test_a_token_without_a_file_is_new_at_each_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    for _ in range(2):
        open_control(ControlSection(port=0), []).close()
    tokens = {record.getMessage().rpartition(" ")[2] for record in caplog.records}
    assert {len(token) for token in tokens} == {43}
    assert len(tokens) == 2


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (TOKEN, 0o640, "is accessible to other users; run chmod 600"),
        ("short", 0o600, "must contain a token of 16 to 256 printable ASCII characters"),
        ("two words of a token", 0o600, "must contain a token"),
        ("\u00e9" * 20, 0o600, "must contain a token"),
    ],
)
def test_a_token_file_that_cannot_be_used(tmp_path: Path, content: str, mode: int, words: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(ParameterError, match=words):
        load_token(path)
    with pytest.raises(ConfigError, match=rf"control\.token_file: .*{words}"):
        open_control(ControlSection(port=0, token_file=path), [])


def test_a_token_file_in_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be created: No such file or directory; check its folder"):
        open_control(ControlSection(port=0, token_file=tmp_path / "none" / "token"), [])


def test_check_refuses_what_run_refuses(tmp_path: Path) -> None:
    """A token file that others can read, and one in a folder that does not exist; and warns of what is lost."""
    path = tmp_path / "run.yaml"
    source, sink = "source: {kind: zmq, address: '5555'}", "sinks: [{kind: zmq, address: '5560'}]"
    (tmp_path / "open").write_text(TOKEN)
    (tmp_path / "open").chmod(0o644)
    for file, words in (
        ("open", "is accessible to other users; run chmod 600"),
        ("none/token", "cannot be created: there is no such folder"),
        ("new", None),
    ):
        path.write_text(
            f"streams: [{{name: s, {source}, clean: {{}}, {sink}}}]\n"
            f"control: {{token_file: {file}, host: 0.0.0.0}}\n"
        )
        config = load(path)
        found = find_obstacles(config)
        assert [words in one for one in found if words] == ([] if words is None else [True]), found
        warnings = find_warnings(config, path)
        assert [one.partition(":")[0] for one in warnings] == [
            "control.host is open to the network without encryption",
            "control",
            "streams[0].clean has no effect",
        ]
    assert not (tmp_path / "new").exists()


def test_a_port_in_use(served: Served) -> None:
    with pytest.raises(FeedError, match=r"control cannot be served at 127\.0\.0\.1:"):
        ControlServer("127.0.0.1", served.server.port, [], TOKEN)
