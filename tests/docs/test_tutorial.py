"""docs/tutorial.md, typed from its first line to its last in an empty folder; only the ports are the test's own."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest

import igbss_stream
from tests.daemons import free_port
from tests.doc_pages import ROOT, Block, Line, blocks, commands
from tests.waiting import until

PAGE = "docs/tutorial.md"
# Options of the live part, lest the test takes as long as the tutorial: what is learned is counted in samples.
INSTEAD = {"simulate": {"--speed": "10"}, "listen": {"--seconds": "4"}, "view": {"--port": "0"}}
LONGEST = 300  # seconds that a command may take here
COMMAND = str(Path(sys.executable).with_name("igbss-stream"))


class Typist:
    """Types the lines of a page: waits for each, but for those with & at their end."""

    def __init__(self, folder: Path) -> None:
        self.ports = {port: str(free_port()) for port in ("5555", "5560")}
        self.background: list[subprocess.Popen[str]] = []
        self.names: dict[str, Any] = {}
        self.reported: dict[str, str] = {}
        self._folder = folder
        self._env = os.environ | {"PYTHONPATH": str(Path(igbss_stream.__file__).parents[1])}

    def with_ports(self, text: str) -> str:
        for old, new in self.ports.items():
            text = text.replace(old, new)
        return text

    def type(self, line: Line) -> None:
        words = [self.with_ports(word) for word in line.words]
        if words[0] == "igbss-stream":
            self._run(words[1:])
        elif words[0] == "kill":
            assert line.text == "kill $(jobs -p)"
            self._end()
        else:
            assert words[0] in ("source", "pip")

    def _run(self, words: list[str]) -> None:
        stays = words[-1] == "&"
        words = words[: len(words) - stays]
        more = [word for option, given in INSTEAD.get(words[0], {}).items() for word in (option, given)]
        more = [] if "--truth" in words or "--record" in words else more
        if words[0] == "listen":  # the daemon learns meanwhile, which takes as long as it takes
            until(lambda: self._call(*words, *more) == 0)
            return
        process = self._start(*words, *more)
        self.background.append(process) if stays else None
        if words[0] == "view":
            assert process.stdout is not None
            assert process.stdout.readline().startswith("The page is at http://")
        elif words[0] == "run":  # a reader types on once the daemon says that it runs
            until(lambda: process.poll() is None and listens(self.ports["5560"]))
        elif not stays:
            assert self._finish(process, words[0]) == 0, words
        if words[0] == "init":
            path = self._folder / words[1]
            path.write_text(self.with_ports(path.read_text()))

    def _start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [COMMAND, *words], cwd=self._folder, env=self._env, text=True, stdout=subprocess.PIPE
        )

    def _finish(self, process: subprocess.Popen[str], command: str) -> int:
        self.reported[command] = process.communicate(timeout=LONGEST)[0]
        return process.returncode

    def _call(self, *words: str) -> int:
        return self._finish(self._start(*words), words[0])

    def _end(self) -> None:
        """End what still runs: the feed, the daemon and the page."""
        running = [process for process in self.background if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(LONGEST) for process in running] == [143, 0, 143]

    def run_python(self, block: Block) -> None:
        exec(compile("\n" * block.line + self.with_ports(block.text), str(ROOT / PAGE), "exec"), self.names)


def listens(port: str) -> bool:
    """Whether a process listens at a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


@pytest.fixture
def typist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Typist]:
    monkeypatch.chdir(tmp_path)
    typist = Typist(tmp_path)
    yield typist
    for process in typist.background:
        process.kill()
        process.communicate()


@pytest.mark.jit
def test_the_tutorial_from_its_first_line_to_its_last(
    typist: Typist, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in "edfio", "bokeh":
        pytest.importorskip(library)
    lines = iter(commands(PAGE))
    for block in blocks(PAGE):
        if block.language == "python":
            typist.run_python(block)
        else:
            for _ in range(block.text.count("$ ")):
                typist.type(next(lines))
    assert next(lines, None) is None
    shown = capsys.readouterr().out
    assert "source-0: kurtosis" in shown
    assert "strongest at Fp1" in shown
    assert "correlation with the true blink: 0.99" in shown
    assert "removed from /cleaned: source-2 (Fp1 0.87)" in typist.reported["batch"]
    assert "Fp1: correlation with the blink 0.92 before, " in shown
    assert all(abs(after) < 0.05 for _, after in typist.names["left"].values())
    assert (tmp_path / "cleaned.edf").exists()
    assert typist.names["seen"] >= 250
    with h5py.File(tmp_path / "eeg.h5") as file:
        assert file["data"].shape == (15000, 19)
