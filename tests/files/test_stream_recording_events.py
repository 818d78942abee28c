"""Events in the recording of a stream: at their samples in every file, over restarts, kills and full disks."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import matplotlib as mpl
import mne
import numpy as np
import pytest
from matplotlib import pyplot as plt

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import RecordingError
from igbss_stream.events import Event, Events
from igbss_stream.files.event_table import make_event_table
from igbss_stream.files.open import open_recording
from igbss_stream.files.writers import recorded_events, stream_recording
from igbss_stream.files.writers.rotation import Rotation
from igbss_stream.files.writers.stream_recording import RecordingSink
from igbss_stream.mne.output import raw_of_output
from igbss_stream.positions import HEAD, Positions
from tests.commands import Command
from tests.files.test_stream_recording import ROOT, STREAM, chunk
from tests.files.test_stream_recording_files import NOON, path, set_time  # noqa: F401 # fixtures
from tests.recordings import file_size_limit

mpl.use("Agg")

EVENTS = Events([2.25, 61.0, 63.4, 110.0], ["square", "in the gap", "", "rt"], [0.5, 0, 0, 0], "stim")


def write(sink: RecordingSink, stop: int = 200) -> None:
    """Write 60 samples, a gap of 10, and further samples, with the events after their samples."""
    sink.write(chunk(0, 60))
    sink.write_events(EVENTS[:1])
    sink.write(Gap(60, 10, "lost"))
    sink.write_events(EVENTS[1:3])
    sink.write(chunk(70, stop - 70))
    sink.write_events(EVENTS[3:])


def read_labels(file: Path) -> list[tuple[float, str]]:
    """Return the events as any program reads them; indices count from the first row."""
    with open_recording(file) as recording:
        return [(event.index, event.label) for event in recording.events]


def test_the_table_is_that_of_an_output(path: Path) -> None:  # noqa: F811
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        write(sink)
        sink.flush()
        with open_recording(path) as recording:  # while it is written
            assert recording.events == EVENTS
    with h5py.File(path) as file:
        table = file["events"][()]
    expected = make_event_table(EVENTS, [Gap(60, 10, "lost")], STREAM.rate)
    assert table.dtype.names == expected.dtype.names
    assert [row.tolist() for row in table] == [row.tolist() for row in expected]


@pytest.mark.parametrize("ending", [".edf", ".bdf", ".vhdr", ".fif"])
def test_exports_have_events_gaps_date_and_positions(path: Path, igbss: Command, ending: str) -> None:  # noqa: F811
    """Of a stream that was running when the recording began: its first index is not 0."""
    names, began = ("Fz", "C3", "C4", "Oz"), 1_700_000_000.0
    xyz = np.array([[0, 0.07, 0.09], [-0.07, 0, 0.09], [0.07, 0, 0.09], [0, -0.1, 0.04]])
    positions = Positions(names, xyz, HEAD, "montage of the configuration")
    stream = Stream("s", 250.0, names, "uV", t0=began - 400.0, positions=positions)
    x = np.random.default_rng(90_412).normal(size=(2000, 4)).astype(np.float32)
    with RecordingSink(path) as sink:
        sink.start(stream)
        sink.write(Chunk(x[:500], 100_000))
        sink.write_events(Events([100_100.0], ["square"], [0.2], "stim"))
        sink.write(Gap(100_500, 40, "lost"))
        sink.write(Chunk(x[500:], 100_540))
        sink.write_events(Events([100_640.0], ["rt"], None, "stim"))
    target = path.with_name(f"x_eeg{ending}")
    outcome = igbss("export", path, "-o", target)
    assert outcome.exit_code == 0, outcome.output
    raw = mne.io.read_raw(target, verbose="error")
    assert (raw.ch_names, set(raw.get_channel_types())) == ([*names], {"eeg"})
    assert abs(raw.info["meas_date"].timestamp() - began) < 1e-3
    np.testing.assert_allclose(raw.get_data().T, 1e-6 * x, atol=2e-4 * 1e-6)
    found = [(round(one["onset"] * 250.0), one["description"].split("/")[-1]) for one in raw.annotations]
    break_ = f"{'BAD boundary, ' * (ending == '.fif')}gap: 40 samples missing"
    assert sorted(found) == [(100, "square"), (500, break_), (600, "rt")]
    with open_recording(target) as recording:
        assert [(gap.start, gap.n_samples) for gap in recording.gaps] == [(500, 40)]
        assert [(round(one.index), one.label) for one in recording.events] == [(100, "square"), (640, "rt")]
        if ending in (".vhdr", ".fif"):
            assert recording.positions is not None
            np.testing.assert_allclose(recording.positions.xyz, xyz, atol=1e-5)
    if ending == ".fif":
        assert raw.compute_psd(verbose="error").plot_topomap({"all": (1, 40)}, show=False)
        plt.close("all")


def test_sources_of_a_stream_are_channels_without_a_place(path: Path, igbss: Command) -> None:  # noqa: F811
    with RecordingSink(path) as sink:
        sink.start(Stream("s", 250.0, ("source-0", "source-1")))
        write(sink, 2000)
    raw = raw_of_output(path)
    assert set(raw.get_channel_types()) == {"misc"}
    labels = raw.annotations.description
    assert [text for text in labels if not text.startswith("BAD")] == EVENTS.label.tolist()
    assert igbss("report", path, "-o", path.with_suffix(".html")).exit_code == 0
    assert "rt 1, square 1" in path.with_suffix(".html").read_text()


def test_each_file_has_the_events_of_its_samples(
    path: Path,  # noqa: F811
    set_time: Callable[[float], None],  # noqa: F811
) -> None:
    """A change by the clock is before the next samples, not before the events of the last ones."""
    set_time(NOON - 1)
    with RecordingSink(path, rotate=Rotation(every=3600)) as sink:
        sink.start(STREAM)
        for hour, start in ((0, 0), (1, 100), (1, 200), (2, 300)):
            set_time(NOON + 3600 * hour - 1)
            sink.write(chunk(start, 50))
            set_time(NOON + 3600 * hour)
            sink.write(chunk(start + 50, 50))
            sink.write_events(Events([start + 10.0, start + 99.0], [f"{start} early", f"{start} late"]))
            sink.serve()
    files = sorted(path.parent.iterdir())
    labels = [label for file in files for _, label in read_labels(file) if "late" in label]
    assert labels == ["0 late", "100 late", "200 late", "300 late"]
    for file in files:
        with h5py.File(file) as one:
            index, first = one["events"]["index"], one["models"][0]["start"]
            values = one["data"][:, 0]
            rows = one["events"]["row"]
        of_file = index >= first
        np.testing.assert_array_equal(values[rows[of_file].astype(int)], index[of_file])


def test_a_run_that_is_appended_has_its_events_at_its_samples(path: Path) -> None:  # noqa: F811
    for start in (5, 40):
        with RecordingSink(path, if_exists="append") as sink:
            sink.start(Stream(STREAM.name, STREAM.rate, STREAM.channels, STREAM.unit))
            sink.write_events(Events([start + 1.5], ["before its samples are written"]))
            sink.write(chunk(start, 10))
            sink.write_events(Events([start + 3.0], [f"run from {start}"]))
    assert read_labels(path) == [
        (1.5, "before its samples are written"),
        (3.0, "run from 5"),
        (11.5, "before its samples are written"),
        (13.0, "run from 40"),
    ]


def test_a_kill_leaves_the_flushed_events(tmp_path: Path) -> None:
    code = """
        import os, signal, sys
        from tests.files.test_stream_recording_events import RecordingSink, STREAM, Events, write
        with RecordingSink(sys.argv[1], flush_every=1000) as sink:
            sink.start(STREAM)
            write(sink)
            sink.flush()
            sink.write_events(Events([150.0], ["late"]))  # its sample can be read
            sink.write(chunk(200, 10))
            sink.write_events(Events([205.0], ["not flushed"]))
            os.kill(os.getpid(), signal.SIGKILL)
    """
    file = tmp_path / "live.h5"
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), file], cwd=ROOT, check=False)
    flushed = sorted([(150.0, "late"), *((event.index, event.label) for event in EVENTS)])
    assert read_labels(file) == flushed
    with RecordingSink(file, if_exists="append") as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 5))
        sink.write_events(Events([3.0], ["next"]))
    assert [label for _, label in read_labels(file)] == ["square", "in the gap", "", "rt", "late", "next"]


def test_readers_never_see_samples_without_their_events(
    path: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At each moment, also when a flush is due between samples and events, which come in any order."""
    now, rng = 100.0, np.random.default_rng(90_411)
    monkeypatch.setattr("time.monotonic", lambda: now)
    seen = set[int]()

    def look(n_late: int) -> None:
        with h5py.File(path, locking=False) as file:
            n = len(file["data"])
            found = set(np.round(file["events"]["row"]).astype(int).tolist())
        assert set(range(5, n, 10)) - found <= set(range(5 + 10 * (n_late - 1), n, 10))
        seen.add(n)

    with RecordingSink(path, flush_every=1.0) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 10))
        sink.write_events(Events([5.0], ["0"]))
        sink.serve()
        for k in range(1, 60):
            now += float(rng.choice([0.0, 0.4, 1.5]))
            sink.write(chunk(10 * k, 10))
            look(k + 1)
            now += float(rng.choice([0.0, 1.5]))
            is_late = rng.random() < 0.3
            if is_late:  # the samples are seen first, the event as soon as it is known
                sink.serve()
                look(k)
            sink.write_events(Events([10 * k + 4.7], [str(k)]))
            look(k + 1)
            if rng.random() < 0.5:
                sink.serve()
    assert len(seen) > 20


