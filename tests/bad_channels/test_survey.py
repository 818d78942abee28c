"""Channels that are bad by their samples: each kind on its own, and none where nothing is wrong."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.bad_channels.findings import BadChannel, list_channels
from igbss_stream.bad_channels.measures import bound_spread, measure_spread, measure_window, remove_lines
from igbss_stream.bad_channels.rails import RailCount
from igbss_stream.bad_channels.survey import ChannelSurvey
from igbss_stream.files.open import open_recording
from igbss_stream.playback.simulate import Simulation
from tests.doc_pages import run_python
from tests.realdata import DATA, needs_data
from tests.recordings import write_recording

Array = NDArray[np.float64]

RATE = 250.0
SIMULATION = Simulation(19, RATE, seed=9301, montage="10-20")
NAMES = SIMULATION.stream("eeg").channels
GOOD = SIMULATION.block(0, 10_000).astype(np.float64)
BAD = NAMES.index("Cz")


def survey(x: Array, block: int = 1000, types: Sequence[str] = ()) -> tuple[BadChannel, ...]:
    found = ChannelSurvey(NAMES[: x.shape[1]], RATE, len(x), types=types, unit="uV")
    for at in range(0, len(x), block):
        found.update(x[at : at + block])
    return found.finish()


def spoil(change: Callable[[Array], Array]) -> Array:
    x = GOOD.copy()
    x[:, BAD] = change(x[:, BAD])
    return x


def add_noise(y: Array) -> Array:
    return np.asarray(y + 5 * y.std() * np.random.default_rng(9302).standard_normal(len(y)))


def add_hum(y: Array) -> Array:
    return np.asarray(y + 7 * y.std() * np.sin(2 * np.pi * 50.0 / RATE * np.arange(len(y))))


def replace_by_walk(y: Array) -> Array:
    walk = np.cumsum(np.random.default_rng(9303).standard_normal(len(y)))
    return np.asarray(walk / walk.std() * y.std())


def lose(y: Array) -> Array:
    return np.where(np.arange(len(y)) % 5 == 0, np.nan, y)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("flat", lambda y: np.where(np.arange(len(y)) > 7000, y[0], y)),
        ("railed", lambda y: np.clip(y, *np.quantile(y, (0.05, 0.95)))),
        ("noisy", add_noise),
        ("hum", add_hum),
        ("unlike", replace_by_walk),
        ("bridged", lambda y: GOOD[:, NAMES.index("Fz")] + 4.0),
        ("missing", lose),
    ],
)
def test_a_spoilt_channel_is_the_only_one_found(kind: str, change: Callable[[Array], Array]) -> None:
    faults = survey(spoil(change))
    assert set(list_channels(faults)) <= {"Cz", "Fz"}
    (fault,) = (fault for fault in faults if fault.kind == kind)
    if kind == "bridged":
        assert {fault.channel, fault.like} == {"Cz", "Fz"}
    else:
        assert fault.channel == "Cz"
    exceeds = fault.value < fault.limit if kind == "bridged" else fault.value > fault.limit
    assert exceeds
    assert str(fault).startswith(f"{fault.channel} is {kind}: ")


def test_good_channels_have_no_faults() -> None:
    assert survey(GOOD) == ()


def test_blocks_do_not_matter() -> None:
    x = spoil(add_noise)
    x[200:900, 3] = x[200, 3]
    assert survey(x, 1) == survey(x, 777) == survey(x, len(x))


def test_numbers_have_the_size_that_was_added() -> None:
    """White noise of 9 uV and hum of 6 uV are found as such, in the unit of the samples."""
    rng = np.random.default_rng(9304)
    slow = 40.0 * np.sin(2 * np.pi * 3.0 / RATE * np.arange(5000))[:, None]
    noise = measure_window(slow + 9.0 * rng.standard_normal((5000, 2)), RATE).noise
    assert noise == pytest.approx([9.0, 9.0], rel=0.1)
    hum = 6.0 * np.sin(2 * np.pi * 60.0 / RATE * np.arange(5000) + 1.0)[:, None]
    assert measure_window(slow + hum, RATE).hum == pytest.approx([6.0], rel=0.01)


def test_only_channels_of_one_type_are_compared() -> None:
    x = GOOD.copy()
    x[:, -7:] *= 1e-3  # as accelerometers beside EEG
    x[:, -7:] += 0.05 * np.random.default_rng(9305).standard_normal((len(x), 7))
    types = ["eeg"] * 12 + ["misc"] * 7
    assert not [fault for fault in survey(x, types=types) if fault.kind == "noisy"]


def test_rails_are_counted_and_crests_are_not() -> None:
    wave = np.round(50 * np.sin(2 * np.pi * np.arange(5000) / 2500))  # repeats at its crests
    clipped = np.clip(np.random.default_rng(9306).normal(0, 20, 5000).round(1), -25, 1e9)
    count = RailCount(5)
    others = np.random.default_rng(9307).normal(size=(5000, 2))
    x = np.column_stack((wave, clipped, np.arange(5000) % 2.0, others))
    for at in range(0, 5000, 173):
        count.update(x[at : at + 173])
    repeats = (clipped[1:] == -25) & (clipped[:-1] == -25)
    assert count.n_repeated.tolist() == [0, int(repeats.sum()), 0, 0, 0]


def test_the_python_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_recording(tmp_path / "eeg.h5", spoil(add_noise), rate=RATE, channels=NAMES)
    run_python("docs/channels.md")
    assert capsys.readouterr().out.startswith("Cz noisy ")


@needs_data
@pytest.mark.parametrize(
    "path",
    ["eeg/eeglab_data.set", "eeg/test.edf", "eeg/test.bdf", "eeg/test.xdf", "hdf5/openbci8_250hz.h5"],
)
def test_recorded_channels_are_not_accused(path: str) -> None:
    with open_recording(DATA / path) as recording:
        found = ChannelSurvey(
            recording.channels, recording.rate, recording.n_samples, types=recording.types
        )
        for _, block in recording.read_blocks(10_000):
            found.update(block)
    assert found.finish() == ()


@pytest.mark.parametrize("n", [32, 33, 250])
def test_no_spread_exceeds_the_bound_by_the_power(n: int) -> None:
    """The worst case is a quarter of the samples at either end, and half of them in the middle."""
    rng = np.random.default_rng(9362)
    quarters = np.repeat([-1.0, 0.0, 1.0], [n // 4 + 2, n - 2 * (n // 4 + 2), n // 4 + 2])
    x = np.column_stack(
        [quarters, rng.permutation(quarters), rng.standard_normal(n), rng.standard_cauchy(n), np.arange(n)]
    )
    bound = bound_spread((x**2).sum(axis=0), n)
    assert (measure_spread(x) <= bound).all()
    assert (measure_spread(remove_lines(x)) <= bound).all()
    assert measure_spread(x)[0] > 0.85 * bound[0]
