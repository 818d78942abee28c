"""Texts as devices, programs and countries write them: heads, units, decimal commas, times and counters."""

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import InputError, RecordingError
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.open import open_recording
from igbss_stream.files.recording import Recording

N = 600
X = np.round(np.random.default_rng(3).normal(scale=100, size=(N, 3)), 2)
NAMES = ["C3", "C4", "O1"]


def write(path: Path, rows: list[str], head: list[str] = [], encoding: str = "utf-8") -> Path:  # noqa: B006
    path.write_bytes(("\n".join([*head, *rows]) + "\n").encode(encoding))
    return path


def rows_of(
    *columns: Any, delimiter: str = ",", decimal: str = ".", end: str = "", x: NDArray[Any] = X
) -> list[str]:
    """Return lines with columns before the samples."""
    lines = []
    for i, row in enumerate(x):
        cells = [str(column[i]) for column in columns] + [f"{value:.2f}" for value in row]
        lines.append(delimiter.join(cell.replace(".", decimal) for cell in cells) + end)
    return lines


def samples(recording: Recording) -> NDArray[Any]:
    return np.concatenate([block.copy() for _, block in recording.read_blocks(64)])


def check(path: Path, x: NDArray[Any] = X, **options: Any) -> Recording:
    with open_recording(path, **options) as recording:
        np.testing.assert_array_equal(samples(recording), x)
        return recording


@pytest.mark.parametrize("delimiter", [";", "\t", " ", "; "])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "cp1252", "utf-8-sig"])
def test_decimal_commas_are_read_where_commas_do_not_part_columns(
    tmp_path: Path, delimiter: str, encoding: str
) -> None:
    names = ["größe", "C4", "O1"]
    path = write(
        tmp_path / "in", rows_of(delimiter=delimiter, decimal=","), [delimiter.join(names)], encoding
    )
    found = check(path, rate=250.0)
    assert found.channels == tuple(names)
    assert "the comma is taken as the decimal mark" in found.notes


@pytest.mark.parametrize("head", [[], [",".join(NAMES)], ["time," + ",".join(NAMES)]])
@pytest.mark.parametrize("digits", [1, 2, 3])
def test_commas_of_both_kinds_are_refused(tmp_path: Path, head: list[str], digits: int) -> None:
    rows = [",".join(f"{v:.{digits}f}".replace(".", ",") for v in row) for row in X]
    if head and "time" in head[0]:
        rows = [f"{i * 0.004:.3f}".replace(".", ",") + "," + row for i, row in enumerate(rows)]
    path = write(tmp_path / "in", rows, head)
    with pytest.raises(RecordingError, match="decimal commas"):
        open_recording(path, rate=250.0)


