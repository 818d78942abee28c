"""The comparison of predicted reliability with the truth runs, and its truth is right."""

import bench_reliability
import numpy as np
import pytest
from click.testing import CliRunner


@pytest.mark.jit
def test_a_range_of_one_seed_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_reliability, "CASES", ((3, 0.0),))
    monkeypatch.setattr(bench_reliability, "N_SAMPLES", 2000)
    result = CliRunner().invoke(bench_reliability.main, ["--seeds", "3:4"])
    assert result.exit_code == 0
    assert "3 simulated" in result.output


@pytest.mark.jit
def test_gaps_are_small_without_noise() -> None:
    rng = np.random.default_rng(5)
    gaps = bench_reliability.measure_gaps(bench_reliability.draw_sources(rng, 3), 0.0, rng)
    assert gaps.shape == (3,)
    assert np.abs(gaps).max() < 12.0


def test_seeds_that_are_no_range_are_refused() -> None:
    result = CliRunner().invoke(bench_reliability.main, ["--seeds", "9"])
    assert result.exit_code == 2
    assert "must be FROM:TO" in result.output
