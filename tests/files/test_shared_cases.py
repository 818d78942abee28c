"""Small files of the kinds that go wrong: what is read of each, what is noted, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igbss_stream.errors import IgbssError
from igbss_stream.files.gaps import get_gap_rows
from igbss_stream.files.open import open_recording

CASES = Path(__file__).parents[3] / "shared" / "cases"

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(not CASES.is_dir(), reason=f"no files in {CASES}"),
]

FOUR, COMMA = ("C3", "C4", "O1", "O2"), "the comma is taken as the decimal mark"
RECORDS, CUT = "MNE warns: Number of records", "the last line has no line break"

# file: options, then rows, channels, rate, unit, gaps as (row, samples), and words of a note; empty for none
READ: dict[str, tuple[dict[str, Any], int, tuple[str, ...], float, str | None, list[tuple[int, int]], str]] = {
    "semicolon_decimalcomma.csv": ({"rate": 250}, 600, FOUR, 250, None, [], COMMA),
    "tab_decimalcomma.txt": ({"rate": 250}, 600, FOUR, 250, None, [], COMMA),
    "time_jump2.csv": (
        {"rate": 250}, 500, ("CH_A", "CH_B", "CH_C"), 250, None, [(200, 100)], "time columns are omitted: time"
    ),
    "obci_v5_lost.txt": (
        {}, 550, tuple(f"EXG Channel {i}" for i in range(4)), 250, "uV", [(100, 50)], "only the channels of the device"
    ),
    "obci_v3.txt": (
        {}, 600, tuple(f"EXG Channel {i}" for i in range(4)), 250, "uV", [], "only the channels of the device"
    ),
    "opensignals_wrap.txt": ({}, 600, ("A1", "A2"), 1000, None, [], "counters are omitted: nSeq"),
    "emotiv.csv": ({}, 600, ("AF3", "T7", "Pz", "T8", "AF4"), 128, None, [], "without COUNTER"),
    "empty_cells.csv": ({"rate": 250}, 600, ("a", "b", "c"), 250, None, [], ""),
    "last_incomplete.csv": ({"rate": 250}, 600, ("a", "b", "c"), 250, None, [], CUT),
    "last_cut_number.csv": ({"rate": 250}, 600, ("a", "b", "c"), 250, None, [], CUT),
    "units_row.csv": ({}, 600, ("Channel A", "Channel B"), 10_000, "mV", [], "the rate follows from the times"),
    "trailing_comma.csv": ({"rate": 250}, 600, ("a", "b", "c"), 250, None, [], ""),
    "truncated.edf": ({}, 1152, FOUR, 128, "V", [], RECORDS),
    "records_minus1.edf": ({}, 1280, FOUR, 128, "V", [], RECORDS),
    "records_too_many.edf": ({}, 1280, FOUR, 128, "V", [], RECORDS),
    "dup_two.edf": ({}, 1280, ("C3-0", "C3-1", "O1", "O2"), 128, "V", [], "MNE warns: Channel names are not unique"),
    "physmin_eq_max.edf": ({"channels": "0-3"}, 1280, FOUR, 128, None, [], "no scale for the channels O1"),
    "bv_no_vmrk.vhdr": ({}, 1280, FOUR, 250, "V", [], "MNE warns: MarkerFile"),
    "bv_renamed.vhdr": ({}, 1280, FOUR, 250, "V", [], "'bv_renamed.eeg', which has the name of the header, is read"),
    "label_is_name.xdf": ({}, 2000, ("E0", "E1", "E2", "E3"), 250, "uV", [], ""),
    "other_header_broken.xdf": ({}, 2000, (), 250, "uV", [], "has a damaged header"),
    "ts_one_nan.nwb": ({}, 2000, (), 250, "V", [], "1 of the timestamps are NaN"),
    "ts_nan_and_gap.nwb": ({"rate": 250}, 2000, (), 250, "V", [(1000, 500)], "timestamps are NaN"),
    "time_column.snirf": ({}, 500, (), 10, None, [], ""),
    "preallocated.h5": ({}, 2000, (), 250, None, [], "the last 3000 of 5000 rows were never written"),
}  # fmt: skip
REFUSED = {
    "csv_doublecomma_names.csv": "has 4 names but 8 columns: its numbers have decimal commas",
    "csv_doublecomma_noname.csv": "are they 4 columns with decimal commas?",
    "physmin_eq_max.edf": "--channels 0-1,3 to omit them",
    "vds_missing.h5": "the part 'part_c_missing.h5' is missing; restore it",
}
_EXTRAS = {".edf": "mne", ".vhdr": "mne", ".xdf": "pyxdf"}


@pytest.mark.parametrize("name", READ)
def test_what_is_read(name: str) -> None:
    pytest.importorskip(_EXTRAS.get(Path(name).suffix, "numpy"))
    options, n_samples, channels, rate, unit, gaps, note = READ[name]
    with open_recording(CASES / name, **options) as recording:
        assert recording.n_samples == n_samples
        assert not channels or recording.channels == channels
        assert (recording.rate, recording.unit) == (rate, unit)
        rows = get_gap_rows(recording.gaps)
        assert [(row, gap.n_samples) for row, gap in zip(rows, recording.gaps, strict=True)] == gaps
        notes = " / ".join(recording.notes)
        assert note in notes
        assert bool(note) == bool(notes)
        assert sum(len(block) for _, block in recording.read_blocks(1000)) == n_samples


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    pytest.importorskip(_EXTRAS.get(Path(name).suffix, "numpy"))
    with pytest.raises(IgbssError) as error:
        open_recording(CASES / name, rate=250.0)
    assert REFUSED[name] in str(error.value)


def test_every_case_is_tested() -> None:
    """Files of other cases, and parts, have their own endings or are named by a case."""
    parts = {"README.md", "part_a.h5", "part_b_moved.h5"}
    names = {path.name for path in CASES.iterdir() if path.suffix not in (".eeg", ".vmrk")} - parts
    assert names == set(READ) | set(REFUSED)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("semicolon_decimalcomma.csv", {"sep": ";", "decimal": ","}),
        ("tab_decimalcomma.txt", {"sep": "\t", "decimal": ","}),
        ("time_jump2.csv", {}),
        ("empty_cells.csv", {}),
        ("trailing_comma.csv", {"index_col": False}),
    ],
)
def test_text_is_what_pandas_reads(name: str, options: dict[str, Any]) -> None:
    pd = pytest.importorskip("pandas")
    expected = pd.read_csv(CASES / name, **options)
    with open_recording(CASES / name, rate=250) as recording:
        found = np.concatenate([block.copy() for _, block in recording.read_blocks(100)])
        np.testing.assert_array_equal(found, expected[list(recording.channels)].to_numpy(float))
