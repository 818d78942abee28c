"""`batch --exclude` and `--exclude-like`: the channels without some sources, as by hand from what else it wrote."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from igbss_stream.cli import main
from igbss_stream.cli.demo import draw_mixing
from igbss_stream.separation.cleaning import MIN_CORRELATION
from tests.commands import Command, Refusal, assert_says
from tests.doc_pages import commands
from tests.recordings import NAMES, RATE, noise, write_recording

Array = NDArray[np.float64]


def blinking(n_samples: int = 1000) -> Array:
    """Return four channels; the first is an eye, which shows in the others as well."""
    rng = np.random.default_rng(1)
    truth = rng.laplace(size=(n_samples, 4))
    mixing = draw_mixing(2, 4, 4)
    mixing[0] = [0.1, 0.1, 0.1, 2.0]
    return np.asarray(20.0 * truth @ mixing.T + [4000.0, 0.0, -7.0, 1.0])


def read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, dict[str, Any]]]:
    with h5py.File(path) as file:
        attrs = {name: dict(dataset.attrs) for name, dataset in file.items()}
        return {name: dataset[()] for name, dataset in file.items()}, attrs | {"": dict(file.attrs)}


def by_hand(x: Array, found: dict[str, NDArray[Any]], excluded: list[int]) -> Any:
    return x - found["sources"][:, excluded] @ found["mixing"][:, excluded].T


@pytest.mark.jit
def test_learned_sources_that_are_like_a_channel(separated: Command, tmp_path: Path) -> None:
    x = blinking()
    path = write_recording(tmp_path / "in.h5", x, rate=RATE, unit="uV", channels=NAMES)
    said = separated(path, "--structure", "learned", "--exclude-like", "Fz:0.8").output
    found, attrs = read(tmp_path / "out.h5")
    correlations = np.corrcoef(found["sources"].T, x[:, 0])[:4, 4]
    (source,) = np.flatnonzero(np.abs(correlations) >= 0.8)
    ((number, channel, correlation, label, _),) = found["excluded"]
    assert (number, channel, label) == (source, b"Fz", b"")
    assert correlation == pytest.approx(correlations[source], abs=1e-9)
    assert f"removed from /cleaned: source-{source} (Fz {correlation:.2f})" in said
    np.testing.assert_allclose(found["cleaned"], by_hand(x, found, [int(source)]), rtol=0, atol=1e-10 * 20)
    assert abs(np.corrcoef(found["cleaned"].T, found["sources"][:, source])[:4, 4]).max() < 0.05
    reported = attrs["cleaned"]
    assert (reported["rate"], reported["unit"], list(reported["channels"])) == (RATE, "uV", list(NAMES))
    assert json.loads(attrs[""]["cleaning"]) == {"exclude": [], "exclude_like": [["Fz", 0.8]]}


MODELS = {
    "closed form": "",
    "a known structure, compared": "--exclude-like Pz:0.75",
    "fewer sources, fitted in windows": "--n-sources 3 --structure random --random-state 3 --window 0.1",
    "cyclic": "--n-sources 3 --structure cyclic --window 0.1",
    "latent mass": "--latent-mass 0.05",
}


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore::igbss_stream.errors.IgbssWarning")
def test_sources_by_number(separated: Command, tmp_path: Path, options: str, dtype: str) -> None:
    x = noise().astype(dtype)
    path = write_recording(tmp_path / "in.h5", x, rate=RATE, channels=NAMES)
    separated(path, "--exclude", "2, 0", *options.split())
    found, _ = read(tmp_path / "out.h5")
    excluded = sorted({int(row["source"]) for row in found["excluded"]})
    assert {0, 2} <= set(excluded) < set(range(4))
    assert [tuple(row)[:2] for row in found["excluded"][:2]] == [(2, b""), (0, b"")]
    assert np.isnan(found["excluded"]["correlation"][:2]).all()
    mixing = found["mixing"]
    if mixing.ndim == 2:
        mixing = mixing[None]
    of_sample = mixing[np.arange(60) % len(mixing)]
    without = np.einsum(
        "mcs,ms->mc", of_sample[:, :, excluded], found["sources"][:, excluded].astype(float)
    )
    assert found["cleaned"].dtype == np.dtype(dtype)
    np.testing.assert_allclose(found["cleaned"], x - without, atol=1e-10 if dtype == "float64" else 1e-6)
    separated(path, *options.replace("--exclude-like Pz:0.75", "").split(), "--overwrite")
    plain, _ = read(tmp_path / "out.h5")
    assert "cleaned" not in plain
    np.testing.assert_array_equal(plain["sources"], found["sources"])


@pytest.mark.filterwarnings("ignore::igbss_stream.errors.IgbssWarning")
def test_a_structure_that_changes_goes_on_behind_a_gap(separated: Command, tmp_path: Path) -> None:
    x = noise()
    path = write_recording(tmp_path / "in.h5", x, rate=RATE)
    with h5py.File(path, "a") as file:
        kind = [("row", "i8"), ("start", "i8"), ("n_samples", "i8"), ("reason", "S40")]
        file["gaps"] = np.array([(20, 20, 3, b"lost")], kind)
    separated(path, *["--exclude", "1", "--n-sources", "3", "--structure", "cyclic", "--window", "0.1"])
    found, _ = read(tmp_path / "out.h5")
    index = np.arange(60) + 3 * (np.arange(60) >= 20)
    weights = found["mixing"][index % len(found["mixing"]), :, 1]
    np.testing.assert_allclose(found["cleaned"], x - weights * found["sources"][:, [1]], atol=1e-10)


@pytest.mark.jit
def test_a_model_of_another_recording_is_asked_anew(separated: Command, tmp_path: Path) -> None:
    """Which of its sources are like a channel is found in the recording that is cleaned."""
    x = blinking()
    early, late = (
        write_recording(tmp_path / f"{name}.h5", part, rate=RATE, unit="uV", channels=NAMES)
        for name, part in (("early", x[:600]), ("late", x[600:]))
    )
    separated(early, "--structure", "learned")
    for options in (("--exclude-like", "Fz:0.8"), ("--exclude", 2)):
        out = tmp_path / "late-out.h5"
        # without the fixture's structure, which would contradict the model
        words = ["batch", late, "-o", out, "--model", tmp_path / "out.h5", *options, "--overwrite"]
        result = CliRunner().invoke(main, list(map(str, words)))
        assert result.exit_code == 0, result.output
        found, _ = read(out)
        ((source, _, correlation, *_),) = found["excluded"]
        if options[0] == "--exclude":
            assert source == 2
        else:
            want = np.corrcoef(found["sources"].T, x[600:, 0])[:4, 4]
            assert (source, correlation) == (np.abs(want).argmax(), pytest.approx(want[source]))
        np.testing.assert_allclose(found["cleaned"], by_hand(x[600:], found, [int(source)]), atol=1e-9)


def test_nothing_like_a_channel_is_a_warning(separated: Command, recording: Path, tmp_path: Path) -> None:
    said = separated(recording, "--exclude-like", "Cz:0.99", "--quiet").output
    assert_says(said, "Warning: no source is like Cz by 0.99 or more", "the strongest correlation is")
    found, _ = read(tmp_path / "out.h5")
    np.testing.assert_array_equal(found["cleaned"], noise())
    assert len(found["excluded"]) == 0


def test_the_default_is_told(igbss: Command) -> None:
    assert f"[default of R: {MIN_CORRELATION:g}]" in " ".join(igbss("batch", "--help").output.split())


COMMANDS = [line.words[1:] for line in commands("docs/cleaning.md")]


@pytest.mark.jit
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.filterwarnings("ignore::igbss_stream.errors.IgbssWarning")
def test_commands_of_the_page_run(
    igbss: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["EOG1", "EOG2", *(f"E{i}" for i in range(20))]
    write_recording(Path("eeg.h5"), noise(1000, 22), rate=RATE, unit="uV", channels=names)
    assert words[0] == "batch"
    result = igbss(*words)
    assert result.exit_code == 0, result.output
    found, attrs = read(Path("cleaned.h5"))
    assert found["cleaned"].shape == (1000, 22)
    assert list(attrs["cleaned"]["channels"]) == names


REFUSED = {
    "a word": ("--exclude 0,x", ["--exclude must be numbers of sources", "'0,x'"]),
    "nothing": ("--exclude ,", ["--exclude must be numbers of sources"]),
    "no such source": ("--exclude 4", ["source 4 cannot be removed", "0 to 3"]),
    "all sources": ("--exclude 0,1,2,3", ["all 4 sources would be removed"]),
    "no such channel": (
        "--exclude-like EOG",
        ["'EOG'", "none of the separated channels", "Fz, Cz, Pz, Oz"],
    ),
    "no number": ("--exclude-like Fz:much", ["--exclude-like must be a channel", "'Fz:much'"]),
    "no correlation": ("--exclude-like Fz:1.5", ["up to 1", "1.5"]),
    "another transform": ("--exclude 0 --transform min-max", ["transform 'exp'", "'min-max'"]),
    "products": ("--structure learned --order 2 --exclude-like Fz", ["order = 1", "by exclude"]),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_cleaned(
    batch_refused: Refusal, recording: Path, options: str, words: list[str]
) -> None:
    assert_says(batch_refused(recording, *options.split(" ")), *words)
