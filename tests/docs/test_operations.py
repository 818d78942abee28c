"""Metrics, kinds of events, keys and messages in docs/operations.md and docs/troubleshooting.md exist."""

import ast
import dataclasses
import re
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import yaml
import zmq
from prometheus_client import generate_latest

from igbss_stream.chunk import Stream
from igbss_stream.daemon.metrics import BuildCollector, StreamCollector, create_registry
from igbss_stream.feeds.keys import ServerKeys
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.streaming.model_updates import LearningCounts
from tests.doc_pages import ROOT, blocks, run_python, text_of

PACKAGE = ROOT / "igbss_stream"


def test_alerts_use_metrics_that_exist() -> None:
    (rules,) = [
        found
        for block in blocks("docs/operations.md", "yaml")
        if "groups" in (found := yaml.safe_load(block.text))
    ]
    text = " ".join(rule["expr"] for group in rules["groups"] for rule in group["rules"])
    families = {family.name: family.type for family in StreamCollector([]).collect()}
    suffix = {"counter": "_total", "histogram": "_bucket", "gauge": ""}
    known = {name + suffix[kind] for name, kind in families.items()}
    assert set(re.findall(r"\bigbss_\w+", text)) == known
    kinds = {f"models_{field.name}" for field in dataclasses.fields(LearningCounts)}
    source = (PACKAGE / "daemon" / "connectors.py").read_text()
    for kind in re.findall(r'kind="(\w+)"', text):
        assert kind in kinds or f'"{kind}": sink.' in source, kind
    table = re.findall(r"^\| `(igbss_\w+)`", text_of("docs/operations.md"), re.M)
    builds = {f"{family.name}_info" for family in BuildCollector().collect()}
    assert {name.removesuffix("_total") for name in table} == set(families) | builds
    process = set(re.findall(r"`(process_\w+)`", text_of("docs/operations.md")))
    served = generate_latest(create_registry([])).decode()
    assert len(process) == 5
    assert all(f"\n{name} " in served for name in process) or sys.platform != "linux"


@pytest.fixture
def encrypted(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Publish the description of a stream to the one client that is allowed, whose key is in the environment."""
    (server_public, server_secret), (public, secret) = (
        [key.decode() for key in zmq.curve_keypair()] for _ in range(2)
    )
    monkeypatch.setenv("SERVER_KEY", server_public)
    monkeypatch.setenv("IGBSS_KEY", secret)
    over = threading.Event()
    with ZmqPublisher("tcp://127.0.0.1:*", keys=ServerKeys(server_secret, (public,))) as sink:
        sink.start(Stream("sources", 250.0, ("source-0", "source-1"), None, np.dtype("f4")))

        def serve() -> None:
            while not over.wait(0.01):
                sink.serve()

        server = threading.Thread(target=serve)
        server.start()
        yield sink.address
        over.set()
        server.join()


def test_the_client_with_keys_reads(encrypted: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_python("docs/operations.md", {"tcp://127.0.0.1:5560": encrypted})
    assert capsys.readouterr().out == "('source-0', 'source-1')\n"


def printed() -> list[str]:
    """Return every text in the package, … in place of what is filled in."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values]
                found.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(re.sub(r"%[-.\w]*[sdgf]", "…", node.value))
    return found


def test_messages_are_those_of_the_program() -> None:
    texts = printed()
    messages = [
        cell
        for cell in re.findall(r"^\| `([^`|]*)` \|", text_of("docs/troubleshooting.md"), re.M)
        if " " in cell
    ]
    assert len(messages) > 25
    for message in messages:
        pieces = [piece.strip() for piece in re.split("…", message) if len(piece.strip()) > 3]
        pattern = ".*".join(map(re.escape, pieces))
        assert any(re.search(pattern, text) for text in texts), message
