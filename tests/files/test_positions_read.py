"""Positions of files are those that MNE reads, or those that were written, in metres and with our axes."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.errors import IgbssError, ParameterError, RecordingError
from igbss_stream.files.coordinates import move_to_head, turn_front_left
from igbss_stream.files.montage import find_electrodes_table, load_montage
from igbss_stream.files.open import open_recording
from igbss_stream.files.readers.mne_positions import read_positions_of_raw
from igbss_stream.positions import HEAD, Positions
from tests.realdata import DATA, needs_data

mne = pytest.importorskip("mne")

NAMES = ("A1", "A2", "A3", "A4", "A5", "A6")
# towards right, front and top, in metres, of the head of an adult
XYZ = np.array(
    [
        [0.0, 0.005, 0.13],
        [0.07, 0.01, 0.05],
        [-0.07, 0.01, 0.05],
        [0.03, 0.09, 0.05],
        [-0.03, 0.09, 0.05],
        [0.0, -0.1, 0.06],
    ]
)
X = np.random.default_rng(8).normal(size=(200, len(NAMES)))


def make_raw(**kinds: str) -> Any:
    info = mne.create_info([*NAMES, "EOG"], 100.0, ["eeg"] * len(NAMES) + ["eog"])
    montage = mne.channels.make_dig_montage(dict(zip(NAMES, XYZ, strict=True)), coord_frame="head")
    info.set_montage(montage)
    return mne.io.RawArray(1e-5 * np.column_stack([X, X[:, 0]]).T, info, verbose="ERROR")


def read_positions(path: Path, **options: Any) -> Positions:
    with open_recording(path, **options) as recording:
        assert recording.positions is not None
        assert recording.positions.names == recording.channels
        return recording.positions


def test_positions_of_fif(tmp_path: Path) -> None:
    make_raw().save(tmp_path / "in_raw.fif", verbose="ERROR")
    found = read_positions(tmp_path / "in_raw.fif")
    np.testing.assert_allclose(found.xyz[:-1], XYZ, atol=1e-7)
    assert np.isnan(found.xyz[-1]).all(), "an EOG channel is not on the scalp"
    assert (found.frame, found.source) == (HEAD, "positions of the file (FIF)")
    picked = read_positions(tmp_path / "in_raw.fif", channels="A3,A1")
    np.testing.assert_allclose(picked.xyz, XYZ[[2, 0]], atol=1e-7)


def test_sensors_of_a_device_are_moved_to_the_head() -> None:
    info = mne.create_info(["M1", "M2"], 100.0, "mag")
    turn = np.diag([-1.0, -1.0, 1.0, 1.0])
    turn[:3, 3] = 0.0, 0.01, -0.04
    with info._unlock():
        info["dev_head_t"] = mne.Transform("meg", "head", turn)
    for channel, at in zip(info["chs"], XYZ, strict=False):
        channel["loc"][:3] = at
    found = read_positions_of_raw(mne.io.RawArray(np.zeros((2, 9)), info, verbose="ERROR"), "FIF")
    assert found is not None
    np.testing.assert_allclose(found.xyz, XYZ[:2] * [-1, -1, 1] + [0, 0.01, -0.04])


def write_vhdr(path: Path, coordinates: str) -> Path:
    text = (
        "Brain Vision Data Exchange Header File Version 1.0\n[Common Infos]\nDataFile=in.eeg\nMarkerFile=in.vmrk\n"
        "DataFormat=BINARY\nDataOrientation=MULTIPLEXED\nNumberOfChannels=6\nSamplingInterval=10000\n"
        "[Binary Infos]\nBinaryFormat=IEEE_FLOAT_32\n[Channel Infos]\n"
    )
    text += "".join(f"Ch{i + 1}={name},,1,µV\n" for i, name in enumerate(NAMES))
    path.write_text(f"{text}[Coordinates]\n{coordinates}", encoding="utf-8")
    path.with_suffix(".eeg").write_bytes(X.astype("<f4").tobytes())
    path.with_suffix(".vmrk").write_text(
        "Brain Vision Data Exchange Marker File Version 1.0\n[Common Infos]\nDataFile=in.eeg\n[Marker Infos]\n"
    )
    return path


def test_brainvision_states_radius_theta_and_phi(tmp_path: Path) -> None:
    # as in Analyzer: theta from the vertex, below 0 on the left; phi from the right ear, to the front above 0
    rows = ["1,-92,-72", "1,92,72", "1,0,0", "1,46,0", "1,-92,0", "85,90,-90"]
    path = write_vhdr(tmp_path / "in.vhdr", "".join(f"Ch{i + 1}={row}\n" for i, row in enumerate(rows)))
    found = read_positions(path)
    assert found.source == "positions of the file (BrainVision Coordinates)"
    left, right, top, beside, ear, back = (np.asarray(at) for at in found.xyz)
    assert left[0] == -right[0] < 0 < left[1] == right[1], "Fp1 is on the left, in front"
    np.testing.assert_allclose(top, [0, 0, 0.095], atol=1e-9)
    np.testing.assert_allclose(
        beside, 0.095 * np.array([math.sin(math.radians(46)), 0, math.cos(math.radians(46))])
    )
    assert ear[0] < -0.09
    np.testing.assert_allclose(back, [0, -0.085, 0], atol=1e-9, err_msg="a real radius is in mm")


def test_brainvision_without_coordinates_of_a_channel(tmp_path: Path) -> None:
    path = write_vhdr(tmp_path / "in.vhdr", "".join(f"Ch{i}=0,0,0\n" for i in range(1, 7)))
    with open_recording(path, channels=",".join(NAMES)) as recording:
        assert recording.positions is None


def write_set(path: Path, xyz: NDArray[Any]) -> Path:
    """Write a set of MATLAB 7.3; coordinates are X to the nose and Y to the left."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in {"srate": 100.0, "nbchan": 6.0, "pnts": 200.0, "trials": 1.0}.items():
            file[f"EEG/{name}"] = np.array([[value]])
        file["EEG/data"] = X.astype("f4")
        locs = file.create_group("EEG/chanlocs")
        columns = {"labels": [np.array([[ord(c)] for c in name], "u2") for name in NAMES]}
        columns |= {axis: [np.array([[x]]) for x in xyz[:, i]] for i, axis in enumerate("XYZ")}
        for field, values in columns.items():
            refs = np.empty((len(values), 1), h5py.ref_dtype)
            for i, each in enumerate(values):
                file[f"#refs#/{field}{i}"] = each
                file[f"#refs#/{field}{i}"].attrs["MATLAB_class"] = np.bytes_(
                    "char" if field == "labels" else "double"
                )
                refs[i, 0] = file[f"#refs#/{field}{i}"].ref
            locs.create_dataset(field, data=refs, dtype=h5py.ref_dtype)
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    return path


