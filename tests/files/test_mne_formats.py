"""Read formats of amplifiers with MNE, in files that are written here, and compare with what was written."""

import struct
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.errors import IgbssError
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.open import open_recording

pytest.importorskip("mne")

N, NAMES = 503, ("Fz", "Cz", "Pz")
X = np.random.default_rng(8).integers(-9000, 9000, (N, 3))
START = datetime(2021, 4, 5, 6, 7, 8, tzinfo=UTC).timestamp()


def read(path: Path, n: int = 97, **options: Any) -> NDArray[Any]:
    with open_recording(path, **options) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(n)])


def list_events(recording: Any) -> list[tuple[float, str, float]]:
    return [(e.index, e.label, round(e.duration, 6)) for e in recording.events]


NEDF = """<nedf><NEDFversion>1.3</NEDFversion><NumberOfChannelsOfAccelerometer>3</NumberOfChannelsOfAccelerometer>
<EEGSettings><TotalNumberOfChannels>3</TotalNumberOfChannels><EEGSamplingRate>500</EEGSamplingRate>
<EEGMontage><C1>Fz</C1><C2>Cz</C2><C3>Pz</C3></EEGMontage><NumberOfRecordsOfEEG>503</NumberOfRecordsOfEEG>
</EEGSettings>{start}</nedf>"""


def write_nedf(path: Path, start: str = "") -> Path:
    """Write samples of 24 bits, five of them after each sample of the accelerometer, with a trigger each."""
    pytest.importorskip("defusedxml")
    content = bytearray(NEDF.format(start=start).encode().ljust(10240, b"\0"))
    for i, row in enumerate(X):
        content += b"" if i % 5 else struct.pack(">3H", 1, 2, 3)
        content += b"".join(int(value).to_bytes(3, "big", signed=True) for value in row)
        content += struct.pack(">i", 5 if 100 <= i < 103 else 0)
    path.write_bytes(content)
    return path


def test_nedf(tmp_path: Path) -> None:
    stated = f"<StepDetails><StartDate_firstEEGTimestamp>{START * 1000:.0f}</StartDate_firstEEGTimestamp></StepDetails>"
    path = write_nedf(tmp_path / "in.nedf", stated)
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate, recording.unit, recording.t0) == (
            "nedf",
            500.0,
            "V",
            START,
        )
        assert (recording.channels, recording.n_samples) == (NAMES, N)
        assert list_events(recording) == [(100.0, "5", 0.006)]
    for n in (3, 97, N):  # MNE reads from multiples of five
        np.testing.assert_allclose(read(path, n), X * (2.4 / 6 / 8388607), rtol=1e-12)
    with open_recording(write_nedf(path)) as recording:
        assert recording.t0 is None
    path.write_bytes(path.read_bytes().replace(b">503<", b">" + b"9" * 20 + b"<"))
    with pytest.raises(IgbssError, match=r"is nedf, and MNE cannot read it: .* too large"):
        open_recording(path)


