"""Read GDF files that are written here as the specification states, and compare with what was written and with MNE."""

import os
import struct
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.errors import IgbssError
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.open import open_recording

N_RECORDS, COUNT = 40, 25
X = np.random.default_rng(3).integers(-3000, 3000, (N_RECORDS * COUNT, 3))
NAMES = ("Fz", "Cz", "Pz")
START = datetime(2005, 7, 12, 10, 30, 15, tzinfo=UTC)
EVENTS = ((1, 768, 0), (26, 769, 50), (501, 0x7FFE, 0), (700, 770, 10))  # position from 1, code, duration
TYPES = {"i1": 1, "<i2": 3, "<u2": 4, "<i4": 5, "<f4": 16, "<f8": 17}


@dataclass
class Channel:
    values: NDArray[Any]
    name: str = "Fz"
    dtype: str = "<i2"
    unit: int | str = 4275  # code in GDF 2: microvolts
    physical: tuple[float, float] = (-500.0, 500.0)
    digital: tuple[float, float] = (-32768.0, 32767.0)

    def count(self, n_records: int) -> int:
        return len(self.values) // n_records


def write_gdf(
    path: Path, channels: list[Channel] | None = None, version: str = "2.10", **options: Any
) -> Path:
    """Write a file as Schloegl (2006) describes it."""
    channels = three() if channels is None else channels
    is_second, n = float(version) >= 1.9, len(channels)
    rate = options.pop("event_rate", 100.0)
    n_records, events = options.pop("n_records", N_RECORDS), options.pop("events", EVENTS)
    assert not options
    head = bytearray(256)
    head[:8] = f"GDF {version}".encode().ljust(8)
    head[8:12] = b"P1 X"
    if is_second:
        days = START.timestamp() / 86400 + 719529
        struct.pack_into("<Q", head, 168, round(days * 2**32))
        struct.pack_into("<H", head, 184, n + 1)
        struct.pack_into("<qIIH", head, 236, n_records, 1, 4, n)
    else:
        head[168:184] = START.strftime("%Y%m%d%H%M%S00").encode()
        struct.pack_into("<q", head, 184, 256 * (n + 1))
        struct.pack_into("<qIII", head, 236, n_records, 1, 4, n)
    kind = "<2d" if is_second else "<2q"
    fields = [
        [c.name.encode().ljust(16) for c in channels],
        [bytes(80)] * n,
        [bytes(6) if is_second else str(c.unit).encode().ljust(8) for c in channels],
        [struct.pack("<H", c.unit) if is_second else b"" for c in channels],
        [struct.pack("<d", c.physical[0]) for c in channels],
        [struct.pack("<d", c.physical[1]) for c in channels],
        [struct.pack(kind, *(map(int, c.digital) if not is_second else c.digital))[:8] for c in channels],
        [struct.pack(kind, *(map(int, c.digital) if not is_second else c.digital))[8:] for c in channels],
        [bytes(80)] * n,  # filters
        [struct.pack("<I", c.count(n_records)) for c in channels],
        [struct.pack("<I", TYPES[c.dtype]) for c in channels],
        [bytes(32)] * n,
    ]
    records = b"".join(
        c.values.reshape(n_records, -1)[i].astype(c.dtype).tobytes()
        for i in range(n_records)
        for c in channels
    )
    position, code, duration = np.array(events, np.int64).reshape(-1, 3).T
    count = struct.pack("<I", len(events))
    table = (
        b"\x03" + count[:3] + struct.pack("<f", rate)
        if float(version) >= 1.94
        else b"\x03" + struct.pack("<I", int(rate))[:3] + count
    )
    table += position.astype("<u4").tobytes() + code.astype("<u2").tobytes() + bytes(2 * len(events))
    table += duration.astype("<u4").tobytes()
    path.write_bytes(bytes(head) + b"".join(b"".join(field) for field in fields) + records + table)
    return path


def three(dtype: str = "<i2", unit: int | str = 4275) -> list[Channel]:
    return [Channel(X[:, i], NAMES[i], dtype, unit) for i in range(3)]


