"""Read CNT files of Neuroscan that are written here by the published structures, and compare with them and with MNE."""

import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.errors import IgbssError
from igbss_stream.files.open import open_recording

NAMES = ("FPZ", "Oz", "VEOGlower")
N = 600
X = np.random.default_rng(4).integers(-30000, 30000, (N, 3))
BASELINE, SENSITIVITY, CALIBRATION = (0, 12, -7), (1.0, 2.5, 1.0), (1.25, 1.0, 0.5)
VOLTS = (X - BASELINE) * np.multiply(SENSITIVITY, CALIBRATION) / 204.8 * 1e-6
EVENTS = ((7, 0, 0, 0), (300, 0, 0, 10), (5, 0, 3, 20), (5, 2, 0, 50), (9, 0, 0xC0, 100), (9, 0, 0xD0, 180))
EXPECTED = [
    (0.0, "7", 0.0),
    (10.0, "300", 0.0),
    (20.0, "KeyPad Response 3", 0.0),
    (50.0, "Keyboard Response 2", 0.0),
    (100.0, "BAD_9", 0.4),
]


def write_cnt(path: Path, width: int = 2, kind: int = 1, length: int = 1, date: str = "03/25/04") -> Path:
    """Write a file; `length` samples of a channel follow each other."""
    n, first = len(NAMES), 900 + 75 * len(NAMES)
    head = bytearray(900)
    head[:12] = b"Version 3.0\0"
    head[225:235], head[235:247] = date.encode().ljust(10, b"\0"), b"14:05:30".ljust(12, b"\0")
    struct.pack_into("<H", head, 370, n)
    struct.pack_into("<H", head, 376, 200)
    struct.pack_into("<i", head, 864, N)
    struct.pack_into("<I", head, 886, first + width * n * N)
    struct.pack_into("<i", head, 894, length * width if length > 1 else 0)
    electrodes = b""
    for i, name in enumerate(NAMES):
        row = bytearray(75)
        row[: len(name)] = name.encode()
        row[14] = name == "Oz"  # bad
        struct.pack_into("<h", row, 47, BASELINE[i])
        struct.pack_into("<f", row, 59, SENSITIVITY[i])
        struct.pack_into("<f", row, 71, CALIBRATION[i])
        electrodes += bytes(row)
    numbers = X.reshape(-1, length, n).transpose(0, 2, 1).astype(f"<i{width}").tobytes()
    table = b""
    for code, keyboard, keypad, sample in EVENTS:
        at = sample if kind == 3 else first + width * n * sample
        table += struct.pack("<HBBI", code, keyboard, keypad, at) + bytes(11 if kind > 1 else 0)
    path.write_bytes(bytes(head) + electrodes + numbers + struct.pack("<BII", kind, len(table), 0) + table)
    return path


def read(path: Path, n: int = 97, **options: Any) -> NDArray[Any]:
    with open_recording(path, **options) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(n)])


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("length", [1, 40])
def test_samples_scale_names_bads_events_and_start(
    tmp_path: Path, width: int, kind: int, length: int
) -> None:
    path = write_cnt(tmp_path / "in.cnt", width, kind, length)
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("Neuroscan CNT", 200.0, "V")
        assert (recording.channels, recording.n_samples, recording.bad) == (NAMES, N, ("Oz",))
        assert recording.t0 == 1080223530.0  # 25 March 2004, 14:05:30 UTC
        assert [(e.index, e.label, e.duration) for e in recording.events] == EXPECTED
        assert (recording.bad_rows, recording.notes) == (((100, 180),), ())
    for n in (7, N):
        np.testing.assert_allclose(read(path, n), VOLTS, rtol=3e-7, atol=1e-12)
    np.testing.assert_array_equal(read(path, channels="2,FPZ"), read(path)[:, [2, 0]])
    np.testing.assert_array_equal(read(path, factor=1.0), X)


@pytest.mark.parametrize("width", [2, 4])
def test_mne_reads_the_same(tmp_path: Path, width: int) -> None:
    mne = pytest.importorskip("mne")
    path = write_cnt(tmp_path / "in.cnt", width)
    with warnings.catch_warnings(action="ignore"):
        raw = mne.io.read_raw_cnt(path, verbose="ERROR")
    np.testing.assert_allclose(read(path), raw.get_data().T, rtol=3e-7, atol=1e-12)
    with open_recording(path) as recording:
        assert (recording.channels, recording.rate) == (tuple(raw.ch_names), raw.info["sfreq"])
        # MNE places events one sample before the position that they state, except for the first.
        onsets = np.rint(raw.annotations.onset * 200)
        assert np.maximum(recording.events.index - 1, 0).tolist() == onsets.tolist()
        assert recording.events.label.tolist() == raw.annotations.description.tolist()


def test_dates_with_the_day_first_and_without_sense(tmp_path: Path) -> None:
    with open_recording(write_cnt(tmp_path / "in.cnt", date="25/03/04")) as recording:
        assert recording.t0 == 1080223530.0
    with open_recording(write_cnt(tmp_path / "in.cnt", date="spring")) as recording:
        assert recording.t0 is None
        assert "'spring' at '14:05:30' is not understood" in recording.notes[0]


def test_events_beyond_4_gb_have_a_position_in_two_parts(tmp_path: Path) -> None:
    path = write_cnt(tmp_path / "in.cnt", 4, 3)
    content = path.read_bytes()
    (at,) = struct.unpack_from("<I", content, 886)
    path.write_bytes(content[:16] + struct.pack("<I", 1) + content[20:])  # a previous file has no effect
    with open_recording(path) as recording:
        assert len(recording.events) == 5
    n, head = (5 << 30) // 12, bytearray(content[: 900 + 75 * 3])
    struct.pack_into("<i", head, 864, n)
    end = len(head) + 12 * n
    struct.pack_into("<I", head, 886, end & 0xFFFFFFFF)
    struct.pack_into("<I", head, 16, end >> 32)
    with open(path, "wb") as file:  # sparse
        file.write(head)
        file.seek(end)
        file.write(content[at:])
    with open_recording(path) as recording:
        assert (recording.n_samples, len(recording.events)) == (n, 5)
        last = next(recording.read_blocks(10, n - 10))[1]
    of_zeros = -np.multiply(BASELINE, np.multiply(SENSITIVITY, CALIBRATION)) / 204.8 * 1e-6
    np.testing.assert_allclose(last, np.tile(of_zeros, (10, 1)), atol=1e-15)


def test_without_events_and_damaged(tmp_path: Path) -> None:
    path = write_cnt(tmp_path / "in.cnt")
    content = path.read_bytes()
    end = 900 + 75 * 3 + 6 * N
    path.write_bytes(content[:886] + bytes(4) + content[890:end])
    with open_recording(path) as recording:
        assert (recording.n_samples, len(recording.events)) == (N, 0)
        assert "no table of events" in recording.notes[0]
    for damaged, message in (
        (content[: end - 600], "600 samples, but has 500 of 16 bits or 250 of 32 bits"),
        (content[:500], "damaged header"),
        (content[:370] + b"\xff\xff" + content[372:], "damaged header: 65535 channels"),
        (content[:376] + b"\0\0" + content[378:], "a rate of 0 Hz"),
        (content[:end] + b"\7" + content[end + 1 :], "events of type 7"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(IgbssError, match=message):
            open_recording(path)
