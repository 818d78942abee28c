"""The made-up EEG: the same bits for everybody, and what it claims to be."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import igbss_stream
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.files.open import open_recording
from igbss_stream.playback.forward_model import place_electrodes
from igbss_stream.playback.simulate import Simulation, make_chunks, simulate_stream, write_truth
from igbss_stream.separation.metrics import sir

MINUTE = 15_000  # samples at 250 Hz
LENGTH = 2_000


@pytest.fixture(scope="module")
def minute() -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    simulation = Simulation(32, 250.0)
    return simulation.block(0, MINUTE), simulation.sources(0, MINUTE)


def source(of: tuple[NDArray[np.float32], NDArray[np.float64]], name: str) -> NDArray[np.float64]:
    return np.asarray(of[1][:, Simulation().names.index(name)])


@given(cuts=st.lists(st.integers(0, LENGTH), max_size=6), drift=st.sampled_from([0.0, 0.1]))
def test_any_cut_gives_the_same_bits(cuts: list[int], drift: float) -> None:
    whole = Simulation(6, 250.0, 3, drift)
    parts = Simulation(6, 250.0, 3, drift)
    edges = [0, *cuts, LENGTH]  # in any order: pieces are asked for back and forth
    out, sources = np.zeros((LENGTH, 6), np.float32), np.zeros((LENGTH, 6))
    for start, stop in zip(sorted(edges), sorted(edges)[1:], strict=False):
        out[start:stop] = parts.block(start, stop - start)
    for start in edges[::-1]:
        sources[start:] = parts.sources(start, LENGTH - start)
    assert out.tobytes() == whole.block(0, LENGTH).tobytes()
    assert sources.tobytes() == whole.sources(0, LENGTH).tobytes()


def test_far_indices_cost_no_more_than_near_ones_and_agree_with_their_neighbours() -> None:
    far = 10**10
    both = Simulation(4).block(far, 1000)
    assert np.isfinite(both).all()
    assert both[500:].tobytes() == Simulation(4).block(far + 500, 500).tobytes()


def test_seeds_differ() -> None:
    first, second = Simulation(8, seed=0), Simulation(8, seed=1)
    assert not np.allclose(first.sources(0, 500), second.sources(0, 500))
    assert not np.allclose(Simulation(13).mixing(0), Simulation(13, seed=1).mixing(0))
    assert first.block(0, 500).tobytes() == Simulation(8, seed=0).block(0, 500).tobytes()


@pytest.mark.parametrize("drift", [0.0, 0.1])
def test_channels_are_mixed_sources_and_noise_of_half_a_microvolt(drift: float) -> None:
    simulation = Simulation(24, 250.0, 5, drift)
    sources, n = simulation.sources(700, 600), 600
    mixing = np.stack([simulation.mixing(700 + i) for i in range(n)])
    rest = simulation.block(700, n) - np.einsum("ics,is->ic", mixing, sources)
    assert rest.std() == pytest.approx(0.5, rel=0.03)
    assert abs(np.corrcoef(rest.T) - np.eye(24)).max() < 0.2


def test_mixing_rests_without_drift_and_moves_smoothly_with_it() -> None:
    still = Simulation(16)
    assert still.mixing(0).tobytes() == still.mixing(10**6).tobytes()
    moving = Simulation(16, drift=0.05)
    path = np.stack([moving.mixing(i) for i in range(0, 20_000, 50)])
    steps = np.abs(np.diff(path, axis=0)).max()
    assert 0 < steps < 0.02  # in 0.2 s
    assert np.abs(path[-1] - path[0]).max() > 0.05


def test_foci_wander_as_far_as_the_drift_says() -> None:
    scalp = Simulation(13, drift=0.05)._scalp
    angles = []
    for t in np.linspace(0, 20_000, 4000):
        wander = scalp._reach * np.sin(scalp._pace * t + scalp._phase).sum(axis=0)
        across = wander - scalp._focus * np.sum(wander * scalp._focus, axis=1, keepdims=True)
        angles.append(np.arctan(np.linalg.norm(across, axis=1)))
    assert np.sqrt(np.mean(np.square(angles))) == pytest.approx(0.05, rel=0.05)


def test_electrodes_cover_the_scalp_and_near_ones_see_nearly_the_same() -> None:
    at = place_electrodes(64)
    np.testing.assert_allclose(np.linalg.norm(at, axis=1), 1.0)
    cosines = at @ at.T - 2 * np.eye(64)
    assert np.degrees(np.arccos(cosines.max(axis=1))).max() < 30
    mixing = Simulation(64).mixing(0)
    spread = mixing.std(axis=0)
    neighbour = cosines.argmax(axis=1)
    assert (np.abs(mixing[neighbour] - mixing).mean(axis=0) < 0.7 * spread).all()


def test_blinks_are_frontal_and_alpha_occipital() -> None:
    simulation, y = Simulation(64), place_electrodes(64)[:, 1]
    weights = dict(zip(simulation.names, simulation.mixing(0).T, strict=True))
    assert y[weights["blink"].argmax()] > 0.8
    assert y[weights["alpha"].argmax()] < -0.7
    assert (weights["mains"] > 0).all()
    assert weights["mains"].std() < 0.5 * weights["mains"].mean()


def power(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return frequencies, and the power averaged over stretches of four seconds."""
    pieces = x.reshape(-1, 1000) * np.hanning(1000)
    frequencies = np.asarray(np.fft.rfftfreq(1000, 1 / 250), np.float64)
    return frequencies, np.mean(np.abs(np.fft.rfft(pieces)) ** 2, axis=0)


