"""Compilation of kernels: cached where possible, logged once otherwise, never at call time."""

import logging
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from igbss_stream.model.kernels import jit, loglinear, samples

pytestmark = pytest.mark.jit


def double(x: float) -> float:
    return 2.0 * x


@pytest.fixture(autouse=True)
def _nothing_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_logged", set())


def test_other_types_raise_an_error_and_are_not_compiled() -> None:
    with pytest.raises(TypeError, match="No matching definition"):
        loglinear.compute_divergence(np.zeros((2, 2), np.float32), 0.0, np.zeros((2, 2)), np.zeros((2, 2)))


@pytest.mark.parametrize(
    "fault", [RuntimeError("no locator"), OSError(28, "No space left"), EOFError("cut off")]
)
def test_a_broken_cache_is_logged_once_and_the_kernel_works(
    fault: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiled: Callable[..., Any] = jit._compile

    def broken(function: Any, signatures: Any, *, cache: bool) -> Any:
        if cache:
            raise fault
        return compiled(function, signatures, cache=cache)

    monkeypatch.setattr(jit, "_compile", broken)
    with caplog.at_level(logging.WARNING, "igbss_stream"):
        first, second = (jit.kernel("float64(float64)")(double) for _ in range(2))
    assert (first(2.0), second(3.0)) == (4.0, 6.0)
    assert len(caplog.records) == 1
    assert str(fault) in caplog.text


def test_a_cold_cache_is_logged_once(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    with caplog.at_level(logging.INFO, "igbss_stream"):
        for _ in range(2):
            jit.kernel("float64(float64)")(double)
    assert [record.getMessage() for record in caplog.records] == [
        "compiling kernels, each once after installation (about 10 s in all)"
    ]
    caplog.clear()
    monkeypatch.setattr(jit, "_logged", set())
    with caplog.at_level(logging.INFO, "igbss_stream"):
        jit.kernel("float64(float64)")(double)
    assert not caplog.records


def test_functions_are_unchanged_when_jit_is_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    assert jit.kernel("float64(float64)")(double) is double


def test_readonly_and_writable_arrays_give_equal_results() -> None:
    x = np.random.default_rng(0).normal(size=(5, 3))
    frozen = x.copy()
    frozen.flags.writeable = False
    unmixing = np.random.default_rng(1).normal(size=(1, 3, 2))
    out, frozen_out = np.empty((5, 2)), np.empty((5, 2))
    samples.unmix(x, unmixing, np.zeros(2), 0, out)
    samples.unmix(frozen, unmixing, np.zeros(2), 0, frozen_out)
    np.testing.assert_array_equal(out, frozen_out)
    np.testing.assert_allclose(out, x @ unmixing[0], rtol=1e-12)
