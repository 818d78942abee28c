"""A recording separated in segments: what one piece gives, to the bit, in parts that may be kept."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from igbss_stream.files.writers.recording_layout import GAP
from tests.commands import SYSTEMATIC, Command, assert_says, contents
from tests.recordings import NAMES, RATE, noise, read_output, write_recording


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a recording of 24 s with a gap; a channel rests in its first half."""
    x = np.random.default_rng(0).laplace(size=(6000, 4)).astype(np.float32)
    x[:3000, 1] = 1.5
    path = write_recording(tmp_path / "in.h5", x + 2, rate=RATE, unit="uV", channels=NAMES)
    with h5py.File(path, "r+") as file:
        file["gaps"] = np.array([(2001, 2001, 500, b"lost")], GAP)
    return path


@pytest.fixture
def flat(source: Path) -> Path:
    """Return that recording with a channel more, which is flat."""
    with h5py.File(source, "r+") as file:
        x, attrs = file["data"][()], dict(file["data"].attrs)
        del file["data"]
        file["data"] = np.insert(x, 2, np.float32(7), axis=1)
        file["data"].attrs.update(attrs | {"channels": ["Fz", "Cz", "ref", "Pz", "Oz"]})
    return source


def assert_same(joined: Path, whole: Path) -> None:
    """Assert that two outputs hold the same, to the bit."""
    with h5py.File(joined) as a, h5py.File(whole) as b:
        assert sorted(a) == sorted(b)
        assert sorted(a.attrs) == sorted(b.attrs)
        assert all(a.attrs[name] == b.attrs[name] for name in b.attrs)
        for name in b:
            assert (a[name].dtype, a[name].shape) == (b[name].dtype, b[name].shape)
            assert a[name][()].tobytes() == b[name][()].tobytes()
            assert sorted(a[name].attrs) == sorted(b[name].attrs)
            assert all(np.array_equal(a[name].attrs[key], b[name].attrs[key]) for key in b[name].attrs)


@pytest.mark.parametrize(
    "options",
    [
        "--structure systematic",
        pytest.param("--structure learned", marks=pytest.mark.jit),
        "--transform min-max --structure cyclic",
        pytest.param(
            "--structure learned --transform min-max --scaling back-projected --channels Oz,Cz,Fz",
            marks=pytest.mark.jit,
        ),
        "--structure random --random-state 3",
    ],
)
def test_segments_are_the_whole(
    separated: Command, igbss: Command, source: Path, tmp_path: Path, options: str
) -> None:
    separated(source, *options.split())
    joined = tmp_path / "joined.h5"
    words = options.split()
    result = igbss("batch", source, "-o", joined, *words, "--segment", 7.1)
    assert result.exit_code == 0, result.output
    parts = tmp_path / "joined.h5.parts"
    assert sorted(path.name for path in parts.iterdir()) == [*(f"000{n}.h5" for n in range(4)), "model.h5"]
    assert_same(joined, tmp_path / "out.h5")
    rows = [read_output(parts / f"000{n}.h5").sources for n in range(4)]
    assert [len(part) for part in rows] == [1775, 1775, 1775, 675]
    assert np.concatenate(rows).tobytes() == read_output(tmp_path / "out.h5").sources.tobytes()
    # The parts go with the file; without them there is nothing, rather than zeros.
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for path in joined, parts:
        shutil.move(path, moved / path.name)
    assert_same(moved / "joined.h5", tmp_path / "out.h5")
    (moved / "joined.h5.parts" / "0001.h5").unlink()
    assert np.isnan(read_output(moved / "joined.h5").sources).all(axis=1).sum() == 1775


