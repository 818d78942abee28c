"""Test that `fit_ica` takes samples and components like MNE's `ICA.fit`, and that MNE's detectors work on it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream import separate
from igbss_stream.errors import IgbssWarning, InputError, ParameterError
from tests.realdata import DATA, needs_data

mne = pytest.importorskip("mne")

from igbss_stream.mne import fit_ica, ica_of_output  # noqa: E402
from tests.test_mne import NAMES, RATE, made_up, write_output  # noqa: E402

UNIT = 2e-5


@pytest.fixture(scope="module")
def raw() -> Any:
    """Return five EEG channels and an EOG channel in V."""
    return made_up(NAMES, ["eeg"] * 5 + ["eog"], np.full(6, UNIT))


def assert_learned_from(ica: Any, raw: Any, samples: np.ndarray, **settings: Any) -> None:
    """Assert that the sources are those learned from some samples, (channels, samples)."""
    want = separate(samples.T, **settings)
    got = ica.get_sources(raw).get_data()
    assert want.mean is not None
    expected = want.unmixing @ (raw.get_data(ica.ch_names) - want.mean[:, None])
    np.testing.assert_allclose(got, expected, atol=1e-9 * expected.std())
    assert ica.n_samples_ == samples.shape[1]


@pytest.mark.jit
def test_a_number_or_share_of_components(raw: Any) -> None:
    """The count of a share is that of MNE's own ICA; None means all."""
    for share in (0.9, 0.99, 0.9999):
        theirs = mne.preprocessing.ICA(share, max_iter=200, verbose="ERROR")
        theirs.fit(raw, picks="eeg", verbose="ERROR")
        assert fit_ica(raw, n_components=share).n_components_ == theirs.n_components_
    with pytest.raises(ParameterError, match=r"n_components = 0.6 is reached by a single component"):
        fit_ica(raw, n_components=0.6)
    three: Any = np.int64(3)
    x = raw.get_data("eeg")
    assert_learned_from(fit_ica(raw, n_components=three), raw, x, n_sources=3)
    assert_learned_from(fit_ica(raw, n_components=None), raw, x)


@pytest.mark.jit
def test_a_part_of_the_samples(raw: Any) -> None:
    x = raw.get_data("eeg")
    assert_learned_from(fit_ica(raw, start=100, stop=1000), raw, x[:, 100:1000])
    assert_learned_from(fit_ica(raw, start=0.5, stop=99.0), raw, x[:, 100:])
    assert_learned_from(fit_ica(raw, decim=2), raw, x[:, ::2])


@pytest.mark.jit
def test_segments_beyond_thresholds_are_rejected_like_mne(raw: Any) -> None:
    spoiled = raw.copy()
    spoiled._data[2, 450] += 1.0
    spoiled._data[:5, 800:1000] = spoiled._data[:5, 800:801]
    options: dict[str, Any] = {"reject": {"eeg": 0.5}, "flat": {"eeg": 1e-9}, "tstep": 0.5, "decim": 2}
    ica = fit_ica(spoiled, **options)
    theirs = mne.preprocessing.ICA(max_iter=200, verbose="ERROR")
    theirs.fit(spoiled, picks="eeg", verbose="ERROR", **options)
    assert ica.n_samples_ == theirs.n_samples_ == 450
    assert (
        ica.drop_inds_ == [tuple(one) for one in theirs.drop_inds_] == [(200, 250), (400, 450), (450, 500)]
    )
    assert ica.reject_ == {"eeg": 0.5}
    assert_learned_from(
        ica, spoiled, np.delete(raw.get_data("eeg")[:, ::2], np.r_[200:250, 400:500], axis=1)
    )


