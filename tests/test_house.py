"""Rules of the house: who imports what, and docstrings that describe every parameter."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

import igbss_stream

PACKAGE = Path(igbss_stream.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# What may be imported only where: a library, or a part of one, and patterns of files.
ALLOWED = {
    "numba": ("model/kernels/*",),
    "scipy.signal": ("preparation/*", "pages/plotting/spectrum.py", "model/drift.py"),
    "h5py": ("files/*",),
    "hdf5plugin": ("_util/compression.py",),
    "zmq": ("feeds/*", "subscriber.py"),
    "pylsl": ("feeds/liblsl.py",),
    "pyxdf": ("files/readers/xdf.py",),
    "mne": ("mne/*", "files/readers/mne.py", "files/readers/mne_positions.py"),
    "edfio": ("files/export/edf.py",),
    "pybv": ("files/export/brainvision.py",),
    "sklearn": ("sklearn.py",),
    "dask": ("batch/dask_cluster.py",),
    "distributed": ("batch/dask_runner.py", "batch/dask_cluster.py", "batch/dask_task.py"),
    "bokeh": ("pages/view/*",),
    "prometheus_client": ("daemon/health.py", "daemon/metrics.py", "pages/view/feed.py"),
    "click": ("cli/*",),
    "yaml": ("daemon/config/yaml_file.py",),
    "rich": ("cli/*", "playback/render.py"),
}
IMPORTERS = {"import_module", "require"}


def imports(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports, and the names that it takes from them."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "scipy":
            yield ast.unparse(node)  # whose parts are loaded where they are used
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            if called in IMPORTERS:
                yield str(node.args[0].value)


def name_of(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_each_library_is_imported_where_it_belongs(file: Path) -> None:
    for module in imports(file):
        for library, places in ALLOWED.items():
            if f"{module}.".startswith(f"{library}."):
                allowed = any(fnmatch(name_of(file), place) for place in places)
                assert allowed, f"{name_of(file)} imports {module}"


def test_the_rule_of_libraries_sees_every_way_to_import() -> None:
    """Each library is found where it is allowed: a rule that finds nothing would hold for ever."""
    found = {
        (library, name_of(file))
        for file in FILES
        for module in imports(file)
        for library in ALLOWED
        if f"{module}.".startswith(f"{library}.")
    }
    assert {library for library, _ in found} == set(ALLOWED)


def test_all_that_is_printed_passes_through_the_console() -> None:
    """Which escapes control characters; `render` prints lines that it has escaped."""
    printing = {
        name_of(file)
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func)
        in ("print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write")
    }
    assert printing == {"cli/console.py", "playback/render.py"}


def test_feeds_know_no_sockets() -> None:
    code = "import sys\nfrom igbss_stream.playback import monitoring, pacing, replay, simulate\nprint([m for m in ('zmq', 'h5py', 'numba') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def modules() -> list[str]:
    return [module.name for module in pkgutil.walk_packages([str(PACKAGE)], "igbss_stream.")]


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module_name in modules():
        module = importlib.import_module(module_name)
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != module_name:
                continue
            if inspect.isfunction(thing):
                yield f"{module_name}.{name}", thing
            elif inspect.isclass(thing):
                for method, function in vars(thing).items():
                    if inspect.isfunction(function) and not method.startswith("_"):
                        yield f"{module_name}.{name}.{method}", function


@pytest.mark.parametrize(
    ("name", "function"), [pytest.param(*item, id=item[0]) for item in public_functions()]
)
def test_documented_parameters_are_those_of_the_signature(name: str, function: Callable[..., Any]) -> None:
    doc = inspect.getdoc(function) or ""
    assert doc, f"{name} has no docstring"
    section = re.search(r"^Parameters\n-+\n(.*?)(?:\n\n[A-Z]\w+\n-+\n|\Z)", doc, re.S | re.M)
    if section is None:
        return
    documented = [
        part.strip().lstrip("*")
        for line in section.group(1).splitlines()
        if line and not line.startswith(" ")
        for part in line.split(" : ")[0].split(",")
    ]
    taken = [parameter for parameter in inspect.signature(function).parameters if parameter != "self"]
    assert documented == taken


@pytest.mark.parametrize(
    ("imported", "heavy"),
    [
        ("igbss_stream, igbss_stream.cli", "numba numpy scipy h5py zmq msgspec"),
        # only a section `state` needs it
        ("igbss_stream.daemon.daemon", "h5py"),
        # 50 MB that only filters need
        (
            "igbss_stream.batch.separate, igbss_stream.daemon.stream_runner",
            "scipy.signal scipy.stats scipy.optimize",
        ),
    ],
)
def test_imports_bring_nothing_heavy_unasked(imported: str, heavy: str) -> None:
    code = f"import sys, {imported}; print([m for m in {heavy!r}.split() if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_names_of_the_package() -> None:
    assert callable(igbss_stream.separate)
    assert igbss_stream.Separation.__name__ == "Separation"
    assert igbss_stream.Subscriber.__name__ == "Subscriber"
    with pytest.raises(AttributeError, match="no attribute 'seperate'"):
        _ = igbss_stream.seperate


def test_a_class_name_stands_once() -> None:
    defined: dict[str, set[str]] = {}
    for module_name in modules():
        for name, thing in vars(importlib.import_module(module_name)).items():
            if inspect.isclass(thing) and thing.__module__ == module_name and not name.startswith("_"):
                defined.setdefault(thing.__name__, set()).add(module_name)
    assert {name: rooms for name, rooms in defined.items() if len(rooms) > 1} == {}