@pytest.mark.jit
@pytest.mark.parametrize(
    "options",
    [
        "--exclude 2,0",
        "--exclude-like Cz:0.6 --exclude 3 --compression gzip",
        pytest.param("--structure learned --n-sources 3 --exclude-like Cz:0.4", marks=pytest.mark.jit),
        "--drop-flat --exclude 1",
        "--reference average",
        "--reference Oz --drop-flat --exclude-like Cz:0.6",
    ],
)
def test_what_takes_the_whole_is_found_once(
    igbss: Command, flat: Path, tmp_path: Path, options: str
) -> None:
    """Sources that are like a channel, and flat channels, are those of all samples in every segment.

    A channel rests in the first half, and takes no part in it; another one rests throughout.
    """
    words = options.split()
    if "--drop-flat" not in words:
        words += ["--channels", "Fz,Cz,Pz,Oz"]
    for name, more in ("out.h5", ()), ("joined.h5", ("--segment", 7.1)):
        result = igbss("batch", flat, "-o", tmp_path / name, *words, *more)
        assert result.exit_code == 0, result.output
    assert_same(tmp_path / "joined.h5", tmp_path / "out.h5")
    whole = read_output(tmp_path / "out.h5").datasets
    assert ("cleaned" in whole) == ("excluded" in whole) == ("exclude" in options)
    assert whole["mixing"].shape[0] == 4 - ("Oz" in words)
    if "--exclude-like" in words:
        assert whole["excluded"]["channel"].any()
    with h5py.File(tmp_path / "joined.h5") as joined:
        virtual = [name for name, data in joined.items() if data.is_virtual]
    assert virtual == [name for name in ("cleaned", "sources") if name in whole]


@pytest.mark.jit
def test_models_that_exist_are_asked_for_the_whole(igbss: Command, flat: Path, tmp_path: Path) -> None:
    """Of a model in another order of channels: sources like a channel are those of this recording."""
    names = "Oz,Cz,Fz,Pz"
    assert igbss("batch", flat, "-o", tmp_path / "m.h5", "--channels", names).exit_code == 0
    model = ("--model", tmp_path / "m.h5", "--drop-flat", "--exclude-like", "Cz:0.6")
    for name, more in ("whole", ()), ("joined", ("--segment", 5)):
        summary = ("--summary", tmp_path / f"{name}.json")
        result = igbss("batch", flat, "-o", tmp_path / f"{name}.h5", *model, *more, *summary)
        assert result.exit_code == 0, result.output
        (reported,) = json.loads(summary[1].read_text())["files"]
        assert (reported["left_out"], reported["n_channels"], reported["message"]) == ("ref", 4, "")
    assert_same(tmp_path / "joined.h5", tmp_path / "whole.h5")
    assert len(read_output(tmp_path / "joined.h5").datasets["excluded"])


def test_nothing_like_a_channel_is_told_once(igbss: Command, source: Path, tmp_path: Path) -> None:
    """Also where the run that found it came to no end."""
    output, parts = tmp_path / "out.h5", tmp_path / "out.h5.parts"
    words = ("batch", source, *SYSTEMATIC, "-o", output, "--segment", 7.1, "--exclude-like", "Cz:0.99")
    (parts / "0001.h5").mkdir(parents=True)
    assert "is a directory" in igbss(*words, "--summary", tmp_path / "a.json").output
    (parts / "0001.h5").rmdir()
    assert igbss(*words, "--resume", "--summary", tmp_path / "b.json").exit_code == 0
    (reported,) = json.loads((tmp_path / "b.json").read_text())["files"]
    assert reported["message"].count("no source is like Cz by 0.99 or more") == 1
    found = read_output(output).datasets
    assert len(found["excluded"]) == 0
    with h5py.File(source) as file:
        assert found["cleaned"].tobytes() == file["data"][()].tobytes()


