"""Check README.md and docs/parameters.md: their code runs, and their tables and links are complete."""

import re
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from igbss_stream._util.signals import StopSignal
from igbss_stream.chunk import Chunk, Stream
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.playback.pacing import PacedStream
from igbss_stream.playback.publishing import publish
from tests.doc_pages import ROOT, run_python
from tests.waiting import DEADLINE

README = ROOT / "README.md"


@pytest.mark.jit
def test_python_blocks_run_one_after_the_other(published: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_python("README.md", {"tcp://127.0.0.1:5560": published})
    assert capsys.readouterr().out.startswith("Chunk(start=0, 5 x 2 float32, model_version=0)\n")


@pytest.mark.jit
def test_python_of_the_parameters_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    run_python("docs/parameters.md")
    assert "converged: the gradient is below" in capsys.readouterr().out


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 150


@pytest.fixture
def published() -> Iterator[str]:
    """Publish a chunk to whoever comes, and end."""
    with ZmqPublisher("tcp://127.0.0.1:*") as sink, StopSignal() as stop:
        stream = Stream("sources", 250.0, ("source-0", "source-1"), None, np.dtype("f4"))
        feed = PacedStream(stream, lambda clock: iter([Chunk(np.zeros((5, 2), "f4"), 0)]), 5, 1.0)
        sender = threading.Thread(target=publish, args=(feed, sink, stop), kwargs={"wait": True})
        sender.start()
        yield sink.address
        sender.join(DEADLINE)
        assert not sender.is_alive()


def test_every_page_is_linked() -> None:
    linked = set(re.findall(r"\(docs/(\w+\.md)\)", README.read_text()))
    assert linked == {page.name for page in (README.parent / "docs").glob("*.md")}
