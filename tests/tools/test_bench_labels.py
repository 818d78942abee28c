"""What tools/bench_labels.py adds to EEG and counts, on noise; no labeller is run."""

from pathlib import Path

import numpy as np
import pytest
from bench_labels import count
from label_artefacts import add_artefacts

from tests.labels.heads import NAMES, POSITIONS, RATE, make_noise


@pytest.mark.parametrize("kind", ["eye", "muscle"])
def test_artefacts_have_the_courses_that_are_stated(kind: str) -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([make_noise(rng, 1.0) for _ in NAMES])
    spoilt = add_artefacts(x, list(NAMES), RATE, (kind,), 40.0, 3, Path())
    again = add_artefacts(np.zeros_like(x) + x, list(NAMES), RATE, (kind,), 40.0, 3, Path())
    np.testing.assert_array_equal(spoilt.x, again.x)
    waves = np.column_stack(spoilt.waves[kind])
    assert waves.shape == (8000, 2 if kind == "eye" else 1)
    np.testing.assert_allclose(waves.std(axis=0), 1.0)
    weights = np.linalg.lstsq(waves, spoilt.x, rcond=None)[0]
    if kind == "eye":
        front = np.argsort(-np.abs(weights[0]))[:2]
        assert {NAMES[i] for i in front} == {"Fp1", "Fp2"}
        sides = np.sign(weights[1][np.abs(weights[1]) > 0.5]) * np.sign(
            POSITIONS[np.abs(weights[1]) > 0.5, 0]
        )
        assert abs(sides.sum()) == len(sides) > 1


def test_sources_between_both_correlations_do_not_count() -> None:
    scores = {"eye": np.array([0.9, 0.7, 0.9, 0.9, 0.1])}
    correlations = {"eye": np.array([0.8, 0.9, 0.5, 0.1, 0.0])}
    found = count(scores, correlations, ("eye",))
    assert (found["eye", "found"], found["eye", "missed"], found["eye", "false"]) == (1, 1, 1)
