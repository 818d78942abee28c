"""Positions of a recording in the output of `batch`, and who reads them from there."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from igbss_stream.files.open import open_recording
from igbss_stream.files.positions_dataset import make_positions_dataset
from igbss_stream.files.results.output import OutputFile
from igbss_stream.positions import HEAD, Positions
from tests.commands import SYSTEMATIC, Command, Refusal
from tests.recordings import write_recording

NAMES = ("A1", "A2", "A3", "A4", "A5")
XYZ = np.array(
    [[0.0, 0.09, 0.06], [0.07, 0.01, 0.06], [-0.07, 0.01, 0.06], [0.0, 0.005, 0.13], [0.02, -0.08, 0.07]]
)
SOURCE = "positions of the file (test)"


def write_positions(path: Path, positions: Positions) -> None:
    xyz, attributes = make_positions_dataset(positions, positions.names)
    with h5py.File(path, "a") as file:
        file["positions"] = xyz
        file["positions"].attrs.update({k: v for k, v in attributes.items() if v is not None})


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).laplace(size=(900, 5))
    x[:, 2] = 3.0
    path = write_recording(tmp_path / "in.h5", x, rate=100.0, unit="uV", channels=NAMES)
    write_positions(path, Positions.from_table(NAMES, XYZ, HEAD, SOURCE))
    return path


def read_stored(path: Path) -> Positions:
    with OutputFile(path) as output:
        stored = output.read_model().positions
    assert stored is not None
    return stored


def test_the_output_has_the_positions_of_the_channels_that_were_separated(
    recorded: Path, separated: Command
) -> None:
    separated(recorded, "--drop-flat", "--exclude", 0, *SYSTEMATIC)
    output = recorded.with_name("out.h5")
    kept = [0, 1, 3, 4]
    stored = read_stored(output)
    assert stored == Positions.from_table([NAMES[i] for i in kept], XYZ[kept], HEAD, SOURCE)
    with h5py.File(output) as file:
        assert {**file["positions"].attrs}.keys() == {"channels", "unit", "frame", "source"}
    with open_recording(output, "cleaned") as cleaned, open_recording(output, "sources") as sources:
        assert cleaned.positions == stored
        assert sources.positions is None


def test_preparation_and_segments_keep_positions(recorded: Path, igbss: Command) -> None:
    options = ("--drop-flat", "--reference", "A4", "--bandpass", "1:40", *SYSTEMATIC)
    whole, joined = recorded.with_name("whole.h5"), recorded.with_name("joined.h5")
    assert igbss("batch", recorded, "-o", whole, *options).exit_code == 0
    assert igbss("batch", recorded, "-o", joined, "--drop-flat", *SYSTEMATIC, "--segment", 4).exit_code == 0
    assert read_stored(whole).names == ("A1", "A2", "A5")
    np.testing.assert_array_equal(read_stored(whole).xyz, XYZ[[0, 1, 4]])
    np.testing.assert_array_equal(read_stored(joined).xyz, XYZ[[0, 1, 3, 4]])


def test_the_report_draws_maps_by_position(recorded: Path, separated: Command, igbss: Command) -> None:
    separated(recorded, "--drop-flat", *SYSTEMATIC, "--report")
    page = recorded.with_name("out.html").read_text()
    assert f"4 of 4 channels, by {SOURCE}" in page
    assert page.count('class="dot"') == 16, "four dots in the map of each source"
    assert "No scalp map" not in page


def test_the_report_gives_the_reason_where_a_map_would_be(recorded: Path, separated: Command) -> None:
    with h5py.File(recorded, "a") as file:
        del file["positions"]
    write_positions(recorded, Positions.from_table(NAMES, 0 * XYZ, HEAD, SOURCE))
    assert (
        "Note: positions of the file (test) are not used"
        in separated(recorded, "--drop-flat", *SYSTEMATIC, "--report").output
    )
    page = recorded.with_name("out.html").read_text()
    reason = f"{SOURCE} are not used: of 5 positions, 5 are all zero; 2 of 4 channels have names"
    assert page.count(f"No scalp map: {reason}") == 4
    assert f"none: {reason}" in page


def test_a_report_takes_a_montage(
    recorded: Path, separated: Command, igbss: Command, refused: Refusal
) -> None:
    with h5py.File(recorded, "a") as file:
        del file["positions"]
    separated(recorded, "--drop-flat", *SYSTEMATIC)
    table = recorded.with_name("cap.csv")
    table.write_text(
        "name,x,y,z\n" + "".join(f"{n},{x},{y},{z}\n" for n, (x, y, z) in zip(NAMES, XYZ, strict=True))
    )
    assert igbss("report", recorded.with_name("out.h5"), "--montage", table).exit_code == 0
    assert "4 of 4 channels, by montage cap.csv, taken as m" in recorded.with_name("out.html").read_text()
    table.write_text("name,x,y,z\nQ1,0,0,0.1\nQ2,0.05,0,0.1\n")
    message = refused("report", recorded.with_name("out.h5"), "--montage", table, "--overwrite")
    assert "montage cap.csv, taken as m has none of the channels of" in message


def test_a_changed_montage_is_separated_again(recorded: Path, igbss: Command) -> None:
    table = recorded.with_name("cap.csv")
    rows = ["name,x,y,z\n", *(f"{n},{x},{y},{z}\n" for n, (x, y, z) in zip(NAMES, XYZ, strict=True))]
    options = ("--drop-flat", "--montage", table, "--resume", "--overwrite", "--json", *SYSTEMATIC)

    def get_status() -> str:
        found = igbss("batch", recorded, "-o", recorded.with_name("out.h5"), *options)
        return str(json.loads(found.stdout.splitlines()[0])["status"])

    table.write_text("".join(rows))
    assert (get_status(), get_status()) == ("done", "skipped")
    table.write_text("".join(rows[:-1]))
    assert get_status() == "done"


def test_exports_and_mne_have_the_positions_of_cleaned_channels(
    recorded: Path, separated: Command, igbss: Command
) -> None:
    mne, output = pytest.importorskip("mne"), recorded.with_name("out.h5")
    pytest.importorskip("pybv")
    with h5py.File(recorded, "a") as file:
        file["positions"][4] = np.nan
    separated(recorded, "--drop-flat", "--exclude", 0, *SYSTEMATIC)
    for name, dataset in (("cleaned.vhdr", "cleaned"), ("sources.vhdr", "sources")):
        target = recorded.with_name(name)
        assert igbss("export", output, "--dataset", dataset, "-o", target).exit_code == 0
    from igbss_stream.mne import raw_of_output

    exported = mne.io.read_raw_brainvision(recorded.with_name("cleaned.vhdr"), verbose="ERROR")
    for raw in (exported, raw_of_output(output, "cleaned")):
        assert raw.ch_names == ["A1", "A2", "A4", "A5"]
        found = np.array([channel["loc"][:3] for channel in raw.info["chs"]])
        np.testing.assert_allclose(found[:3], XYZ[[0, 1, 3]], atol=2e-6)
        assert not np.nan_to_num(found[3]).any()
    assert "[Coordinates]" not in recorded.with_name("sources.vhdr").read_text(encoding="utf-8")


def test_inspect_says_where_places_are_from(recorded: Path, igbss: Command) -> None:
    assert f"places on a map: 5 of 5, by {SOURCE}" in igbss("inspect", "--fast", recorded).output
    found = json.loads(igbss("inspect", "--fast", "--json", recorded).stdout)["recording"]["positions"]
    assert (found["source"], found["n_located"], found["frame"]) == (SOURCE, 5, "head")
    np.testing.assert_array_equal(found["xyz"], XYZ)
    without = igbss("inspect", "--fast", recorded, "--dataset", "/positions", "--axis", 0).output
    assert "places on a map: none, because no positions are known" in without
