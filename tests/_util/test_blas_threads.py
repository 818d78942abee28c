"""Threads of linear algebra: one inside the context, and as before outside, also where contexts overlap."""

import os
import subprocess
import sys
from threading import Barrier, Thread

import pytest
import scipy.linalg  # noqa: F401  # its BLAS takes part
from threadpoolctl import threadpool_info, threadpool_limits

from igbss_stream._util.blas_threads import limit_blas_threads


def count_threads() -> set[int]:
    return {int(library["num_threads"]) for library in threadpool_info() if library["user_api"] == "blas"}


def test_one_thread_inside_and_as_before_outside() -> None:
    with threadpool_limits(3, "blas"):
        with limit_blas_threads():
            assert count_threads() == {1}
            with limit_blas_threads():
                assert count_threads() == {1}
            assert count_threads() == {1}
        assert count_threads() == {3}


def test_an_error_restores_the_threads() -> None:
    with threadpool_limits(3, "blas"):
        with pytest.raises(ZeroDivisionError), limit_blas_threads():
            raise ZeroDivisionError
        assert count_threads() == {3}


def test_contexts_that_overlap_in_two_threads() -> None:
    """The first thread leaves while the second is inside: the limit stays until the second leaves."""
    first_is_in, second_is_in, first_is_out = Barrier(2), Barrier(2), Barrier(2)
    seen: list[set[int]] = []

    def enter_first() -> None:
        with limit_blas_threads():
            first_is_in.wait(30)
            second_is_in.wait(30)
        first_is_out.wait(30)

    with threadpool_limits(3, "blas"):
        thread = Thread(target=enter_first)
        thread.start()
        first_is_in.wait(30)
        with limit_blas_threads():
            second_is_in.wait(30)
            first_is_out.wait(30)
            seen.append(count_threads())
        thread.join()
        seen.append(count_threads())
    assert seen == [{1}, {3}]


@pytest.mark.jit
def test_separate_gives_the_same_bits_for_any_number_of_threads() -> None:
    """A process with the default number of threads agrees with one that is limited from the start."""
    script = (
        "import hashlib, numpy as np\n"
        "from igbss_stream import separate\n"
        "rng = np.random.default_rng(0)\n"
        "x = rng.laplace(size=(20_000, 48)) @ rng.normal(size=(48, 48))\n"
        "fits = separate(x), separate(x[:200], structure='random', solver='joint', random_state=0)\n"
        "print(*(hashlib.sha256(fit.sources.tobytes()).hexdigest() for fit in fits))\n"
    )
    unlimited = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    printed = [
        subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
        ).stdout
        for env in (unlimited, unlimited | {"OPENBLAS_NUM_THREADS": "1"})
    ]
    assert printed[0] == printed[1]
