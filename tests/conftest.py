"""What every test shares."""

import os
import signal
from collections.abc import Iterator
from importlib import import_module

# scikit-learn runs its checks of the array API only where SciPy is told so before it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import pytest
from hypothesis import settings

from igbss_stream.model.kernels.jit import load_kernels

# The fixtures that run the command.
pytest_plugins = ["tests.commands", "tests.calibrations"]

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"
KERNEL_ROOMS = {"model", "separation", "streaming"}  # whose tests call the kernels themselves

# With the JIT on, all tests run for truth. With it off, kernels are slow Python, whose lines are counted and whose
# indices are checked.
settings.register_profile("ci", deadline=None, max_examples=20 if JIT_OFF else 60, derandomize=True)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests that take minutes as well")
    parser.addoption(
        "--kernels", action="store_true", help="run only the tests that call kernels themselves"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests unless asked for, with the JIT off those that need it on, and with `--kernels` others."""
    left_out = {"jit"} if JIT_OFF else set()
    if not config.getoption("--slow"):
        left_out.add("slow")
    keep = [item for item in items if not left_out & {mark.name for mark in item.iter_markers()}]
    if config.getoption("--kernels"):
        keep = [item for item in keep if item.path.parent.name in KERNEL_ROOMS]
    for item in keep:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(0))  # minutes or hours, by design
    config.hook.pytest_deselected(items=[item for item in items if item not in keep])
    items[:] = keep


@pytest.fixture(scope="session", autouse=True)
def kernels_in_cache() -> None:
    """Compile the kernels before the first test: none then waits for those of a command that it starts."""
    for module in ("model.structure", "model.solve", "streaming.pipeline", "separation.structure_fit"):
        import_module(f"igbss_stream.{module}")
    load_kernels()


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Let Ctrl-C count, also where the tests run in the background of a shell, which ignores it there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