def test_whole_numbers_are_no_decimal_commas(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(-300, 300, (N, 4))
    rows = [",".join(map(str, row)) for row in x.tolist()]
    check(write(tmp_path / "in", rows), x, rate=1.0)
    digits = np.abs(x) % 90 + 10
    both = [
        ",".join(map(str, row)) for row in np.stack([x[:, :2], digits[:, :2]], 2).reshape(N, 4).tolist()
    ]
    path = write(tmp_path / "in", both)
    with pytest.raises(RecordingError, match="are they 2 columns with decimal commas"):
        open_recording(path, rate=1.0)
    with open_recording(path, rate=1.0, channels="0-3") as recording:
        assert recording.n_channels == 4


@pytest.mark.parametrize(
    ("column", "rate"),
    [
        ([f"{i * 0.004:.3f}" for i in range(N)], None),
        ([str(i * 4) for i in range(N)], None),
        ([str(i % 256) for i in range(N)], None),
        ([f"{1.6e9 + i * 0.004:.3f}" for i in range(N)], 250.0),
        ([str(1_600_000_000_000 + i * 4) for i in range(N)], 250.0),
    ],
)
@pytest.mark.parametrize(("row", "lost"), [(200, 100), (50, 3), (590, 17)])
def test_columns_of_times_and_counters_show_gaps(
    tmp_path: Path, column: list[str], rate: float | None, row: int, lost: int
) -> None:
    name = "index" if column[1] == "1" else "time"
    kept = [i for i in range(N) if not row <= i < row + lost]
    lines = [rows_of(column)[i] for i in kept]
    found = check(write(tmp_path / "in", lines, [",".join([name, *NAMES])]), X[kept], rate=rate or 250.0)
    expected = (Gap(row, lost, "missing"),) if row + lost < N else ()
    assert (found.rate, found.gaps) == (250.0, expected)
    if rate:
        assert check(tmp_path / "in", X[kept]).rate == rate
    with open_recording(tmp_path / "in", rate=250.0, channels="2,3") as recording:
        assert recording.gaps == expected


@pytest.mark.parametrize(
    "text", ["2021-03-04 10:00:{:06.3f}", "2021/03/04T10:00:{:06.3f}", "23:59:{:06.3f}"]
)
def test_iso_times_give_the_rate(tmp_path: Path, text: str) -> None:
    column = [text.format(i * 0.05) for i in range(N)]
    found = check(write(tmp_path / "in", rows_of(column), [",".join(["when", *NAMES])]))
    assert found.rate == pytest.approx(20, rel=1e-6)
    assert "the rate follows from the times in when" in found.notes
    assert (found.t0 is None) == text.startswith("23")


def test_times_of_day_go_on_after_midnight(tmp_path: Path) -> None:
    seconds = [86395 + i * 0.02 for i in range(N)]
    column = [f"{int(s % 86400 // 3600):02d}:{int(s % 3600 // 60):02d}:{s % 60:06.3f}" for s in seconds]
    found = check(write(tmp_path / "in", rows_of(column), [",".join(["clock", *NAMES])]))
    assert found.rate == pytest.approx(50)
    assert found.gaps == ()


@pytest.mark.parametrize(("modulus", "step"), [(16, 1), (201, 1), (128, 1), (256, 2), (7, 1)])
def test_counters_of_any_modulus_are_left_out(tmp_path: Path, modulus: int, step: int) -> None:
    count = np.arange(N) * step % modulus
    kept = np.delete(np.arange(N), slice(300, 302))
    timed = [f"{i * 0.004:.3f}" for i in range(N)]
    lines = rows_of(timed, count)
    path = write(tmp_path / "in", [lines[i] for i in kept], [",".join(["time", "status", *NAMES])])
    found = check(path, X[kept], rate=250.0)
    assert found.gaps == (Gap(300, 2, "missing"),)
    assert "counters are omitted: status" in found.notes
    path = write(tmp_path / "in", [rows_of(count)[i] for i in kept], [",".join(["packet", *NAMES])])
    assert check(path, X[kept], rate=250.0).gaps == (Gap(300, 2, "missing"),)
    path = write(tmp_path / "in", rows_of(count), [",".join(["status", *NAMES])])
    with pytest.raises(RecordingError, match=r"\(status\); pass --channels 1-3 to omit"):
        open_recording(path, rate=250.0)


def test_times_count_the_rounds_of_a_counter(tmp_path: Path) -> None:
    count, times = np.arange(N) % 16, [f"{1.6e9 + i * 0.004:.3f}" for i in range(N)]
    kept = np.delete(np.arange(N), slice(100, 135))
    lines = rows_of(count, times)
    path = write(tmp_path / "in", [lines[i] for i in kept], [",".join(["packet", "stamp", *NAMES])])
    assert check(path, X[kept]).gaps == (Gap(100, 35, "missing"),)


@pytest.mark.parametrize("wild", [1e13, 1e17, 1e300, -1e300, 1.7e308])
def test_wild_numbers_in_times_and_counters_are_no_long_gaps(tmp_path: Path, wild: float) -> None:
    times, count = [f"{i * 0.004:.3f}" for i in range(N)], [str(i) for i in range(N)]
    count[300] = str(wild)
    path = write(tmp_path / "in", rows_of(count), [",".join(["packet", *NAMES])])
    assert sum(gap.n_samples for gap in check(path, X, rate=250.0).gaps) == 0
    path = write(tmp_path / "in", rows_of(times, count), [",".join(["time (s)", "packet", *NAMES])])
    assert sum(gap.n_samples for gap in check(path, X).gaps) == 0
    times[-1] = str(wild)
    path = write(tmp_path / "in", rows_of(times), [",".join(["time (s)", *NAMES])])
    with pytest.raises(RecordingError, match=r"pass --rate \(time \(s\) is uneven"):
        open_recording(path)


@pytest.mark.parametrize("wild", [1e160, -1e160, 1.7e308])
def test_several_wild_times_give_no_warning(tmp_path: Path, wild: float) -> None:
    times = [f"{i * 0.004:.3f}" for i in range(N)]
    times[100:400:100] = [str(wild), str(-wild), str(wild)]
    path = write(tmp_path / "in", rows_of(times), [",".join(["time (s)", *NAMES])])
    with pytest.raises(RecordingError, match="has no sampling rate; pass --rate"):
        open_recording(path)


def test_times_that_are_never_even(tmp_path: Path) -> None:
    path = write(tmp_path / "in", rows_of(["0.0", "0.1", "0.3"], x=X[:3]), [",".join(["time (s)", *NAMES])])
    with pytest.raises(RecordingError, match="no sampling rate; pass --rate"):
        open_recording(path)


OPENBCI = ["%OpenBCI Raw EEG Data", "%Number of channels = 3", "%Sample Rate = 250.0 Hz"]


@pytest.mark.parametrize(("modulus", "step"), [(256, 1), (201, 1), (128, 1), (256, 2)])
@pytest.mark.parametrize("version", [3, 5])
def test_openbci_of_old_and_new_versions(tmp_path: Path, modulus: int, step: int, version: int) -> None:
    kept = np.delete(np.arange(N), slice(100, 150))
    rest = ["0.0, 18:51:16.000, 1500000000000" if version == 3 else "0.0, 1.0"] * N
    lines = [f"{i * step % modulus}, " + ", ".join(f"{v:.2f}" for v in X[i]) + ", " + rest[i] for i in kept]
    names = "Sample Index, EXG Channel 0, EXG Channel 1, EXG Channel 2, Accel Channel 0, Other"
    path = write(tmp_path / "in.txt", lines, [*OPENBCI, *([names] if version == 5 else [])])
    found = check(path, X[kept])
    assert (found.layout, found.rate, found.unit) == ("OpenBCI text", 250.0, "uV")
    assert found.channels == ("EXG Channel 0", "EXG Channel 1", "EXG Channel 2")
    assert found.gaps == (Gap(100, 50 % (modulus // step), "missing"),)


@pytest.mark.parametrize("n", ["2147483647", "9" * 5000])
def test_openbci_with_a_wild_number_of_channels(tmp_path: Path, n: str) -> None:
    path = write(
        tmp_path / "in.txt", rows_of(range(N)), [OPENBCI[0], f"%Number of channels = {n}", OPENBCI[2]]
    )
    with pytest.raises(RecordingError, match=r"names .* but 4 columns"):
        open_recording(path)


def test_emotiv_of_old_and_new_versions(tmp_path: Path) -> None:
    old = (
        "title:rest, recorded:08.01.18 10.11.12, sampling:128, subject:s1, "
        "labels:COUNTER INTERPOLATED AF3 T7 Pz RAW_CQ GYROX, chan:7, units:emotiv"
    )
    count = np.arange(N) % 129
    lines = [f"{count[i]}, 0, " + ", ".join(f"{v:.2f}" for v in X[i]) + ", 0, 1700" for i in range(N)]
    found = check(write(tmp_path / "in.csv", lines, [old]))
    assert (found.rate, found.channels, found.gaps) == (128.0, ("AF3", "T7", "Pz"), ())
    new = [
        "title:x_EPOCX_1,start timestamp:1600000000.1,headset type:EPOCX,channels:9,"
        "sampling rate:eeg_256;mot_64,samples:600,version:2.2",
        "Timestamp,OriginalTimestamp,EEG.Counter,EEG.Interpolated,EEG.AF3,EEG.T7,EEG.Pz,EEG.RawCq,MOT.Q0",
    ]
    stamps = [f"{1.6e9 + i / 256:.6f}" for i in range(N)]
    lines = [
        f"{stamps[i]},{stamps[i]},{count[i]},0,"
        + ",".join(f"{v:.2f}" for v in X[i])
        + ",0,"
        + "5" * (i % 4 == 0)
        for i in range(N)
    ]
    found = check(write(tmp_path / "in.csv", lines, new))
    assert (found.rate, found.unit, found.gaps) == (256.0, "uV", ())
    assert found.channels == ("EEG.AF3", "EEG.T7", "EEG.Pz")


def test_opensignals(tmp_path: Path) -> None:
    head = [
        "# OpenSignals Text File Format",
        '# {"00:07": {"sampling rate": 1000, "column": ["nSeq", "I1", "A1", "A2", "A3"], "label": ["A1", "A2", "A3"]}}',
        "# EndOfHeader",
    ]
    kept = np.delete(np.arange(N), slice(100, 105))
    lines = rows_of(np.arange(N) % 16, np.zeros(N, int), delimiter="\t", end="\t")
    found = check(write(tmp_path / "in.txt", [lines[i] for i in kept], head), X[kept])
    assert (found.rate, found.channels) == (1000.0, ("A1", "A2", "A3"))
    assert found.gaps == (Gap(100, 5, "missing"),)


LABVIEW = [
    "LabVIEW Measurement\t",
    "Separator\tTab",
    "Decimal_Separator\t,",
    "X_Columns\tOne",
    "***End_of_Header***\t",
    "\t",
    "Channels\t3\t\t",
    "Samples\t600\t600\t600",
    "Y_Unit_Label\tVolts\tVolts\tVolts",
    "X_Dimension\tTime\tTime\tTime",
    "Delta_X\t0,001\t0,001\t0,001",
    "***End_of_Header***\t\t\t",
    "X_Value\tA\tB\tC\tComment",
]


@pytest.mark.parametrize("timed", [True, False])
def test_labview(tmp_path: Path, timed: bool) -> None:
    times = [f"{i / 1000:.6f}" for i in range(N)] if timed else [""] * N
    found = check(write(tmp_path / "in.lvm", rows_of(times, delimiter="\t", decimal=","), LABVIEW))
    assert (found.layout, found.rate, found.unit) == ("LabVIEW text", 1000.0, "Volts")
    assert found.channels == ("A", "B", "C")


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_labchart(tmp_path: Path, encoding: str) -> None:
    head = [
        "Interval=\t0.5 ms",
        "ExcelDateTime=\t4.3466e+04\t1/1/2019 10:00:00",
        "TimeFormat=\tStartOfBlock",
        "ChannelTitle=\tECG\tRéf\tO1",
        "Range=\t10.000 V\t10.000 V\t10.000 V",
        "UnitName=\tmV\tmV\tmV",
    ]
    lines = rows_of([f"{i / 2000:.4f}" for i in range(N)], delimiter="\t")
    found = check(write(tmp_path / "in.txt", lines, head, encoding))
    assert (found.layout, found.rate, found.unit) == ("LabChart text", 2000.0, "mV")
    assert found.channels == ("ECG", "Réf", "O1")


@pytest.mark.parametrize(
    ("stated", "start"),
    [
        ("4.3466625000000e+004\t1/1/2019 15:00:00.250", "2019-01-01T15:00:00.250"),  # the number is rounded
        ("4.3467e+04\t1/1/2019 14:00:00", "2019-01-01T14:00:00"),  # to the next day
        ("4.3466e+04\t1/1/2019 2:00:00 PM", "2019-01-01T14:00:00"),
        ("4.3466e+04\t31/12/2018 23:59:59", "2018-12-31T23:59:59"),
        ("4.3466000000000e+004\t31/12/2018 23:59:59.999", "2018-12-31T23:59:59.999"),
        ("43466,75000\t", "2019-01-01T18:00:00"),
        ("43466.75", None),  # to a quarter of an hour at best
        ("4.5e+004\t1/1/2019 10:00:00", None),
        ("x", None),
    ],
)
def test_start_of_labchart(tmp_path: Path, stated: str, start: str | None) -> None:
    head = ["Interval=\t0.5 ms", f"ExcelDateTime=\t{stated}", "ChannelTitle=\tA\tB\tC"]
    lines = rows_of([f"{i / 2000:.4f}" for i in range(N)], delimiter="\t")
    with open_recording(write(tmp_path / "in.txt", lines, head)) as recording:
        expected = None if start is None else datetime.fromisoformat(f"{start}+00:00").timestamp()
        assert recording.t0 == (None if expected is None else pytest.approx(expected, abs=1e-4))
    lines = rows_of([f"{5 + i / 2000:.4f}" for i in range(N)], delimiter="\t")  # a part of a block
    with open_recording(write(tmp_path / "in.txt", lines, head)) as recording:
        assert recording.t0 is None


@pytest.mark.parametrize(("unit", "factor"), [("(s)", 1.0), ("(ms)", 1e3), ("[us]", 1e6), ("(µs)", 1e6)])
@pytest.mark.parametrize("style", ["row", "names"])
def test_units_are_taken_from_a_row_or_from_the_names(
    tmp_path: Path, unit: str, factor: float, style: str
) -> None:
    times = [f"{i / 500 * factor:.6f}" for i in range(N)]
    names, units = ["Time", *NAMES], [unit, *["(mV)"] * 3]
    if style == "row":
        head = [",".join(names), ",".join(units), ""]
    else:
        head = [",".join(f"{a} {b}" for a, b in zip(names, units, strict=True))]
    found = check(write(tmp_path / "in.csv", rows_of(times), head))
    assert (found.rate, found.unit) == (500.0, "mV")


def test_several_units_are_none(tmp_path: Path) -> None:
    found = check(write(tmp_path / "in.csv", rows_of(), [",".join(NAMES), "mV,mV,kPa"]), rate=1.0)
    assert found.unit is None
    assert found.notes == ("the columns have several units (kPa, mV), so it is unknown",)


@pytest.mark.parametrize("end", [",", ",,", ", "])
@pytest.mark.parametrize("head", [NAMES, [*NAMES, ""], []])
def test_separators_after_the_last_column(tmp_path: Path, end: str, head: list[str]) -> None:
    found = check(write(tmp_path / "in", rows_of(end=end), [",".join(head)]), rate=1.0)
    assert found.channels == (tuple(NAMES) if head else ("channel-0", "channel-1", "channel-2"))


def test_empty_cells_and_words_for_missing_values_are_nan(tmp_path: Path) -> None:
    x = X.copy()
    lines = rows_of()
    for i, word in ((5, ""), (50, "NA"), (400, "NaN"), (401, " "), (500, "n/a")):
        lines[i] = f"{x[i, 0]:.2f},{word},{x[i, 2]:.2f}"
        x[i, 1] = np.nan
    check(write(tmp_path / "in", lines, [",".join(NAMES)]), x, rate=1.0)


@pytest.mark.parametrize("last", ["1", "1.5", "1.5,2.", "1.5,2.25,3.1", "x"])
def test_a_last_line_without_its_end_is_left_out(tmp_path: Path, last: str) -> None:
    path = tmp_path / "in"
    path.write_text("\n".join([",".join(NAMES), *rows_of(), last]))
    found = check(path, rate=1.0)
    assert "the last line has no line break" in found.notes[-1]


def test_names_that_are_one_longer_or_shorter(tmp_path: Path) -> None:
    found = check(write(tmp_path / "in", rows_of(), [",".join([*NAMES, "comment"])]), rate=1.0)
    assert found.channels == tuple(NAMES)
    assert found.notes == ("the rows have no column 'comment', the last name of 4",)
    found = check(write(tmp_path / "in", rows_of(np.arange(N)), [",".join(NAMES)]), rate=1.0)
    assert found.channels == tuple(NAMES)
    path = write(tmp_path / "in", rows_of(), ["C3,C4"])
    with pytest.raises(RecordingError, match=r"has 2 names \(C3, C4\) but 3 columns"):
        open_recording(path, rate=1.0)


def test_a_single_channel_beside_a_counter_is_too_few(tmp_path: Path) -> None:
    path = write(tmp_path / "in", rows_of(np.arange(N), x=X[:, :1]), ["sample,A1"])
    with pytest.raises(InputError, match="one channel"):
        open_recording(path, rate=1.0)


def test_times_in_bursts_suggest_the_mean_rate(tmp_path: Path) -> None:
    stamps = [f"{(i // 10) * 0.04:.3f}" for i in range(N)]
    path = write(tmp_path / "in", rows_of(stamps), [",".join(["time", *NAMES])])
    with pytest.raises(RecordingError, match=r"--rate 25[0-3]"):
        open_recording(path)
    assert check(path, rate=250.0).gaps == ()


@pytest.mark.parametrize("name", ["time (s)", "Zeit [s]"])
def test_times_that_jitter_are_no_channel_and_suggest_their_rate(tmp_path: Path, name: str) -> None:
    jitter = np.random.default_rng(0).normal(scale=2e-3, size=N)
    stamps = [f"{i * 0.004 + jitter[i]:.6f}" for i in range(N)]
    path = write(tmp_path / "in", rows_of(stamps), [",".join([name, *NAMES])])
    with pytest.raises(RecordingError, match=r"it gives about --rate (249\.9|250\b|250\.0)"):
        open_recording(path)
    found = check(path, rate=250.0)
    assert (found.channels, found.gaps) == (tuple(NAMES), ())


def test_rounded_times_give_the_round_rate(tmp_path: Path) -> None:
    stamps = [f"{1.6e9 + i / 256:.3f}" for i in range(N)]
    assert check(write(tmp_path / "in", rows_of(stamps), [",".join(["timestamps", *NAMES])])).rate == 256


def test_quoted_decimal_commas(tmp_path: Path) -> None:
    lines = [",".join(f'"{v:.2f}"'.replace(".", ",") for v in row) for row in X]
    check(write(tmp_path / "in", lines, [",".join(NAMES)]), rate=1.0)


def test_labchart_with_a_damaged_interval(tmp_path: Path) -> None:
    text = "Interval=\t1e-320 s\nChannelTitle=\tFz\tCz\n" + "".join(
        f"{i}\t{i % 7}\t{i % 5}\n" for i in range(200)
    )
    (tmp_path / "in.txt").write_text(text, encoding="utf-8")
    with pytest.raises(RecordingError, match="has no sampling rate; pass --rate"):
        open_recording(tmp_path / "in.txt")


@pytest.mark.parametrize("n_first", [120, 5000])
def test_labchart_with_several_blocks(tmp_path: Path, n_first: int) -> None:
    head = "Interval=\t0.004 s\nExcelDateTime=\t4.5e+004\nChannelTitle=\tFz\tCz\tPz\nRange=\t10 V\t10 V\t10 V\n"
    x = np.random.default_rng(2).normal(size=(n_first + 180, 3)).round(6)
    text = ""
    for start, stop in ((0, n_first), (n_first, len(x))):
        rows = enumerate(x[start:stop].tolist())
        text += head + "".join(f"{i * 0.004:.3f}\t" + "\t".join(map(str, row)) + "\n" for i, row in rows)
    (tmp_path / "in.txt").write_text(text, encoding="utf-8")
    with open_recording(tmp_path / "in.txt") as recording:
        assert (recording.layout, recording.rate, recording.channels) == (
            "LabChart text",
            250.0,
            ("Fz", "Cz", "Pz"),
        )
        assert recording.gaps == make_gaps([(n_first, 0, "restart")])
        found = np.concatenate([block.copy() for _, block in recording.read_blocks(97)])
    np.testing.assert_array_equal(found, x)
