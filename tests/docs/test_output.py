"""docs/output.md describes everything in an output, and its code runs; another reader than h5py agrees."""

import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.commands import SYSTEMATIC, Command
from tests.doc_pages import run_python, text_of
from tests.recordings import NAMES, noise, write_recording

SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text_of("docs/output.md"), re.S | re.M))
GAP = [("row", "i8"), ("start", "i8"), ("n_samples", "i8"), ("reason", "S40")]
MIXING = np.random.default_rng(2).standard_normal((4, 4))
X = noise(120) ** 3 @ MIXING.T + [5.0, 0.0, -2.0, 1.0]

# Options of `batch` that between them make everything that can be in an output.
OUTPUTS = {
    "learned": (),
    "back-projected": ("--scaling", "back-projected", "--n-sources", 3),
    "fixed": SYSTEMATIC,
    "fitted": (*SYSTEMATIC, "--latent-mass", 0.01, "--window", 0.2),
    "periodic": ("--structure", "cyclic", "--n-sources", 3),
    "min-max": (*SYSTEMATIC, "--transform", "min-max"),
    "cleaned": ("--exclude", 1, "--exclude-like", "Fz:0.999"),
    "labelled": (*SYSTEMATIC, "--rate", 50, "--exclude", 1, "--exclude-labelled", "eye"),
}
PRODUCTS = ("--order", 2, "--n-sources", 2)
KINDS = [
    *(pytest.param(options, id=kind) for kind, options in OUTPUTS.items()),
    pytest.param(PRODUCTS, marks=[pytest.mark.jit, pytest.mark.slow], id="products"),
]


@pytest.fixture(params=KINDS)
def output(request: pytest.FixtureRequest, separated: Command, tmp_path: Path) -> Path:
    """Return an output of each kind, of a recording with a gap."""
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("data", data=X).attrs.update({"rate": 250.0, "unit": "µV", "channels": NAMES})
        file["gaps"] = np.array([(20, 20, 40, "fehlt für".encode())], GAP)
    separated(tmp_path / "in.h5", *request.param)
    return tmp_path / "out.h5"


def write_marked(path: Path) -> Path:
    """Write the same samples with a flat channel, a bad channel and bad samples."""
    mne = pytest.importorskip("mne")
    info = mne.create_info([*NAMES, "flat", "C3"], 250.0, "eeg")
    raw = mne.io.RawArray(np.column_stack([X, np.zeros(120), X[:, 0]]).T * 1e-6, info, verbose="ERROR")
    raw.info["bads"] = ["C3"]
    for channel, y in zip(raw.info["chs"], (0.0, 0.05, -0.05), strict=False):
        channel["loc"][:3] = 0.0, y, 2 * y  # the first has no position
    raw.set_annotations(mne.Annotations([0.1], [0.04], ["BAD_x"]))
    raw.save(path, fmt="double", verbose="ERROR")
    return path


def rows(section: str, kind: str) -> dict[str, str]:
    """Return type by name, from the table of a section whose first column is called so."""
    table = re.search(rf"^\| {kind} \| type \|.*?\n\|[-|]+\n((?:\|.*\n?)+)", section, re.M)
    found = re.findall(r"^\| `(\w+)` \| (.*?) \|", table[1], re.M) if table else []
    return dict(found)


def is_of_type(value: Any, reported: str) -> bool:
    """Return whether an attribute has the type that the page gives it."""
    if reported in ("text", "JSON"):
        return isinstance(value, str)
    if reported.startswith("texts"):
        return isinstance(value, np.ndarray) and all(isinstance(v, str) for v in value)
    return bool(np.asarray(value).dtype == reported)


def field_type(dtype: np.dtype[Any]) -> str:
    text = "40 bytes of UTF-8" if dtype.itemsize == 40 else "bytes of UTF-8"
    return {"S": text, "b": "boolean"}.get(dtype.kind, dtype.name)


def test_everything_in_it_is_described(output: Path) -> None:
    assert_is_described(output)


@pytest.mark.jit
def test_everything_in_the_output_of_marked_recordings(separated: Command, tmp_path: Path) -> None:
    separated(write_marked(tmp_path / "in_raw.fif"), "--drop-flat")
    assert_is_described(tmp_path / "out.h5")


def assert_is_described(output: Path) -> None:
    with h5py.File(output) as file:
        reported = rows(SECTIONS["Attributes of the file"], "attribute")
        for name, value in file.attrs.items():
            assert is_of_type(value, reported[name]), name
        lengths = {"samples": 120, "channels": 4, "axes": 3, "sources": file["sources"].shape[1]}
        lengths |= {
            "terms": {2: 3}.get(lengths["sources"], lengths["sources"])
        }  # of two sources: their product
        lengths |= {
            name: len(file[name]) for name in ("gaps", "events", "fits", "excluded") if name in file
        }
        words = {
            "fits_kl": "iterations",
            "learning": "steps",
            "contradictions": "views",
            "bad_rows": "runs",
        }
        lengths |= {word: len(file[name]) for name, word in words.items() if name in file}
        everything: list[str] = []
        file.visit(everything.append)
        for name in everything:
            section, dataset = SECTIONS[f"`/{name}`"], file[name]
            shape = re.search(r"^Shape: \((.*?)\)\. Type: (.*?)\.", section, re.M)
            assert shape, name
            wanted = tuple(lengths[word] for word in shape[1].split(", "))
            assert dataset.shape[-len(wanted) :] == wanted, name
            attributes = rows(section, "attribute")
            for attribute, value in dataset.attrs.items():
                assert is_of_type(value, attributes[attribute]), f"{name}: {attribute}"
            if dataset.dtype.names:
                fields = rows(section, "field")
                assert tuple(fields) == dataset.dtype.names
                for field, told_type in fields.items():
                    assert told_type.startswith(field_type(dataset.dtype[field])), field
            else:
                assert dataset.dtype.name in shape[2], name


