"""Channels and samples that a file marks as bad: the same as for a file that does not have them."""

import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.batch.job import Job, run_job
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.files.open import open_recording
from igbss_stream.separation.settings import ModelSettings
from tests.commands import SYSTEMATIC, Command, Refusal, assert_says
from tests.recordings import Output, read_output

mne = pytest.importorskip("mne")

RATE = 250.0
NAMES = ["Fz", "Cz", "Pz", "Oz", "A3"]
N = 2500
BAD = [(400, 520), (1000, 1010), (2400, 2500)]
SCALES = ("--transform", "min-max")  # one that depends on the samples, and takes no time
Samples = NDArray[np.float64]


def mixtures(seed: int = 0) -> Samples:
    """Return five channels: four mixtures, and one with steps of its own that is damaged throughout."""
    rng = np.random.default_rng(seed)
    x = rng.laplace(size=(N, 4)) @ rng.normal(size=(4, 4)) * 1e-5
    damaged = np.cumsum(rng.normal(size=N)) * 1e-4
    return np.column_stack([x, damaged])


def write(
    path: Path,
    x: Samples,
    bads: tuple[str, ...] = (),
    spans: list[tuple[int, int]] | None = None,
    names: list[str] = NAMES,
) -> Path:
    raw = mne.io.RawArray(x.T, mne.create_info(names, RATE, "eeg"), verbose="ERROR")
    raw.info["bads"] = list(bads)
    if spans:
        starts, stops = np.transpose(spans) / RATE
        raw.set_annotations(mne.Annotations(starts, stops - starts, ["BAD_movement"] * len(spans)))
    raw.save(path, fmt="double", overwrite=True, verbose="ERROR")
    return path


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """Return a recording in which A3 is bad."""
    return write(tmp_path / "marked_raw.fif", mixtures(), ("A3",))


@pytest.fixture
def without(tmp_path: Path) -> Path:
    """Return the same recording without this channel."""
    return write(tmp_path / "without_raw.fif", mixtures()[:, :4], names=NAMES[:4])


def assert_same(got: Output, want: Output) -> None:
    """Assert that two outputs have the same datasets to the bit; annotations are events in one of them."""
    names = {name: channels for name, channels in got.names.items() if name != "events"}
    assert names == {name: channels for name, channels in want.names.items() if name != "events"}
    for name in names:
        np.testing.assert_array_equal(got.datasets[name], want.datasets[name], err_msg=name)


