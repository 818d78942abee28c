"""Mark sources in a report, and run the command that takes them out of the channels."""

import os
import shlex
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.files.writers.stream_recording import RecordingSink
from tests import browser
from tests.commands import Command
from tests.pages.test_report import NAMES, Page, channels, reported, written

pytestmark = pytest.mark.jit

HOSTILE = 'it\'s "a" $(touch x); `y` <b>&.h5'


def get_command(page: Page, *sources: int) -> list[str]:
    """Return the words that a shell makes of the command for sources."""
    (found,) = (attrs for _, attrs in page.elements if attrs.get("id") == "command")
    listed = ",".join(map(str, sources))
    return shlex.split(" ".join([found["data-before"], listed, found["data-after"]]))


def test_the_command_takes_the_marked_sources_of_the_same_model_out(
    igbss: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the options that the recording was read with, and names that a shell must not interpret."""
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / HOSTILE, channels())
    listed = ",".join(NAMES[:5])
    options = ("--structure", "systematic", "--highpass", "1", "--channels", listed, "--unit", "mV")
    assert igbss("batch", path, "-o", "-out.h5", *options).exit_code == 0
    page = reported(igbss, tmp_path / "-out.h5")
    words = get_command(page, 1, 3)
    assert words[:3] == ["igbss-stream", "batch", HOSTILE]
    assert words[-6:] == ["--model", "./-out.h5", "--exclude", "1,3", "-o", "./-out-cleaned.h5"]
    done = igbss(*words[1:])
    assert done.exit_code == 0, done.output
    with h5py.File("-out.h5") as before, h5py.File("-out-cleaned.h5") as after:
        assert before["sources"][()].tobytes() == after["sources"][()].tobytes()
        assert after["excluded"]["source"].tolist() == [1, 3]
        mixing, sources = before["mixing"][()], before["sources"][()]
        every, without = sources @ mixing.T, after["cleaned"][()]
        np.testing.assert_allclose(
            without, every - sources[:, [1, 3]] @ mixing[:, [1, 3]].T, atol=1e-3 * np.abs(every).max()
        )
    boxes = [attrs["value"] for tag, attrs in page.elements if tag == "input"]
    assert sorted(boxes) == sorted("0123401234")  # in the table and at the section of each source


def test_sources_that_do_not_add_up_cannot_be_marked(igbss: Command, tmp_path: Path) -> None:
    path = written(tmp_path / "in.h5", np.abs(channels()) + 1.0)
    output = tmp_path / "out.h5"
    assert (
        igbss("batch", path, "-o", output, "--structure", "systematic", "--transform", "min-max").exit_code
        == 0
    )
    page = reported(igbss, output)
    assert not [tag for tag, attrs in page.elements if tag == "input" or attrs.get("id") == "command"]


def test_a_name_that_nobody_can_paste_has_no_command(igbss: Command, tmp_path: Path) -> None:
    path = written(tmp_path / "a\nb.h5", channels())
    assert igbss("batch", path, "-o", tmp_path / "out.h5", "--structure", "systematic").exit_code == 0
    page = reported(igbss, tmp_path / "out.h5")
    assert not [attrs for _, attrs in page.elements if attrs.get("id") == "command"]


@pytest.mark.parametrize("kind", ["sources", "channels"])
def test_the_command_of_a_recorded_stream_is_for_its_daemon(
    igbss: Command, tmp_path: Path, kind: str
) -> None:
    names = tuple(f"source-{n}" for n in range(3)) if kind == "sources" else ("Fz", "Cz", "Pz")
    with RecordingSink(tmp_path / "live.h5") as sink:
        sink.set_stream(Stream("eeg", 100.0, names, "uV"))
        sink.write(Chunk(np.random.default_rng(0).normal(size=(500, 3)).astype("f4"), 0, 1))
    page = reported(igbss, tmp_path / "live.h5")
    if kind == "sources":
        assert shlex.join(get_command(page, 0, 2)) == "igbss-stream choose --stream eeg --exclude 0,2"
    else:
        assert not [tag for tag, _ in page.elements if tag == "input"]


@pytest.mark.browser
@pytest.mark.skipif(not browser.is_there(), reason=browser.MISSING)
def test_boxes_write_the_command_and_a_button_copies_it(igbss: Command, tmp_path: Path) -> None:
    path = written(tmp_path / "in put.h5", channels())
    options = ("--structure", "systematic", "--exclude", "2", "--report")
    assert igbss("batch", path, "-o", tmp_path / "out.h5", *options).exit_code == 0
    with browser.browser(tmp_path) as opened:
        driver: Any = opened
        driver.execute_cdp_cmd(
            "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
        )
        driver.get(f"file://{os.fspath(tmp_path / 'out.html')}")
        driver.execute_script("document.documentElement.style.scrollBehavior = 'auto'")
        words = "igbss-stream batch 'in put.h5' --model out.h5 --exclude {} -o out-cleaned.h5"

        def read(selector: str) -> str:
            return str(driver.execute_script(f"return document.querySelector('{selector}').textContent"))

        assert read("#words") == words.format("2")  # what was excluded already
        driver.find_element("css selector", "td input[value='4']").click()
        driver.find_element("css selector", "#s0 input").click()
        assert read("#words") == words.format("0,2,4")
        driver.find_element("css selector", "td input[value='2']").click()
        assert read("#words") == words.format("0,4")
        assert driver.execute_script("return document.querySelector('#s2 input').checked") is False
        driver.find_element("id", "copy").click()
        copied = driver.execute_async_script(
            "const done = arguments[0]; setTimeout(() => navigator.clipboard.readText().then(done, (e) => done(String(e))), 300)"
        )
        assert (copied, read("#copied")) == (words.format("0,4"), "Copied.")
        driver.execute_script(
            "document.querySelectorAll('td input').forEach((b) => { if (!b.checked) b.click() })"
        )
        assert read("#words") == ""
        assert read("#copied") == "At least one source has to stay."
        driver.execute_script("document.querySelectorAll('td input').forEach((b) => b.click())")
        assert read("#copied") == "No source is marked."
        driver.save_screenshot(str(tmp_path / "page.png"))
        assert driver.get_log("browser") == []
