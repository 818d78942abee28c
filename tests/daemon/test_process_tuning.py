"""Settings of the process change only while a daemon runs."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import llvmlite.binding  # type: ignore[import-untyped]  # it has no types
import pytest

from igbss_stream.daemon import process_tuning
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.daemon import Daemon
from igbss_stream.daemon.process_tuning import page_out_library, tune_process
from igbss_stream.daemon.stream_runner import StreamRunner
from tests.recordings import noise, write_recording

MODULE = "define i32 @f() { ret i32 7 }\ndefine i32 @g() { %x = call i32 @f()\nret i32 %x }"
Settings = tuple[float, int]


def get_settings() -> Settings:
    return sys.getswitchinterval(), gc.get_freeze_count()


@pytest.fixture
def paged_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of libraries whose code is paged out."""
    names: list[str] = []
    monkeypatch.setattr(process_tuning, "page_out_library", names.append)
    return names


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    write_recording(tmp_path / "in.h5", noise(), rate=100.0)
    path = tmp_path / "run.yaml"
    path.write_text(
        "streams: [{name: s, source: {kind: file, path: in.h5, speed: 0}, model: {structure: systematic}, "
        "sinks: [{kind: hdf5, path: out.h5}]}]"
    )
    return path


@pytest.fixture
def seen_while_running(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Return the settings at each step of a daemon."""
    seen: list[Settings] = []
    step = StreamRunner.step

    def step_and_look(runner: StreamRunner, timeout: float) -> None:
        seen.append(get_settings())
        step(runner, timeout)

    monkeypatch.setattr(StreamRunner, "step", step_and_look)
    return seen


def test_only_running_a_daemon_changes_the_process(
    config_file: Path, paged_out: list[str], seen_while_running: list[Settings]
) -> None:
    before = get_settings()
    daemon = Daemon(load(config_file), config_file)
    assert get_settings() == before
    assert paged_out == []
    daemon.run()
    assert get_settings() == before
    assert paged_out == ["llvmlite"]
    assert seen_while_running
    for interval, n_frozen in seen_while_running:
        assert interval == pytest.approx(5e-4)
        assert n_frozen > 0


def test_a_failure_restores_the_process(paged_out: list[str]) -> None:
    before = get_settings()
    with pytest.raises(RuntimeError, match="failed"), tune_process():
        raise RuntimeError("failed")
    assert get_settings() == before


@pytest.fixture
def frozen() -> Iterator[int]:
    """Freeze objects as an application may; return their number."""
    gc.freeze()
    yield gc.get_freeze_count()  # it falls as objects are deleted
    gc.unfreeze()


def test_objects_frozen_by_the_application_stay_frozen(frozen: int, paged_out: list[str]) -> None:
    with tune_process():
        pass
    assert gc.get_freeze_count() > frozen / 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes pages out")
def test_a_library_works_after_its_code_was_paged_out() -> None:
    before = str(llvmlite.binding.parse_assembly(MODULE))
    assert page_out_library("llvmlite") > 1 << 20
    assert str(llvmlite.binding.parse_assembly(MODULE)) == before
    assert "call i32 @f()" in before


def test_a_library_that_is_not_loaded_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    assert page_out_library("no such library") == 0
    monkeypatch.setattr(sys, "platform", "win32")
    assert page_out_library("llvmlite") == 0
