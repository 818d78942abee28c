"""Test separations as MNE's ICA, against the formulas and after saving and loading by MNE."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream import separate
from igbss_stream.chunk import Gap
from igbss_stream.errors import IgbssWarning, InputError, ParameterError, RecordingError
from igbss_stream.events import Events
from igbss_stream.files.event_table import make_event_table
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.pca_form import compute_pca_form
from tests.doc_pages import run_python
from tests.realdata import DATA, needs_data

mne = pytest.importorskip("mne")
matplotlib = pytest.importorskip("matplotlib")

from igbss_stream.mne import fit_ica, ica_of_output, raw_of_output, sources_of  # noqa: E402

RATE = 200.0
NAMES = ["Fp1", "Fp2", "Cz", "O1", "O2", "EOG"]
pytestmark = pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")


@pytest.fixture(scope="module")
def raw() -> Any:
    """Return five EEG channels and an EOG channel in V, with blinks and offsets."""
    return made_up(NAMES, ["eeg"] * 5 + ["eog"], np.full(6, 2e-5))


def made_up(names: list[str], types: list[str], scale: np.ndarray, n_samples: int = 1200) -> Any:
    """Return a Raw with a mixture of different sources; the first one blinks and is in all channels."""
    rng, n = np.random.default_rng(3), len(names)
    sources = rng.laplace(size=(n, n_samples)) + np.sin(np.outer(np.arange(n), np.arange(n_samples) / 30))
    sources[0] += 12 * (np.arange(n_samples) % 300 < 30)
    weights = rng.standard_normal((n, n))
    weights[:, 0] = np.linspace(1.0, 2.0, n)
    x = (weights @ sources + rng.standard_normal((n, 1))) * scale[:, None]
    raw = mne.io.RawArray(x, mne.create_info(names, RATE, types), first_samp=1000, verbose="ERROR")
    if set(NAMES[:5]) <= set(names):
        raw.set_montage("standard_1020", on_missing="ignore", verbose="ERROR")
    return raw


def relative(actual: Any, wanted: Any) -> float:
    """Return the largest error as a share of the deviation of its channel; arrays are (channels, samples)."""
    return float(np.max(np.abs(actual - wanted).max(axis=1) / wanted.std(axis=1)))


def assert_is_ours(ica: Any, raw: Any, separation: Any, tolerance: float = 1e-10) -> None:
    """Assert that MNE computes our sources, and removes them like the formula."""
    x, sources = raw.get_data(ica.ch_names), separation.sources.T
    assert relative(ica.get_sources(raw).get_data(), sources) < tolerance
    out = [0, ica.n_components_ - 1]
    cleaned = ica.apply(raw.copy().load_data(), exclude=out, verbose="ERROR").get_data(ica.ch_names)
    assert relative(cleaned, x - separation.mixing[:, out] @ sources[out]) < tolerance


@pytest.fixture(scope="module")
def ours(raw: Any) -> Any:
    """Return three sources of the EEG channels."""
    return separate(raw.get_data("eeg").T, n_sources=3)


@pytest.fixture(scope="module")
def ica(raw: Any) -> Any:
    """Return the same separation as an ICA."""
    return fit_ica(raw, n_sources=3)


@pytest.mark.jit
@pytest.mark.parametrize(("n_sources", "scaling"), [(None, "unit-variance"), (3, "back-projected")])
def test_sources_and_cleaning_match_ours(raw: Any, n_sources: int | None, scaling: str) -> None:
    ica = fit_ica(raw, picks=["eeg", "eog"], n_sources=n_sources, scaling=scaling)
    separation = separate(raw.get_data().T, n_sources=n_sources, scaling=scaling)
    assert ica.ch_names == NAMES
    assert_is_ours(ica, raw, separation)
    for column, map_ in zip(separation.mixing[:5].T, ica.get_components()[:5].T, strict=True):
        assert np.corrcoef(column, map_)[0, 1] > 1 - 1e-12  # what plots show is the mixing, type by type


@pytest.mark.jit
def test_saving_and_loading_preserve_the_ica(raw: Any, ica: Any, ours: Any, tmp_path: Path) -> None:
    assert_is_ours(ica, raw, ours)
    marked = ica.copy()
    marked.exclude = [1]
    marked.save(tmp_path / "made-up-ica.fif", verbose="ERROR")
    again = mne.preprocessing.read_ica(tmp_path / "made-up-ica.fif", verbose="ERROR")
    assert (again.method, again.exclude, again.n_samples_) == ("igbss", [1], 1200)
    assert again.fit_params["structure"] == "learned"
    again.exclude = []
    assert_is_ours(again, raw, ours)


@pytest.mark.jit
def test_average_reference(raw: Any) -> None:
    """The rank is one below the channels; an EEG also has a projector, which MNE applies again."""
    referenced = raw.copy().set_eeg_reference("average", projection=True, verbose="ERROR")
    referenced.apply_proj(verbose="ERROR")
    with pytest.warns(IgbssWarning, match="rank 4"):
        ica = fit_ica(referenced)
    with pytest.warns(IgbssWarning, match="rank 4"):
        assert_is_ours(ica, referenced, separate(referenced.get_data("eeg").T))


@pytest.mark.jit
@pytest.mark.parametrize(("n_sources", "tolerance"), [(None, 1e-10), (4, 1e-7)])
def test_channels_of_different_units(n_sources: int | None, tolerance: float) -> None:
    """MEG and EEG differ by seven orders of magnitude; with fewer sources, MNE inverts such a matrix."""
    types = ["eeg", "eeg", "mag", "mag", "grad", "grad"]
    size = {"eeg": 1e-5, "mag": 1e-13, "grad": 1e-12}
    mixed = made_up(list("abcdef"), types, np.array([size[kind] for kind in types]))
    ica = fit_ica(mixed, n_sources=n_sources)
    assert_is_ours(ica, mixed, separate(mixed.get_data().T, n_sources=n_sources), tolerance)


@pytest.mark.jit
def test_bad_channels_and_bad_segments_are_excluded_from_learning(raw: Any) -> None:
    marked = raw.copy()
    marked._data[:, 400:500] += 1.0  # volts
    marked.info["bads"] = ["Cz"]
    marked.set_annotations(mne.Annotations([400 / RATE], [100 / RATE], ["BAD_step"]))
    ica = fit_ica(marked)
    assert ica.ch_names == ["Fp1", "Fp2", "O1", "O2"]
    x = np.delete(raw.get_data(ica.ch_names), np.s_[400:500], axis=1)
    separation = separate(x.T)
    np.testing.assert_array_equal(ica.n_samples_, 1100)
    want = (marked.get_data(ica.ch_names).T - separation.mean) @ separation.unmixing.T
    assert relative(ica.get_sources(marked).get_data(), want.T) < 1e-10
    assert fit_ica(marked, picks=["Fp1", "Cz", "O1"]).ch_names == ["Fp1", "Cz", "O1"]


@pytest.mark.jit
def test_sources_as_a_raw_keep_times_and_annotations(raw: Any, ica: Any, ours: Any) -> None:
    marked = raw.copy().set_meas_date(1e9)
    marked.set_annotations(mne.Annotations([5.0], [0.5], ["blink"], orig_time=marked.info["meas_date"]))
    sources = sources_of(marked, ica)
    assert isinstance(sources, mne.io.RawArray)
    assert (sources.ch_names, sources.get_channel_types()) == (
        [f"source-{n}" for n in range(3)],
        ["misc"] * 3,
    )
    assert (sources.first_samp, sources.info["meas_date"]) == (1000, marked.info["meas_date"])
    assert sources.annotations.onset.tolist() == marked.annotations.onset.tolist()
    assert relative(sources.get_data(), ours.sources.T) < 1e-10


def find_blinks(ica: Any, raw: Any) -> Any:
    """Return the bad sources that MNE finds; its default, z-scores, fails if SCIPY_ARRAY_API is set, as here."""
    return ica.find_bads_eog(raw, measure="correlation", threshold=0.5, verbose="ERROR")


@pytest.mark.jit
def test_methods_of_mne_work(raw: Any, tmp_path: Path) -> None:
    matplotlib.use("Agg")
    ica = fit_ica(raw)
    found, scores = find_blinks(ica, raw)
    blinks = (np.arange(1200) % 300 < 30).astype(float)
    likest = np.argmax([abs(np.corrcoef(s, blinks)[0, 1]) for s in ica.get_sources(raw).get_data()])
    assert np.argmax(np.abs(scores)) == likest
    ratio = ica.get_explained_variance_ratio(raw, ch_type="eeg")["eeg"]
    assert ratio == pytest.approx(1.0)
    epochs = mne.make_fixed_length_epochs(raw, 1.0, preload=True, verbose="ERROR")
    in_epochs = ica.get_sources(epochs).get_data().transpose(1, 0, 2).reshape(ica.n_components_, -1)
    assert relative(in_epochs, ica.get_sources(raw).get_data()) < 1e-10
    figures = [
        ica.plot_components(show=False),
        ica.plot_sources(raw, show=False, block=False),
        *ica.plot_properties(raw, picks=[0], show=False, verbose="ERROR"),
        ica.plot_scores(scores, exclude=found, show=False),
        ica.plot_overlay(raw, exclude=[0], show=False, verbose="ERROR"),
    ]
    for n, figure in enumerate(figures):
        figure = figure[0] if isinstance(figure, list) else figure
        figure.savefig(tmp_path / f"{n}.png")
        assert (tmp_path / f"{n}.png").stat().st_size > 5000
    matplotlib.pyplot.close("all")


def test_the_form_reproduces_any_left_inverse() -> None:
    """Includes left inverses that are not pseudo-inverses in any unit of the channels."""
    rng = np.random.default_rng(0)
    mixing, metric = (
        rng.standard_normal((7, 3)),
        np.asarray(np.cov(rng.standard_normal((7, 30))), np.float64),
    )
    unmixing = np.asarray(np.linalg.solve(mixing.T @ metric @ mixing, mixing.T @ metric), np.float64)
    mean, unit = rng.standard_normal(7), np.repeat([2.0, 30.0], [4, 3])
    form = compute_pca_form(mixing, unmixing, mean, unit)
    np.testing.assert_allclose(form.components @ form.components.T, np.eye(7), atol=1e-14)
    back = form.unmixing @ form.components[:3] @ form.pre_whitener
    np.testing.assert_allclose(back, unmixing, atol=1e-13)
    maps = form.components[:3].T @ np.linalg.inv(form.unmixing)
    np.testing.assert_allclose(maps * unit[:, None], mixing, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.linalg.solve(form.pre_whitener, maps), mixing, rtol=1e-10, atol=1e-12)
    assert (np.diff(form.variance[:3]) <= 0).all()
    np.testing.assert_allclose(form.variance[3:], 0.0, atol=1e-12)


def write_output(path: Path, separation: Any, unit: str | None = "uV", **attrs: Any) -> Path:
    """Write the parts of an output of `batch` that contain the model, in µV."""
    with h5py.File(path, "w") as file:
        for name, value in (
            ("mixing", separation.mixing * 1e6),
            ("unmixing", separation.unmixing / 1e6),
            ("mean", separation.mean * 1e6),
            ("sources", separation.sources),
        ):
            file[name] = value
        for name in ("mixing", "unmixing", "mean"):
            file[name].attrs["channels"] = NAMES[:5]
        if unit is not None:
            file.attrs["input_unit"] = unit
        file.attrs.update(
            {
                "transform": '{"name": "exp"}',
                "settings": "{}",
                "solver": "closed-form",
                "igbss_stream_version": "0",
            }
            | attrs
        )
    return path


@pytest.mark.jit
def test_output_of_batch_as_an_ica(raw: Any, ours: Any, tmp_path: Path) -> None:
    path = write_output(tmp_path / "out.h5", ours)
    turned = raw.copy().reorder_channels(NAMES[::-1])
    ica = ica_of_output(path, turned.info)
    assert ica.ch_names == NAMES[:5]
    assert_is_ours(ica, raw, ours)
    assert relative(ica.get_sources(turned).get_data(), ours.sources.T) < 1e-10
    with pytest.raises(ParameterError, match=r"1 channels of .* are missing in info: O1"):
        ica_of_output(path, raw.copy().drop_channels("O1").info)
    write_output(path, ours, unit=None)
    with pytest.raises(ParameterError, match=r"unit None, which cannot .* Pass factor"):
        ica_of_output(path, raw.info)
    assert_is_ours(ica_of_output(path, raw.info, factor=1e-6), raw, ours)
    with pytest.warns(IgbssWarning, match="prepare the Raw in the same way"):
        ica_of_output(write_output(path, ours, preparation='{"highpass": 1.0}'), raw.info)
    ica_of_output(write_output(path, ours, preparation=Preparation().to_json()), raw.info)
    for attrs in ({"transform": '{"name": "sum"}'}, {"solver": "joint"}):
        with pytest.raises(ParameterError, match="does not contain a linear separation"):
            ica_of_output(write_output(path, ours, **attrs), raw.info)


@pytest.mark.jit
def test_a_model_with_other_axes_is_refused(raw: Any, ours: Any, tmp_path: Path) -> None:
    path = write_output(tmp_path / "out.h5", ours)
    for shape, error, says in (
        ((2, 5, 5), ParameterError, r"not contain a linear separation .* mixing \(2, 5, 5\)"),
        ((5,), RecordingError, r"dataset '/mixing' of .* has 1 axes"),
    ):
        with h5py.File(path, "r+") as file:
            del file["mixing"]
            file["mixing"] = np.ones(shape)
            file["mixing"].attrs["channels"] = NAMES[:5]
        with pytest.raises(error, match=says):
            ica_of_output(path, raw.info)


def test_other_files_are_refused(tmp_path: Path, raw: Any) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["data"] = np.zeros((5, 2))
    with pytest.raises(RecordingError, match="was not written by `igbss-stream batch`"):
        ica_of_output(tmp_path / "in.h5", raw.info)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"order": 2}, "needs order = 1. Got 2"),
        ({"transform": "min-max"}, "needs transform = exp. Got 'min-max'"),
        ({"latent_mass": 0.1}, "needs latent_mass = 0"),
        ({"orders": 2}, "unexpected keyword argument 'orders'"),
        ({"structure": "systematic", "n_sources": 4}, "one matrix for all samples"),
        ({"picks": "stim"}, "picks no channels"),
        ({"picks": "all"}, r"data and EOG channels only. Got trigger \(stim\)"),
    ],
)
def test_invalid_parameters_are_refused(raw: Any, options: Any, says: str) -> None:
    trigger = mne.io.RawArray(
        np.zeros((1, 1200)), mne.create_info(["trigger"], RATE, "stim"), first_samp=1000, verbose="ERROR"
    )
    both = (
        raw.copy()
        if options.get("picks") == "stim"
        else raw.copy().add_channels([trigger], force_update_info=True)
    )
    with pytest.raises(ParameterError, match=says):
        fit_ica(both, **options)


def test_entirely_bad_samples_are_refused(raw: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    marked = raw.copy().set_annotations(mne.Annotations([0.0], [6.0], ["bad"]))
    with pytest.raises(InputError, match="mark all samples as bad"):
        fit_ica(marked)
    monkeypatch.setattr("igbss_stream._util.memory.get_available_memory", lambda: 1000)
    with pytest.raises(RecordingError, match=r"GB of memory at once .* crop or resample"):
        fit_ica(raw)


@needs_data
@pytest.mark.jit
@pytest.mark.filterwarnings("ignore:sources are not determined")
def test_a_real_eeg(tmp_path: Path) -> None:
    """The source of blinks is found by its electrodes, and removing it reduces their variance."""
    raw = mne.io.read_raw_eeglab(DATA / "eeg" / "eeglab_data.set", eog=("EOG1", "EOG2"), verbose="ERROR")
    raw = raw.crop(0, 60).load_data(verbose="ERROR").filter(1.0, 40.0, verbose="ERROR")
    ica = fit_ica(raw, n_sources=8)
    assert_is_ours(ica, raw, separate(raw.get_data("eeg").T, n_sources=8))
    scores = np.abs(find_blinks(ica, raw)[1]).max(axis=0)
    blink = int(np.argmax(scores))
    assert scores[blink] > 0.4
    assert ica.ch_names[np.argmax(np.abs(ica.get_components()[:, blink]))] == "FPz"
    before = raw.get_data("FPz").std()
    assert ica.apply(raw.copy(), exclude=[blink], verbose="ERROR").get_data("FPz").std() < 0.5 * before


def test_an_output_as_a_raw_has_events_gaps_and_date(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((100, 2))
    gap = np.dtype([("row", "i8"), ("start", "i8"), ("n_samples", "i8"), ("reason", "S40")])
    events = Events([10.25, 45.0, 80.0], ["go", "stop", "go"], [0.1, 0.0, 0.0])
    with h5py.File(tmp_path / "out.h5", "w") as file:
        for name, unit in (("sources", None), ("cleaned", "uV")):
            file[name] = x
            file[name].attrs.update(rate=RATE, channels=["a", "b"], t0=1e9)
            if unit:
                file[name].attrs["unit"] = unit
        file["gaps"] = np.array([(40, 40, 20, b"lost")], gap)
        file["events"] = make_event_table(events, [Gap(40, 20, "lost")], RATE)
    sources = raw_of_output(tmp_path / "out.h5")
    cleaned = raw_of_output(tmp_path / "out.h5", "cleaned")
    np.testing.assert_array_equal(sources.get_data().T, x)
    np.testing.assert_allclose(cleaned.get_data().T, x * 1e-6)
    assert (set(sources.get_channel_types()), set(cleaned.get_channel_types())) == ({"misc"}, {"eeg"})
    for raw in (sources, cleaned):
        assert raw.info["meas_date"].timestamp() == 1e9
        found = sorted(zip(raw.annotations.onset * RATE, raw.annotations.description, strict=True))
        assert [text for _, text in found] == ["go", "BAD boundary, gap: 20 samples missing", "stop", "go"]
        np.testing.assert_allclose([at for at, _ in found], [10.25, 40, 40, 60])
        at, ids = mne.events_from_annotations(raw, regexp="go", verbose="error")
        assert at[:, 0].tolist() == [10, 60]
        kept = mne.Epochs(
            raw, at, ids, -0.15, 0.0, baseline=None, preload=True, verbose="error", picks="all"
        )
        assert len(kept) == 0  # the first begins before the samples, the second is across the gap


def test_an_output_as_a_raw_needs_a_rate_and_a_unit(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "out.h5", "w") as file:
        file["sources"] = np.zeros((100, 2))
        file["cleaned"] = np.zeros((100, 2))
        file["cleaned"].attrs.update(rate=RATE, unit="degC")
    with pytest.raises(ParameterError, match="has no sampling rate, which a Raw needs"):
        raw_of_output(tmp_path / "out.h5")
    with pytest.raises(ParameterError, match="the unit 'degC', which cannot be converted"):
        raw_of_output(tmp_path / "out.h5", "cleaned")
    assert raw_of_output(tmp_path / "out.h5", "cleaned", factor=1.0).n_times == 100


def test_the_evoked_response_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((2000, 2))
    onsets = np.arange(100.0, 1700.0, 200.0)
    x[(onsets + 50).astype(int)] += 50
    with h5py.File(tmp_path / "cleaned.h5", "w") as file:
        file["cleaned"] = x
        file["cleaned"].attrs.update(rate=RATE, channels=["Fz", "Cz"], unit="uV")
        labels = ["square", "rt"] * 4
        file["events"] = make_event_table(Events(onsets, labels), [], RATE)
    monkeypatch.chdir(tmp_path)
    evoked = run_python("docs/cleaning.md")["evoked"]
    assert evoked.nave == 4
    assert evoked.times[evoked.data[0].argmax()] == pytest.approx(50 / RATE)