def read(path: Path, n: int = 97, **options: Any) -> NDArray[Any]:
    with open_recording(path, **options) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(n)])


VOLTS = (-500 + (X + 32768) * (1000 / 65535)) * 1e-6


@pytest.mark.parametrize("version", ["1.25", "1.92", "2.10"])
@pytest.mark.parametrize("dtype", ["<i2", "<i4", "<f4", "<f8"])
def test_samples_scale_names_rate_events_and_start(tmp_path: Path, version: str, dtype: str) -> None:
    path = write_gdf(tmp_path / "in.gdf", three(dtype, "uV" if version == "1.25" else 4275), version)
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("GDF", 100.0, "V")
        assert (recording.channels, recording.n_samples, recording.notes) == (NAMES, 1000, ())
        assert recording.t0 == pytest.approx(START.timestamp(), abs=1e-3)
        assert recording.gaps == make_gaps([(500, 0, "boundary")])
        events = [(e.index, e.label, e.duration) for e in recording.events]
        assert events == [(0.0, "768", 0.0), (25.0, "769", 0.5), (699.0, "770", 0.1)]
    for n in (7, 1000) if dtype == "<i2" else (333,):
        np.testing.assert_allclose(read(path, n), VOLTS, rtol=1e-12, atol=1e-17)
    np.testing.assert_array_equal(read(path, channels="Pz,0"), read(path)[:, [2, 0]])
    np.testing.assert_array_equal(read(path, factor=2.0), X * 2.0)


@pytest.mark.parametrize("version", ["1.25", "2.10"])
def test_mne_reads_the_same(tmp_path: Path, version: str) -> None:
    mne = pytest.importorskip("mne")
    path = write_gdf(tmp_path / "in.gdf", three("<i2", "uV" if version == "1.25" else 4275), version)
    with warnings.catch_warnings(action="ignore"):
        raw = mne.io.read_raw_gdf(path, verbose="ERROR")
    np.testing.assert_allclose(read(path), raw.get_data().T, rtol=1e-12, atol=1e-17)
    with open_recording(path) as recording:
        assert (recording.channels, recording.rate) == (tuple(raw.ch_names), raw.info["sfreq"])
        assert recording.t0 == pytest.approx(raw.info["meas_date"].timestamp(), abs=1e-3)
        onsets = [a["onset"] * 100 for a in raw.annotations if a["description"] != "32766"]
        np.testing.assert_allclose(recording.events.index, onsets)


def test_units_and_types_of_channels_may_differ(tmp_path: Path) -> None:
    channels = [
        Channel(X[:, 0], "a", "<i2", 4275),
        Channel(X[:, 1], "b", "<f4", 4274),  # mV
        Channel(X[:, 2], "c", "<i4", 4256),  # V
        Channel(X[:, 0], "d", "<u2", 512),  # no dimension
    ]
    channels[3].values = channels[3].values + 3000
    path = write_gdf(tmp_path / "in.gdf", channels)
    with open_recording(path, channels="a,b,c") as recording:
        assert recording.unit == "V"
    np.testing.assert_allclose(read(path, channels="a,b,c"), VOLTS * [1, 1e3, 1e6], rtol=1e-12, atol=1e-17)
    with open_recording(path) as recording:
        assert recording.unit is None
        assert "several units" in recording.notes[0]


def test_channels_of_several_rates_are_selected(tmp_path: Path) -> None:
    channels = [
        Channel(X[:500, i] if i == 1 else X[:, i], NAMES[i], ("<i2", "<f8", "<i2")[i]) for i in range(3)
    ]
    channels.append(Channel(X[500:, 0], "slow"))
    path = write_gdf(tmp_path / "in.gdf", channels, n_records=20)
    with pytest.raises(IgbssError, match=r"200 Hz: 0,2; 100 Hz: 1,3\); pass --channels"):
        open_recording(path)
    with open_recording(path, channels="3,Cz") as recording:
        assert (recording.channels, recording.rate, recording.n_samples) == (("slow", "Cz"), 100.0, 500)
    expected = np.column_stack([VOLTS[500:, 0], VOLTS[:500, 1]])
    np.testing.assert_allclose(read(path, channels="3,Cz"), expected, rtol=1e-12, atol=1e-17)
    np.testing.assert_allclose(read(path, channels="0,2"), VOLTS[:, [0, 2]], rtol=1e-12, atol=1e-17)