@pytest.mark.jit
def test_what_is_described_exists(separated: Command, tmp_path: Path) -> None:
    """No section or attribute outlives what it describes."""
    found: set[str] = set()
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("data", data=X).attrs.update(
            {"rate": 250.0, "unit": "uV", "channels": NAMES, "t0": 1e9}
        )
        file["gaps"] = np.array([(20, 20, 40, b"missing")], GAP)
    interpolated = "--drop-flat", "--exclude", 1, "--interpolate-bads"
    marked = (write_marked(tmp_path / "in_raw.fif"), *interpolated)
    runs = [(tmp_path / "in.h5", *options) for options in OUTPUTS.values()]
    for run in (*runs, (tmp_path / "in.h5", "--model", tmp_path / "earlier.h5"), marked):
        separated(*run, "--overwrite")
        shutil.copy(tmp_path / "out.h5", tmp_path / "earlier.h5")
        with h5py.File(tmp_path / "out.h5") as file:
            found |= {f"{name} {attribute}" for name in file for attribute in file[name].attrs}
            found |= {f"file {attribute}" for attribute in file.attrs} | set(file)
    reported = {title.strip("`/"): text for title, text in SECTIONS.items() if title.startswith("`/")}
    described = set(reported) | {
        f"{name} {a}" for name, text in reported.items() for a in rows(text, "attribute")
    }
    described |= {f"file {name}" for name in rows(SECTIONS["Attributes of the file"], "attribute")}
    assert described == found


def test_another_reader_of_hdf5_agrees(output: Path) -> None:
    """Compare with pyfive, an independent implementation of the format in Python."""
    pyfive = pytest.importorskip("pyfive")
    other = pyfive.File(str(output))
    with h5py.File(output) as file:
        assert sorted(other) == sorted(file)
        assert {name: as_text(value) for name, value in other.attrs.items()} == dict(file.attrs)
        for name, dataset in file.items():
            assert dataset.id.get_create_plist().get_nfilters() == 0
            assert (other[name].shape, dataset.chunks) == (dataset.shape, None)
            read = other[name][()]
            for field in dataset.dtype.names or [...]:
                np.testing.assert_array_equal(read[field], dataset[()][field])
            for attribute, value in dataset.attrs.items():
                np.testing.assert_array_equal(as_text(other[name].attrs[attribute]), value)


def test_iterations_are_read_as_the_page_says(
    separated: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_recording(tmp_path / "in.h5", X, rate=250.0, channels=NAMES)
    separated(tmp_path / "in.h5", *SYSTEMATIC, "--latent-mass", 0.01, "--window", 0.1)
    (tmp_path / "out.h5").rename(tmp_path / "sources.h5")
    monkeypatch.chdir(tmp_path)
    found = run_python("docs/output.md")
    assert len(found["kl"]) == len(found["fits"]) == 5
    for kl, fit in zip(found["kl"], found["fits"], strict=True):
        assert (len(kl), kl[-1]) == (fit["n_iter"] + 1, fit["kl"])
        assert np.all(np.diff(kl) <= 0)


def as_text(value: Any) -> Any:
    """Decode what pyfive leaves in bytes."""
    if isinstance(value, bytes):
        return value.decode()
    return [v.decode() for v in value] if np.asarray(value).dtype == object else value


@pytest.mark.parametrize("structure", [pytest.param("learned", marks=pytest.mark.jit), "systematic"])
def test_python_code_runs(
    separated: Command, tmp_path: Path, structure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("data", data=X).attrs.update({"rate": 250.0, "channels": NAMES})
        file["gaps"] = np.array([(20, 20, 40, b"missing")], GAP)
    separated(tmp_path / "in.h5", "--structure", structure)
    (tmp_path / "out.h5").rename(tmp_path / "sources.h5")
    monkeypatch.chdir(tmp_path)
    names = run_python("docs/output.md")
    np.testing.assert_allclose(names["channels"], X, atol=1e-9)
    assert names["seconds"][[0, 19, 20, 119]].tolist() == [0.0, 19 / 250, 60 / 250, 159 / 250]
    assert (names["names"], names["settings"]["structure"]) == (list(NAMES), structure)
    rest = names["sources"][:, 1:] @ names["mixing"][:, 1:].T + names["mean"]
    np.testing.assert_allclose(names["without_first"], rest, atol=1e-9)
    np.testing.assert_allclose((X - names["mean"]) @ names["unmixing"].T, names["sources"], atol=1e-9)
