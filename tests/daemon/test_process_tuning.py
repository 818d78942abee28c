"""Settings of the process change only while a daemon runs."""

import gc
import mmap
import os
import re
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
SIZE = 1 << 23  # bytes of the library
IN_MEMORY = re.compile(r"^Rss: +(\d+)", re.M)
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes pages out of memory")
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


def resident(name: str) -> int:
    """Return the bytes of a library that are in the memory of this process."""
    mappings = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.M)
    of_library = [each for each in mappings if each.partition("\n")[0].endswith(f"/{name}")]
    return 1024 * sum(int(size) for each in of_library for size in IN_MEMORY.findall(each))


def is_on_disk(path: Path) -> bool:
    """Whether a file is on a disk: what is in memory alone has nowhere to go."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    around = [(place, kind) for place, kind in mounts if path.is_relative_to(place)]
    return max(around, key=lambda mount: len(mount[0]))[1] not in ("tmpfs", "ramfs")


@pytest.fixture
def library(tmp_path: Path) -> Iterator[mmap.mmap]:
    """Map a file that no other process has, as the system maps the code of a library."""
    path = tmp_path.resolve() / "library-of-this-test.so"
    if not is_on_disk(path):
        pytest.skip("needs a temporary folder on a disk")
    with path.open("wb+") as file:
        file.write(os.urandom(SIZE))
        os.fsync(file.fileno())
        with mmap.mmap(file.fileno(), SIZE, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as mapped:
            yield mapped


@only_linux
def test_a_library_leaves_memory_and_comes_back(library: mmap.mmap, tmp_path: Path) -> None:
    content = (tmp_path / "library-of-this-test.so").read_bytes()
    assert library[:] == content  # every page was touched
    assert resident("library-of-this-test.so") == SIZE
    assert page_out_library("library-of-this") == SIZE
    assert resident("library-of-this-test.so") < SIZE / 4
    assert library[:] == content
    assert resident("library-of-this-test.so") == SIZE


@only_linux
@pytest.mark.parametrize(("platform", "name"), [("linux", "another-library"), ("win32", "library-of-this")])
def test_what_is_not_loaded_or_cannot_leave_is_left_alone(
    library: mmap.mmap, monkeypatch: pytest.MonkeyPatch, platform: str, name: str
) -> None:
    assert len(library[:]) == SIZE
    monkeypatch.setattr(sys, "platform", platform)
    assert page_out_library(name) == 0
    assert resident("library-of-this-test.so") == SIZE


@only_linux
def test_the_compiler_works_after_it_was_taken_out() -> None:
    before = str(llvmlite.binding.parse_assembly(MODULE))
    assert page_out_library("llvmlite") > 1 << 20
    assert str(llvmlite.binding.parse_assembly(MODULE)) == before
    assert re.findall(r"define i32 @\w+|call i32 @\w+", before) == [
        "define i32 @f", "define i32 @g", "call i32 @f",
    ]  # fmt: skip