class TestChannels:
    @pytest.mark.parametrize(
        "options",
        [
            "",
            "--reference average --resample 100",
            "--window 2 --solver joint --latent-mass 0.1 --max-iter 9",
        ],
    )
    def test_output_equals_that_without_the_channel(
        self, igbss: Command, tmp_path: Path, marked: Path, without: Path, options: str
    ) -> None:
        for path, place in (marked, "got.h5"), (without, "want.h5"):
            result = igbss("batch", path, "-o", tmp_path / place, *SYSTEMATIC, *options.split())
            assert result.exit_code == 0, result.output
            assert ("; left out as bad: A3" in result.output) == (path == marked)
        got = read_output(tmp_path / "got.h5")
        assert_same(got, read_output(tmp_path / "want.h5"))
        assert list(got.attrs["bad_channels"]) == ["A3"]
        assert "flat_channels" not in got.attrs

    @pytest.mark.jit
    def test_learned_structure(self, igbss: Command, tmp_path: Path, marked: Path, without: Path) -> None:
        for path, place in (marked, "got.h5"), (without, "want.h5"):
            assert igbss("batch", path, "-o", tmp_path / place).exit_code == 0
        assert_same(read_output(tmp_path / "got.h5"), read_output(tmp_path / "want.h5"))

    def test_kept_on_request(self, separated: Command, tmp_path: Path, marked: Path) -> None:
        line = separated(marked, *SYSTEMATIC, "--keep-bad").output
        assert "left out" not in line
        output = read_output(tmp_path / "out.h5")
        assert output.names["mixing"] == NAMES
        assert "bad_channels" not in output.attrs

    @pytest.mark.parametrize("selection", ["A3,Fz,Cz", "4,0,1"])
    def test_kept_if_the_user_selects_channels(
        self, separated: Command, tmp_path: Path, marked: Path, selection: str
    ) -> None:
        assert "left out" not in separated(marked, *SYSTEMATIC, "--channels", selection).output
        assert read_output(tmp_path / "out.h5").names["mixing"] == ["A3", "Fz", "Cz"]

    def test_nan_in_a_bad_channel_harms_nobody(self, separated: Command, tmp_path: Path) -> None:
        x = mixtures()
        x[100:, 4] = np.nan
        x[:, 1] = 1.0
        path = write(tmp_path / "in_raw.fif", x, ("A3",))
        for options in ([], ["--reference", "average"]):
            line = separated(path, *SYSTEMATIC, "--drop-flat", "--overwrite", *options).output
            assert_says(line, "left out as bad: A3", "left out as flat: Cz")
        output = read_output(tmp_path / "out.h5")
        assert output.names["mixing"] == ["Fz", "Pz", "Oz"]
        assert np.isfinite(output.sources).all()
        assert (list(output.attrs["bad_channels"]), list(output.attrs["flat_channels"])) == (["A3"], ["Cz"])

    def test_refused(self, batch_refused: Refusal, tmp_path: Path, marked: Path) -> None:
        path = write(tmp_path / "in_raw.fif", mixtures(), ("A3", "Fz", "Cz", "Pz"))
        assert_says(batch_refused(path, *SYSTEMATIC), "4 of 5 channels as bad", "--keep-bad")
        assert_says(batch_refused(marked, "--reference", "A3"), "A3", "flat or bad")
        assert_says(batch_refused(marked, "--exclude-like", "A3"), "exclude_like", "A3", "--keep-bad")

    def test_segments(self, igbss: Command, tmp_path: Path, marked: Path, without: Path) -> None:
        options = (*SYSTEMATIC, *SCALES, "--segment", 3, "--json")
        got = igbss("batch", marked, "-o", tmp_path / "got.h5", *options)
        want = igbss("batch", without, "-o", tmp_path / "want.h5", *options)
        row, other = json.loads(got.stdout), json.loads(want.stdout)
        assert (row["status"], row["bad"], row["left_out"], row["n_channels"]) == ("done", "A3", "A3", 4)
        assert (other["bad"], other["left_out"]) == ("", "")
        assert row["message"] == "left out as bad: A3"
        assert_same(read_output(tmp_path / "got.h5"), read_output(tmp_path / "want.h5"))

    def test_resume(self, igbss: Command, tmp_path: Path, marked: Path) -> None:
        batch = ("batch", marked, "-o", tmp_path / "out" / "{stem}.h5", *SYSTEMATIC, "--json")
        assert json.loads(igbss(*batch).stdout)["bad"] == "A3"
        row = json.loads(igbss(*batch, "--resume").stdout)
        assert (row["status"], row["bad"], row["left_out"]) == ("skipped", "A3", "A3")
        again = igbss(*batch, "--resume", "--keep-bad")
        assert again.exit_code == 2
        assert "settings.keep_bad was false, is true" in json.loads(again.stdout)["message"]
        write(marked, mixtures(), ("A3", "Fz"))  # the file changed, and with it its channels
        assert (
            "differs from what would be written" in json.loads(igbss(*batch, "--resume").stdout)["message"]
        )

    def test_python(self, tmp_path: Path, marked: Path) -> None:
        settings = BatchSettings(model=ModelSettings(structure="systematic"))
        outcome = run_job(Job(input=marked, output=tmp_path / "out.h5", settings=settings))
        assert (outcome.n_channels, outcome.bad, outcome.n_bad_samples) == (4, ("A3",), 0)
        with open_recording(marked, channels="0-4") as recording:
            assert recording.is_selection
            assert recording.bad == ("A3",)


def test_report(separated: Command, tmp_path: Path) -> None:
    x = mixtures()
    x[:, 1] = 1.0
    path = write(tmp_path / "in_raw.fif", x, ("A3",), BAD)
    separated(path, *SYSTEMATIC, *SCALES, "--drop-flat", "--report")
    page = (tmp_path / "out.html").read_text()
    for fact, value in (
        ("left out as bad", "A3"),
        ("left out as flat", "Cz"),
        ("not learned from", "0.92 s that the recording marks as bad"),
    ):
        assert re.search(rf"{fact}</dt><dd>{re.escape(value)}", page), fact


