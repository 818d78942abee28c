"""Events and the date of measurement in exports, read again with MNE and with our own reader."""

from datetime import UTC, datetime
from pathlib import Path

import h5py
import numpy as np
import pytest

from igbss_stream.chunk import Gap
from igbss_stream.events import Event, Events
from igbss_stream.files.event_table import make_event_table
from igbss_stream.files.open import open_recording
from tests.commands import Command

mne = pytest.importorskip("mne")
pytest.importorskip("edfio")
pytest.importorskip("pybv")

RATE = 250.0
BEGAN = datetime(1997, 4, 25, 13, 36, 5, 250000, tzinfo=UTC)
GAP = Gap(400, 100, "lost")
EVENTS = [
    Event(0.25, "Stimulus/S  7", 0.0, "markers"),
    Event(100.4, "squäre, red", 0.2, "markers"),
    Event(390.0, "across the gap", 0.48, "notes"),  # 120 samples, of which 20 exist
    Event(450.0, "in the gap", 0.0, "notes"),
    Event(700.0, "BAD_move", 0.1, "notes"),
    Event(701.0, "line\nbreak", 0.0, "notes"),
]
ROWS = [0.25, 100.4, 390, 400, 600, 601]
ENDINGS = [".edf", ".bdf", ".vhdr", ".fif"]


def write_output(path: Path, t0: float | None = BEGAN.timestamp()) -> Path:
    with h5py.File(path, "w") as file:
        x = np.random.default_rng(0).laplace(size=(1001, 3))
        data = file.create_dataset("sources", data=x)
        data.attrs.update({"rate": RATE, "channels": ["a", "b", "c"]} | ({} if t0 is None else {"t0": t0}))
        kind = [("row", "i8"), ("start", "i8"), ("n_samples", "i8"), ("reason", "S40")]
        file["gaps"] = np.array([(GAP.start, GAP.start, GAP.n_samples, b"lost")], kind)
        file["events"] = make_event_table(Events.from_rows(EVENTS), [GAP], RATE)
    return path


def as_stored(label: str, ending: str) -> str:
    """Return a label as a format stores it; line breaks end an annotation in all but FIF."""
    return label if ending == ".fif" else label.replace("\n", " ")


def get_precision(ending: str) -> float:
    """Return the precision of the date in seconds; EDF and BDF state whole ones."""
    return 1e-3 if ending in (".vhdr", ".fif") else 0.5


@pytest.mark.parametrize("ending", ENDINGS)
def test_mne_reads_the_events_where_they_are(igbss: Command, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"x{ending}"
    assert igbss("export", write_output(tmp_path / "out.h5"), "-o", target).exit_code == 0
    raw = mne.io.read_raw(target, verbose="error")
    assert abs((raw.info["meas_date"] - BEGAN).total_seconds()) < get_precision(ending)
    texts = [text.removeprefix("Comment/") for text in raw.annotations.description]
    wanted = {as_stored(one.label, ending): one for one in EVENTS}
    for (label, event), row in zip(wanted.items(), ROWS, strict=True):
        i = next(i for i, text in enumerate(texts) if text == label)
        error = raw.annotations.onset[i] * RATE - row
        assert abs(error) <= (0.5 if ending == ".vhdr" else 1e-2), label
        length = 20 / RATE if label == "across the gap" else event.duration
        assert raw.annotations.duration[i] == pytest.approx(
            max(length, 1 / RATE if ending == ".vhdr" else 0.0), abs=1e-4
        )


@pytest.mark.parametrize("ending", ENDINGS)
def test_our_reader_gives_events_gaps_and_date_again(igbss: Command, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"x{ending}"
    igbss("export", write_output(tmp_path / "out.h5"), "-o", target)
    with open_recording(target) as recording:
        events = recording.events
        assert [gap.n_samples for gap in recording.gaps] == [100]
        assert recording.t0 == pytest.approx(BEGAN.timestamp(), abs=get_precision(ending))
        assert recording.bad_rows == ((600, 625),)
    assert sorted(events.label) == sorted(as_stored(one.label, ending) for one in EVENTS)
    places = {one.label: one.index for one in events}
    for one in EVENTS:
        wanted = 500 if one.label == "in the gap" else one.index
        assert abs(places[as_stored(one.label, ending)] - wanted) <= 0.5


@pytest.mark.parametrize("ending", [".edf", ".bdf"])
def test_an_unknown_date_stays_unknown(igbss: Command, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"x{ending}"
    said = igbss("export", write_output(tmp_path / "out.h5", None), "-o", target).output
    assert "the date of the recording is not known" in said
    with open_recording(target) as recording:
        assert recording.t0 is None