@pytest.mark.parametrize(("per_metre", "unit"), [(1.0, "m"), (1e1, "dm"), (1e2, "cm"), (1e3, "mm")])
def test_chanlocs_have_x_to_the_nose_and_y_to_the_left(tmp_path: Path, per_metre: float, unit: str) -> None:
    stored = per_metre * np.column_stack([XYZ[:, 1], -XYZ[:, 0], XYZ[:, 2]])
    found = read_positions(write_set(tmp_path / "in.set", stored))
    np.testing.assert_allclose(found.xyz, XYZ)
    assert found.source == f"positions of the file (EEGLAB chanlocs, taken as {unit})"


def test_nonsense_in_chanlocs_is_noted(tmp_path: Path) -> None:
    with open_recording(write_set(tmp_path / "in.set", np.full((6, 3), 1e9))) as recording:
        assert recording.notes == (
            "positions of the file (EEGLAB chanlocs, taken as mm) are not used: of 6 positions, 6 are more "
            "than 2 m from the origin",
        )


@needs_data
@pytest.mark.filterwarnings("ignore:Complex objects")  # of the reader of MNE
@pytest.mark.parametrize(
    ("name", "n_known"),
    [("hdf5/test_raw_hdf5.set", 256), ("eeg/eeglab_data.set", 32), ("eeg/testbva.vhdr", 29)],
)
def test_positions_are_what_mne_reads(name: str, n_known: int) -> None:
    raw = mne.io.read_raw(DATA / name, verbose="ERROR")
    theirs = {channel["ch_name"]: channel["loc"][:3] for channel in raw.info["chs"]}
    found = read_positions(DATA / name)
    assert found.is_known.sum() == n_known
    for name, known, at in zip(found.names, found.is_known, found.xyz, strict=True):
        if known:
            np.testing.assert_allclose(at, theirs[name], atol=1e-9)


@needs_data
def test_optodes_are_what_mne_reads() -> None:
    path = DATA / "hdf5/mne-testing-data_220307_opticaldensity.snirf"
    theirs = mne.io.read_raw_snirf(path, verbose="ERROR").info["chs"]
    found = read_positions(path, rate=50.0)
    np.testing.assert_allclose(found.xyz, [c["loc"][:3] for c in theirs], atol=1e-12)
    assert found.frame == "unknown"