def test_spectra_are_those_of_their_names(minute: tuple[NDArray[np.float32], NDArray[np.float64]]) -> None:
    f, alpha = power(source(minute, "alpha"))
    assert alpha[(f > 8) & (f < 12)].sum() > 0.97 * alpha.sum()
    f, mains = power(source(minute, "mains"))
    assert mains[np.abs(f - 50) < 1].sum() > 0.99 * mains.sum()
    f, muscle = power(source(minute, "muscle"))
    assert muscle[(f > 18) & (f < 115)].sum() > 0.97 * muscle.sum()
    f, pink = power(source(minute, "background-0"))
    band = (f >= 2) & (f <= 100)
    slope = np.polyfit(np.log(f[band]), np.log(pink[band]), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.15)


def test_events_come_as_often_as_they_should(
    minute: tuple[NDArray[np.float32], NDArray[np.float64]],
) -> None:
    def peaks(x: NDArray[np.float64]) -> int:
        above = x > 0.5 * x.max()
        return int(np.sum(above[1:] & ~above[:-1]))

    assert peaks(source(minute, "blink")) == 15
    assert 69 <= peaks(source(minute, "heart")) <= 71
    assert 60 < source(minute, "blink").max() < 200


def test_noise_keeps_its_variance_across_frames() -> None:
    simulation = Simulation(13, 250.0)
    frames = simulation.sources(0, 200 * simulation.knot)[:, 5:].reshape(200, simulation.knot, -1)
    along = frames.var(axis=(0, 2)) / 36.0
    assert along.reshape(8, -1).mean(axis=1) == pytest.approx(np.ones(8), rel=0.1)


@pytest.mark.jit
@pytest.mark.filterwarnings("ignore:sources are not determined")  # the background is Gaussian
@pytest.mark.parametrize(("seed", "drift"), [(0, 0.0), (1, 0.0), (2, 0.02)])
def test_blink_and_alpha_are_found_in_a_minute(seed: int, drift: float) -> None:
    simulation = Simulation(16, 250.0, seed, drift)
    x, truth = simulation.block(0, MINUTE), simulation.sources(0, MINUTE)
    blink, alpha = sir(igbss_stream.separate(x).sources, truth)[:2]
    as_received = sir(x, truth)[:2]
    assert blink > 15 > as_received[0]
    assert alpha > 10 > as_received[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_channels": 1}, "number of channels"),
        ({"n_channels": 5000}, "number of channels"),
        ({"rate": 100.0}, "rate .* above 100 Hz"),
        ({"rate": float("nan")}, "rate"),
        ({"rate": float("inf")}, "rate"),
        ({"seed": -1}, "seed"),
        ({"seed": 1 << 64}, "seed"),
        ({"drift": -0.1}, "drift"),
        ({"drift": float("nan")}, "drift"),
    ],
)
def test_impossible_simulations_are_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Simulation(**options)  # type: ignore[arg-type]


def test_few_channels_have_as_many_sources() -> None:
    assert Simulation(2).names == ("blink", "alpha")
    assert len(Simulation(8).names) == 8
    assert len(Simulation(64).names) == 13


def test_chunks_end_where_they_should() -> None:
    simulation = Simulation(3)
    items = list(make_chunks(simulation, 100, 250))
    assert [(item.start, item.stop) for item in items] == [(0, 100), (100, 200), (200, 250)]
    endless = make_chunks(simulation, 100, None)
    assert [next(endless).start for _ in range(5)] == [0, 100, 200, 300, 400]
    feed = simulate_stream(simulation, "head", "0.4s", speed=0, n_samples=250)
    assert (feed.stream.channels, feed.stream.unit, feed.n_samples) == (("E1", "E2", "E3"), "uV", 250)


def test_the_truth_explains_the_channels(tmp_path: Path) -> None:
    simulation = Simulation(16, 250.0, 7, 0.1)
    n = 2 * simulation.knot + 10
    write_truth(simulation, tmp_path / "truth.h5", n)
    with open_recording(tmp_path / "truth.h5", "/sources") as recording:
        assert (recording.rate, recording.unit, recording.channels) == (250.0, "uV", simulation.names)
    with h5py.File(tmp_path / "truth.h5") as file:
        sources, knots = file["sources"][()], file["mixing"][()]
        assert (file["mixing"].attrs["knot"], file.attrs["seed"], file.attrs["drift"]) == (512, 7, 0.1)
    at = np.arange(n) / 512
    below = at.astype(int)
    share = (at - below)[:, None, None]
    mixing = (1 - share) * knots[below] + share * knots[below + 1]
    rest = simulation.block(0, n) - np.einsum("ics,is->ic", mixing, sources)
    assert rest.std() == pytest.approx(0.5, rel=0.03)
    with pytest.raises(RecordingError, match="already exists"):
        write_truth(simulation, tmp_path / "truth.h5", n)
