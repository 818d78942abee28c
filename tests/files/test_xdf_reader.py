"""Read XDF files, which the tests write byte by byte."""

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream._util import memory
from igbss_stream.errors import IgbssError, ParameterError
from igbss_stream.files.gaps import get_gap_rows, make_gaps
from igbss_stream.files.open import open_recording
from igbss_stream.files.signal_choice import SeveralSignalsError, SignalChoice
from tests.realdata import DATA, needs_data
from tests.recordings import noise

pyxdf = pytest.importorskip("pyxdf")

CHANNELS = "".join(
    f"<channel><label>{name}</label><unit>microvolts</unit><type>EEG</type></channel>" for name in "abcd"
)
X = noise(1000).astype(np.float32)
RATE = 250.0


def chunk(tag: int, content: bytes) -> bytes:
    return b"\x04" + struct.pack("<IH", len(content) + 2, tag) + content


def header(
    number: int, name: str, rate: float = RATE, kind: str = "float32", desc: str = CHANNELS
) -> bytes:
    xml = (
        f"<info><name>{name}</name><type>EEG</type><channel_count>{desc.count('<channel>')}</channel_count>"
        f"<nominal_srate>{rate}</nominal_srate><channel_format>{kind}</channel_format>"
        f"<desc><channels>{desc}</channels></desc></info>"
    )
    return chunk(2, struct.pack("<I", number) + xml.encode())


def samples(number: int, x: NDArray[Any], times: NDArray[np.float64]) -> bytes:
    """Write samples in chunks of 100, each sample with its timestamp."""
    out = b""
    for at in range(0, len(x), 100):
        rows = b"".join(
            b"\x08" + struct.pack("<d", t) + row.tobytes()
            for t, row in zip(times[at : at + 100], x[at : at + 100], strict=True)
        )
        count = b"\x04" + struct.pack("<I", len(x[at : at + 100]))
        out += chunk(3, struct.pack("<I", number) + count + rows)
    return out


def write(path: Path, *chunks: bytes) -> Path:
    path.write_bytes(b"XDF:" + chunk(1, b"<info><version>1.0</version></info>") + b"".join(chunks))
    return path


def even(n: int = 1000) -> NDArray[np.float64]:
    return 5000.0 + np.arange(n) / RATE


def read(path: Path, **options: Any) -> NDArray[Any]:
    with open_recording(path, **options) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(333)])


def test_a_stream_with_a_description(tmp_path: Path) -> None:
    path = write(tmp_path / "in", header(3, "eeg"), samples(3, X, even()))
    with open_recording(path) as recording:
        assert (recording.layout, recording.dataset, recording.rate) == ("XDF", "eeg", RATE)
        assert (recording.unit, recording.channels) == ("uV", tuple("abcd"))
        assert (recording.types, recording.gaps, recording.notes) == (("EEG",) * 4, (), ())
    np.testing.assert_array_equal(read(path), X)
    np.testing.assert_array_equal(read(path, channels="d,0-1", factor=2.0), X[:, [3, 0, 1]] * 2)
    with open_recording(path, rate=99.0, unit="mV", factor=1e3) as recording:
        assert (recording.rate, recording.unit) == (99.0, "mV")


@pytest.mark.parametrize(("kind", "dtype"), [("int16", "f4"), ("int32", "f8"), ("double64", "f8")])
def test_numbers_of_every_kind(tmp_path: Path, kind: str, dtype: str) -> None:
    x = (X * 1000).astype({"int16": "i2", "int32": "i4", "double64": "f8"}[kind])
    path = write(tmp_path / "in", header(1, "eeg", kind=kind), samples(1, x, even()))
    assert read(path).dtype == dtype
    np.testing.assert_array_equal(read(path), x)


def test_losses_found_in_regular_timestamps(tmp_path: Path) -> None:
    times = even() + (np.arange(1000) >= 300) / RATE + (np.arange(1000) >= 700) * 2.0
    path = write(tmp_path / "in", header(1, "eeg"), samples(1, X, times))
    with open_recording(path) as recording:
        assert recording.gaps == make_gaps([(300, 1, "missing"), (700, 500, "missing")])
        assert recording.rate == RATE


