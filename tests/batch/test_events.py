"""Events of a recording in the output of `batch`: where they are, what they are, and who reads them."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import h5py
import numpy as np
import pytest

from igbss_stream.chunk import Gap
from igbss_stream.events import Event, Events
from igbss_stream.files.event_table import make_event_table
from igbss_stream.files.open import open_recording
from tests.commands import SYSTEMATIC, Command
from tests.recordings import NAMES, write_recording

RATE = 250.0
T0 = datetime(1997, 4, 25, 13, 36, 5, tzinfo=UTC).timestamp()
PULSES = [137, 1490, 2212, 2777]  # rows
GAP = Gap(2000, 13, "lost")
EVENTS = [
    Event(137.0, "go", 0.2, "markers"),
    Event(1490.25, "ü", 0.0, "markers"),
    Event(2005.0, "in the gap", 0.0, "notes"),
    Event(2225.0, "go", 0.0, "markers"),
    Event(2790.0, "stop", 1.0, "markers"),
]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Return a recording with a gap, and a pulse in all channels at four of its events."""
    x = 0.1 * np.random.default_rng(0).standard_normal((3000, 4))
    for row in PULSES:
        x[row] += [100.0, 80.0, -60.0, 40.0]
    path = write_recording(tmp_path / "in.h5", x, rate=RATE, unit="uV", channels=NAMES, t0=T0)
    with h5py.File(path, "a") as file:
        kind = [("row", "i8"), ("start", "i8"), ("n_samples", "i8"), ("reason", "S40")]
        file["gaps"] = np.array([(GAP.start, GAP.start, GAP.n_samples, b"lost")], kind)
        file["events"] = make_event_table(Events.from_rows(EVENTS), [GAP], RATE)
    return path


def test_the_table_states_rows_indices_and_times(recorded: Path, separated: Command) -> None:
    output = recorded.with_name("out.h5")
    separated(recorded, *SYSTEMATIC)
    with h5py.File(output) as file:
        table = file["events"][:]
        assert file["sources"].attrs["t0"] == T0
    assert table["index"].tolist() == [one.index for one in EVENTS]
    assert table["row"].tolist() == [137, 1490.25, 2000, 2212, 2777]
    np.testing.assert_allclose(table["time"], table["index"] / RATE)
    assert [label.decode() for label in table["label"]] == [one.label for one in EVENTS]
    with open_recording(output, "sources") as again:
        assert list(again.events) == EVENTS
        assert (again.gaps, again.t0) == ((GAP,), T0)


@pytest.mark.parametrize("rate", [100.0, 200.0, 500.0])
def test_a_pulse_stays_at_its_event_after_filters_and_resampling(
    recorded: Path, separated: Command, rate: float
) -> None:
    output = recorded.with_name("out.h5")
    options = ("--bandpass", "1:40", "--resample", rate, "--exclude", "0", *SYSTEMATIC)
    separated(recorded, *options)
    with h5py.File(output) as file:
        table = file["events"][:]
        removed = np.outer(file["sources"][:, 0], file["mixing"][:, 0])
        channels = np.abs(file["cleaned"][:] + removed).max(axis=1)
    for event in table[table["label"] != b"in the gap"]:
        around = slice(round(event["row"] - 0.1 * rate), round(event["row"] + 0.1 * rate))
        peak = around.start + int(np.argmax(channels[around]))
        assert abs(peak - event["row"]) <= 0.75, event  # the nearest sample to a pulse between two samples
    np.testing.assert_allclose(table["index"], [one.index * rate / RATE for one in EVENTS], atol=1e-6)
    np.testing.assert_allclose(table["time"], [one.index / RATE for one in EVENTS], atol=1e-6)


def test_segments_have_the_events_of_the_whole(recorded: Path, igbss: Command) -> None:
    whole, joined = recorded.with_name("whole.h5"), recorded.with_name("joined.h5")
    for path, options in ((whole, ()), (joined, ("--segment", 4))):
        assert igbss("batch", recorded, "-o", path, *options, *SYSTEMATIC).exit_code == 0
    with h5py.File(whole) as one, h5py.File(joined) as other:
        np.testing.assert_array_equal(one["events"][:], other["events"][:])


def test_a_recording_without_events_has_no_table(tmp_path: Path, separated: Command) -> None:
    path = write_recording(tmp_path / "in.h5", np.random.default_rng(0).laplace(size=(500, 4)), rate=RATE)
    separated(path, *SYSTEMATIC)
    with h5py.File(tmp_path / "out.h5") as file:
        assert "events" not in file
        assert "t0" not in file["sources"].attrs


def test_long_labels_are_cut_between_characters() -> None:
    table = make_event_table(Events([1.0], ["ü" * 200]), [], None)
    assert table["label"][0].decode() == "ü" * 127
    assert np.isnan(table["time"][0])


def test_inspect_counts_events_by_label(recorded: Path, igbss: Command) -> None:
    text = igbss("inspect", recorded).output
    assert "events: 5: go 2, in the gap 1, stop 1, ü 1" in text
    assert "first sample: 1997-04-25 13:36:05 UTC" in text
    found = json.loads(igbss("inspect", recorded, "--json", "--fast").output)["recording"]
    assert found["events"] == {"go": 2, "in the gap": 1, "stop": 1, "ü": 1}
    assert found["t0"] == T0


def test_inspect_does_not_read_trigger_channels_if_it_is_to_be_fast(recorded: Path, igbss: Command) -> None:
    options = ("inspect", recorded, "--events", NAMES[0], "--channels", "1-3")
    assert "events: in the samples, which --fast does not read" in igbss(*options, "--fast").output
    assert json.loads(igbss(*options, "--fast", "--json").output)["recording"]["events"] is None
    assert json.loads(igbss(*options, "--json").output)["recording"]["events"]["go"] == 2


def test_the_report_counts_events_by_label(recorded: Path, separated: Command) -> None:
    separated(recorded, "--report", *SYSTEMATIC)
    page = recorded.with_name("out.h5").with_suffix(".html").read_text()
    assert "5: go 2, in the gap 1, stop 1, ü 1" in page
    assert "1997-04-25 13:36:05 UTC" in page
    # around the largest value of each source, a line with a label for each event
    assert '<path class="change"' in page
    assert re.search(r'<text class="change" [^>]*>stop</text>', page)
