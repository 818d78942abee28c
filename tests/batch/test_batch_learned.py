"""A learned structure on the command line."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from igbss_stream import separate
from igbss_stream.cli.demo import draw_mixing, make_time_series
from igbss_stream.separation.metrics import sir
from tests.commands import Command, Refusal, assert_says
from tests.realdata import DATA, needs_data
from tests.recordings import read_output, write_recording


@pytest.fixture
def mixture() -> np.ndarray:
    return np.asarray(make_time_series(400) @ draw_mixing(11).T)


@pytest.mark.jit
def test_learned_structure_separates_and_gives_back_the_channels(
    separated: Command, tmp_path: Path, mixture: np.ndarray
) -> None:
    path = write_recording(tmp_path / "in.h5", mixture, rate=50.0, unit="uV", channels=["a", "b", "c"])
    separated(path, "--structure", "learned")
    output = read_output(tmp_path / "out.h5")
    np.testing.assert_array_equal(output.sources, separate(mixture, structure="learned").sources)
    assert sir(output.sources, make_time_series(400)).min() > 18.0
    with h5py.File(tmp_path / "out.h5") as file:
        back = output.sources @ file["mixing"][()].T + file["mean"][()]
        assert (file["mixing"].attrs["unit"], file["mean"].attrs["unit"]) == ("uV", "uV")
        assert "unit" not in file["sources"].attrs
        assert list(file["mixing"].attrs["channels"]) == ["a", "b", "c"]
    np.testing.assert_allclose(back, mixture, rtol=1e-9, atol=1e-9)


@pytest.mark.jit
def test_learned_structure_does_not_depend_on_blocks(
    separated: Command, tmp_path: Path, mixture: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_recording(tmp_path / "in.h5", mixture)
    separated(path, "--structure", "learned")
    whole = (tmp_path / "out.h5").read_bytes()
    monkeypatch.setattr("igbss_stream.batch.channels.BLOCK_BYTES", 500)
    separated(path, "--structure", "learned", "--overwrite")
    assert (tmp_path / "out.h5").read_bytes() == whole


@pytest.mark.jit
def test_average_reference_lowers_the_number_of_sources(
    separated: Command, batch_refused: Refusal, tmp_path: Path
) -> None:
    x = np.random.default_rng(0).laplace(size=(500, 5))
    path = write_recording(tmp_path / "in.h5", x - x.mean(axis=1, keepdims=True))
    result = separated(path, "--structure", "learned")
    assert_says(result.output, "Warning", "rank 4", "4 sources")
    assert read_output(tmp_path / "out.h5").sources.shape == (500, 4)
    assert_says(
        batch_refused(path, "--structure", "learned", "--n-sources", 5, "--overwrite"),
        "rank of the samples, 4",
    )


def test_what_does_not_go_with_it_is_refused(batch_refused: Refusal, recording: Path) -> None:
    message = batch_refused(recording, "--structure", "learned", "--order", 2, "--transform", "sum")
    assert_says(message, "with order = 2 needs transform = exp", "Got 'sum'")


@needs_data
@pytest.mark.jit
def test_hearts_of_mother_and_child_come_apart(separated: Command, tmp_path: Path) -> None:
    """The fetal beat is faster: a separate source has its spikes between the mother's."""
    path = DATA / "hdf5" / "fetal_ecg8_250hz.h5"
    separated(path, "--structure", "learned")
    sources = read_output(tmp_path / "out.h5").sources
    assert sources.shape == (2500, 8)
    spiky = np.mean(sources**4, axis=0)
    rates = []
    for source in sources[:, spiky > 6.0].T:
        source = source * np.sign(np.mean(source**3))
        beats = [
            t
            for t in range(20, 2480)
            if source[t] == source[t - 20 : t + 20].max() and source[t] > 0.5 * np.sort(source)[-20]
        ]
        rates.append(60.0 * 250.0 / np.median(np.diff(beats)))
    assert any(70 < rate < 95 for rate in rates), rates
    assert any(115 < rate < 150 for rate in rates), rates