def test_losses_found_in_timestamps_of_bursts(tmp_path: Path) -> None:
    arrived = even(5000) + (np.arange(5000) >= 2600) * 40.0
    burst = arrived.reshape(-1, 8)[:, -1:].repeat(8, axis=1).ravel()  # eight samples arrive at once
    x = noise(5000).astype(np.float32)
    path = write(tmp_path / "in", header(1, "eeg", rate=RATE / 1.004), samples(1, x, burst))
    with open_recording(path) as recording:
        assert get_gap_rows(recording.gaps) == [2600]
        assert recording.gaps[0].n_samples == pytest.approx(40 * RATE, rel=0.01)
        assert recording.rate == RATE / 1.004
        (note,) = recording.notes
        assert note.startswith("the file states 249.004 Hz, but its timestamps give 250")
        assert note.endswith("249.004 Hz are used")  # bursts leave a difference of 0.4 % uncertain
    np.testing.assert_array_equal(read(path), x)


WRONG = [(256.0, 200.0), (128.0, 256.0), (100.0, 92.95), (250.0, 253.0)]


def stamp_wrongly(true: float, how: str, pause: float) -> NDArray[np.float64]:
    """Return the times of two minutes; `pause` seconds of samples are lost after 50 s."""
    row, at = np.arange(round(120 * true)), round(50 * true)
    times = 5000.0 + row / true + (row >= at) * round(pause * true) / true
    if how == "jitter":
        return times + np.random.default_rng(9200).normal(0, 0.005, len(times))
    if how == "bursts":  # the sender stalls for 0.8 s, every 9 s
        for first in range(round(9 * true), len(row) - round(9 * true), round(9 * true)):
            stalled = slice(first, first + round(0.8 * true))
            times[stalled] = np.maximum(times[stalled], times[first] + 0.8)
    return times


@pytest.mark.parametrize("pause", [0.0, 1.0, 60.0])
@pytest.mark.parametrize("how", ["even", "jitter", "bursts"])
@pytest.mark.parametrize(("nominal", "true"), WRONG)
def test_a_wrong_nominal_rate_is_no_loss_and_is_noted_once(
    tmp_path: Path, nominal: float, true: float, how: str, pause: float
) -> None:
    times = stamp_wrongly(true, how, pause)
    x = noise(len(times)).astype(np.float32)
    path = write(tmp_path / "in", header(1, "eeg", rate=nominal), samples(1, x, times))
    with open_recording(path) as recording:
        assert len(recording.gaps) == (1 if pause else 0)
        for gap in recording.gaps:
            assert gap.n_samples == pytest.approx(pause * true, abs=0.1 * true + 1)
        assert recording.rate == pytest.approx(true, rel=2e-3)
        (note,) = recording.notes
        assert note.startswith(f"the file states {nominal:g} Hz, but its timestamps give ")
    np.testing.assert_array_equal(read(path), x)
    with open_recording(path, rate=99.0) as recording:
        assert recording.rate == 99.0
        assert recording.notes[0].endswith("; 99 Hz are used")


def two_streams(path: Path, second: str = "more") -> Path:
    return write(
        path,
        header(1, "eeg"),
        header(2, second, rate=RATE / 2, desc=CHANNELS.replace("microvolts", "mmHg")),
        header(3, "marks", rate=0, kind="string", desc="<channel></channel>"),
        samples(1, X, even()),
        samples(2, X[:500], even()[::2]),
    )


def test_streams_to_choose_from(tmp_path: Path) -> None:
    path = two_streams(tmp_path / "in")
    message = (
        r"2 streams .*--dataset with one of: 'eeg' \(1000 samples of 4 channels, 250 Hz\), 'more' \(500"
    )
    with pytest.raises(SeveralSignalsError, match=message) as caught:
        open_recording(path)
    assert caught.value.signals == (
        SignalChoice("--dataset 'eeg'", 1000, 4, RATE, "uV", tuple("abcd"), ("EEG",) * 4),
        SignalChoice("--dataset 'more'", 500, 4, RATE / 2, "mmHg", tuple("abcd"), ("EEG",) * 4),
    )
    np.testing.assert_array_equal(read(path, dataset="more"), X[:500])
    np.testing.assert_array_equal(read(path, dataset="1"), X)
    for dataset, words in (
        ("marks", "contains text"),
        ("nothing", "has no streams 'nothing'; pass --dataset"),
    ):
        with pytest.raises(IgbssError, match=words):
            open_recording(path, dataset=dataset)
    path = two_streams(tmp_path / "same", "eeg")
    with pytest.raises(IgbssError, match=r"--dataset with one of: 1 \(1000 .*, 2 \(500"):
        open_recording(path, dataset="eeg")
    assert len(read(path, dataset="2")) == 500