def test_trigger_channels_are_left_out(tmp_path: Path) -> None:
    status = np.zeros(1000)
    status[200:210] = 3
    path = write_gdf(tmp_path / "in.gdf", [*three(), Channel(status, "Status", unit=512)], events=())
    with open_recording(path) as recording:
        assert (recording.channels, recording.unit) == (NAMES, "V")
        assert recording.notes == (
            "channels without measurements are omitted: Status; --events Status reads their onsets",
        )
    with open_recording(path, events="Status") as recording:
        assert recording.channels == NAMES
        assert [(e.index, e.label, e.duration) for e in recording.events] == [(200.0, "3", 0.1)]
    with open_recording(path, events="Pz") as recording:
        assert recording.channels == ("Fz", "Cz")
    with open_recording(path, channels="Status,0") as recording:
        assert recording.channels == ("Status", "Fz")


def test_events_at_another_rate_and_marks_of_ends(tmp_path: Path) -> None:
    events = ((11, 769, 0), (21, 769 | 0x8000, 0), (101, 770, 0))
    path = write_gdf(tmp_path / "in.gdf", three(), events=events, event_rate=50.0)
    with open_recording(path) as recording:
        found = [(e.index, e.label, e.duration) for e in recording.events]
    assert found == [(20.0, "769", 0.2), (200.0, "770", 0.0)]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory is read from /proc")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = write_gdf(tmp_path / "in.gdf", [Channel(X[:, i % 3], f"E{i}") for i in range(16)], events=())
    content, n = path.read_bytes(), 1500  # 48 MB
    head = 256 * 17
    with open(path, "wb") as file:
        file.write(content[:236] + struct.pack("<q", n * N_RECORDS) + content[244:head])
        for _ in range(n):
            file.write(content[head : head + N_RECORDS * COUNT * 32])

    def measure() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    with open_recording(path) as recording:
        before, n_samples, most = measure(), 0, 0.0
        for _, block in recording.read_blocks(8192):
            n_samples, most = n_samples + len(block), max(most, measure() - before)
    assert n_samples == n * 1000
    assert most < 20


def test_truncated_unfinished_and_damaged_files(tmp_path: Path) -> None:
    path = write_gdf(tmp_path / "in.gdf", three())
    content = path.read_bytes()
    path.write_bytes(content[: 1024 + 10 * 150 + 7])
    with open_recording(path) as recording:
        assert (recording.n_samples, len(recording.events)) == (250, 0)
        assert recording.notes == ("the file is truncated: it has 10 of 40 records",)
    path.write_bytes(content[:236] + struct.pack("<q", -1) + content[244 : 1024 + 10 * 150])
    assert len(read(path)) == 250
    for damaged, message in (
        (content[:300], "damaged header"),
        (content[:252] + b"\xff\xff" + content[254:], "damaged header: 65535 channels"),
        (content[:240] + bytes(8) + content[248:], "damaged header: records of 0/"),
        (content[: 256 + 220 * 3] + b"\x17\1" + content[258 + 220 * 3 :], "numbers of type 279"),
        (content[:1024], "too few samples"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(IgbssError, match=message):
            open_recording(path)


def test_channels_without_a_scale_are_refused(tmp_path: Path) -> None:
    channels = [*three(), Channel(X[:, 0], "flat", physical=(0.0, 0.0))]
    path = write_gdf(tmp_path / "in.gdf", channels)
    with pytest.raises(IgbssError, match=r"no scale for the channels flat.* Pass --channels 0-2"):
        open_recording(path)
    with open_recording(path, channels="Fz,flat") as recording:
        assert recording.unit is None
    np.testing.assert_array_equal(read(path, channels="0,3")[:, 1], X[:, 0])
