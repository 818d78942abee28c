"""Read recordings of Persyst that are written here, and compare with what was written and with MNE."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.errors import IgbssError
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.open import open_recording

N, NAMES = 500, ("Fp1", "Cz", "EKG")
X = np.random.default_rng(6).integers(-9000, 9000, (N, 3))
HEADER = """[FileInfo]
File={file}
FileType=Interleaved
SamplingRate=200
HeaderLength=0
Calibration=0.25
WaveformCount=3
DataType={kind}
[ChannelMap]
Fp1-Ref=1
Cz-REF=2
EKG=3
[SampleTimes]
0=36000.000000
{times}[Patient]
First=A
BirthDate=01/02/80
Sex=F
Hand=R
TestDate=03/25/2004
TestTime=10:00:00
[Comments]
0.500000,0.000000,0,100,Eyes open, then closed
1.000000,0.250000,0,100,bad stretch
"""


def write_persyst(
    folder: Path, dtype: str = "<i2", times: str = "", file: str = "C:\\data\\in.dat"
) -> Path:
    X.astype(dtype).tofile(folder / "in.dat")
    path = folder / "in.lay"
    path.write_text(HEADER.format(file=file, kind={"<i2": 0, "<i4": 7}[dtype], times=times))
    return path


def read(path: Path, n: int = 97, **options: Any) -> NDArray[Any]:
    with open_recording(path, **options) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(n)])


@pytest.mark.parametrize("dtype", ["<i2", "<i4"])
def test_samples_scale_names_events_and_start(tmp_path: Path, dtype: str) -> None:
    path = write_persyst(tmp_path, dtype)
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("Persyst", 200.0, "V")
        assert (recording.channels, recording.n_samples) == (NAMES, N)
        assert (recording.t0, recording.gaps, recording.notes) == (1080208800.0, (), ())  # 10:00:00 UTC
        found = [(e.index, e.label, e.duration) for e in recording.events]
        assert found == [(100.0, "Eyes open, then closed", 0.0), (200.0, "bad stretch", 0.25)]
        assert recording.bad_rows == ((200, 250),)
    for n in (7, N):
        np.testing.assert_allclose(read(path, n), X * 0.25e-6, rtol=3e-7)
    np.testing.assert_array_equal(read(path, channels="EKG,Fp1"), read(path)[:, [2, 0]])


@pytest.mark.parametrize("dtype", ["<i2", "<i4"])
def test_mne_reads_the_same(tmp_path: Path, dtype: str) -> None:
    mne = pytest.importorskip("mne")
    path = write_persyst(tmp_path, dtype, file="in.dat")
    raw = mne.io.read_raw_persyst(path, verbose="ERROR")
    np.testing.assert_allclose(read(path), raw.get_data().T, rtol=3e-7)
    with open_recording(path) as recording:
        assert tuple(name.upper() for name in recording.channels) == tuple(raw.ch_names)
        assert recording.t0 == raw.info["meas_date"].timestamp()
        np.testing.assert_allclose(recording.events.index, raw.annotations.onset * 200)
        assert recording.events.label.tolist() == raw.annotations.description.tolist()


def test_times_of_samples_show_gaps(tmp_path: Path) -> None:
    times = "200=36001.004\n300=36003.504\n400=36002.000\n"  # 4 ms of drift, 2 s missing, a clock set back
    with open_recording(write_persyst(tmp_path, times=times)) as recording:
        assert recording.gaps == make_gaps([(300, 400, "missing"), (400, 0, "boundary")])


def test_names_follow_the_numbers_of_the_channel_map(tmp_path: Path) -> None:
    path = write_persyst(tmp_path)
    path.write_text(path.read_text().replace("Fp1-Ref=1\nCz-REF=2", "Cz-Ref=2\nFp1-Ref=1"))
    with open_recording(path) as recording:
        assert recording.channels == NAMES


def test_files_that_are_renamed_without_a_patient_or_damaged(tmp_path: Path) -> None:
    path = write_persyst(tmp_path, file="other.dat")
    text = path.read_text()
    path.write_text(text[: text.index("[Patient]")])
    with open_recording(path) as recording:
        assert (recording.t0, len(recording.events)) == (None, 0)
        assert "names 'other.dat', which is missing; 'in.dat'" in recording.notes[0]
    for damaged, message in (
        (text.replace("DataType=0", "DataType=3"), "data of type '3'; only interleaved integers"),
        (
            text.replace("WaveformCount=3", "WaveformCount=4"),
            "damaged header of Persyst: 3 names of 4 channels",
        ),
        (text.replace("HeaderLength=0", "HeaderLength=-8"), "samples that begin at byte -8"),
        (text.replace("SamplingRate=200", "SamplingRate=0"), "a rate of 0 Hz"),
        (text.replace("Calibration=0.25\n", ""), "damaged header of Persyst: 'calibration'"),
    ):
        path.write_text(damaged)
        with pytest.raises(IgbssError, match=message):
            open_recording(path)
    path.write_text(text)
    (tmp_path / "in.dat").unlink()
    with pytest.raises(IgbssError, match=r"'other.dat', which is not beside it, and there is no 'in.dat'"):
        open_recording(path)
