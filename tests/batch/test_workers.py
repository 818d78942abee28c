"""Recordings separated by workers of Dask: the same files as without, also where workers die or see nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest

from igbss_stream.batch import dask_cluster
from igbss_stream.batch.channels import Progress
from igbss_stream.batch.dask_runner import DaskRunner
from igbss_stream.batch.job import Job, Result, run_safely, run_sequentially
from igbss_stream.batch.segments import run_in_segments
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.errors import FeedError, IgbssWarning
from igbss_stream.files.writers.locking import lock, wait_until_free
from tests.commands import SYSTEMATIC, Command, Refusal, Spawn, assert_says, contents
from tests.daemons import free_port
from tests.published import model_settings
from tests.recordings import RATE, noise, read_output, write_recording
from tests.waiting import until

DEADLINE = 600  # seconds that anything may take here
SETTINGS = BatchSettings(model=model_settings())


@pytest.fixture(scope="module")
def workers() -> Iterator[DaskRunner]:
    """Start two processes, which all tests here share."""
    with DaskRunner(2) as started:
        yield started


def recordings(folder: Path, count: int = 6) -> list[Path]:
    """Write recordings, each of other samples and of another length."""
    return [
        write_recording(folder / f"in{n}.h5", noise(60 + n, 4, seed=n), rate=RATE) for n in range(count)
    ]


def jobs_of(inputs: Sequence[Path], folder: Path, **options: object) -> list[Job]:
    made = {"settings": SETTINGS, "make_folders": True} | options
    return [Job(input=path, output=folder / path.name, **made) for path in inputs]  # type: ignore[arg-type]


def facts(results: Sequence[Result]) -> dict[str, tuple[object, ...]]:
    """Return what results say, but for how long it took."""
    return {
        result.job.input.name: (result.status, result.message, result.trace, result.outcome)
        for result in results
    }


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def within(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): content for path, content in contents(folder).items()}


def test_two_processes_do_what_one_does(workers: DaskRunner, tmp_path: Path) -> None:
    bad = noise()
    bad[7, 2] = np.nan
    inputs = [*recordings(tmp_path), write_recording(tmp_path / "bad.h5", bad), tmp_path / "gone.h5"]
    alone = facts(list(run_sequentially(jobs_of(inputs, tmp_path / "alone"))))
    assert [kind for kind, *_ in alone.values()] == ["done"] * 6 + ["failed"] * 2
    (tmp_path / "there").mkdir()
    assert facts(list(workers.run(jobs_of(inputs, tmp_path / "there")))) == alone
    assert files(tmp_path / "there") == files(tmp_path / "alone")
    assert len(files(tmp_path / "there")) == 6


def test_iterations_of_windows_are_those_of_one_process(workers: DaskRunner, tmp_path: Path) -> None:
    settings = BatchSettings(model=model_settings(latent_mass=0.05), window=0.08)
    inputs = recordings(tmp_path, 3)
    for folder, run in ("alone", run_sequentially), ("there", workers.run):
        list(run(jobs_of(inputs, tmp_path / folder, settings=settings)))
    assert files(tmp_path / "there") == files(tmp_path / "alone")
    for path in (tmp_path / "there").iterdir():
        output = read_output(path)
        assert len(output.fits_kl) == np.sum(output.fits["n_iter"] + 1) > 3


def test_output_that_exists_is_refused_or_kept(workers: DaskRunner, tmp_path: Path) -> None:
    inputs = recordings(tmp_path, 2)
    first = jobs_of(inputs[:1], tmp_path / "out")
    assert [result.status for result in workers.run(first)] == ["done"]
    found = facts(list(workers.run(jobs_of(inputs, tmp_path / "out"))))
    assert found["in0.h5"][0] == "failed"
    assert_says(str(found["in0.h5"][1]), "already exists", "--overwrite")
    assert found["in1.h5"][0] == "done"
    again = facts(list(workers.run(jobs_of(inputs, tmp_path / "out", resume=True))))
    assert [kind for kind, *_ in again.values()] == ["skipped", "skipped"]
    again = facts(list(workers.run(jobs_of(inputs, tmp_path / "out", overwrite=True))))
    assert [kind for kind, *_ in again.values()] == ["done", "done"]


def killed(job: Job, progress: Progress | None = None) -> Result:
    """Do a job as a worker does, and kill the worker: once in the middle, once at the end, or every time."""
    marks = {name: job.output.with_name(f"{job.input.name}.{name}") for name in ("middle", "end")}

    def die(where: str) -> None:
        if not marks[where].exists():
            marks[where].touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def in_the_middle(doing: str, done: int, total: int) -> None:
        assert progress is not None
        progress(doing, done, total)
        assert job.output.with_name(f"{job.output.name}.partial").exists()
        die("middle")

    if job.input.name == "in2.h5":
        os.kill(os.getpid(), signal.SIGKILL)
    if job.input.name == "in0.h5":
        return run_safely(job, in_the_middle)
    result = run_safely(job, progress)
    if job.input.name == "in1.h5":
        die("end")
    return result


@pytest.mark.jit  # starts many processes
def test_worker_that_is_killed_changes_nothing(
    workers: DaskRunner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inputs = recordings(tmp_path, 5)
    del inputs[2]
    alone = facts(list(run_sequentially(jobs_of(inputs, tmp_path / "alone"))))
    assert facts(list(workers.run(jobs_of(inputs, tmp_path / "there"), do=killed))) == alone
    outputs = files(tmp_path / "there")
    assert outputs.pop("in0.h5.middle") == outputs.pop("in1.h5.end") == b""
    assert outputs == files(tmp_path / "alone")
    assert re.search(r"Worker tcp://127\.0\.0\.1:\d+ was lost; repeating: .*in0\.h5", caplog.text)


@pytest.mark.slow
def test_recording_that_ends_every_worker_is_named_and_stops_no_other(
    workers: DaskRunner, tmp_path: Path
) -> None:
    found = facts(list(workers.run(jobs_of(recordings(tmp_path), tmp_path / "there"), do=killed)))
    assert found.pop("in2.h5")[0] == "failed"
    assert [kind for kind, *_ in found.values()] == ["done"] * 5
    (lost,) = workers.run(jobs_of([tmp_path / "in2.h5"], tmp_path / "there"), do=killed)
    assert_says(lost.message, "4 workers were lost", "tcp://127.0.0.1:")


def test_nobody_else_can_reach_the_processes(workers: DaskRunner) -> None:
    this = psutil.Process()
    found = [each.net_connections() for each in (this, *this.children(recursive=True))]
    listening = [
        connection.laddr.ip for each in found for connection in each if connection.status == "LISTEN"
    ]
    assert len(listening) >= 4
    assert set(listening) == {"127.0.0.1"}


def test_wait_ends_when_the_other_run_does(tmp_path: Path) -> None:
    partial = tmp_path / "out.h5.partial"
    wait_until_free(partial, 1e9)  # not there
    with partial.open("wb") as other:
        assert lock(other)
        began = time.monotonic()
        wait_until_free(partial, 0.2)
        assert time.monotonic() - began >= 0.2
        release = threading.Timer(0.2, other.close)
        release.start()
        wait_until_free(partial, DEADLINE)
        release.join()
        assert other.closed


def long_recordings(folder: Path) -> None:
    """Write recordings that take a while."""
    x = np.tile(noise(1000, 64).astype(np.float32), (100, 1))
    for n in range(4):
        write_recording(folder / f"in{n}.h5", x + n)


@pytest.mark.jit  # starts many processes
def test_interrupted_and_resumed(spawn: Spawn, igbss: Command, tmp_path: Path) -> None:
    long_recordings(tmp_path)
    words = [
        "batch",
        *SYSTEMATIC,
        tmp_path / "in*.h5",
        "--output",
        tmp_path / "out/{stem}.h5",
        "--workers",
        2,
    ]
    process = spawn(*words, start_new_session=True)
    until(lambda: list(tmp_path.glob("out/*.partial")) or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130, errors
    assert errors.endswith("Interrupted; no incomplete output is left.\n")
    assert "Traceback" not in errors
    assert not [path for path in tmp_path.glob("out/*") if path.suffix != ".h5"]
    result = igbss(*words, "--resume", "--summary", tmp_path / "summary.csv")
    assert result.exit_code == 0, result.output
    alone = igbss("batch", *SYSTEMATIC, tmp_path / "in*.h5", "--output", f"{tmp_path}/alone/", "--quiet")
    assert alone.exit_code == 0
    assert files(tmp_path / "out") == files(tmp_path / "alone")
    rows = (tmp_path / "summary.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == [str(tmp_path / f"in{n}.h5") for n in range(4)]


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Path]:
    """Start a scheduler and a worker, as on a cluster; return the scheduler file."""
    file = tmp_path / "scheduler.json"
    here = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
    commands = (
        ["scheduler", *here, "--port", "0", "--scheduler-file", file],
        [
            "worker",
            *here,
            "--scheduler-file",
            file,
            "--nthreads",
            "1",
            "--local-directory",
            tmp_path / "scratch",
        ],
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "dask", *map(str, words)], stderr=subprocess.DEVNULL, cwd="/"
        )
        for words in commands
    ]
    until(file.exists)
    yield file
    family = [psutil.Process(process.pid) for process in started]
    family += [child for process in family for child in process.children(recursive=True)]
    for process in family:
        process.kill()
    for ended in started:
        ended.wait(DEADLINE)


@pytest.mark.jit  # starts many processes
def test_scheduler_elsewhere(
    scheduler: Path, igbss: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings(tmp_path, 3)
    monkeypatch.chdir(tmp_path)  # its workers begin in another folder
    address = json.loads(scheduler.read_text())["address"]
    result = igbss("batch", "in*.h5", "--output", "out/", "--scheduler", address)
    assert result.exit_code == 0, result.output
    assert igbss("batch", "in*.h5", "--output", "alone/").exit_code == 0
    assert files(tmp_path / "out") == files(tmp_path / "alone")
    result = igbss("batch", "in0.h5", "gone.h5", "--output", "more/", "--scheduler", scheduler)
    assert result.exit_code == 2
    assert_says(result.output, "2 recordings: 1 done, 0 skipped, 1 failed", "worker tcp://127.0.0.1:")
    assert f"does not see '{tmp_path}/gone.h5'" in result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--workers", 0), ("--workers must be at least 1", "0")),
        (("--workers", 2, "--scheduler", "tcp://h:1"), ("--workers", "--scheduler", "pass one of them")),
        (("--scheduler", "http://h:1"), ("--scheduler must start with tcp:// or tls://", "http://h:1")),
    ],
)
def test_options_that_cannot_be(
    batch_refused: Refusal, recording: Path, options: tuple[object, ...], words: tuple[str, ...]
) -> None:
    assert_says(batch_refused(recording, *options), *words)


def test_scheduler_that_is_not_there(
    batch_refused: Refusal, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECTING", 0.5)
    address = f"tcp://127.0.0.1:{free_port()}"
    assert_says(
        batch_refused(recording, "--scheduler", address), address, "cannot be reached", "dask scheduler"
    )


def test_dask_that_is_missing(
    batch_refused: Refusal, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "igbss_stream.batch.dask_runner")
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert_says(batch_refused(recording, "--workers", 2), "Dask", "pip install 'igbss-stream[dask]'")


def test_worker_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def described(**packages: str | None) -> dict[str, object]:
        same = {"dask": "1", "distributed": "1", "numpy": "2", "numba": "1", "scipy": "1", "h5py": "3"}
        return {"host": {"python": "3.12.1.final.0"}, "packages": same | {"igbss_stream": "0.1"} | packages}

    def check(**packages: str | None) -> None:
        found = {"client": described(), "workers": {"tcp://w:1": described(**packages)}}
        dask_cluster.check_versions(found, "tcp://s:1")

    check()
    with pytest.raises(FeedError, match=r"tcp://w:1 .* igbss_stream is missing, here 0\.1"):
        check(igbss_stream=None)
    with pytest.raises(FeedError, match="distributed 2, here 1"):
        check(distributed="2")
    with pytest.warns(IgbssWarning, match="numpy 1, here 2"):
        check(numpy="1")


def test_segments_of_workers(workers: DaskRunner, tmp_path: Path) -> None:
    inputs = recordings(tmp_path, 2)
    for folder, runner in ("alone", run_sequentially), ("there", workers.run):
        done = run_in_segments(jobs_of(inputs, tmp_path / folder), runner=runner, seconds=0.1)
        assert [result.status for result in done] == ["done", "done"]
    assert within(tmp_path / "there") == within(tmp_path / "alone")
    assert len(within(tmp_path / "there")) == 2 * (3 + 1 + 1)
