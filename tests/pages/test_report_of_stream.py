"""Test the command `report` on a recording of a stream: versions of the model and their times."""

import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.feeds.model_facts import LearningFacts
from igbss_stream.files.writers.stream_recording import RecordingSink
from tests.commands import Command, Refusal, assert_says
from tests.doc_pages import run_python
from tests.pages.test_report import Page, reported

START = 1.7e9  # Unix time of index 0
NAMES = ("source-0", "<b>x</b>")


def record(path: Path, *items: Chunk | Gap, t0: float | None = START) -> None:
    """Record one run; the file goes on if it exists."""
    with RecordingSink(path, if_exists="append") as sink:
        sink.start(Stream("night", 100.0, NAMES, "uV", np.dtype("f4"), t0, 7))
        for item in items:
            sink.write(item)


def chunk(start: int, n: int, model: int) -> Chunk:
    return Chunk(np.random.default_rng(start).normal(size=(n, 2)).astype("f4"), start, model)


def versions(page: Page) -> list[list[str]]:
    """Return the rows of the table of models."""
    first = next(i for i, row in enumerate(page.rows) if row[0] == "version")
    return [row for row in page.rows[first + 1 :] if len(row) == len(page.rows[first])]


def marks(page: Page) -> list[list[float]]:
    """Return the positions of the lines in each trace that has lines."""
    paths = [attrs["d"] for tag, attrs in page.elements if tag == "path" and attrs["class"] == "change"]
    return [[float(x) for x in re.findall(r"M([\d.]+) ", d)] for d in paths]


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """Return a recording of two runs with a gap in each; the second goes on with the model of the first."""
    path = tmp_path / "live.h5"
    first = chunk(500, 300, 1), chunk(800, 200, 2), Gap(1000, 400, "silent"), chunk(1400, 600, 3)
    record(path, *first)
    record(path, chunk(0, 500, 3), Gap(500, 100, "silent"), chunk(600, 400, 4), t0=START + 30)
    return path


def test_versions_are_listed_and_marked(
    igbss: Command, live: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code of the documentation finds the time of each row on its own."""
    monkeypatch.chdir(tmp_path)
    known = run_python("docs/recording.md")
    seconds = known["seconds"]
    page = reported(igbss, live)
    rows = [0, 300, 500, 1100, 1600]
    ends = [*rows[1:], 2000]
    wanted = ["1", "2", "3", "3", "4"]
    found = versions(page)
    assert [row[0] for row in found] == wanted
    assert [float(row[1]) for row in found] == pytest.approx(seconds[rows] - seconds[0])
    assert [row[2] for row in found] == [
        f"{datetime.fromtimestamp(t, UTC):%Y-%m-%d %H:%M:%S}" for t in seconds[rows].tolist()
    ]
    assert [int(row[4]) for row in found] == (np.array(ends) - rows).tolist()
    assert [row[5] for row in found] == [
        "the first samples", "new model", "new model", "continued by another run", "new model",
    ]  # fmt: skip
    # In the trace over the whole recording, which ends at the last sample, 9200 units for all of it.
    whole = seconds[-1] + 0.01 - seconds[0]
    places = [place for drawn in marks(page) for place in drawn]
    expected = [(seconds[row] - seconds[0]) / whole * 9200 for row in (300, 500, 1600)]
    for place in expected:
        assert sum(abs(place - other) < 0.6 for other in places) >= len(NAMES)
    assert_says(
        page.text,
        "4 versions of the model",
        "2023-11-14 22:13:25 UTC",
        "2 channels",
        "silent",
        "restart",
        "night",
    )
    assert "<b>x</b>" in page.text


def test_how_models_were_learned(igbss: Command, tmp_path: Path) -> None:
    """The last model gives the reliability of each source; models without a statement have an empty cell."""
    path = tmp_path / "live.h5"
    with RecordingSink(path) as sink:
        sink.start(Stream("night", 100.0, ("source-0", "source-1"), None, np.dtype("f4"), START))
        for version, view, reliability in ((1, 1.0, (12.0, 3.0)), (2, None, ()), (3, 0.0, (24.0, -5.0))):
            sink.set_learning(
                None
                if view is None
                else LearningFacts(
                    version=version, view=view, reliability=reliability, contradictions=((0.1, 4.25),)
                )
            )
            sink.write(chunk(300 * version, 300, version))
    page = reported(igbss, path)
    assert [row[-1] for row in versions(page)] == [
        "view 1 (view 0.1 contradicted, 4.2); reliability 3 to 12 dB",
        "",
        "innovations; reliability -5 to 24 dB",
    ]
    facts = re.findall(r"reliability(-?\d+ dB)", "".join(page.text.split("\n")))
    assert sorted(facts) == ["-5 dB", "24 dB"]


def test_a_recording_that_is_being_written(igbss: Command, refused: Refusal, tmp_path: Path) -> None:
    path = tmp_path / "live.h5"
    with RecordingSink(path, flush_every=1000.0) as sink:
        sink.start(Stream("night", 100.0, NAMES, None, np.dtype("f4"), None))
        sink.flush()
        assert_says(refused("report", path), "/data", "no samples yet")
        sink.write(chunk(0, 100, 0))
        sink.flush()
        page = reported(igbss, path)
        assert_says(
            page.text, "The samples were produced without a model", "2 channels", "No samples are missing"
        )
        assert versions(page) == [["none", "0", "1 s", "100", "the first samples"]]
        assert_says(
            refused("report", path, "--reference", "Fz", "--overwrite"), "--reference", "leave it out"
        )


def test_long_lists_of_versions_are_truncated(igbss: Command, tmp_path: Path) -> None:
    path = tmp_path / "live.h5"
    record(path, *(chunk(10 * n, 10, n + 1) for n in range(3000)))
    page = reported(igbss, path)
    assert len(versions(page)) == 30
    assert_says(page.text, "2970 more are in /models of the recording", "3000 versions")
    assert max(map(len, marks(page))) <= 921  # one for each place
    assert page.size < 200_000