def write_nihon_kohden(path: Path, parts: tuple[int, ...] = (N,)) -> Path:
    """Write an EEG-1100 file as EDFbrowser's nk2edf describes it: blocks of numbers around 32768, and marks."""
    head, data = bytearray(0x1800), b""
    head[:16] = head[0x81:0x91] = b"EEG-1100A V01.00"
    head[0x17FE], head[0x91] = 1, 1
    struct.pack_into("<I", head, 0x92, 0x400)
    head[0x411] = len(parts)
    first = 0
    for i, n in enumerate(parts):
        struct.pack_into("<I", head, 0x412 + 20 * i, len(head) + len(data))
        block = bytearray(0x27 + 10 * 3)
        struct.pack_into("<HI", block, 0x1A, 0xC000 | 100, n // 10)  # rate, duration in tenths of a second
        block[0x26] = 3
        for channel, code in enumerate((16, 17, 42)):  # FZ, CZ, and DC01 in millivolts
            block[0x27 + 10 * channel] = code
        rows = np.hstack([X[first : first + n] + 32768, np.zeros((n, 1), int)])
        data += bytes(block) + rows.astype("<u2").tobytes()
        first += n
    path.write_bytes(bytes(head) + data)
    log = bytearray(0x200)
    log[:16] = b"EEG-1100A V01.00"
    log[0x91] = 1
    struct.pack_into("<I", log, 0x92, 0x100)
    log[0x101:0x111] = b"EEG-1100A V01.00"
    log[0x112] = 1
    log[0x114 : 0x114 + 45] = b"eyes closed".ljust(20, b"\0") + b"000002".ljust(25, b"0")
    path.with_suffix(".LOG").write_bytes(bytes(log))
    pnt = bytearray(0x100)
    pnt[:16], pnt[0x40:0x4E] = b"EEG-1100A V01.00", b"20210405060708"
    path.with_suffix(".PNT").write_bytes(bytes(pnt))
    return path


@pytest.mark.parametrize("parts", [(500,), (200, 300)])
def test_nihon_kohden(tmp_path: Path, parts: tuple[int, ...]) -> None:
    path = write_nihon_kohden(tmp_path / "in.EEG", parts)
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("Nihon Kohden", 100.0, "V")
        assert (recording.channels, recording.n_samples) == (("FZ", "CZ", "DC01"), 500)
        assert (recording.types, recording.t0) == ((), START)
        assert recording.gaps == (make_gaps([(200, 0, "boundary")]) if len(parts) > 1 else ())
        assert list_events(recording) == [(200.0, "eyes closed", 0.0)]
        assert "Could not find" in recording.notes[0]  # the names in .21E
    step = np.array([6399.902e-6, 6399.902e-6, 24005.46e-3]) / 65535
    low = np.array([-3200e-6, -3200e-6, -12002.9e-3])
    for n in (97, 500):
        np.testing.assert_allclose(read(path, n), (X[:500] + 32768) * step + low, rtol=1e-9, atol=1e-12)


CURRY = """DATA_PARAMETERS START
   NumSamples     = {n}
   NumChannels    = 3
   NumTrials      = 1
   SampleFreqHz   = 500.0
   TriggerOffsetUsec = 0
   DataFormat     = {form}
   DataByteOrder  = {form}
   DataSampOrder  = SAMP
   SampleTimeUsec = 2000
   StartYear      = 2021
   StartMonth     = 4
   StartDay       = 5
   StartHour      = 6
   StartMin       = 7
   StartSec       = 8
   StartMillisec  = 0
   AmplifierInfo  = none
   FileVersion    = 804
DATA_PARAMETERS END
DEVICE_PARAMETERS START
   NumChanThisGroup = 3
   DataUnit       = uV
DEVICE_PARAMETERS END
IMPEDANCE_VALUES START
IMPEDANCE_VALUES END
IMPEDANCE_VALUES START_LIST
5 5 5
IMPEDANCE_VALUES END_LIST
"""
CURRY_EVENTS = """NUMBER_LIST START
NUMBER_LIST END
NUMBER_LIST START_LIST
100 0 7 0 100 100 0 0 0 0 0
250 0 9 0 250 250 0 0 0 0 0
NUMBER_LIST END_LIST
REMARK_LIST START
REMARK_LIST END
REMARK_LIST START_LIST

blink
REMARK_LIST END_LIST
"""


def write_curry(folder: Path, form: str = "FLOAT", version: int = 7) -> Path:
    """Write a recording of Curry 7 (.dat, .dap, .rs3, .cef) or 8 (.cdt, .cdt.dpa, .cdt.cef)."""
    pytest.importorskip("curryreader")
    positions = "\n".join(f"{10 * i} 20 30" for i in range(3))
    labels = "".join(
        f"{name} START\n{name} END\n{name} START_LIST\n{rows}\n{name} END_LIST\n"
        for name, rows in (("LABELS", "\n".join(NAMES)), ("SENSORS", positions))
    )
    header, data = CURRY.format(n=N, form=form), folder / ("in.dat" if version == 7 else "in.cdt")
    if version == 7:
        (folder / "in.dap").write_text(header)
        (folder / "in.rs3").write_text("\n" + labels)
        (folder / "in.cef").write_text(CURRY_EVENTS)
    else:
        (folder / "in.cdt.dpa").write_text(header + labels)
        (folder / "in.cdt.cef").write_text(CURRY_EVENTS)
    if form == "ASCII":
        np.savetxt(data, X / 4, "%.2f")
    else:
        (X / 4).astype("<f4").tofile(data)
    return data


@pytest.mark.parametrize("version", [7, 8])
@pytest.mark.parametrize("form", ["FLOAT", "ASCII"])
def test_curry(tmp_path: Path, form: str, version: int) -> None:
    data = write_curry(tmp_path, form, version)
    with open_recording(data) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("Curry", 500.0, "V")
        assert (recording.channels, recording.n_samples, recording.t0) == (NAMES, N, START)
        assert list_events(recording) == [(100.0, "7", 0.0), (250.0, "blink", 0.0)]
    for n in (97, N):
        np.testing.assert_allclose(read(data, n), X / 4 * 1e-6, rtol=1e-7)
    header = tmp_path / ("in.dap" if version == 7 else "in.cdt.dpa")
    np.testing.assert_array_equal(read(header), read(data))
    if version == 8:
        header.unlink()
        with pytest.raises(IgbssError, match="no corresponding header"):
            open_recording(data)


SIGNAL = (
    "<generalInformation><fileDataType><EEG><sensorLayoutName>three</sensorLayoutName></EEG></fileDataType>"
    "</generalInformation>"
)


def write_mff(folder: Path, parts: tuple[tuple[int, int], ...] = ((0, 500),)) -> Path:
    """Write a folder; each part has a start and a stop in samples of 4 ms."""
    folder.mkdir()
    time = "2021-04-05T06:07:{}.{}000+00:00"
    blocks, rows = b"", iter(X)
    for start, stop in parts:
        values = np.array([next(rows) for _ in range(stop - start)], "<f4").T / 4
        head = struct.pack("<4i", 1, 4 * (5 + 6), values.nbytes, 3)
        head += struct.pack("<3i", *(4 * i * (stop - start) for i in range(3)))
        blocks += head + struct.pack("<3i", *[250 << 8 | 32] * 3) + struct.pack("<i", 0) + values.tobytes()
    (folder / "signal1.bin").write_bytes(blocks)
    sensors = "".join(
        f"<sensor><name></name><number>{i + 1}</number><type>0</type><x>{i}</x><y>1</y><z>2</z></sensor>"
        for i in range(3)
    )
    landmarks = "".join(
        f"<sensor><name>{name}</name><number>{4 + i}</number><type>2</type><x>{x}</x><y>{y}</y><z>0</z></sensor>"
        for i, (name, x, y) in enumerate(
            (("Nasion", 0, 9), ("Left periauricular point", -8, 0), ("Right periauricular point", 8, 0))
        )
    )
    epochs = "".join(
        f"<epoch><beginTime>{start * 4000}</beginTime><endTime>{stop * 4000}</endTime>"
        f"<firstBlock>{i + 1}</firstBlock><lastBlock>{i + 1}</lastBlock></epoch>"
        for i, (start, stop) in enumerate(parts)
    )
    events = "".join(
        f"<event><beginTime>{time.format(second, ms)}</beginTime><duration>1000000</duration><code>{code}</code>"
        "<label></label><description></description><sourceDevice></sourceDevice></event>"
        for second, ms, code in (("08", "400", "stm+"), ("09", "200", "resp"))
    )
    for name, root, space, body in (
        (
            "info.xml",
            "fileInfo",
            "info",
            f"<mffVersion>3</mffVersion><recordTime>{time.format('08', '000')}</recordTime>",
        ),
        ("info1.xml", "dataInfo", "info_n", SIGNAL),
        ("epochs.xml", "epochs", "epochs", epochs),
        (
            "sensorLayout.xml",
            "sensorLayout",
            "sensorLayout",
            f"<name>three</name><sensors>{sensors}</sensors>",
        ),
        (
            "coordinates.xml",
            "coordinates",
            "coordinates",
            f"<sensorLayout><name>three</name><sensors>{sensors}{landmarks}</sensors></sensorLayout>",
        ),
        ("Events_1.xml", "eventTrack", "event", f"<name>Events</name><trackType>EVNT</trackType>{events}"),
    ):
        (folder / name).write_text(
            f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="http://www.egi.com/{space}_mff">{body}</{root}>'
        )
    return folder


@pytest.mark.parametrize("parts", [((0, 500),), ((0, 200), (260, 500))])
def test_egi_mff(tmp_path: Path, capsys: Any, parts: tuple[tuple[int, int], ...]) -> None:
    pytest.importorskip("mffpy")
    path = write_mff(tmp_path / "in.mff", parts)
    n_samples = sum(stop - start for start, stop in parts)
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("EGI MFF", 250.0, "V")
        assert (recording.channels, recording.n_samples) == (("E1", "E2", "E3"), n_samples)
        assert (recording.types, recording.t0) == (("eeg",) * 3, START)
        assert recording.gaps == (make_gaps([(200, 60, "skip")]) if len(parts) > 1 else ())
        assert list_events(recording) == [(100.0, "stm+", 0.0), (300.0, "resp", 0.0)]
        assert recording.positions is not None
        np.testing.assert_allclose(
            recording.positions.xyz, [[0.01 * i, 0.01, 0.02] for i in range(3)], atol=1e-7
        )
    for n in (97, n_samples):
        np.testing.assert_allclose(read(path, n), X[:n_samples] / 4 * 1e-6, rtol=1e-6)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "head", "library"),
    [
        ("in.nedf", b"<nedf>", "defusedxml"),
        ("in.cdt", b"", "curryreader"),
        ("in.mff", b"", "mffpy"),
    ],
)
def test_missing_libraries_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, head: bytes, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setitem(sys.modules, f"{library}.reader", None)
    path = tmp_path / name
    if name == "in.mff":
        path.mkdir()
    else:
        path.write_bytes(head.ljust(600, b"\0"))
    with pytest.raises(
        IgbssError, match=rf"read by MNE with {library}, .*pip install 'igbss-stream\[eeg\]'"
    ):
        open_recording(path)
