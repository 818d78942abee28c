"""What the run times of tools/reproduce_paper.py are those of: each line runs what its name says."""

import numpy as np
import pytest
from paper_time import CURVES, _rows, channels_64, samples_problem

from igbss_stream.cli.demo import make_time_series
from igbss_stream.separation.metrics import rmse
from igbss_stream.separation.result import Separation

PUBLISHED = [name for name in CURVES if name.startswith("published")]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_line_fits_the_published_structure(name: str) -> None:
    """Source n misses channel n; only the closed form needs no iterations."""
    found = CURVES[name](samples_problem(3, 60))
    assert isinstance(found, Separation)
    assert (np.flatnonzero(np.asarray(found.mixing) == 0.0) == [0, 4, 8]).all()
    assert (found.n_iter == 1) == (name == "published, closed form")


@pytest.mark.jit
def test_the_learned_line_learns() -> None:
    found = CURVES["learned"](samples_problem(3, 500))
    assert isinstance(found, Separation)
    assert rmse(np.asarray(found.sources), make_time_series()) < 0.02


@pytest.mark.parametrize("name", ["FastICA", "Picard"])
def test_rivals_deliver_sources(name: str) -> None:
    found = np.asarray(CURVES[name](samples_problem(3, 500)))
    similar = np.abs(np.corrcoef(found.T, make_time_series().T)[:3, 3:])
    assert (similar.max(axis=0) > 0.95).all()


def test_seeds_of_a_curve_follow_each_other() -> None:
    found = {3: {"a": {100: 2.0}, "b": {100: 4.0, 300: 9.0}}, 5: {"a": {100: 1.0}, "b": {100: 0.5}}}
    assert _rows(found, {100: 0.5, 300: 0.1}, (100, 300)) == [
        ["a", "3", "2 (4)", ""],
        ["a", "5", "1 (2)", ""],
        ["b", "3", "4 (8)", "9 (90)"],
        ["b", "5", "0.5 (1)", ""],
    ]


def test_sixty_four_channels_are_drawn_by_their_seed() -> None:
    one, other = channels_64(1, 200), channels_64(2, 200)
    assert one.shape == (200, 64)
    assert np.linalg.matrix_rank(one) == 64
    assert not np.allclose(one, other)
    np.testing.assert_array_equal(one, channels_64(1, 200))
