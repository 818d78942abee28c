"""`batch --exclude-labelled`, `/labels`, and what reads them: other runs, segments, reports, a daemon."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream._util.electrodes import find_position
from igbss_stream.batch.models import load_model
from igbss_stream.daemon.calibration import apply_cleaning, load_calibration
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.files.results.output import OutputFile
from igbss_stream.labels.labelling import label_sources
from igbss_stream.separation.cleaning import Cleaning
from tests.commands import Command, Refusal, assert_says
from tests.labels.heads import NAMES, RATE, make_sources
from tests.recordings import write_recording

AT = [0, 1, 2, 6, 7, 9, 17]  # electrodes, as many as sources


def write_head(path: Path, rate: float | None = RATE) -> Path:
    """Write sources of seven labels, as seven channels show them."""
    courses, maps = make_sources(1)
    x = 20.0 * courses @ maps[AT].T
    names = [NAMES[i] for i in AT]
    known: dict[str, Any] = {} if rate is None else {"rate": rate}
    return write_recording(path, x, unit="uV", channels=names, **known)


@pytest.fixture
def head(tmp_path: Path) -> Path:
    return write_head(tmp_path / "in.h5")


def write_montage(path: Path) -> Path:
    """Write where the electrodes of `write_head` are, under other names: on a sphere of 9 cm."""
    rows = ["name\tx\ty\tz"]
    for i in AT:
        place = find_position(NAMES[i])
        assert place is not None
        angle = (
            np.arccos(place[2]) / 0.8
        )  # from the vertex; 72 degrees in the 10-20 system are 90 of a head
        flat = place[:2] / max(float(np.hypot(*place[:2])), 1e-12) * np.sin(angle)
        x, y, z = 0.09 * np.array([*flat, np.cos(angle)])
        rows.append(f"E{i}\t{x:.9f}\t{y:.9f}\t{z:.9f}")
    path.write_text("\n".join(rows) + "\n")
    return path


def read_removed(path: Path) -> list[tuple[int, str, float]]:
    with h5py.File(path) as file:
        return [(int(row["source"]), row["label"].decode(), row["score"]) for row in file["excluded"][()]]


@pytest.mark.jit
@pytest.mark.parametrize("unit", ["uV", "mol/l"])
def test_positions_stand_in_for_names(separated: Command, head: Path, tmp_path: Path, unit: str) -> None:
    montage, renamed = write_montage(tmp_path / "places.tsv"), tmp_path / "renamed.h5"
    with h5py.File(head) as file:
        x = file["data"][()]
    write_recording(renamed, x, unit=unit, channels=[f"E{i}" for i in AT], rate=RATE)
    separated(renamed, "--structure", "learned", "--montage", montage)
    with OutputFile(tmp_path / "out.h5") as file:
        found = file.read_labels()
    if unit != "uV":
        assert found is None
        return
    separated(head, "--structure", "learned", "--overwrite")
    with OutputFile(tmp_path / "out.h5") as file:
        expected = file.read_labels()
    assert expected is not None
    assert found is not None
    assert found.labels == expected.labels
    np.testing.assert_allclose(found.scores, expected.scores, atol=0.1)


@pytest.mark.jit
def test_labelled_sources_are_removed(separated: Command, head: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    said = separated(head, "--structure", "learned", "--exclude-labelled", "heart, line-noise:0.9").output
    removed = read_removed(out)
    assert [label for _, label, _ in removed] == ["heart", "line noise"]
    with OutputFile(out) as file, h5py.File(head) as recording:
        model, labels = file.read_model(), file.read_labels()
        assert labels is not None
        x, y = recording["data"][()], file.open_series("sources").read(0, 12_000)
        cleaned = file.open_series("cleaned").read(0, 12_000)
    found = label_sources(y, model.mixing, model.channels, RATE)
    assert found.labels == labels.labels
    assert found.reasons == labels.reasons
    np.testing.assert_allclose(labels.scores, found.scores, atol=1e-6)
    for source, label, score in removed:
        assert labels.labels[source] == label
        assert f"source-{source} ({label} {score:.2f})" in said
    sources = [source for source, _, _ in removed]
    np.testing.assert_allclose(cleaned, x - y[:, sources] @ model.mixing[:, sources].T, atol=1e-9)
    assert json.loads(h5py.File(out).attrs["cleaning"])["exclude_labelled"] == [
        ["heart", 0.8],
        ["line noise", 0.9],
    ]


@pytest.mark.jit
def test_reports_and_inspect_show_labels_with_reasons(
    separated: Command, igbss: Command, head: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.h5"
    separated(head, "--structure", "learned", "--exclude-labelled", "heart", "--report")
    page = out.with_suffix(".html").read_text()
    with OutputFile(out) as file:
        labels = file.read_labels()
    assert labels is not None
    heart = labels.labels.index("heart")
    text = f"<b>heart {labels.top_scores[heart]:.2f}</b>, because: {labels.reasons[heart]}."
    assert text in page
    assert "excluded from the channels: it is labelled as heart" in page
    assert "batch --exclude-labelled eye,heart" in page
    (line,) = [one for one in igbss("inspect", out).output.splitlines() if one.startswith("labels: ")]
    assert f"source-{heart} heart {labels.top_scores[heart]:.2f}" in line
    assert line.endswith(" brain")
    (model,) = json.loads(igbss("inspect", out, "--json").output)["models"]
    stored = model["labels"]["sources"][f"source-{heart}"]
    assert (stored["label"], stored["reason"]) == ("heart", labels.reasons[heart])
    assert stored["scores"]["heart"] == round(float(labels.top_scores[heart]), 2)


@pytest.mark.jit
def test_a_model_has_its_labels_for_other_recordings_and_streams(
    separated: Command, head: Path, tmp_path: Path
) -> None:
    separated(head, "--structure", "learned")
    (tmp_path / "out.h5").rename(tmp_path / "model.h5")
    labels = load_model(tmp_path / "model.h5").separator.labels
    assert labels is not None
    heart = labels.labels.index("heart")
    separated(head, "--model", tmp_path / "model.h5", "--exclude-labelled", "heart")
    assert [source for source, _, _ in read_removed(tmp_path / "out.h5")] == [heart]
    assert load_model(tmp_path / "out.h5").separator.labels is not None
    by_label = Cleaning(exclude_labelled=(("heart", 0.8),))
    calibration = apply_cleaning(load_calibration(tmp_path / "model.h5"), by_label)
    assert calibration.separator.cleaner is not None
    assert calibration.separator.cleaner.sources == (heart,)
    with h5py.File(tmp_path / "model.h5", "a") as file:
        del file["labels"]
    separated(head, "--model", tmp_path / "model.h5", "--exclude-labelled", "heart", "--overwrite")
    assert [source for source, _, _ in read_removed(tmp_path / "out.h5")] == [heart]
    with pytest.raises(ParameterError, match="does not contain"):
        apply_cleaning(load_calibration(tmp_path / "model.h5"), by_label)


@pytest.mark.jit
def test_segments_remove_the_same_sources(separated: Command, head: Path, tmp_path: Path) -> None:
    options = ("--structure", "learned", "--exclude-labelled", "eye,heart")
    separated(head, *options)
    (tmp_path / "out.h5").rename(tmp_path / "whole.h5")
    separated(head, *options, "--segment", 20)
    with h5py.File(tmp_path / "whole.h5") as whole, h5py.File(tmp_path / "out.h5") as parts:
        for name in ("cleaned", "excluded", "labels"):
            assert whole[name][()].tobytes() == parts[name][()].tobytes(), name


def test_a_known_structure_is_labelled_on_request(separated: Command, head: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    result = separated(head, "--structure", "systematic", "--exclude-labelled", "channel:0.99")
    assert "no source is labelled as channel with a score of 0.99 or more" in result.output
    assert read_removed(out) == []
    separated(head, "--structure", "systematic", "--overwrite")
    with OutputFile(out) as file:
        assert file.read_labels() is None  # not asked for, and the sources have no meaning


DAMAGED = {
    "rows": lambda table: table[1:],
    "order": lambda table: table[::-1],
    "columns": lambda table: table[["source", "label", "score"]],
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_table_is_refused(
    separated: Command, head: Path, tmp_path: Path, damage: Callable[[Any], Any]
) -> None:
    separated(head, "--structure", "systematic", "--exclude-labelled", "eye")
    with h5py.File(tmp_path / "out.h5", "a") as file:
        table = damage(file["labels"][()])
        del file["labels"]
        file["labels"] = table
    with pytest.raises(RecordingError, match=r"labels|eye_blink"):
        load_model(tmp_path / "out.h5")


REFUSED = {
    "unknown": (["--exclude-labelled", "nose"], ["eye, eye blink", "'nose'"]),
    "brain": (["--exclude-labelled", "brain"], ["'brain'"]),
    "score": (["--exclude-labelled", "eye:2"], ["least score above 0 and up to 1", "2.0"]),
    "text": (["--exclude-labelled", "eye:much"], ["such as eye,heart:0.7", "'eye:much'"]),
    "products": (["--exclude-labelled", "eye", "--order", "2", "--structure", "learned"], ["order = 1"]),
    "periods": (
        ["--exclude-labelled", "eye", "--structure", "cyclic", "--n-sources", "3"],
        ["same for all samples"],
    ),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED)
def test_refusals(batch_refused: Refusal, head: Path, options: list[str], words: list[str]) -> None:
    assert_says(batch_refused(head, *options), *words)


def test_a_recording_without_rate_cannot_be_labelled(batch_refused: Refusal, tmp_path: Path) -> None:
    path = write_head(tmp_path / "in.h5", rate=None)
    assert_says(batch_refused(path, "--structure", "systematic", "--exclude-labelled", "eye"), "--rate")