class TestModels:
    def test_a_model_of_all_channels(
        self, igbss: Command, tmp_path: Path, marked: Path, without: Path
    ) -> None:
        whole, some = tmp_path / "whole.h5", tmp_path / "some.h5"
        igbss("batch", marked, "-o", whole, *SYSTEMATIC, "--keep-bad")
        igbss("batch", marked, "-o", some, *SYSTEMATIC)
        apply = ("batch", marked, "-o", tmp_path / "out.h5", "--overwrite", "--model")
        message = igbss(*apply, whole).output
        assert_says(message, "A3 is marked as bad in the file", "--keep-bad")
        assert igbss(*apply, whole, "--keep-bad").exit_code == 0
        assert igbss(*apply, some).exit_code == 0
        good = write(tmp_path / "good_raw.fif", mixtures())
        assert_says(
            igbss("batch", good, "-o", tmp_path / "x.h5", "--model", some).output,
            "A3 is not in the model",
            "--channels",
        )

    def test_channels_that_are_bad_in_one_file_only(self, igbss: Command, tmp_path: Path) -> None:
        files = [
            write(tmp_path / "a_raw.fif", mixtures(0)),
            write(tmp_path / "b_raw.fif", mixtures(1), ("A3",)),
            write(tmp_path / "c_raw.fif", mixtures(2), ("A3",)),
        ]

        def rows(*options: Any) -> dict[str, dict[str, Any]]:
            run = igbss("batch", *files, "-o", f"{tmp_path}/out/", *SYSTEMATIC, "--json", *options)
            found = [json.loads(line) for line in run.stdout.splitlines()]
            return {Path(row["input"]).name[0]: row for row in found}

        grouped = rows("--model-per", "group")
        assert [grouped[name]["n_channels"] for name in "abc"] == [5, 4, 4]
        assert len(list((tmp_path / "out").glob("model-*.h5"))) == 2
        shared = rows("--model-per", "all", "--overwrite")
        assert [shared[name]["status"] for name in "abc"] == ["done", "failed", "failed"]
        assert_says(shared["b"]["message"], "A3 is marked as bad in the file", "--keep-bad", "a_raw.fif")
        files.reverse()
        shared = rows("--model-per", "all", "--overwrite")
        assert [shared[name]["status"] for name in "abc"] == ["failed", "done", "done"]
        assert_says(shared["a"]["message"], "A3 is not in the model, whose file marks", "--keep-bad")
        kept = rows("--model-per", "all", "--overwrite", "--keep-bad")
        assert {row["n_channels"] for row in kept.values()} == {5}


