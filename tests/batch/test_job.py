"""A job as plain data: it can be pickled, and its result has errors, notes and warnings."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from igbss_stream.batch import job as jobs
from igbss_stream.batch.job import Job, Result, run_job, run_safely, run_sequentially
from igbss_stream.batch.separate import Outcome
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.errors import RecordingError
from igbss_stream.files.read_options import ReadOptions
from tests.published import model_settings
from tests.recordings import RATE, noise, read_output, systematic, write_recording


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return write_recording(tmp_path / "in.h5", noise(), rate=RATE, unit="uV")


def a_job(recording: Path, **options: object) -> Job:
    settings = BatchSettings(model=model_settings(structure=systematic(4)))
    made = {"output": recording.with_name("out.h5"), "settings": settings} | options
    return Job(input=recording, **made)  # type: ignore[arg-type]


def test_travels_and_does_the_same_there(recording: Path) -> None:
    job = a_job(recording, wanted=ReadOptions(channels="0-3"))
    run_job(job)
    here = job.output.read_bytes()
    job.output.unlink()
    result = pickle.loads(pickle.dumps(run_safely(pickle.loads(pickle.dumps(job)))))
    assert (result.status, result.error, result.outcome.n_channels) == ("done", None, 4)
    assert job.output.read_bytes() == here


def test_row_is_json(recording: Path) -> None:
    row = json.loads(json.dumps(run_safely(a_job(recording)).row(), allow_nan=False))
    assert row["input"] == str(recording)
    assert (row["status"], row["n_samples"], row["n_channels"], row["n_sources"]) == ("done", 60, 4, 4)
    assert row["speed"] == pytest.approx(60 / RATE / row["seconds"], rel=1e-2)


def test_row_is_json_whatever_numbers_a_reader_uses(recording: Path) -> None:
    outcome = Outcome(np.int64(60), 4, 4, np.float64(RATE), "joint", n_windows=2, n_failed=np.int64(1))  # type: ignore[arg-type]
    result = Result(job=a_job(recording), status="done", seconds=0.5, outcome=outcome)
    row = json.loads(json.dumps(result.row()))
    assert (row["n_samples"], row["rate"], row["speed"]) == (60, RATE, 0.48)
    assert row["message"] == "1 of 2 windows did not converge"


def test_mistake_is_told_and_stops_nothing(recording: Path, tmp_path: Path) -> None:
    x = noise()
    x[7, 2] = np.nan
    bad = write_recording(tmp_path / "bad.h5", x)
    outputs = [tmp_path / "new" / name for name in ("bad.h5", "gone.h5", "good.h5")]
    todo = [
        a_job(path, output=output, make_folders=True)
        for path, output in zip([bad, tmp_path / "gone", recording], outputs, strict=True)
    ]
    results = list(run_sequentially(todo))
    assert [result.status for result in results] == ["failed", "failed", "done"]
    assert "1 samples are NaN" in results[0].message
    assert "does not exist" in results[1].message
    assert not any(result.trace for result in results)
    assert set(results[0].row()) == set(results[2].row())
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["good.h5"]
    assert read_output(outputs[2]).sources.shape == (60, 4)


def test_fault_of_the_program_is_told_apart(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "separate_recording", lambda *_, **__: [][0])
    result = run_safely(a_job(recording))
    assert result.status == "failed"
    assert result.trace is not None
    assert "test_job.py" in result.trace
    assert result.message == "IndexError: list index out of range"


def test_interrupt_is_not_held_back(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "separate_recording", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_safely(a_job(recording))


def test_warnings_are_in_the_result(recording: Path) -> None:
    settings = BatchSettings(model=model_settings(n_sources=2))
    result = run_safely(a_job(recording, settings=settings))
    assert result.status == "done"
    assert "does not distinguish channels" in result.warnings[0]
    assert result.message == result.warnings[0]


def test_folder_that_cannot_be_made(recording: Path) -> None:
    job = a_job(recording, output=recording / "in" / "out.h5", make_folders=True)
    with pytest.raises(RecordingError, match="its folder cannot be created"):
        run_job(job)