@needs_data
def test_optodes_with_landmarks_are_in_the_head_frame() -> None:
    path = DATA / "hdf5/mne-testing-data_2022-05-23_004.snirf"
    raw = mne.io.read_raw_snirf(path, verbose="ERROR")
    with h5py.File(path) as file:
        probe = file["nirs/probe"]
        labels = [label.decode() for label in probe["landmarkLabels"][()]]
        nasion, left, right = (
            probe["landmarkPos3D"][labels.index(n), :3] / 1e3 for n in ("Nz", "LPA", "RPA")
        )
    move = mne.transforms.get_ras_to_neuromag_trans(nasion, left, right)
    theirs = mne.transforms.apply_trans(move, np.array([c["loc"][:3] for c in raw.info["chs"]]))
    found = read_positions(path)
    np.testing.assert_allclose(found.xyz, theirs, atol=1e-9)
    assert found.frame == HEAD


def write_snirf(path: Path, unit: str, **probe: Any) -> Path:
    with h5py.File(path, "w") as file:
        run = file.create_group("nirs")
        run["metaDataTags/LengthUnit"], run["metaDataTags/TimeUnit"] = unit, "s"
        run["data1/dataTimeSeries"], run["data1/time"] = X[:, :2], np.arange(200) / 10
        for i in (1, 2):
            for key, value in {
                "sourceIndex": 1,
                "detectorIndex": i,
                "wavelengthIndex": 1,
                "dataType": 1,
            }.items():
                run[f"data1/measurementList{i}/{key}"] = value
        run["probe/wavelengths"] = [760.0]
        for key, value in probe.items():
            run[f"probe/{key}"] = value
    return path


@pytest.mark.parametrize(("unit", "factor"), [("m", 1.0), ("cm", 1e-2), ("mm", 1e-3)])
def test_channels_of_a_probe_are_between_its_optodes(tmp_path: Path, unit: str, factor: float) -> None:
    source, detectors = np.array([[0.05, 0.0, 0.1]]), np.array([[0.05, 0.03, 0.1], [0.05, -0.03, 0.1]])
    path = write_snirf(
        tmp_path / "in.snirf", unit, sourcePos3D=source / factor, detectorPos3D=detectors / factor
    )
    np.testing.assert_allclose(read_positions(path).xyz, [[0.05, 0.015, 0.1], [0.05, -0.015, 0.1]])


def test_probes_without_a_place_on_a_head_are_noted(tmp_path: Path) -> None:
    flat = {"sourcePos2D": [[0.0, 0.0]], "detectorPos2D": [[0.0, 30.0], [90.0, 0.0]]}
    with open_recording(write_snirf(tmp_path / "flat.snirf", "mm", **flat)) as recording:
        assert recording.notes == (
            "positions of the file (SNIRF probe) are not used: the positions are in a plane (z is 0), and a "
            "head is not",
        )
    with open_recording(write_snirf(tmp_path / "inch.snirf", "inch", **flat)) as recording:
        assert recording.notes == (
            "positions of the file (SNIRF probe) are not used: LengthUnit is 'inch', not m, cm or mm",
        )
    with open_recording(write_snirf(tmp_path / "none.snirf", "mm")) as recording:
        assert recording.positions is None


def test_the_head_frame_is_that_of_mne() -> None:
    rng = np.random.default_rng(14)
    nasion, left, right = np.array([[0.0, 0.1, 0.0], [-0.07, 0.0, 0.0], [0.08, 0.0, 0.0]]) + rng.normal(
        0, 0.02, (3, 3)
    )
    move = mne.transforms.get_ras_to_neuromag_trans(nasion, left, right)
    ours = move_to_head(XYZ, nasion, left, right)
    assert ours is not None
    np.testing.assert_allclose(ours, mne.transforms.apply_trans(move, XYZ), atol=1e-12)
    assert move_to_head(XYZ, (left + right) / 2, left, right) is None
    assert move_to_head(XYZ, nasion, left, left) is None


# Tables


def write_table(
    path: Path, xyz: NDArray[Any], names: tuple[str, ...] = NAMES, separator: str = "\t"
) -> Path:
    rows = [["name", "x", "y", "z", "impedance"]]
    rows += [
        [name, *("n/a" if np.isnan(v) else f"{v:.9g}" for v in row), "5"]
        for name, row in zip(names, xyz, strict=True)
    ]
    path.write_text("".join(separator.join(row) + "\n" for row in rows))
    return path