def test_samples_without_an_even_rate_are_refused_unless_one_is_given(tmp_path: Path) -> None:
    times = 5000 + np.cumsum(np.random.default_rng(0).exponential(1, 1000))
    path = write(tmp_path / "in", header(1, "eeg", rate=0), samples(1, X, times))
    with pytest.raises(IgbssError, match=r"stream 'eeg' .* is unevenly sampled.*--rate"):
        open_recording(path)
    with open_recording(path, rate=10.0) as recording:
        assert (recording.rate, recording.gaps) == (10.0, ())
    path = write(tmp_path / "even", header(1, "eeg", rate=0), samples(1, X, even()))
    with open_recording(path) as recording:
        assert recording.rate == pytest.approx(RATE)


def test_a_file_that_is_cut_off_or_damaged(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    whole = write(tmp_path / "in", header(1, "eeg"), samples(1, X, even())).read_bytes()
    (tmp_path / "cut").write_bytes(whole[:-1000])
    with open_recording(tmp_path / "cut") as recording:
        assert recording.n_samples == 900
        assert "corruption" in recording.notes[0]
    for content, words in (
        (whole.replace(b"<info><name>", b"<!DOCTYPE x><name>"), "declares entities"),
        (whole.replace(b"float32", b"float31"), "numbers of the format 'float31'"),
        (whole.replace(b"<channel_count>4", b"<channel_count>x"), "damaged XDF"),
        (whole[:4], "has no streams"),
    ):
        (tmp_path / "in").write_bytes(content)
        with pytest.raises(IgbssError, match=words):
            open_recording(tmp_path / "in")


def test_more_than_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "in", header(1, "eeg"), samples(1, X, even()))
    (tmp_path / "meminfo").write_text("MemTotal: 99 kB\nMemAvailable:   50 kB\n")
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setitem(sys.modules, "pyxdf", None)
    with pytest.raises(IgbssError, match=r"takes 9.6e-05 GB of memory at once where 5.1e-05 GB are free"):
        open_recording(path)
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    with pytest.raises(IgbssError, match=r"pip install 'igbss-stream\[xdf\]'"):
        open_recording(path)
    with pytest.raises(IgbssError, match="omit --axis"):
        open_recording(path, axis=0)


@needs_data
def test_a_recording_of_openbci() -> None:
    path = DATA / "eeg" / "test.xdf"
    streams, _ = pyxdf.load_xdf(path)
    np.testing.assert_array_equal(read(path), streams[0]["time_series"])


def clock_offset(number: int, at: float, value: float) -> bytes:
    return chunk(4, struct.pack("<Idd", number, at, value))


@pytest.mark.parametrize("lost", [0.0, 2.0, 30.0])
def test_a_clock_reset_lasts_as_long_as_it_lasted(tmp_path: Path, lost: float) -> None:
    true = 1000 + np.arange(1000) / 25 + lost * (np.arange(1000) >= 500)
    offset = np.where(np.arange(1000) < 500, -4000.0, 1010.0)  # the clock of the sender began anew
    parts = [header(1, "eeg", 25.0)]
    for at in range(0, 1000, 100):
        parts.append(samples(1, X[at : at + 100], (true - offset)[at : at + 100]))
        parts.append(clock_offset(1, true[at] - offset[at], offset[at]))
    with open_recording(write(tmp_path / "in", *parts)) as recording:
        assert [gap.n_samples for gap in recording.gaps] == ([round(lost * 25)] if lost else [])


def test_a_damaged_header_of_another_stream_is_named(tmp_path: Path) -> None:
    broken = chunk(2, struct.pack("<I", 7) + b"<info><name>mark</name><desc><channels>")
    path = write(tmp_path / "in", broken, header(1, "eeg"), samples(1, X, even()))
    np.testing.assert_array_equal(read(path), X)
    with open_recording(path) as recording:
        assert "stream 7 has a damaged header" in recording.notes[0]
    with pytest.raises(IgbssError, match="is a damaged XDF file"):
        open_recording(write(tmp_path / "in", broken))


def test_labels_may_be_names(tmp_path: Path) -> None:
    desc = "".join(f"<channel><name>E{i}</name></channel>" for i in range(4))
    with open_recording(
        write(tmp_path / "in", header(1, "eeg", desc=desc), samples(1, X, even()))
    ) as found:
        assert found.channels == ("E0", "E1", "E2", "E3")


