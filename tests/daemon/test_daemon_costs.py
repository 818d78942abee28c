"""Memory, CPU time and losses of a daemon stay within the limits of tools/bench_daemon.py."""

import sys
from importlib.util import find_spec

import bench_daemon
import pytest

pytestmark = [
    pytest.mark.jit,  # separate processes, with their kernels
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]
OPTIONS = bench_daemon.Options(feeds=64, seconds=10.0)
OF_COVERAGE = 7.0 if find_spec("coverage") else 0.0  # MB: numba imports coverage where it is installed


def test_memory_at_rest() -> None:
    load = bench_daemon.Load(n_feeds=1, n_channels=8, rate=250.0, block=25)
    with bench_daemon.measured(load) as daemon:
        held = daemon.memory()
    assert 20 < held.own <= held.proportional <= held.resident
    assert held.proportional < 150 + OF_COVERAGE


@pytest.mark.slow
@pytest.mark.parametrize("part", bench_daemon.PARTS)
def test_costs_stay_within_their_limits(part: str) -> None:
    """Memory, CPU time and samples do not depend on the load of the machine."""
    figures = list(bench_daemon.PARTS[part](OPTIONS))
    assert len(figures) >= 2
    for figure in figures:
        with_coverage = figure.name.startswith(("memory at", "memory after"))
        assert figure.value <= figure.limit + OF_COVERAGE * with_coverage, figure
