"""Gaps of recordings: rows and indices, windows, and the output of `batch`."""

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.batch.windows import FitWindow, cut_windows, plan_windows
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.files.gaps import Run, count_missing, get_gap_rows, make_gaps, split_at_gaps
from igbss_stream.files.open import open_recording
from igbss_stream.files.writers.recording_layout import GAP
from igbss_stream.playback.replay import read_chunks
from igbss_stream.separation.transform import Exp
from igbss_stream.streaming.pipeline import Pipeline
from tests.commands import Command
from tests.published import model_settings, separate
from tests.recordings import noise, read_output, write_recording

GAPS = [(21, 21, 6, b"lost"), (21, 27, 0, b"restart"), (40, 46, 0, b"restart"), (50, 56, 31, b"lost")]


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    path = write_recording(tmp_path / "in.h5", noise(), rate=250.0, unit="uV")
    with h5py.File(path, "r+") as file:
        file["gaps"] = np.array(GAPS, GAP)
    return path


def test_gaps_of_timestamps_are_written_and_read_again(
    igbss: Command, separated: Command, tmp_path: Path
) -> None:
    index = np.arange(60) + 40 * (np.arange(60) >= 20) + 3 * (np.arange(60) >= 50)
    with h5py.File(tmp_path / "in.nwb", "w") as file:
        file.attrs["nwb_version"] = "2.7.0"
        series = file.create_group("acquisition/ephys")
        series.attrs["neurodata_type"] = "ElectricalSeries"
        series["data"], series["timestamps"] = noise(), index / 250
    separated(tmp_path / "in.nwb")
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["gaps"][:].tolist() == [(20, 20, 40, b"missing"), (50, 90, 3, b"missing")]
        # The indices of all rows follow from the table, as docs/recording.md says.
        gaps, row = file["gaps"][:], np.arange(60)
        known = np.concatenate([[0], gaps["start"] + gaps["n_samples"]])
        last = np.searchsorted(gaps["row"], row, side="right")
        np.testing.assert_array_equal(known[last] + row - np.append(0, gaps["row"])[last], index)
        assert file["sources"].shape == (60, 4)


def test_a_recording_without_gaps_has_no_table(separated: Command, recording: Path, tmp_path: Path) -> None:
    separated(recording)
    with h5py.File(tmp_path / "out.h5") as file:
        assert "gaps" not in file


@pytest.mark.parametrize("block", [1, 7, 100])
@pytest.mark.parametrize("structure", ["systematic", "cyclic", "random"])
def test_batch_and_replay_give_the_same_sources(
    separated: Command, interrupted: Path, tmp_path: Path, structure: str, block: int
) -> None:
    separated(interrupted, "--structure", structure, "--random-state", 3)
    with open_recording(interrupted) as recording:
        stream = Stream("s", 250.0, recording.channels, "uV", recording.dtype)
        pipeline = Pipeline(stream, model_settings(structure=structure, random_state=3))
        live = [done for item in read_chunks(recording, block) for done in pipeline.push(item)]
    live += pipeline.flush()
    with h5py.File(tmp_path / "out.h5") as file:
        np.testing.assert_array_equal(
            file["sources"][:], np.concatenate([item.data for item in live if isinstance(item, Chunk)])
        )
        gaps = [
            (item.start, item.n_samples, item.reason.encode()) for item in live if isinstance(item, Gap)
        ]
        assert gaps == [tuple(gap)[1:] for gap in file["gaps"][:].tolist()]


def test_windows_end_at_gaps_and_periods_count_missing_samples(
    separated: Command, interrupted: Path, tmp_path: Path
) -> None:
    separated(interrupted, "--structure", "cyclic", "--n-sources", 3, "--window", 12 / 250)
    output = read_output(tmp_path / "out.h5")
    cuts = [(int(fit["start"]), int(fit["start"] + fit["n_samples"])) for fit in output.fits]
    assert cuts == [(0, 12), (12, 21), (21, 33), (33, 40), (40, 50), (50, 60)]
    scale, center = (output.transform[name] for name in ("scale", "center"))
    for first, stop in cuts:
        index = first + 6 * (first >= 21) + 31 * (first >= 50)
        # Sample m belongs to channel (3 m + n) % 4, so a later start rotates the channels.
        turned = np.roll(noise()[first:stop], -3 * index, axis=1)
        transform = Exp(scale=scale, center=np.roll(center, -3 * index))
        expected = separate(turned, structure="cyclic", n_sources=3, transform=transform).sources
        np.testing.assert_allclose(output.sources[first:stop], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("block", [1, 5, 13, 60])
def test_windows_have_the_planned_rows(block: int) -> None:
    x, place = noise(), np.empty((block, 4))
    windows = plan_windows(60, make_gaps([(21, 6, "lost"), (59, 0, "restart")]), 13, 4)
    assert windows == [
        FitWindow(0, 12, 0), FitWindow(12, 9, 12), FitWindow(21, 16, 27), FitWindow(37, 16, 43), FitWindow(53, 6, 59),
        FitWindow(59, 1, 65),
    ]  # fmt: skip

    def blocks() -> Iterator[tuple[int, NDArray[np.float64]]]:
        for row in range(0, 60, block):
            part = x[row : row + block]
            place[: len(part)] = part
            yield row, place[: len(part)]
            place[:] = np.nan

    for window, samples in cut_windows(blocks(), windows):
        np.testing.assert_array_equal(samples, x[window.row : window.row + window.n_samples])
        windows = windows[1:]
    assert windows == []


def test_gaps_count_in_the_indices_but_take_no_rows() -> None:
    places = [(0, 5, "missing"), (10, 0, "boundary"), (10, 3, "missing"), (30, 2, "lost")]
    gaps = make_gaps(places)
    assert [gap.start for gap in gaps] == [0, 15, 15, 38]
    assert [
        (row, gap.n_samples, gap.reason) for row, gap in zip(get_gap_rows(gaps), gaps, strict=True)
    ] == places
    assert (count_missing(gaps), count_missing(())) == (10, 0)


def test_runs_lie_between_gaps() -> None:
    gaps = make_gaps([(0, 5, "missing"), (10, 0, "boundary"), (10, 3, "missing"), (30, 2, "lost")])
    assert split_at_gaps(gaps, 30) == [
        Run(0, 0, 0), Run(0, 10, 5), Run(10, 10, 15), Run(10, 30, 18), Run(30, 30, 40),
    ]  # fmt: skip
    assert split_at_gaps((), 7) == [Run(0, 7, 0)]
    unsorted = make_gaps([(20, 1, "missing"), (10, 2, "missing"), (99, 3, "missing")])
    assert split_at_gaps(unsorted, 30) == [Run(0, 20, 0), Run(20, 20, 21), Run(20, 30, 23), Run(30, 30, 36)]
