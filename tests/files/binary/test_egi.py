"""Read simple binary files of EGI that are written here as its documentation states, and compare with that and MNE."""

import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.errors import IgbssError
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.open import open_recording

N, RATE = 300, 250
X = np.random.default_rng(5).integers(-9000, 9000, (N, 4))
CODES = ("stm+", "rsp")
MARKS = np.zeros((N, 2), int)
MARKS[0, 0] = MARKS[40:43, 0] = MARKS[299, 1] = 1
TYPES = {2: ">i2", 4: ">f4", 6: ">f8"}
START = datetime(2012, 11, 30, 8, 9, 10, tzinfo=UTC).timestamp() + 0.25


def write_egi(
    path: Path, version: int = 4, bits: int = 0, scale: int = 0, times: tuple[int, ...] = (0, 400, 900)
) -> Path:
    head = struct.pack(">i6hi5h", version, 2012, 11, 30, 8, 9, 10, 250, RATE, 4, 1, bits, scale)
    codes = struct.pack(">h", 2) + b"".join(code.ljust(4).encode() for code in CODES)
    frames = np.hstack([X, MARKS]).astype(TYPES[version & 6])
    if version % 2 == 0:
        path.write_bytes(head + struct.pack(">i", N) + codes + frames.tobytes())
        return path
    head += struct.pack(">h", 2) + b"\6target" + b"\4rare" + struct.pack(">hi", 3, N // 3) + codes
    segments = (
        struct.pack(">hi", (1, 2, 1)[i], times[i]) + frames[i * 100 : i * 100 + 100].tobytes()
        for i in range(3)
    )
    path.write_bytes(head + b"".join(segments))
    return path


def read(path: Path, n: int = 97, **options: Any) -> NDArray[Any]:
    with open_recording(path, **options) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(n)])


@pytest.mark.parametrize("version", [2, 4, 6])
def test_continuous(tmp_path: Path, version: int) -> None:
    path = write_egi(tmp_path / "in.raw", version)
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("EGI raw", 250.0, "V")
        assert (recording.channels, recording.n_samples) == (("E1", "E2", "E3", "E4"), N)
        assert (recording.t0, recording.gaps, recording.notes) == (START, (), ())
        events = [(e.index, e.label, round(e.duration, 6)) for e in recording.events]
        assert events == [(0.0, "stm+", 0.004), (40.0, "stm+", 0.012), (299.0, "rsp", 0.004)]
    for n in (7, N):
        np.testing.assert_allclose(read(path, n), X * 1e-6, rtol=3e-7)


@pytest.mark.parametrize("version", [2, 4, 6])
def test_numbers_of_the_converter_are_scaled(tmp_path: Path, version: int) -> None:
    path = write_egi(tmp_path / "in.raw", version, bits=12, scale=5000)
    np.testing.assert_allclose(read(path), X * (5000 / 2**12) * 1e-6, rtol=3e-7)
    np.testing.assert_array_equal(read(path, factor=1.0), X)


def test_mne_reads_the_same(tmp_path: Path) -> None:
    mne = pytest.importorskip("mne")
    path = write_egi(tmp_path / "in.raw", 4)
    raw = mne.io.read_raw_egi(path, events_as_annotations=True, verbose="ERROR")
    np.testing.assert_allclose(read(path), raw.get_data("eeg").T, rtol=3e-7)
    with open_recording(path) as recording:
        onsets = np.rint(raw.annotations.onset * RATE)  # one for every sample of an event
        assert recording.events.index.tolist() == [at for at in onsets if at not in (41, 42)]


@pytest.mark.parametrize("version", [3, 5, 7])
def test_segments_are_events_with_gaps_between_them(tmp_path: Path, version: int) -> None:
    path = write_egi(tmp_path / "in.raw", version, times=(0, 400, 900))  # ms, for segments of 400 ms
    with open_recording(path) as recording:
        assert recording.gaps == make_gaps([(200, 25, "missing")])
        assert recording.n_samples == N
        found = [(e.index, e.label, e.source) for e in recording.events]
        assert found == [
            (0.0, "stm+", "events"),
            (0.0, "target", "segments"),
            (40.0, "stm+", "events"),
            (100.0, "rare", "segments"),
            (225.0, "target", "segments"),
            (324.0, "rsp", "events"),
        ]
    for n in (7, N):
        np.testing.assert_allclose(read(path, n), X * 1e-6, rtol=3e-7)
    with open_recording(write_egi(path, version, times=(0, 200, 900))) as recording:  # they overlap
        assert recording.gaps == make_gaps([(100, 0, "boundary"), (200, 75, "missing")])


def test_truncated_and_damaged(tmp_path: Path) -> None:
    path = write_egi(tmp_path / "in.raw", 4)
    content = path.read_bytes()
    path.write_bytes(content[: 44 + 24 * 100 + 5])
    with open_recording(path) as recording:
        assert (recording.n_samples, len(recording.events)) == (100, 2)
        assert recording.notes == ("the file is truncated: it has 100 of 300 samples",)
    content = write_egi(path, 5).read_bytes()
    path.write_bytes(content[:-7])
    with open_recording(path) as recording:
        assert recording.n_samples == 200
        assert recording.notes == ("the file is truncated: it has 2 of 3 segments",)
    path.write_bytes(content[:33])
    with pytest.raises(IgbssError, match="EGI with a damaged header"):
        open_recording(path)
