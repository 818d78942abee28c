"""The command as a process: start, signals, a full disk, caches and memory."""

import os
import pty
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

import igbss_stream
from igbss_stream import separate
from tests.commands import SYSTEMATIC, Spawn, assert_says, contents, read_terminal
from tests.recordings import assert_equal_to_rounding, noise, read_output, unmixed, write_recording
from tests.waiting import until

pytestmark = pytest.mark.jit  # each starts an interpreter that loads the kernels

N_CHANNELS = 64
DEADLINE = 600  # seconds that a command may take here; compiling all kernels takes 10 to 200 of them


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Wait for a process; return its exit code and what it printed."""
    out, err = process.communicate(timeout=DEADLINE)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def long_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of 64 channels that takes a while: 300000 samples, 77 MB."""
    x = np.tile(noise(1000, N_CHANNELS).astype(np.float32), (300, 1))
    return write_recording(tmp_path_factory.mktemp("long") / "in.h5", x)


def assert_complete(output: Path) -> None:
    """Assert that the long recording is separated to its end."""
    sources = read_output(output).sources
    assert sources.shape == (300_000, N_CHANNELS)
    x = noise(1000, N_CHANNELS).astype(np.float32)
    for start in 0, 150_000, 299_000:
        assert_equal_to_rounding(sources[start : start + 1000], unmixed(x), x)


def await_file(path: Path, n_bytes: int, process: "subprocess.Popen[str]") -> None:
    """Wait until a file is there and has a given size."""
    until(lambda: process.poll() is not None or (path.exists() and path.stat().st_size >= n_bytes))


