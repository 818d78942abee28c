"""What a daemon takes, by the measurements of tools/bench_daemon.py; limits are those of the project."""

import sys

import bench_daemon
import pytest

pytestmark = [
    pytest.mark.jit,  # processes of their own, with their kernels
    pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what a process takes"),
]
OPTIONS = bench_daemon.Options(feeds=64, seconds=10.0)


def test_memory_at_rest() -> None:
    load = bench_daemon.Load(n_feeds=1, n_channels=8, rate=250.0, block=25)
    with bench_daemon.measured(load) as daemon:
        held = daemon.memory()
    assert 20 < held.own <= held.proportional <= held.resident
    assert held.proportional < 150


@pytest.mark.slow
@pytest.mark.parametrize("part", bench_daemon.PARTS)
def test_costs_stay_within_their_limits(part: str) -> None:
    """Of memory, time of a core and samples; neither depends on what else the machine does."""
    figures = list(bench_daemon.PARTS[part](OPTIONS))
    assert len(figures) >= 2
    missed = [figure for figure in figures if not figure.within]
    assert missed == []