@pytest.mark.jit
def test_epochs(raw: Any) -> None:
    epochs = mne.make_fixed_length_epochs(raw, 1.0, preload=True, verbose="ERROR")
    epochs.info["bads"] = ["O1"]
    epochs.drop([1], verbose="ERROR")
    ica = fit_ica(epochs)
    assert (ica.current_fit, ica.ch_names) == ("epochs", ["Fp1", "Fp2", "Cz", "O2"])
    assert_learned_from(ica, raw, np.hstack(epochs.get_data(ica.ch_names)))
    with pytest.warns(IgbssWarning, match="stop, reject have no effect on Epochs"):
        fit_ica(epochs, stop=10, reject={"eeg": 1e-12})
    with pytest.raises(InputError, match="there are no epochs"):
        fit_ica(epochs.copy().drop(range(len(epochs)), verbose="ERROR"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_components": value}, rf"n_components must be an integer from 1 to 5 .* Got {value!r}")
        for value in (0, -1, 6, 1.0, 1.5, 0.0, True, "all", float("nan"))
    ]
    + [({"decim": value}, f"decim must be an integer .* Got {value!r}") for value in (0, 2.0, "2", True)]
    + [({"start": value}, f"start must be a sample .* Got {value!r}") for value in (-1, "a", float("nan"))]
    + [
        ({"n_components": 2, "n_sources": 2}, "Pass one of them"),
        ({"start": 600, "stop": 600}, "start = 600 and stop = 600 select no samples of 1200"),
        ({"start": 99.0}, "start = 99.0 and stop = None select no samples"),
        ({"tstep": 0}, "tstep must be a positive .* Got 0"),
        ({"reject": 1e-4}, "reject must be a dict .* Got 0.0001"),
        ({"flat": {"eeg": "low"}}, r"flat\['eeg'\] must be .* Got 'low'"),
        ({"reject": {"mag": 1e-12}}, "reject has a threshold for 'mag', .* type eeg, eog only"),
        ({"picks": 3.5}, "picks = 3.5 picks no channels"),
        ({"picks": [99]}, r"picks = \[99\] picks no channels"),
    ],
)
def test_unusable_parameters_are_named(raw: Any, options: Any, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        fit_ica(raw, **options)


def test_thresholds_that_reject_everything_and_other_objects(raw: Any) -> None:
    with pytest.raises(InputError, match=r"reject = \{'eeg': 0.0\} .* leave no segment of 2.0 s"):
        fit_ica(raw, reject={"eeg": 0.0})
    with pytest.raises(ParameterError, match=r"must be a Raw or Epochs of MNE[.] Got ndarray"):
        fit_ica(raw.get_data())


@pytest.mark.jit
def test_what_an_output_excluded_is_excluded(raw: Any, tmp_path: Path) -> None:
    ours = separate(raw.get_data("eeg").T, n_sources=3)
    path = write_output(tmp_path / "out.h5", ours)
    fields = [("source", "i8"), ("channel", "S8"), ("correlation", "f8")]
    with h5py.File(path, "r+") as file:
        file["excluded"] = np.array([(2, b"EOG", 0.8), (0, b"", np.nan)], fields)
    ica = ica_of_output(path, raw.info)
    assert ica.exclude == [2, 0]
    cleaned = ica.apply(raw.copy(), verbose="ERROR").get_data("eeg")
    x, sources = raw.get_data("eeg"), ours.sources.T
    np.testing.assert_allclose(cleaned, x - ours.mixing[:, [0, 2]] @ sources[[0, 2]], atol=1e-9 * UNIT)
    assert ica_of_output(write_output(path, ours), raw.info).exclude == []


DETECT = """
import sys
import mne
from igbss_stream.mne import fit_ica
from mne.preprocessing import read_ica
kind, path = sys.argv[1:]
if kind == "real":
    raw = mne.io.read_raw_eeglab(path, eog=("EOG1", "EOG2"), verbose="ERROR")
    raw = raw.crop(0, 60).load_data(verbose="ERROR").filter(1.0, None, verbose="ERROR")
else:
    raw = mne.io.read_raw_fif(path, preload=True, verbose="ERROR")
ica = fit_ica(raw)
eog, scores = ica.find_bads_eog(raw, verbose="ERROR")
ecg, _ = ica.find_bads_ecg(raw, ch_name=raw.ch_names[0], verbose="ERROR")
muscle, powers = ica.find_bads_muscle(raw, verbose="ERROR")
assert len(powers) == ica.n_components_ and {"eog", "ecg", "muscle"} <= set(ica.labels_)
print([int(one) for one in eog])
"""


def run_detectors(kind: str, path: Path) -> str:
    """Return what MNE finds with its defaults, in a separate process.

    MNE's z-scores fail where SCIPY_ARRAY_API is set, as it is for the tests.
    """
    env = {name: value for name, value in os.environ.items() if name != "SCIPY_ARRAY_API"}
    command = [sys.executable, "-c", DETECT, kind, str(path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def make_blinks() -> Any:
    """Return 30 s with blinks in the front and in EOG; 21 channels, as z-scores of a few never exceed 3."""
    rng, n = np.random.default_rng(5), 6000
    front = ["Fp1", "Fp2", "F3", "F4", "F7", "F8", "Fz"]
    back = ["C3", "C4", "T7", "T8", "Cz", "P3", "P4", "P7", "P8", "Pz", "O1", "O2", "Oz"]
    sources = rng.laplace(size=(21, n))
    sources[0] = 8 * (np.arange(n) % 500 < 40) + 0.1 * rng.standard_normal(n)
    weights = rng.standard_normal((21, 21))
    weights[:, 0] = [3.0] * 2 + [1.0] * 5 + [0.3] * 13 + [5.0]
    raw = mne.io.RawArray(
        1e-5 * weights @ sources,
        mne.create_info([*front, *back, "EOG"], RATE, ["eeg"] * 20 + ["eog"]),
        verbose="ERROR",
    )
    return raw.set_montage("standard_1020", on_missing="ignore", verbose="ERROR")


@pytest.mark.jit
def test_detectors_of_mne_work_with_defaults(tmp_path: Path) -> None:
    path = tmp_path / "blinks_raw.fif"
    raw = make_blinks()
    raw.save(path, verbose="ERROR")
    found = run_detectors("made-up", path)
    blinks = (np.arange(raw.n_times) % 500 < 40).astype(float)
    sources = fit_ica(raw).get_sources(raw).get_data()
    likest = int(np.argmax([abs(np.corrcoef(one, blinks)[0, 1]) for one in sources]))
    assert found == f"[{likest}]"


@needs_data
@pytest.mark.jit
def test_detectors_of_mne_work_on_a_real_eeg() -> None:
    assert run_detectors("real", DATA / "eeg" / "eeglab_data.set") != "[]"


@pytest.mark.jit
def test_icalabel_labels_our_ica() -> None:
    """The network comes with the package; nothing is downloaded."""
    iclabel = pytest.importorskip("mne_icalabel")
    pytest.importorskip("onnxruntime")
    raw = make_blinks().filter(1.0, None, verbose="ERROR").set_eeg_reference("average", verbose="ERROR")
    with pytest.warns(IgbssWarning, match="rank"):
        ica = fit_ica(raw)
    with pytest.warns(RuntimeWarning):  # our method is not infomax, and 200 Hz ends below 100 Hz
        labels = iclabel.label_components(raw, ica, method="iclabel")
    assert len(labels["labels"]) == ica.n_components_ == len(labels["y_pred_proba"])
    assert ica.labels_scores_.shape == (ica.n_components_, 7)
    np.testing.assert_allclose(ica.labels_scores_.sum(axis=1), 1.0, atol=1e-5)