def test_installed_script_is_the_command(recording: Path, tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("igbss-stream")
    done = subprocess.run(
        [script, "batch", recording, "--output", tmp_path / "out.h5"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "4 channels x 60 samples" in done.stdout
    np.testing.assert_array_equal(read_output(tmp_path / "out.h5").sources, separate(noise()).sources)


def test_messages_go_to_standard_error(spawn: Spawn, recording: Path, tmp_path: Path) -> None:
    code, out, err = finish(
        spawn("batch", recording, *SYSTEMATIC, "-o", tmp_path / "out.h5", "--n-sources", 2)
    )
    assert code == 0
    assert_says(out, "4 channels x 60 samples", "2 sources")
    assert "Warning" not in out
    assert_says(err, "Warning: the structure does not distinguish channels")
    code, out, err = finish(spawn("batch", recording, "-o", tmp_path / "out.h5"))
    assert (code, out) == (2, "")
    assert_says(err, "Error: ", "already exists", "--overwrite")
    assert "Traceback" not in err


def test_debug_shows_a_traceback(spawn: Spawn, tmp_path: Path) -> None:
    code, out, err = finish(spawn("inspect", tmp_path / "nothing.h5", "--debug"))
    assert code != 0
    assert out == ""
    assert_says(err, "Traceback", "RecordingError", "nothing.h5", "does not exist")


def test_killed_run_leaves_no_file_under_the_name_of_the_output(
    spawn: Spawn, long_recording: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.h5"
    codes = []
    for quarter in range(4):
        process = spawn("batch", long_recording, *SYSTEMATIC, "-o", output, "--drop-flat")
        await_file(tmp_path / "out.h5.partial", 0, process)
        time.sleep(0.05 * (quarter + random.random()))
        process.kill()
        codes.append(finish(process)[0])
        if output.exists():
            assert_complete(output)
            output.unlink()
        else:
            assert codes[-1] == -signal.SIGKILL
    assert codes[0] == -signal.SIGKILL
    assert finish(spawn("batch", long_recording, *SYSTEMATIC, "-o", output))[0] == 0
    assert_complete(output)
    assert list(tmp_path.iterdir()) == [output]


def test_terminated_run_leaves_the_older_output(spawn: Spawn, long_recording: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.h5"
    output.write_text("older")
    process = spawn("batch", long_recording, *SYSTEMATIC, "-o", output, "--overwrite", "--drop-flat")
    await_file(tmp_path / "out.h5.partial", 0, process)
    process.terminate()
    assert finish(process)[0] != 0
    assert output.read_text() == "older"


@pytest.mark.parametrize("n_bytes", [0, 5_000_000], ids=["first pass", "second pass"])
def test_interrupted_run_leaves_nothing(
    spawn: Spawn, long_recording: Path, tmp_path: Path, n_bytes: int
) -> None:
    for _ in range(5):  # until one is interrupted before it is done
        process = spawn(
            "batch", long_recording, *SYSTEMATIC, "-o", tmp_path / "out.h5", "--transform", "min-max"
        )
        await_file(tmp_path / "out.h5.partial", n_bytes, process)
        time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        code, out, err = finish(process)
        if code != 0:
            break
        (tmp_path / "out.h5").unlink()
    assert (code, out) == (130, "")
    assert err == "Interrupted; no incomplete output is left.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_bytes", [1_000, 100_000, 5_000_000])
def test_full_disk_is_reported_and_leaves_nothing(
    spawn: Spawn, long_recording: Path, tmp_path: Path, n_bytes: int
) -> None:
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({n_bytes}, {n_bytes}))"
    code, out, err = finish(
        spawn("batch", long_recording, *SYSTEMATIC, "-o", tmp_path / "out.h5", before=limit)
    )
    assert (code, out) == (2, "")
    assert_says(err, "Error: ", "out.h5", "limit on file sizes", "another disk")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_recording_and_output_may_be_named_from_the_current_folder(
    spawn: Spawn, recording: Path, tmp_path: Path
) -> None:
    root = str(Path(igbss_stream.__file__).parents[1])
    code, _, err = finish(spawn("batch", "in.h5", "-o", "out.h5", cwd=tmp_path, env={"PYTHONPATH": root}))
    assert code == 0, err
    np.testing.assert_array_equal(read_output(tmp_path / "out.h5").sources, separate(noise()).sources)
    assert sorted(contents(tmp_path)) == [recording, tmp_path / "out.h5"]


SHOWN = {
    "batch in.h5 -o out.h5 --transform min-max": ["surveying", "separating", "100%"],
    "batch in.h5 -o out.h5 --structure learned": ["trying starts", "learning from view 1", "100%"],
    "inspect in.h5": ["reading", "100%"],
    "export sources.h5 -o out.vhdr": ["looking through", "writing", "100%"],
    "demo --samples 50": ["separating"],
    "simulate --to tcp://127.0.0.1:* --duration 20 --speed 0 --truth truth.h5": [
        "writing the truth",
        "100%",
    ],
}


@pytest.mark.parametrize("words", SHOWN)
def test_terminal_shows_progress(spawn: Spawn, recording: Path, tmp_path: Path, words: str) -> None:
    """What is done, and how far it is; nothing of it where standard error is no terminal or with --quiet."""
    shutil.copy(recording, tmp_path / "sources.h5")
    with h5py.File(tmp_path / "sources.h5", "a") as file:
        file.move("data", "sources")
    env = {"TERM": "xterm", "COLUMNS": "100", "PYTHONPATH": str(Path(igbss_stream.__file__).parents[1])}
    ours, theirs = pty.openpty()
    process = spawn(*words.split(), stderr=theirs, env=env, cwd=tmp_path)
    os.close(theirs)
    shown = read_terminal(ours)
    assert finish(process)[0] == 0, shown
    assert_says(shown, *SHOWN[words])
    again = [] if words.startswith(("inspect", "demo")) else ["--overwrite"]
    ours, theirs = pty.openpty()
    process = spawn(*words.split(), *again, "--quiet", stderr=theirs, env=env, cwd=tmp_path)
    os.close(theirs)
    assert read_terminal(ours) == ""
    assert finish(process)[0] == 0


def peak_memory(spawn: Spawn, recording: Path, output: Path, *options: object) -> int:
    """Return the largest resident memory in MB of a run, as the system counts it for the process alone."""
    report = (
        "import atexit, re, sys\n"
        "atexit.register(lambda: print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]))"
    )
    code, out, err = finish(spawn("batch", recording, *SYSTEMATIC, "-o", output, *options, before=report))
    assert code == 0, err
    return int(out.splitlines()[-1]) // 1024


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux reports the memory of a process"
)
@pytest.mark.parametrize("options", [[], ["--transform", "min-max"]], ids=["exp", "min-max"])
def test_memory_does_not_grow_with_the_recording(
    spawn: Spawn, long_recording: Path, tmp_path: Path, options: list[str]
) -> None:
    short = write_recording(tmp_path / "short.h5", noise(20_000, N_CHANNELS).astype(np.float32))
    for_short = peak_memory(spawn, short, tmp_path / "short-out.h5", *options)
    for_long = peak_memory(spawn, long_recording, tmp_path / "long-out.h5", *options)
    assert for_long - for_short < 30


def test_kernels_are_compiled_once(spawn: Spawn, recording: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    said = []
    for name in "first.h5", "second.h5":
        code, out, err = finish(
            spawn("batch", recording, "-o", tmp_path / name, env={"NUMBA_CACHE_DIR": str(cache)})
        )
        assert code == 0, err
        assert "4 channels x 60 samples" in out
        said.append(err)
    assert said[0].count("compiling kernels") == 1
    assert said[0].count("\n") == 1
    assert said[1] == ""
    assert any(cache.rglob("*.nbc"))
    assert (tmp_path / "first.h5").read_bytes() == (tmp_path / "second.h5").read_bytes()


@pytest.mark.slow
def test_kernels_work_where_nothing_can_be_cached(spawn: Spawn, recording: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.touch()
    package = tmp_path / "installed" / "igbss_stream"
    shutil.copytree(
        Path(igbss_stream.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "model" / "kernels" / "__pycache__").touch()
    code, out, err = finish(
        spawn(
            "batch", recording, "-o", tmp_path / "out.h5",
            before=f"import sys; sys.path.insert(0, {str(package.parent)!r})",
            env={"NUMBA_CACHE_DIR": str(blocked / "numba"), "XDG_CACHE_HOME": str(blocked / "user")},
        )
    )  # fmt: skip
    assert code == 0, err
    assert "4 channels x 60 samples" in out
    assert err.count("cannot be cached") == 1
    assert "Traceback" not in err
    np.testing.assert_array_equal(read_output(tmp_path / "out.h5").sources, separate(noise()).sources)