def write_recording(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        file["data"] = X
        file["data"].attrs.update({"rate": 100.0, "unit": "uV", "channels": NAMES})
    return path


@pytest.mark.parametrize(
    ("system", "units", "per_metre", "turned"),
    [
        ("CapTrak", "mm", 1e3, False),
        ("ElektaNeuromag", "m", 1.0, False),
        ("CTF", "cm", 1e2, True),
        ("EEGLAB", "mm", 1e3, True),
        ("Other", "m", 1.0, False),
    ],
)
def test_electrodes_tsv_of_bids(
    tmp_path: Path, system: str, units: str, per_metre: float, turned: bool
) -> None:
    stored = per_metre * (np.column_stack([XYZ[:, 1], -XYZ[:, 0], XYZ[:, 2]]) if turned else XYZ)
    write_table(tmp_path / "sub-01_task-rest_electrodes.tsv", stored)
    (tmp_path / "sub-01_coordsystem.json").write_text(
        json.dumps({"EEGCoordinateSystem": system, "EEGCoordinateUnits": units})
    )
    found = read_positions(write_recording(tmp_path / "sub-01_task-rest_run-2_eeg.h5"))
    np.testing.assert_allclose(found.xyz, XYZ, atol=1e-9)
    assert found.source == "positions of sub-01_task-rest_electrodes.tsv"
    assert found.frame == (HEAD if system in ("CapTrak", "ElektaNeuromag") else system)


def test_landmarks_of_bids_define_the_head(tmp_path: Path) -> None:
    nasion, left, right = (
        np.array([0.11, 0.01, -0.02]),
        np.array([0.0, 0.08, -0.03]),
        np.array([0.01, -0.07, -0.02]),
    )
    stored = np.column_stack([XYZ[:, 1], -XYZ[:, 0], XYZ[:, 2]])
    write_table(tmp_path / "sub-01_electrodes.tsv", 1e3 * stored)
    points = {"NAS": (1e3 * nasion).tolist(), "LPA": (1e3 * left).tolist(), "RPA": (1e3 * right).tolist()}
    stated = {
        "EEGCoordinateSystem": "CTF",
        "EEGCoordinateUnits": "mm",
        "AnatomicalLandmarkCoordinates": points,
    }
    (tmp_path / "sub-01_coordsystem.json").write_text(json.dumps(stated))
    move = mne.transforms.get_ras_to_neuromag_trans(*(turn_front_left(p) for p in (nasion, left, right)))
    found = read_positions(write_recording(tmp_path / "sub-01_eeg.h5"))
    np.testing.assert_allclose(found.xyz, mne.transforms.apply_trans(move, XYZ), atol=1e-9)
    assert found.frame == HEAD


def test_the_table_of_the_same_subject_and_task_is_taken(tmp_path: Path) -> None:
    recording = tmp_path / "sub-01_task-rest_run-1_eeg.edf"
    assert find_electrodes_table(recording) is None
    for name in ("sub-02", "sub-01_task-go", "sub-01", "sub-01_task-rest_space-CapTrak"):
        (tmp_path / f"{name}_electrodes.tsv").touch()
    assert find_electrodes_table(recording) == tmp_path / "sub-01_task-rest_space-CapTrak_electrodes.tsv"
    assert (
        find_electrodes_table(tmp_path / "sub-01_task-swim_eeg.edf") == tmp_path / "sub-01_electrodes.tsv"
    )
    assert find_electrodes_table(tmp_path / "recording.edf") is None


def test_a_mistake_in_a_table_of_bids_is_noted(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "sub-01_eeg.h5")
    table = write_table(tmp_path / "sub-01_electrodes.tsv", XYZ)
    table.write_text(table.read_text().replace("0.13", "high"))
    with open_recording(path) as recording:
        assert recording.notes == (
            f"positions of sub-01_electrodes.tsv are not used: row 2 of '{table}' has 'high' instead of a "
            "number; correct the table",
        )


@pytest.mark.parametrize("separator", [",", "\t", ";", " "])
def test_a_table_is_a_montage(tmp_path: Path, separator: str) -> None:
    xyz = XYZ.copy()
    xyz[4] = np.nan
    table = write_table(tmp_path / "cap.csv", 1e3 * xyz, separator=separator)
    found = read_positions(write_recording(tmp_path / "in.h5"), montage=str(table))
    np.testing.assert_allclose(found.xyz, xyz)
    assert found.source == "montage cap.csv, taken as mm"


def test_a_montage_replaces_the_positions_of_the_file(tmp_path: Path) -> None:
    make_raw().save(tmp_path / "in_raw.fif", verbose="ERROR")
    found = read_positions(tmp_path / "in_raw.fif", montage="BioSemi128")
    assert found.source == "montage biosemi128"
    theirs = mne.create_info([*NAMES], 1.0, "eeg").set_montage("biosemi128")
    np.testing.assert_allclose(found.xyz[:-1], [c["loc"][:3] for c in theirs["chs"]], atol=1e-7)
    assert np.isnan(found.xyz[-1]).all()


@pytest.mark.parametrize(("name", "text"), [
    ("cap.sfp", "\n".join(f"{n}\t{x:.6f}\t{y:.6f}\t{z:.6f}" for n, (x, y, z) in zip(NAMES, 100 * XYZ, strict=True))),
    ("cap.xyz", "\n".join(f"0\t{x:.6f}\t{y:.6f}\t{z:.6f}\t{n}" for n, (x, y, z) in zip(NAMES, XYZ, strict=True))),
])  # fmt: skip
def test_files_of_montages_are_read_by_mne(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    theirs = mne.create_info([*NAMES], 1.0, "eeg")
    theirs.set_montage(mne.channels.read_custom_montage(tmp_path / name), verbose="ERROR")
    found = load_montage(str(tmp_path / name))
    np.testing.assert_allclose(found.xyz, [c["loc"][:3] for c in theirs["chs"]], atol=1e-7)
    assert not found.problem


@pytest.mark.parametrize(
    ("montage", "kind", "message"),
    [
        ("biosmi64", ParameterError, "such as biosemi64, biosemi16, biosemi256. Got 'biosmi64' instead."),
        ("no.tsv", ParameterError, "montage must be an existing file. Got 'no.tsv' instead."),
        ("easycap-M1", ParameterError, "montage easycap-M1 has none of the channels of"),
        ("", ParameterError, "montage is empty"),
    ],
)
def test_a_montage_that_does_not_exist_is_refused(
    tmp_path: Path, montage: str, kind: type[IgbssError], message: str
) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["data"] = X
        file["data"].attrs["channels"] = [f"E{i}" for i in range(6)]
    with pytest.raises(kind, match=message):
        open_recording(tmp_path / "in.h5", montage=montage)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("name,x,y\nA1,0,0\n", "no column 'z' in its first line"),
        ("name,x,y,z\nA1,0,0\n", "row 2 of .* has 3 cells, but its header 4"),
        ("name,x,y,z\nA1,0,0,up\n", "row 2 of .* has 'up' instead of a number"),
        ("name,x,y,z\nA\xe9,0,0,1\n", "is not text in UTF-8"),
    ],
)
def test_mistakes_in_a_table_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "cap.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(RecordingError, match=message):
        load_montage(str(tmp_path / "cap.csv"))


