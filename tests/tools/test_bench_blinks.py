"""What tools/bench.py measures of blinks, on blinks whose size is known."""

from types import SimpleNamespace

import numpy as np
import pytest
from bench_blinks import Blinks


def test_amplitude_and_change_are_those_that_were_made() -> None:
    rng = np.random.default_rng(0)
    names, peaks = ["EOG1", "EOG2", "Fz", "Cz"], np.arange(300, 4700, 400)
    brain = rng.normal(size=(5000, 4))
    blink = np.zeros((5000, 1))
    for at in peaks:
        blink[at - 10 : at + 11, 0] = np.hanning(21)
    x = brain + 5.0 + blink * [-90.0, 20.0, 80.0, 30.0]
    data = SimpleNamespace(ch_names=names, info={"sfreq": 128.0}, get_data=lambda: 1e-6 * x.T)
    blinks = Blinks(data, peaks)
    # the peak is the mean of seven samples
    assert blinks.amplitude(x) == pytest.approx(80.0 * np.hanning(21)[7:14].mean(), abs=1.0)
    assert abs(blinks.amplitude(brain)) < 1.0
    assert blinks.change(x) < 1e-12
    assert blinks.change(x - blink * 80.0) < 1e-12  # blinks are no stretch without blinks
    added = rng.normal(size=(5000, 4))
    expected = np.median([added[:, i].std() / brain[:, i].std() for i in (2, 3)])
    assert blinks.change(x + 0.1 * added) == pytest.approx(0.1 * expected, rel=0.02)
