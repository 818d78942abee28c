"""Recordings that cannot be separated: the thing, its value and the remedy are named; nothing is left."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

import igbss_stream.batch.channels
from igbss_stream import separate
from tests.commands import Command, Refusal, assert_says
from tests.recordings import NAMES, noise, write_recording


def test_missing_file(batch_refused: Refusal, tmp_path: Path) -> None:
    assert_says(batch_refused(tmp_path / "nothing.h5"), "nothing.h5", "does not exist", "check the path")


def test_folder_for_a_file(batch_refused: Refusal, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert_says(batch_refused(tmp_path / "folder"), "folder", "is a directory")


def test_file_of_another_format(batch_refused: Refusal, tmp_path: Path) -> None:
    (tmp_path / "in.edf").write_bytes(b"0       " * 100)
    assert_says(batch_refused(tmp_path / "in.edf"), "in.edf", "damaged EDF header", "copy or record")


def test_truncated_file(batch_refused: Refusal, recording: Path) -> None:
    recording.write_bytes(recording.read_bytes()[:-500])
    assert_says(batch_refused(recording), "in.h5", "truncated", "copy or record it again")


def test_missing_dataset_lists_those_there_are(batch_refused: Refusal, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["eeg/raw"], file["eeg/turned"] = noise(), noise().T
    message = batch_refused(tmp_path / "in.h5")
    assert_says(message, "no dataset '/data'", "--dataset", "'/eeg/raw' (60, 4)", "'/eeg/turned' (4, 60)")
    assert_says(message, "--axis 1")
    assert_says(batch_refused(tmp_path / "in.h5", "--dataset", "eeg"), "'/eeg'", "group", "'/eeg/raw'")


UNUSABLE: dict[str, tuple[Any, list[str]]] = {
    "one channel": (noise(60, 1), ["one channel", "at least 2"]),
    "one axis": (noise(60, 1)[:, 0], ["one channel", "at least 2"]),
    "no channel": (noise(60, 0), ["no channel", "at least 2"]),
    "one sample": (noise(1, 4), ["too few samples (1)", "at least 2"]),
    "no sample": (noise(0, 4), ["too few samples (0)", "at least 2"]),
    "three axes": (np.zeros((5, 4, 3)), ["3 axes", "(5, 4, 3)", "(samples, channels)"]),
    "axes swapped": (noise(4, 60), ["more channels (60) than samples (4)", "--axis 1"]),
    "text": (np.array([[b"1", b"2"], [b"3", b"4"]]), ["text", "real numbers"]),
    "complex": (np.ones((9, 2), complex), ["complex128", "real numbers"]),
    "bool": (np.ones((9, 2), bool), ["bool", "real numbers"]),
    "a number": (5.0, ["no time series", "another dataset"]),
}


@pytest.mark.parametrize(("x", "words"), UNUSABLE.values(), ids=UNUSABLE)
def test_dataset_that_holds_no_channels(
    batch_refused: Refusal, tmp_path: Path, x: Any, words: list[str]
) -> None:
    assert_says(batch_refused(write_recording(tmp_path / "in.h5", x)), "dataset '/data'", "in.h5", *words)


def test_wrong_axis(batch_refused: Refusal, recording: Path) -> None:
    message = batch_refused(recording, "--axis", 1)
    assert_says(
        message, "at least 9 samples. Got 4 instead", "There are 60 channels: check that rows are samples"
    )


def test_fewer_samples_than_channels_are_separated_as_in_python(igbss: Command, tmp_path: Path) -> None:
    """The axis is stated, and the samples suffice for three sources."""
    x = noise(60, 64)
    path = write_recording(tmp_path / "in.h5", x)
    options = "--n-sources", 3, "--output", tmp_path / "out.h5"
    assert_says(igbss("batch", path, *options).stderr, "pass --axis 1 if its axes are swapped, or --axis 0")
    done = igbss("batch", path, "--axis", 0, *options)
    assert done.exit_code == 0, done.stderr
    with h5py.File(tmp_path / "out.h5") as file:
        np.testing.assert_array_equal(file["sources"][:], separate(x, n_sources=3).sources)


def nan_at_the_end() -> NDArray[Any]:
    x = noise()
    x[59, 2] = np.nan
    return x


def many_that_are_bad() -> NDArray[Any]:
    x = noise()
    x[[3, 17, 40], 1] = np.nan
    x[5:, 3] = -np.inf
    return x


def infinity_at_the_start() -> NDArray[Any]:
    x = noise()
    x[0, 0] = np.inf
    return x


BAD: dict[str, tuple[Callable[[], NDArray[Any]], list[str]]] = {
    "NaN at the end": (nan_at_the_end, ["1 samples", "Pz has 1", "sample 59", "nan"]),
    "infinity at the start": (infinity_at_the_start, ["1 samples", "Fz has 1", "sample 0", "inf"]),
    "many": (
        many_that_are_bad,
        ["58 samples", "Cz has 3", "sample 3", "nan", "Oz has 55", "sample 5", "-inf"],
    ),
}
WAYS = ["", "--transform min-max", "--transform sum", "--drop-flat", "--solver joint"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize(("samples", "words"), BAD.values(), ids=BAD)
def test_samples_that_are_not_finite(
    monkeypatch: pytest.MonkeyPatch,
    batch_refused: Refusal,
    tmp_path: Path,
    samples: Callable[[], NDArray[Any]],
    words: list[str],
    options: str,
    dtype: str,
) -> None:
    path = write_recording(tmp_path / "in.h5", samples().astype(dtype), channels=NAMES)
    for block_bytes in 1 << 22, 500:
        monkeypatch.setattr(igbss_stream.batch.channels, "BLOCK_BYTES", block_bytes)
        assert_says(batch_refused(path, *options.split()), "NaN or infinite", "Interpolate", *words)


@pytest.mark.parametrize(
    ("rows", "value"),
    [
        ([0], np.nan),
        ([5, 40], np.nan),
        ([59], np.inf),
        ([0], np.inf),
        ([5, 6, 40, 59], -np.inf),
    ],
)
def test_samples_that_are_not_finite_where_the_rank_counts(
    batch_refused: Refusal, tmp_path: Path, rows: list[int], value: float
) -> None:
    x = noise()
    x[rows, 2] = value
    message = batch_refused(write_recording(tmp_path / "in.h5", x), "--n-sources", 4)
    words = f"channel-2 has {len(rows)}", f"sample {rows[0]}", str(value)
    assert_says(message, "NaN or infinite", *words)


def test_bad_samples_of_many_channels_are_told_in_short(batch_refused: Refusal, tmp_path: Path) -> None:
    x = noise(60, 9)
    x[2] = np.nan
    message = batch_refused(write_recording(tmp_path / "in.h5", x))
    assert_says(message, "9 samples", "channel-0 has 1", "channel-3 has 1", "5 more channels")
    assert "channel-4" not in message


def test_name_of_a_channel_does_not_break_the_line(batch_refused: Refusal, tmp_path: Path) -> None:
    x = noise()
    x[:, 1] = 1.0
    path = write_recording(tmp_path / "in.h5", x, channels=["a", "b\nError: c", "d", "e"])
    assert_says(batch_refused(path), "flat", r"b\nError: c")


def test_largest_integer_is_no_bad_sample(igbss: Command, tmp_path: Path) -> None:
    x = np.round(1000 * noise(60, 3)).astype(np.int16)
    x[:3] = [[-32768, 32767, 5], [0, -1, 3], [7, 7, 7]]
    result = igbss("batch", write_recording(tmp_path / "in.h5", x), "-o", tmp_path / "out.h5")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("options", ["", "--transform min-max", "--solver joint", "--n-sources 3"])
@pytest.mark.parametrize("value", [0.0, 7.0, -1e9])
def test_flat_channel(batch_refused: Refusal, tmp_path: Path, options: str, value: float) -> None:
    x = noise()
    x[:, 2] = value
    path = write_recording(tmp_path / "in.h5", x, channels=NAMES)
    message = batch_refused(path, *options.split(), *["--structure", "cyclic"])
    assert_says(message, "1 of 4 channels", "flat", "Pz", "--drop-flat")
    assert not {"Fz", "Cz", "Oz"} & set(message.replace(".", " ").replace(",", " ").split())
    assert_says(message, "igbss-stream inspect ", "in.h5")


def test_flat_channels_that_leave_too_few(batch_refused: Refusal, tmp_path: Path) -> None:
    x = np.ones((60, 4))
    x[:, 1] = noise()[:, 1]
    path = write_recording(tmp_path / "in.h5", x)
    assert_says(batch_refused(path), "3 of 4 channels", "flat")
    assert_says(batch_refused(path, "--drop-flat"), "3 of 4 channels", "flat", "at least 2")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_more_sources_than_the_rank(
    batch_refused: Refusal, igbss: Command, tmp_path: Path, dtype: str
) -> None:
    x = 50 * noise(300, 8)
    x -= x.mean(axis=1, keepdims=True)
    path = write_recording(tmp_path / "in.h5", x.astype(dtype) + np.arange(8, dtype=dtype))
    message = batch_refused(path, "--n-sources", 8)
    assert_says(message, "n_sources must be at most the rank", "7", "Got 8", "average reference")
    for options in ["--n-sources", 7, "--structure", "cyclic", "--max-iter", 1], ["--overwrite"]:
        result = igbss("batch", path, "-o", tmp_path / "out.h5", *options)
        assert result.exit_code == 0, result.output


def test_rank_counts_over_all_blocks(
    monkeypatch: pytest.MonkeyPatch, batch_refused: Refusal, igbss: Command, tmp_path: Path
) -> None:
    monkeypatch.setattr(igbss_stream.batch.channels, "BLOCK_BYTES", 200)
    x = noise()
    x[:40, 3] = x[:40, :3].sum(axis=1)
    path = write_recording(tmp_path / "in.h5", x)
    result = igbss("batch", path, "-o", tmp_path / "full.h5", "--n-sources", 4)
    assert result.exit_code == 0, result.output
    x[:, 3] = x[:, :3].sum(axis=1)
    assert_says(batch_refused(write_recording(path, x), "--n-sources", 4), "rank", "3")


def test_negative_samples_for_transform_sum(batch_refused: Refusal, tmp_path: Path) -> None:
    x = np.abs(noise()) + 0.1
    x[30, 1] = -2.5
    path = write_recording(tmp_path / "in.h5", x, channels=NAMES)
    message = batch_refused(path, "--transform", "sum")
    assert_says(message, "'sum'", "samples >= 0", "Cz", "-2.5", "'exp' or 'min-max'")


@pytest.mark.parametrize("options", ["", "--solver joint"])
@pytest.mark.parametrize(
    ("sample", "block_bytes"),
    [
        (30, 1 << 22),
        (30, 500),
    ],
)
def test_zero_for_transform_sum(
    monkeypatch: pytest.MonkeyPatch,
    batch_refused: Refusal,
    tmp_path: Path,
    options: str,
    sample: int,
    block_bytes: int,
) -> None:
    monkeypatch.setattr(igbss_stream.batch.channels, "BLOCK_BYTES", block_bytes)
    x = np.abs(noise()) + 0.1
    x[sample, 1] = 0.0
    path = write_recording(tmp_path / "in.h5", x, rate=250.0)
    window = block_bytes // 32 / 250
    message = batch_refused(path, "--transform", "sum", "--window", window, *options.split())
    assert_says(message, "above zero", f"sample {sample}", "channel", "1", "latent_mass")