def test_a_full_table_begins_the_next_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(recorded_events, "_BYTES", 8 * recorded_events._ROW.itemsize)
    monkeypatch.setattr(stream_recording, "LATE_EVENTS", 3)
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        for start in range(0, 100, 10):
            sink.write(chunk(start, 10))
            sink.write_events(Events([start + 1.0, start + 2.0], [str(start), str(start)]))
    found = []
    for name in ("live.h5", "live-2.h5", "live-3.h5", "live-4.h5"):
        with h5py.File(path.with_name(name)) as file:
            first = int(file["models"][0]["start"])
        found += [(index + first, label) for index, label in read_labels(path.with_name(name))]
    assert found == [(start + k, str(start)) for start in range(0, 100, 10) for k in (1.0, 2.0)]


def test_events_wait_while_the_disk_is_full(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        sink.write(chunk(0, 10))
        sink.flush()
        with file_size_limit(4096), pytest.raises(RecordingError, match="cannot be written"):
            sink.write_events(Events([3.0], ["a"]))
        sink.write(chunk(10, 10))
        sink.write_events(Events([12.0], ["b"]))
    assert read_labels(path) == [(3.0, "a"), (12.0, "b")]


def test_long_texts_are_cut_and_waiting_events_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(recorded_events, "_MOST_WAITING", 2)
    with RecordingSink(path) as sink:
        sink.start(STREAM)
        sink.write_events(Events([1.0, 2.0, 3.0], ["ä" * 200, "b", "c"], None, "s" * 300))
        assert sink.n_events_unrecorded == 1
        sink.write(Chunk(np.zeros((10, 2), np.float32), 0))
    with open_recording(path) as recording:
        assert list(recording.events) == [
            Event(1.0, "ä" * 127, 0.0, "s" * 255),
            Event(2.0, "b", 0.0, "s" * 255),
        ]


def test_a_stream_of_many_channels_has_room_in_the_header(path: Path) -> None:  # noqa: F811
    """Its numbers that change must be within the first page, however long the other attributes are."""
    stream = Stream("s", 250.0, tuple(f"channel {i}" for i in range(3000)), "uV")
    with RecordingSink(path) as sink:
        sink.start(stream)
        sink.write(Chunk(np.zeros((3000, 3000), np.float32), 0))
        sink.write_events(Events([1.0], ["a"]))
    assert read_labels(path) == [(1.0, "a")]


def test_nothing_is_written_before_a_stream_is_started(path: Path) -> None:  # noqa: F811
    sink: Any = RecordingSink(path)
    sink.write_events(Events([1.0], ["a"]))
    sink.close()
    assert not path.exists()
