"""Test the command `report` and `batch --report`: parse the pages, and compare their numbers with NumPy."""

import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import signal, stats

from igbss_stream.batch.fits import FIT
from igbss_stream.files.results.output import OutputFile
from igbss_stream.files.writers.recording_layout import GAP
from igbss_stream.pages.report import blocks
from igbss_stream.pages.report.data import ReportData
from igbss_stream.pages.report.reconstruct import ChannelReconstructor
from igbss_stream.pages.report.reference_channels import ReferenceReader
from igbss_stream.pages.report.statistics import SampleStatistics, collect_statistics
from tests import browser
from tests.commands import SYSTEMATIC, Command, Refusal, assert_says
from tests.realdata import DATA, needs_data
from tests.recordings import RATE, write_recording

Array = NDArray[np.float64]

NAMES = ("Fp1", "EOG", "C3", "C4", "O1", "O2")
EMPTY = {"meta", "br", "input"}


OLD_FITS = [("start", "i8"), ("n_samples", "i8"), ("n_iter", "i8"), ("kl", "f8"), ("converged", "?")]


class Page(HTMLParser):
    """A page as another program reads it: elements, their text, and what does not fit."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.rows: list[list[str]] = []
        self.text, self.open, self.wrong = "", list[str](), list[str]()
        self.size = path.stat().st_size
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in EMPTY:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if {"style", "script"} & set(self.open):
            return
        self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def row(self, first: str) -> list[str]:
        """Return the only row of a table that has this in one of its first two cells."""
        (found,) = (row for row in self.rows if first in row[:2])
        return found

    def check(self) -> None:
        """Refuse what is no good page: tags that do not match, links that lead nowhere or away."""
        assert self.wrong == []
        ids = [attrs["id"] for _, attrs in self.elements if "id" in attrs]
        assert len(ids) == len(set(ids))
        for tag, attrs in self.elements:
            assert not [name for name in attrs if name.startswith("on") or name in ("src", "style")], attrs
            address = attrs.get("href", "#input")
            assert address.startswith("data:image/png;base64,") if tag == "image" else address[1:] in ids
            if tag == "svg":
                assert attrs.get("aria-label") or attrs.get("aria-hidden") == "true"
        kinds = [tag for tag, _ in self.elements]
        assert (kinds.count("script"), kinds.count("style"), kinds.count("main")) == (1, 1, 1)
        policy = next(a["content"] for _, a in self.elements if "http-equiv" in a)
        assert policy.startswith("default-src 'none'; img-src data:;")


def channels(n_samples: int = 2000, n_channels: int = 6, seed: int = 0) -> Array:
    """Return channels with a blink now and then, which the second one has most of."""
    rng = np.random.default_rng(seed)
    x = rng.laplace(size=(n_samples, n_channels)).cumsum(axis=0) % 7.0
    blink = np.zeros(n_samples)
    blink[::400] = 60.0
    blink = np.convolve(blink, np.hanning(40), "same")
    return np.asarray(
        x + np.outer(blink, np.linspace(0.6, 0.1, n_channels)) + 3 * np.outer(blink, np.eye(n_channels)[1])
    )


def written(path: Path, x: Any, names: Any = NAMES, gaps: Any = (), **attrs: Any) -> Path:
    attributes: dict[str, Any] = {"rate": RATE, "unit": "uV", "channels": list(names)} | attrs
    write_recording(path, x, **attributes)
    if gaps:
        with h5py.File(path, "a") as file:
            file["gaps"] = np.array(gaps, GAP)
    return path


def reported(igbss: Command, output: Path, *options: object) -> Page:
    result = igbss("report", output, *options)
    assert result.exit_code == 0, result.output
    page = Page(output.with_suffix(".html"))
    page.check()
    return page


def looked(output: Path) -> tuple[SampleStatistics, ReportData]:
    with OutputFile(output) as file:
        data = ReportData.from_output(file)
        return collect_statistics(data, [1], ReferenceReader(data, (), None)), data


def figures(cell: str) -> list[float]:
    return [
        float(n) for n in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?", cell.replace("\N{MINUS SIGN}", "-"))
    ]


def find_artefacts(file: h5py.File) -> list[bool]:
    """Return which sources of an output are labelled as an artefact."""
    table = file["labels"][()]
    is_artefact = ~np.isin(table["label"], [b"brain", b"other"]) & (table["score"] >= 0.8)
    return [bool(each) for each in is_artefact]


@pytest.mark.jit
def test_statistics_match_numpy(
    separated: Command, igbss: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = channels()
    gaps = [(700, 700, 100, b"missing"), (1500, 1600, 50, b"lost")]
    separated(written(tmp_path / "in.h5", x, gaps=gaps), "--exclude", "1")
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 6 * 97)
    found, _ = looked(tmp_path / "out.h5")
    page = reported(igbss, tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        sources, mixing, cleaned = file["sources"][()], file["mixing"][()], file["cleaned"][()]
        is_artefact = find_artefacts(file)
    assert found.channels is not None
    assert found.channels.exact
    total = x.var(axis=0).sum()
    explained = sources.var(axis=0) * (mixing**2).sum(axis=0) / total
    correlation = np.corrcoef(sources.T, x.T)[:6, 6:]
    np.testing.assert_allclose(found.channels.explained, explained, rtol=1e-9)
    np.testing.assert_allclose(found.channels.correlation, correlation, atol=1e-9)
    np.testing.assert_allclose(found.kurtosis, stats.kurtosis(sources), rtol=1e-9)
    for k in range(6):
        badge = "like a reference" if abs(correlation[k, 1]) >= 0.5 else "artefact" * is_artefact[k]
        row = page.row(f"source-{k}{'excluded' if k == 1 else badge}")
        assert figures(row[4])[0] == pytest.approx(100 * explained[k], rel=0.06)
        assert figures(row[5])[0] == pytest.approx(stats.kurtosis(sources[:, k]), rel=0.01, abs=0.01)
        assert figures(row[-1].removeprefix("EOG"))[0] == pytest.approx(correlation[k, 1], abs=0.0051)
    for j, name in enumerate(NAMES):
        row = page.row(name)
        before, after = x[:, j], cleaned[:, j]
        assert figures(row[1])[0] == pytest.approx(before.std(), rel=0.006)
        assert figures(row[2])[0] == pytest.approx(after.std(), rel=0.006)
        assert figures(row[3])[0] == pytest.approx(
            100 * (1 - after.var() / before.var()), rel=0.06, abs=0.01
        )
        wanted = [np.corrcoef(side, x[:, 1])[0, 1] for side in (before, after)]
        assert figures(row[4]) == pytest.approx(wanted, abs=0.0051)
    assert_says(page.text, "150 samples missing", "lost", "in.h5", "250 Hz", "2,000", "8 s, without gaps")
    parts = [sources[:700], sources[700:1500], sources[1500:]]
    densities = [signal.welch(part, RATE, nperseg=500, detrend="linear", axis=0)[1] for part in parts]
    np.testing.assert_allclose(
        found.density, np.average(densities, axis=0, weights=[1, 2, 1])[1:], rtol=1e-9
    )
    assert len([1 for _, attrs in page.elements if attrs.get("class") == "gap"]) == 2 * 6


@pytest.mark.parametrize(  # sources in V, and in SD with weights in V
    "structure", ["systematic", pytest.param("learned", marks=pytest.mark.jit)]
)
def test_volts_are_shown_as_microvolts(
    separated: Command, igbss: Command, tmp_path: Path, structure: str
) -> None:
    pages = []
    for unit, factor in ("uV", 1.0), ("V", 1e-6):
        path = written(tmp_path / "in.h5", channels() * factor, unit=unit)
        separated(path, "--exclude", "1", "--structure", structure, "--overwrite")
        pages.append(reported(igbss, tmp_path / "out.h5", "--overwrite").text)
    assert pages[0].count("µV") >= 10
    assert figures(pages[1]) == pytest.approx(figures(pages[0]), rel=2e-3, abs=0.011)


@pytest.mark.jit
def test_sources_are_ranked(separated: Command, igbss: Command, tmp_path: Path) -> None:
    separated(written(tmp_path / "in.h5", channels()), "--exclude", "4,2")
    found, _ = looked(tmp_path / "out.h5")
    page = reported(igbss, tmp_path / "out.h5", "--reference", "C3")
    assert found.channels is not None
    like = np.abs(found.channels.correlation[:, [1, 2]]).max(axis=1) >= 0.5
    with h5py.File(tmp_path / "out.h5") as file:
        labelled = find_artefacts(file)
    assert any(labelled)
    group = np.where(np.isin(range(6), [2, 4]), 0, np.where(like, 1, np.where(labelled, 2, 3)))
    wanted = np.lexsort([-found.channels.explained, group])
    ids = [attrs["id"] for tag, attrs in page.elements if tag == "section"]
    assert [int(name[1:]) for name in ids if re.fullmatch(r"s\d+", name)] == wanted.tolist()
    assert page.text.count("Listed first because it was excluded from the channels: it was selected") == 2
    assert ids.index("cleaning") == len(ids) - 2


MODELS = {
    "closed form": ("", True),
    "fewer sources": ("--n-sources 4 --structure random --random-state 3 --window 1", False),
    "cyclic, cleaned": ("--n-sources 4 --structure cyclic --window 1 --exclude 1", True),
    "latent mass": ("--latent-mass 0.05", False),
}


@pytest.mark.jit
@pytest.mark.parametrize(("options", "exact"), MODELS.values(), ids=MODELS)
@pytest.mark.filterwarnings("ignore::igbss_stream.errors.IgbssWarning")
def test_channels_are_reconstructed(
    separated: Command, igbss: Command, tmp_path: Path, options: str, exact: bool
) -> None:
    x = channels(800)
    separated(written(tmp_path / "in.h5", x, gaps=[(301, 301, 3, b"missing")]), *options.split())
    with OutputFile(tmp_path / "out.h5") as file:
        data = ReportData.from_output(file)
        reconstructor = ChannelReconstructor(data)
        assert reconstructor.exact is exact
        back = np.concatenate(
            [reconstructor.compute_before(p) for p in blocks.iter_blocks(data.sources, data.cleaned)]
        )
        fits = data.fits
    if exact:
        np.testing.assert_allclose(back, x, atol=1e-9)
    page = reported(igbss, tmp_path / "out.h5")
    assert_says(
        page.text, "reconstructed from the output, exactly" if exact else "as modelled by the sources"
    )
    dots = [attrs for tag, attrs in page.elements if tag == "circle" and "fit" in attrs.get("class", "")]
    if fits is None:
        assert_says(page.text, "No divergence is shown because none was minimised")
    else:
        assert len(dots) == len(fits)
        assert sum(attrs["class"] == "fit" for attrs in dots) == fits["converged"].sum()
        assert_says(page.text, f"{len(fits)} windows were fitted, {fits['converged'].sum()} converged")


def test_iterations_of_fits_are_drawn(separated: Command, igbss: Command, tmp_path: Path) -> None:
    output = tmp_path / "out.h5"
    recording = written(tmp_path / "in.h5", channels(1000), gaps=[(301, 301, 250, b"missing")])
    separated(recording, *SYSTEMATIC, "--latent-mass", "0.05", "--window", "0.4", "--max-iter", "7")
    with h5py.File(output) as file:
        fits, kl = file["fits"][()], file["fits_kl"][()]
    page = reported(igbss, output)
    lines = [attrs["class"] for tag, attrs in page.elements if tag == "path"]
    drawn = sum(line in ("line other", "line first", "line typical", "line slowest") for line in lines)
    assert drawn == len(fits) == 10
    histories = [kl[fit["kl_row"] : fit["kl_row"] + fit["n_iter"] + 1] for fit in fits]
    late = [k for k, fit in enumerate(fits) if not fit["converged"] and fit["n_iter"] == 7]
    slowest = max(late, key=lambda k: histories[k][-2] - histories[k][-1])
    at = (fits["start"][slowest] + 250 * (fits["start"][slowest] >= 301)) / RATE
    assert_says(page.text, f"one that did not converge, at {at:.4g} s (7 iterations)", "a typical window")
    dots = [attrs for _, attrs in page.elements if attrs.get("class") == "step slowest"]
    above = np.log10(histories[slowest][:-1] - histories[slowest][-1])
    heights = -np.array([float(attrs["cy"]) for attrs in dots])
    np.testing.assert_allclose(np.corrcoef(above, heights)[0, 1], 1.0, atol=1e-5)
    older(output)
    assert_says(
        reported(igbss, output, "--overwrite").text, "by an older version", "10 windows were fitted"
    )


def older(output: Path) -> None:
    """Make an output as a version wrote it that kept no iterations."""
    with h5py.File(output, "a") as file:
        fits = file["fits"][()][["start", "n_samples", "n_iter", "kl", "converged"]]
        del file["fits"], file["fits_kl"]
        file["fits"] = np.array(fits.tolist(), OLD_FITS)


@pytest.mark.jit
def test_products_of_sources(separated: Command, igbss: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    s = rng.laplace(size=(3000, 2))
    x = np.column_stack([s, s[:, 0] * s[:, 1]]) @ rng.normal(size=(3, 5))
    path = written(tmp_path / "in.h5", x, NAMES[:5])
    separated(path, "--structure", "learned", "--order", "2", "--n-sources", "2", "--exclude", "0")
    with OutputFile(tmp_path / "out.h5") as file:
        data = ReportData.from_output(file)
        (block,) = blocks.iter_blocks(data.sources, data.cleaned)
        np.testing.assert_allclose(ChannelReconstructor(data).compute_before(block), x, atol=1e-8)
    said = reported(igbss, tmp_path / "out.h5").text
    assert_says(said, "order of interaction", "source-0 was excluded", "in one pass, by inversion")


@pytest.mark.jit
def test_structure_learning_is_described(separated: Command, igbss: Command, tmp_path: Path) -> None:
    recording = written(tmp_path / "in.h5", channels(1000))
    separated(recording, "--structure", "learned", "--latent-mass", "0.05")
    with h5py.File(tmp_path / "out.h5") as file:
        losses = file["learning"][()]
    page = reported(igbss, tmp_path / "out.h5")
    origin = f"learned in {len(losses)} steps"
    assert_says(
        page.text,
        f"{origin}, from this recording",
        "nats per sample above the minimum",
        "the only window",
        "fitted as one window",
    )
    (tmp_path / "out.h5").rename(tmp_path / "model.h5")
    separated(recording, "--structure", "learned", "--model", tmp_path / "model.h5")
    page = reported(igbss, tmp_path / "out.h5", "--overwrite")
    assert_says(page.text, f"{origin}, from in.h5; read from model.h5", "Structure learning")


@pytest.mark.jit
@pytest.mark.parametrize("transform", ["min-max", "sum"])
def test_shares_are_omitted_where_sources_do_not_add_up(
    separated: Command, igbss: Command, tmp_path: Path, transform: str
) -> None:
    separated(written(tmp_path / "in.h5", np.abs(channels()) + 1), "--transform", transform)
    page = reported(igbss, tmp_path / "out.h5")
    assert_says(page.text, "explained variance and correlations with channels are not shown")
    assert page.row("source-0")[4] == "\N{EN DASH}"


@pytest.mark.jit
@pytest.mark.parametrize(
    "prepared", [(), ("--bandpass", "1:40", "--resample", "125")], ids=["raw", "prepared"]
)
def test_references_that_were_not_separated_are_read_from_the_input(
    separated: Command, igbss: Command, tmp_path: Path, prepared: tuple[str, ...]
) -> None:
    x, gaps = channels(), [(701, 701, 4, b"missing")]
    recording = written(tmp_path / "in.h5", x, gaps=gaps)
    separated(recording, "--channels", "0,2-5", *prepared)
    page = reported(igbss, tmp_path / "out.h5", "--reference", "EOG")
    assert_says(page.text, "Reference channels that were not separated: EOG")
    ids = [attrs["id"] for tag, attrs in page.elements if tag == "section"]
    with h5py.File(tmp_path / "out.h5") as file:
        sources = file["sources"][()]
    separated(recording, *prepared, "--structure", "cyclic", "--exclude", "0", "--overwrite")
    with h5py.File(tmp_path / "out.h5") as file:  # has every channel, as prepared
        contents_of = file["cleaned"][:, 1]
        added = file["sources"][:, 0] * file["mixing"][1, 0]
    wanted = np.corrcoef(sources.T, contents_of + added)[:-1, -1]
    for k in range(5):
        (row,) = [
            row
            for row in page.rows
            if len(row) > 5 and re.sub("like a reference|artefact$", "", row[1]) == f"source-{k}"
        ]
        assert figures(row[-1].removeprefix("EOG"))[0] == pytest.approx(wanted[k], abs=0.0051)
    assert ids[3] == f"s{np.abs(wanted).argmax()}" or abs(wanted[int(ids[3][1:])]) >= 0.5


@pytest.mark.jit
def test_a_missing_or_different_input_is_refused(
    separated: Command, refused: Refusal, tmp_path: Path
) -> None:
    recording = written(tmp_path / "in.h5", channels())
    separated(recording, "--channels", "0,2-5")
    recording.rename(tmp_path / "moved.h5")
    ask = ("report", tmp_path / "out.h5", "--reference", "EOG")
    assert_says(refused(*ask), "EOG, which is not among the separated channels", "pass it as --input")
    written(tmp_path / "other.h5", channels(500))
    assert_says(refused(*ask, "--input", tmp_path / "other.h5"), "is not the recording")
    assert_says(refused(*ask[:3], "E9", "--input", tmp_path / "moved.h5"), "E9")


HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onload='alert(1)", "&lt;b&gt;",
    "a\x1b[31m\n\u202e", "</title></style></svg>",
)  # fmt: skip


@pytest.mark.jit
def test_names_are_escaped(separated: Command, igbss: Command, tmp_path: Path) -> None:
    path = tmp_path / "<b>&'x.h5"
    separated(written(path, channels(), HOSTILE, unit="<i>V"), "--exclude-like", f"{HOSTILE[1]}:0.99")
    page = reported(igbss, tmp_path / "out.h5", "--reference", HOSTILE[5])
    for name in (*HOSTILE[:4], HOSTILE[5], path.name, "<i>V"):
        assert name in page.text
    assert r"a\x1b[31m\n\u202e" in page.text
    assert "img" not in {tag for tag, _ in page.elements}
    assert r"<img src=x onerror=alert(1)>" in page.text
    assert not set("\x1b\u202e") & set((tmp_path / "out.html").read_text())


@pytest.mark.jit
def test_page_size_is_bounded_with_many_sources(separated: Command, igbss: Command, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((9_000, 90)).astype(np.float32)
    separated(written(tmp_path / "in.h5", x, [f"E{n}" for n in range(90)], rate=1000.0))
    page = reported(igbss, tmp_path / "out.h5", "--details", "70")
    assert page.size < 5_000_000
    assert sum(attrs.get("class") == "source" for _, attrs in page.elements) == 70
    assert len([row for row in page.rows if row[1:2] and row[1].startswith("source-")]) == 90


def test_a_short_recording_without_rate_and_unit(
    separated: Command, igbss: Command, tmp_path: Path
) -> None:
    separated(write_recording(tmp_path / "in.h5", channels(50, 3)))
    page = reported(igbss, tmp_path / "out.h5")
    assert_says(page.text, "unknown", "50 samples", "Too short for a spectrum")


@pytest.mark.jit
def test_the_same_output_gives_the_same_bytes(separated: Command, igbss: Command, tmp_path: Path) -> None:
    separated(written(tmp_path / "in.h5", channels()))
    reported(igbss, tmp_path / "out.h5")
    first = (tmp_path / "out.html").read_bytes()
    reported(igbss, tmp_path / "out.h5", "--overwrite")
    assert (tmp_path / "out.html").read_bytes() == first


@pytest.mark.jit
def test_json_describes_the_report(separated: Command, igbss: Command, tmp_path: Path) -> None:
    separated(written(tmp_path / "in.h5", channels()))
    options = ("--details", 2, "--json", "--quiet")
    written_json = json.loads(igbss("report", tmp_path / "out.h5", *options).output)
    page = tmp_path / "out.html"
    assert (written_json["output"], written_json["bytes"]) == (str(page), page.stat().st_size)
    assert (written_json["n_sources"], written_json["n_details"]) == (6, 2)
    assert written_json["seconds"] > 0.0


@pytest.mark.jit
def test_invalid_reports_are_refused(
    separated: Command, refused: Refusal, igbss: Command, tmp_path: Path
) -> None:
    recording = written(tmp_path / "in.h5", channels())
    separated(recording)
    output = tmp_path / "out.h5"
    assert_says(refused("report", recording), "in.h5", "was not written by `igbss-stream batch`")
    assert_says(refused("report", tmp_path / "none.h5"), "none.h5")
    (tmp_path / "in.edf").write_text("0       ")
    assert_says(
        refused("report", tmp_path / "in.edf"), "is not an HDF5 file; pass an output of `igbss-stream"
    )
    assert_says(refused("report", output, "--reference", "C9"), "C9", "Fp1, EOG")
    assert_says(refused("report", output, "--details", "-1"), "--details must be a whole number >= 0")
    assert_says(refused("report", output, "-o", output), "is the input itself")
    assert_says(refused("report", output, "-o", tmp_path / "no" / "x.html"), "there is no directory")
    reported(igbss, output)
    assert_says(refused("report", output), "out.html' already exists; pass --overwrite")
    with h5py.File(output, "a") as file:
        mixing = file["mixing"][:, :4]
        attrs = dict(file["mixing"].attrs)
        del file["mixing"]
        file["mixing"] = mixing[:5]
        file["mixing"].attrs.update(attrs)
    assert_says(refused("report", output, "--overwrite"), "/mixing", "5 entries", "have 6")


SPOILT = {
    "job that is no JSON": ("is damaged", lambda file: file.attrs.update(job="{")),
    "fits of another kind": (
        "separate again",
        lambda file: file.create_dataset("fits", data=np.zeros(3, [("converged", "?")])),
    ),
    "a mean of other channels": ("/mean", lambda file: replaced(file, "mean", np.zeros(2))),
    "iterations that are not there": (
        "/fits_kl",
        lambda file: with_fits(file, np.array([(0, 9, 5, 0.1, 9, True)], FIT), np.ones(9)),
    ),
    "terms of no sources": ("/mixing has 9 columns", lambda file: widened(file, 9)),
}


def with_fits(file: Any, fits: Any, kl: Any) -> None:
    file["fits"], file["fits_kl"] = fits, kl


def replaced(file: Any, name: str, data: Any) -> None:
    attrs = dict(file[name].attrs)
    del file[name]
    file.create_dataset(name, data=data).attrs.update(attrs)


def widened(file: Any, n: int) -> None:
    replaced(file, "mixing", np.ones((6, n)))


@pytest.mark.parametrize(("says", "spoil"), SPOILT.values(), ids=SPOILT)
def test_an_output_that_was_changed_is_refused(
    separated: Command, refused: Refusal, tmp_path: Path, says: str, spoil: Any
) -> None:
    separated(written(tmp_path / "in.h5", channels(200)))
    with h5py.File(tmp_path / "out.h5", "a") as file:
        spoil(file)
    assert_says(refused("report", tmp_path / "out.h5"), says)


@pytest.mark.jit
def test_batch_writes_the_report_next_to_the_output(
    separated: Command, batch_refused: Refusal, tmp_path: Path
) -> None:
    recording = written(tmp_path / "in.h5", channels())
    (tmp_path / "out.html").write_text("mine")
    assert_says(batch_refused(recording, "--report"), "out.html' already exists; pass --overwrite")
    said = separated(recording, "--report", "--overwrite").output
    assert f"report: {tmp_path / 'out.html'}" in said
    Page(tmp_path / "out.html").check()
    (tmp_path / "out.html").unlink()
    assert_says(separated(recording, "--report", "--resume").output, "is complete", "report:")
    assert "report:" not in separated(recording, "--report", "--resume").output


@pytest.mark.jit
def test_batch_writes_one_for_each_of_many(igbss: Command, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for n in range(2):
        written(tmp_path / "in" / f"{n}.h5", channels(seed=n))
    (tmp_path / "in" / "bad.h5").write_bytes(b"nothing")
    result = igbss("batch", tmp_path / "in", "-o", f"{tmp_path}/out/", "--report")
    assert result.exit_code == 2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "0.h5",
        "0.html",
        "1.h5",
        "1.html",
    ]
    for n in range(2):
        Page(tmp_path / "out" / f"{n}.html").check()
    same = igbss("batch", tmp_path / "in", "-o", f"{tmp_path}/o/a.{{stem}}", "--report")
    assert_says(same.output, "would both be written to", "give the outputs names that differ")


@pytest.mark.jit
def test_a_report_that_cannot_be_written_is_a_warning(igbss: Command, tmp_path: Path) -> None:
    (tmp_path / "out" / "in.html").mkdir(parents=True)
    recording = written(tmp_path / "in.h5", channels())
    result = igbss(
        "batch",
        recording,
        "-o",
        f"{tmp_path}/out/",
        "--summary",
        tmp_path / "s.json",
        "--report",
        "--overwrite",
    )
    assert result.exit_code == 0, result.output
    (row,) = json.loads((tmp_path / "s.json").read_text())["files"]
    assert row["status"] == "done"
    assert "the report was not written" in row["message"]


@pytest.mark.jit
@pytest.mark.browser
@pytest.mark.skipif(not browser.is_there(), reason=browser.MISSING)
def test_page_opens_in_a_browser_without_errors(separated: Command, tmp_path: Path) -> None:
    path = written(tmp_path / "in.h5", channels(), HOSTILE)
    separated(path, "--exclude", "1", "--report")
    with browser.browser(tmp_path) as opened:
        driver: Any = opened
        driver.get(f"file://{tmp_path / 'out.html'}")
        assert (
            driver.execute_script(
                "return getComputedStyle(document.querySelector('section')).borderTopWidth"
            )
            == "1px"
        )
        assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0
        places = [
            driver.execute_script(
                "document.documentElement.style.scrollBehavior = 'auto';"
                "document.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}));"
                "return location.hash",
                key,
            )
            for key in "jjjjk"
        ]
        assert places == ["#input", "#method", "#sources", "#s1", "#sources"]
        assert driver.get_log("browser") == []


@needs_data
@pytest.mark.slow
def test_the_blink_of_a_recorded_eeg_is_ranked_before_sources_of_the_brain(
    igbss: Command, tmp_path: Path
) -> None:
    """What resembles the EOG comes first, then the blinks, which the recording splits, by their label."""
    output = tmp_path / "out.h5"
    path = DATA / "hdf5" / "eeg32_128hz.h5"
    assert igbss("batch", path, "-o", output, "--structure", "learned").exit_code == 0
    began = time.process_time()  # of this process: what else the machine does is no part of it
    page = reported(igbss, output)
    assert time.process_time() - began < 5
    assert page.size < 5_000_000
    shown = [attrs["id"] for _, attrs in page.elements if attrs.get("class") == "source"]
    with h5py.File(output) as file:
        kurtosis = stats.kurtosis(file["sources"][:], axis=0)
        k = int(np.argmax(kurtosis))
        names, weights = list(file["mixing"].attrs["channels"]), file["mixing"][:, k]
    assert kurtosis[k] > 30
    assert shown.index(f"s{k}") < 3
    assert "labelled as eye blink" in page.text
    scalp = [i for i, name in enumerate(names) if not name.startswith("EOG")]
    strongest = sorted(scalp, key=lambda i: -abs(weights[i]))[:4]
    assert {names[i] for i in strongest} == {"FPz", "F3", "Fz", "F4"}
    assert f"m{k}" in [attrs.get("id") for tag, attrs in page.elements if tag == "symbol"]
