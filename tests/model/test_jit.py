"""Compilation of kernels: when they are first called, cached where possible, logged once otherwise."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
            jit.kernel("float64(float64)")(double)(1.0)
    assert [record.getMessage() for record in caplog.records] == [
        "compiling kernels, each once after installation (about 10 s in all)"
    ]
    caplog.clear()
    monkeypatch.setattr(jit, "_logged", set())
    with caplog.at_level(logging.INFO, "igbss_stream"):
        jit.kernel("float64(float64)")(double)(1.0)
    assert not caplog.records


def test_functions_are_unchanged_when_jit_is_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert jit.kernel("float64(float64)")(double) is double


def test_a_kernel_is_compiled_when_it_is_first_called(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = list[str]()

    def noted(function: Any, signatures: Any, *, cache: bool) -> Any:
        compiled.append(function.__name__)
        return function

    monkeypatch.setattr(jit, "_compile", noted)
    kernel = jit.kernel("float64(float64)")(double)
    assert compiled == []
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(kernel, [1.0] * 8)) == [2.0] * 8
    assert compiled == ["double"]


def test_kernels_of_modules_are_loaded_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = list[str]()
    monkeypatch.setattr(jit.Kernel, "load", lambda kernel: loaded.append(kernel.__name__))
    jit.load_kernels(samples.__name__)
    assert sorted(loaded) == ["survey", "unmix", "unmix_complement"]
    jit.load_kernels()
    assert "compute_divergence" in loaded


def test_a_substitute_serves_until_it_has_taken_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_AFFORDABLE", 10)
    substituted = list[float]()

    def substitute(affordable: int, x: float) -> int:
        if affordable < 4:
            return 0
        substituted.append(x)
        return 4

    kernel = jit.kernel("float64(float64)", substitute=substitute)(double)
    assert [kernel(float(i)) for i in range(4)] == [None, None, 4.0, 6.0]
    assert substituted == [0.0, 1.0]


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