class TestRows:
    """What is learned from, against a copy without the bad samples and with breaks where they were."""

    @pytest.fixture
    def damaged(self) -> Samples:
        x = mixtures()[:, :4]
        for start, stop in BAD:
            x[start:stop] += 3e-4 * np.random.default_rng(9).normal(size=(stop - start, 4))
        return x

    @pytest.fixture
    def annotated(self, tmp_path: Path, damaged: Samples) -> Path:
        return write(tmp_path / "annotated_raw.fif", damaged, spans=BAD, names=NAMES[:4])

    @pytest.fixture
    def cut(self, tmp_path: Path, damaged: Samples) -> Path:
        """Return the path of a copy, cut and joined by MNE."""
        raw = mne.io.RawArray(damaged.T, mne.create_info(NAMES[:4], RATE, "eeg"), verbose="ERROR")
        edges = [0, *(edge for span in BAD for edge in span)]
        parts = [
            raw.copy().crop(first / RATE, last / RATE, include_tmax=False)
            for first, last in zip(edges[::2], edges[1::2], strict=False)
        ]
        joined = mne.concatenate_raws(parts, verbose="ERROR")
        joined.save(tmp_path / "cut_raw.fif", fmt="double", verbose="ERROR")
        return tmp_path / "cut_raw.fif"

    @pytest.mark.jit
    @pytest.mark.parametrize("segment", [[], ["--segment", 4]])
    def test_learned_structure_equals_that_of_a_copy_without_them(
        self, igbss: Command, tmp_path: Path, annotated: Path, cut: Path, damaged: Samples, segment: Any
    ) -> None:
        clean = ("--exclude-like", "Fz:0.6")
        result = igbss("batch", annotated, "-o", tmp_path / "got.h5", *segment, *clean)
        assert result.exit_code == 0, result.output
        assert igbss("batch", cut, "-o", tmp_path / "want.h5", *clean).exit_code == 0
        got, want = (read_output(tmp_path / name) for name in ("got.h5", "want.h5"))
        for name in ("unmixing", "mixing", "mean", "reliability", "learning"):
            np.testing.assert_array_equal(got.datasets[name], want.datasets[name], err_msg=name)
        excluded, expected = got.datasets["excluded"], want.datasets["excluded"]
        np.testing.assert_array_equal(excluded["source"], expected["source"])
        np.testing.assert_allclose(excluded["correlation"], expected["correlation"], rtol=1e-9)
        # the model is applied to all samples
        sources = (damaged - got.datasets["mean"]) @ got.unmixing.T
        np.testing.assert_allclose(got.sources, sources, rtol=1e-9, atol=1e-9)
        rows = [(start, stop - start) for start, stop in BAD]
        assert got.datasets["bad_rows"].tolist() == rows
        assert "0.9 s marked as bad" in result.output

    @pytest.mark.jit
    def test_they_are_learned_from_on_request(
        self, igbss: Command, tmp_path: Path, annotated: Path, damaged: Samples
    ) -> None:
        plain = write(tmp_path / "plain_raw.fif", damaged, names=NAMES[:4])
        result = igbss("batch", annotated, "-o", tmp_path / "got.h5", "--keep-bad")
        assert igbss("batch", plain, "-o", tmp_path / "want.h5").exit_code == 0
        assert "bad" not in result.output
        assert_same(read_output(tmp_path / "got.h5"), read_output(tmp_path / "want.h5"))

    @pytest.mark.jit
    def test_shared_model(self, igbss: Command, tmp_path: Path, annotated: Path, cut: Path) -> None:
        other = write(tmp_path / "other_raw.fif", mixtures(1)[:, :4], names=NAMES[:4])
        for files, place in ((annotated, other), "got"), ((cut, other), "want"):
            folder = f"{tmp_path / place}/"
            result = igbss("batch", *files, "-o", folder, "--model-per", "all", "--json")
            assert result.exit_code == 0, result.output
        got, want = (read_output(tmp_path / place / "other_raw.h5") for place in ("got", "want"))
        np.testing.assert_array_equal(got.unmixing, want.unmixing)
        np.testing.assert_array_equal(got.sources, want.sources)
        with h5py.File(tmp_path / "got" / "model-all.h5") as model:
            assert model["bad_rows"]["start"].tolist() == [start for start, _ in BAD]

    def test_ranges_of_a_transform_include_them(
        self, separated: Command, tmp_path: Path, annotated: Path, damaged: Samples
    ) -> None:
        line = separated(annotated, *SYSTEMATIC, *SCALES).output
        assert "not learned from 0.9 s marked as bad" in line
        output = read_output(tmp_path / "out.h5")
        assert output.transform["low"] <= damaged.min()
        assert np.isfinite(output.sources).all()

    def test_nothing_is_said_if_nothing_is_learned(
        self, separated: Command, tmp_path: Path, annotated: Path
    ) -> None:
        assert "bad" not in separated(annotated, *SYSTEMATIC).output
        assert "bad_rows" not in read_output(tmp_path / "out.h5").datasets

    def test_refused(self, batch_refused: Refusal, tmp_path: Path, damaged: Samples) -> None:
        path = write(tmp_path / "in_raw.fif", damaged, spans=[(0, N - 5)], names=NAMES[:4])
        assert_says(
            batch_refused(path),
            "requires at least 12 samples. Got 5",
            "2495 of 2500 samples are not learned from",
            "--keep-bad",
        )
        path = write(tmp_path / "in_raw.fif", damaged, spans=[(0, N)], names=NAMES[:4])
        assert_says(batch_refused(path, "--drop-flat"), "Got 0", "2500 of 2500", "--keep-bad")

    def test_channels_that_are_flat_elsewhere(
        self, separated: Command, batch_refused: Refusal, tmp_path: Path, damaged: Samples
    ) -> None:
        kept = np.ones(N, bool)
        for start, stop in BAD:
            kept[start:stop] = False
        damaged[kept, 2] = 0.0
        path = write(tmp_path / "in_raw.fif", damaged, spans=BAD, names=NAMES[:4])
        assert_says(batch_refused(path, *SYSTEMATIC, *SCALES), "flat", "Pz", "--drop-flat")
        line = separated(path, *SYSTEMATIC, *SCALES, "--drop-flat").output
        assert "left out as flat: Pz" in line


@pytest.mark.jit
def test_workers(igbss: Command, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    path = write(tmp_path / "in_raw.fif", mixtures(), ("A3",), BAD)
    batch = ("batch", path, "--json", "-o")
    here = json.loads(igbss(*batch, tmp_path / "here.h5").stdout)
    there = json.loads(igbss(*batch, tmp_path / "there.h5", "--workers", 1).stdout)
    for row in here, there:
        assert (row["status"], row["bad"], row["n_bad_samples"]) == ("done", "A3", 230)
    assert_same(read_output(tmp_path / "there.h5"), read_output(tmp_path / "here.h5"))
