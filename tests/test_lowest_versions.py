"""The package works with the lowest versions that pyproject.toml allows.

Each test makes a virtual environment with the lowest version of every direct dependency, installs the package
into it, and runs the demo and a part of the tests there.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TOOLS = "hypothesis", "pytest", "pytest-timeout"  # of the extra dev: what runs the tests

CORE = (
    "tests/model",
    "tests/separation",
    "tests/batch/test_batch.py",
    "tests/batch/test_resume.py",
    "tests/cli/test_cli.py",
    "tests/daemon/config/test_schema.py",
    "tests/daemon/config/test_yaml_file.py",
    "tests/feeds/test_wire.py",
    "tests/feeds/test_zmq.py",
    "tests/files/test_hdf5_reader.py",
    "tests/files/test_hdf5_writer.py",
    "tests/preparation/test_repair.py",
    "tests/test_sklearn.py",
)
OPTIONAL = (
    "tests/batch/test_workers.py",
    "tests/cli/test_config_commands.py",
    "tests/feeds/test_lsl.py",
    "tests/files/test_compression.py",
    "tests/files/test_export.py",
    "tests/files/test_mne_reader.py",
    "tests/files/test_round_trips.py",
    "tests/files/test_xdf_reader.py",
    "tests/pages/test_view.py",
    "tests/test_mne.py",
)
# With every version of h5py, an interrupt while HDF5 writes may surface as an error of HDF5. How often one comes at
# such a moment is a matter of speed, not of versions.
OTHER = "tests/files/test_hdf5_writer.py::test_many_interrupts"
# Tests fail on warnings. Here, other dependencies are the newest ones, and warn of uses by the older direct ones.
WARNINGS = "ignore::DeprecationWarning", "ignore::FutureWarning"


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize(
    ("extras", "files"),
    [
        pytest.param({"sklearn"}, CORE, id="core"),
        pytest.param(set(PROJECT["optional-dependencies"]) - {"dev", "docs"}, OPTIONAL, id="extras"),
    ],
)
def test_the_package_works_with_its_lowest_versions(
    extras: set[str], files: tuple[str, ...], tmp_path: Path
) -> None:
    lowest = tmp_path / "lowest.txt"
    lowest.write_text("\n".join(f"{name}=={version}" for name, version in lowest_versions(extras).items()))
    python = make_environment(tmp_path / "venv")
    install(python, f"{ROOT}[{','.join(sorted(extras))}]", *TOOLS, "--constraint", lowest)
    for name in "tests", "tools", "configs", "docs":  # but not the package: the installed one is tested
        shutil.copytree(ROOT / name, tmp_path / "checkout" / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "checkout")
    run(python.with_name("igbss-stream"), "demo", cwd=tmp_path)
    options = [
        "--quiet",
        "-p",
        "no:cacheprovider",
        "--deselect",
        OTHER,
        *(f"-W{each}" for each in WARNINGS),
    ]
    run(python, "-m", "pytest", *options, *files, cwd=tmp_path / "checkout")


def test_bounds_are_read() -> None:
    assert lowest_versions(set(PROJECT["optional-dependencies"]))  # each has one bound
    found = lowest_versions({"sklearn"})
    assert {"numpy", "scikit-learn", *TOOLS} <= found.keys()
    assert "mne" not in found
    assert "matplotlib" in lowest_versions({"paper"})
    assert "igbss-stream" not in lowest_versions({"paper"})


def lowest_versions(extras: set[str]) -> dict[str, Version]:
    """Return the lowest version of each direct dependency, of those of some extras, and of the test tools."""
    optional = PROJECT["optional-dependencies"]
    needed = [*PROJECT["dependencies"], *(each for extra in extras for each in optional[extra])]
    needed += [each for each in optional["dev"] if Requirement(each).name in TOOLS]
    requirements = [each for each in map(Requirement, needed) if each.name != PROJECT["name"]]
    return {each.name: lower_bound(each.specifier) for each in requirements}


def lower_bound(specifiers: SpecifierSet) -> Version:
    (bound,) = (each.version for each in specifiers if each.operator == ">=")
    return Version(bound)


def make_environment(folder: Path) -> Path:
    """Make a virtual environment with the lowest Python, and return its interpreter."""
    lowest = lower_bound(SpecifierSet(PROJECT["requires-python"]))
    name = f"python{lowest}"
    base = sys.executable if sys.version_info[:2] == lowest.release[:2] else shutil.which(name)
    if base is None:
        pytest.skip(f"the lowest versions are those for {name}, which is not on the PATH")
    subprocess.run([base, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


def install(python: Path, *what: object) -> None:
    pip = python, "-m", "pip", "--disable-pip-version-check", "--retries", "1"
    # pip itself is in every registry: what cannot be downloaded then is the fault of the bounds
    probe = subprocess.run(
        [*pip, "download", "--quiet", "--no-deps", "--dest", python.parent, "pip"],
        capture_output=True,
        text=True,
    )
    if probe.returncode:
        pytest.skip(f"the package registry cannot be reached: {probe.stderr.strip().splitlines()[-1]}")
    run(*pip, "install", "--quiet", *what)


def run(*command: object, cwd: Path | None = None) -> None:
    """Run a command as a user with an empty environment would; show its output if it fails."""
    env = {
        name: value for name, value in os.environ.items() if not re.match("PYTHON|PYTEST|NUMBA|COV", name)
    }
    env["PATH"] = f"{Path(str(command[0])).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