@pytest.mark.parametrize("is_known", [True, False])
def test_the_table_of_electrodes_of_nwb(tmp_path: Path, is_known: bool) -> None:
    """Written by pynwb, which documents x to the back, y to the bottom and z to the right, in micrometres."""
    pynwb = pytest.importorskip("pynwb")
    file = pynwb.NWBFile("a test", "x", datetime(2024, 5, 1, tzinfo=UTC))
    group = file.create_electrode_group("cap", "a cap", "scalp", file.create_device("cap"))
    xyz = np.array([[0.0, 0.08, 0.06], [0.07, 0.0, 0.06], [-0.07, 0.0, 0.06], [0.0, -0.08, 0.05]])
    for right, front, top in 1e6 * xyz:
        axes = {"x": -front, "y": -top, "z": right} if is_known else {}
        file.add_electrode(group=group, location="scalp", **axes)
    region = file.create_electrode_table_region([3, 0, 1, 2], "in another order")
    data = np.random.default_rng(0).normal(size=(200, 4))
    file.add_acquisition(
        pynwb.ecephys.ElectricalSeries(name="eeg", data=data, electrodes=region, rate=250.0)
    )
    with pynwb.NWBHDF5IO(tmp_path / "x.nwb", "w") as io:
        io.write(file)
    with open_recording(tmp_path / "x.nwb") as recording:
        found = recording.positions
        assert (found is not None) == is_known
        if found is not None:
            np.testing.assert_allclose(found.select(recording.channels).xyz, xyz[[3, 0, 1, 2]], atol=1e-12)
            assert not found.problem