def test_locations_of_channels_are_in_millimetres(tmp_path: Path) -> None:
    where = [("-70.5", "10", "60"), ("70.5", "10", "60"), None, ("0", "-80", "?")]
    desc = "".join(
        f"<channel><label>E{i}</label>"
        + (f"<location><X>{at[0]}</X><Y>{at[1]}</Y><Z>{at[2]}</Z></location>" if at else "")
        + "</channel>"
        for i, at in enumerate(where)
    )
    path = write(tmp_path / "in", header(1, "eeg", desc=desc), samples(1, X, even()))
    with open_recording(path, channels="E1,E0,E3") as found:
        assert found.positions is not None
        wanted = [[0.0705, 0.01, 0.06], [-0.0705, 0.01, 0.06], [np.nan] * 3]
        np.testing.assert_allclose(found.positions.select(found.channels).xyz, wanted)
        assert found.positions.source == "positions of the file (XDF)"
    with open_recording(write(tmp_path / "in", header(1, "eeg"), samples(1, X, even()))) as found:
        assert found.positions is None


def markers(number: int, labels: list[str], times: list[float]) -> bytes:
    """Write a stream of texts, one to a chunk."""
    xml = (
        f"<info><name>marks-{number}</name><type>Markers</type><channel_count>1</channel_count>"
        "<nominal_srate>0</nominal_srate><channel_format>string</channel_format></info>"
    )
    out = chunk(2, struct.pack("<I", number) + xml.encode())
    for label, time in zip(labels, times, strict=True):
        text = label.encode()
        row = b"\x08" + struct.pack("<d", time) + b"\x01" + struct.pack("<B", len(text)) + text
        out += chunk(3, struct.pack("<I", number) + b"\x04" + struct.pack("<I", 1) + row)
    return out


def test_markers_are_placed_where_pyxdf_places_them(tmp_path: Path) -> None:
    times = even() + 0.2e-3 * np.random.default_rng(1).standard_normal(1000)
    times[600:] += 2.0  # a gap of 500 samples
    at = [times[0] - 1, times[0] + 0.1, times[300] + 0.001, times[0] + 3.4, times[700], times[-1] + 5]
    path = write(
        tmp_path / "in",
        header(1, "eeg"),
        samples(1, X, times),
        markers(2, ["early", "a", "ü", "in the gap", "b", "late"], at),
        markers(3, ["other"], [times[10]]),
    )
    with open_recording(path) as recording:
        events, gaps = recording.events, recording.gaps
    assert [gap.n_samples for gap in gaps] == [500]
    assert list(events.label) == ["other", "a", "ü", "in the gap", "b"]
    assert list(events.source) == ["marks-3", *["marks-2"] * 4]
    loaded, _ = pyxdf.load_xdf(path, dejitter_timestamps=True)
    dejittered = next(s for s in loaded if s["info"]["name"] == ["eeg"])["time_stamps"]
    index = np.arange(1000) + 500 * (np.arange(1000) >= 600)
    wanted = np.interp([times[10], *at[1:5]], dejittered, index)
    np.testing.assert_allclose(events.index, wanted, atol=0.05)


def test_marker_streams_can_be_named(tmp_path: Path) -> None:
    path = write(
        tmp_path / "in", header(1, "eeg"), samples(1, X, even()), markers(2, ["a"], [even()[5]]),
        markers(3, ["b"], [even()[6]]),
    )  # fmt: skip
    for wanted in ("marks-3", "3"):
        with open_recording(path, events=wanted) as recording:
            assert [(one.label, one.index) for one in recording.events] == [("b", 6)]
    with pytest.raises(ParameterError, match=r"no other stream 'x' .* the others are: marks-2, marks-3"):
        open_recording(path, events=["x"])


def test_bad_markers_have_no_duration(tmp_path: Path) -> None:
    marker = b"\x08" + struct.pack("<d", 5001.0) + b"\x01\x0aBAD_motion"
    markers = chunk(3, struct.pack("<I", 2) + b"\x01\x01" + marker)
    about = header(2, "marks", rate=0, kind="string", desc="<channel></channel>")
    path = write(tmp_path / "in", header(1, "eeg"), samples(1, X, even()), about, markers)
    with open_recording(path) as recording:
        assert recording.bad_rows == ()
        assert recording.events.count_labels() == {"BAD_motion": 1}
        assert recording.notes == (
            "1 markers begin with BAD, but have no duration, so they mark no samples as bad",
        )


def test_a_clock_that_starts_again_without_clock_offsets(tmp_path: Path) -> None:
    times = even() + (np.arange(1000) >= 700) / RATE - (np.arange(1000) >= 400) * 4000
    with open_recording(write(tmp_path / "in", header(1, "eeg"), samples(1, X, times))) as recording:
        assert recording.gaps == make_gaps([(400, 0, "restart"), (700, 1, "missing")])
        assert recording.rate == RATE