def test_text_in_segments(separated: Command, igbss: Command, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    np.savetxt(path, noise(300), delimiter=",", header="a,b,c,d", comments="")
    separated(path, "--rate", 100)
    result = igbss("batch", path, "-o", tmp_path / "joined.h5", "--rate", 100, "--segment", 0.7)
    assert result.exit_code == 0, result.output
    assert_same(tmp_path / "joined.h5", tmp_path / "out.h5")


@pytest.mark.jit
def test_model_that_exists_in_segments(
    separated: Command, igbss: Command, source: Path, tmp_path: Path
) -> None:
    separated(source)
    for name, more in ("whole", ()), ("joined", ("--segment", 5)):
        model = ("--model", tmp_path / "out.h5")
        result = igbss("batch", source, "-o", tmp_path / f"{name}.h5", *model, *more)
        assert result.exit_code == 0, result.output
    assert_same(tmp_path / "joined.h5", tmp_path / "whole.h5")


@pytest.mark.jit
def test_resumed(igbss: Command, source: Path, tmp_path: Path) -> None:
    output, parts = tmp_path / "out.h5", tmp_path / "out.h5.parts"

    def run(*options: object) -> str:
        return igbss("batch", source, "-o", output, "--segment", 7.1, *options).output

    assert "1 done" in run()
    before = contents(tmp_path)
    assert "1 skipped" in run("--resume")
    (parts / "0002.h5").unlink()
    assert_says(run("--resume"), "1 failed", "'out.h5.parts/0002.h5' is missing", "--overwrite")
    output.unlink()
    (parts / "0001.h5.partial").write_bytes(b"left by a run that was killed")
    kept = {path: path.stat().st_ino for path in parts.glob("*.h5")}
    assert "1 done" in run("--resume")
    assert {path: path.stat().st_ino for path in kept} == kept
    assert contents(tmp_path) == before
    assert_says(run(), "1 failed", "already exists")
    assert contents(tmp_path) == before
    assert "1 done" in run("--overwrite", "--transform", "min-max")
    assert_says(run("--resume"), "1 failed", "transform was", "min-max")


def test_bad_sample_at_the_end_is_found_before_anything_is_written(
    igbss: Command, source: Path, tmp_path: Path
) -> None:
    with h5py.File(source, "r+") as file:
        file["data"][5990, 2] = np.nan
    result = igbss("batch", source, "-o", tmp_path / "out.h5", "--segment", 7.1)
    assert result.exit_code == 2
    assert_says(result.output, "1 samples are NaN", "Pz")
    assert list(contents(tmp_path)) == [source]


@pytest.mark.jit
def test_part_that_cannot_be_written_fails_the_whole(igbss: Command, source: Path, tmp_path: Path) -> None:
    (tmp_path / "out.h5.parts" / "0001.h5").mkdir(parents=True)
    result = igbss("batch", source, "-o", tmp_path / "out.h5", "--segment", 7.1)
    assert result.exit_code == 2
    assert_says(result.output, "1 failed", "rows 1775 to 3550", "is a directory")
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.jit
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--segment 0", ("--segment must be a number of seconds above 0", "0")),
        ("--segment nan", ("--segment", "nan")),
        ("--segment 1e-9", ("--segment must give 1 to 10000 segments", "1e-09")),
        ("--segment 5 --bandpass 1:40", ("filters or resampling", "Omit --segment, or filter")),
        ("--segment 5 --resample 100", ("filters or resampling", "Omit --segment, or filter")),
        ("--segment 5 --exclude 4", ("source 4 cannot be removed", "0 to 3")),
        ("--segment 5 --exclude-like EOG", ("'EOG'", "none of the separated channels")),
        ("--segment 5 --solver joint", ("closed-form", "joint", "omit --segment")),
    ],
)
def test_segments_that_cannot_be(
    igbss: Command, source: Path, tmp_path: Path, options: str, words: tuple[str, ...]
) -> None:
    result = igbss("batch", source, "-o", tmp_path / "out.h5", *options.split())
    assert result.exit_code == 2
    assert_says(result.output, *words)
    assert list(contents(tmp_path)) == [source]


def test_rate_is_needed(igbss: Command, tmp_path: Path) -> None:
    path = write_recording(tmp_path / "in.h5", noise())
    result = igbss("batch", path, "-o", tmp_path / "out.h5", "--segment", 1)
    assert result.exit_code == 2
    assert_says(result.output, "--segment is in seconds", "--rate")
