"""Convert separations to `mne.preprocessing.ICA`, with working plots, apply and save.

Requires the extra ``mne``. See docs/interoperate.md for examples and `igbss_stream.separation.pca_form` for
the formulas.
"""

import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.memory import check_memory
from igbss_stream._util.mne_samples import SampleChoice, check_n_components, count_components
from igbss_stream._util.optional import describe_missing
from igbss_stream.errors import IgbssWarning, ParameterError
from igbss_stream.files.results.output import OutputFacts, OutputFile
from igbss_stream.files.results.stored_model import StoredModel
from igbss_stream.separation.pca_form import compute_pca_form
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings

try:
    import mne
except ImportError as error:
    raise ImportError(describe_missing("mne", "igbss_stream.mne works on a Raw of MNE", error)) from error

Array = NDArray[np.float64]

# SI units per unit of a file; MNE stores all samples in SI units.
_IN_SI = {
    "V": 1.0,
    "mV": 1e-3,
    "uV": 1e-6,
    "µV": 1e-6,
    "μV": 1e-6,  # Greek, where the one above is the micro sign
    "nV": 1e-9,
    "T": 1.0,
    "pT": 1e-12,
    "fT": 1e-15,
    "T/m": 1.0,
    "fT/cm": 1e-13,
}
_N_COPIES = 4  # copies of the samples in memory while learning


@dataclass(frozen=True)
class _LinearModel:
    """A linear separation, and the facts about its fit that MNE stores."""

    mixing: Array
    unmixing: Array
    mean: Array
    settings: dict[str, Any]
    n_iter: int
    n_samples: int


def fit_ica(
    raw: "mne.io.BaseRaw | mne.BaseEpochs",
    *,
    picks: Any = None,
    n_components: int | float | None = None,
    start: int | float | None = None,
    stop: int | float | None = None,
    decim: int | None = None,
    reject: dict[str, float] | None = None,
    flat: dict[str, float] | None = None,
    tstep: float = 2.0,
    reject_by_annotation: bool = True,
    **settings: Any,
) -> "mne.preprocessing.ICA":
    """Separate a Raw or Epochs and return the separation as MNE's ICA.

    The parameters up to `reject_by_annotation` mean the same as in MNE's `ICA` and `ICA.fit`.

    Parameters
    ----------
    raw : mne.io.Raw or mne.Epochs
        Does not have to be preloaded.
    picks : str, sequence of str or int, optional
        Channels, as for `mne.io.Raw.pick`; good data channels by default. Channels picked by name are
        included even if they are marked as bad.
    n_components : int or float, optional
        Number of sources, like `n_sources`; or, if between 0 and 1, the share of the variance that the
        principal components must exceed, which determines the number. All sources by default.
    start, stop : int or float, optional
        First sample, and the sample after the last (int), or their times in seconds (float). Raw only.
    decim : int, optional
        Learn from every `decim`-th sample.
    reject, flat : dict, optional
        Largest and smallest peak-to-peak amplitude per type of channel in SI units, such as
        ``{"eeg": 150e-6}``. Segments of `tstep` seconds beyond them are excluded from learning. Raw only.
    tstep : float
        Length of these segments in seconds.
    reject_by_annotation : bool
        Whether segments whose annotation begins with ``bad`` are excluded from learning. The remaining
        samples are concatenated. The ICA has sources for all samples in either case.
    **settings
        Parameters of `igbss_stream.separate`: `n_sources`, `structure`, `scaling`, ...

    Returns
    -------
    mne.preprocessing.ICA
        With the sources of `igbss_stream.separate`, in the same order, sign and scale.

    Raises
    ------
    ParameterError
        If a setting does not exist, cannot be used, or does not result in one matrix for all samples; if
        MNE's ICA does not support the type of a channel.
    InputError
        If the samples cannot be separated, or none are left.
    RecordingError
        If there is not enough memory.

    Warns
    -----
    IgbssWarning
        If `start`, `stop`, `reject` or `flat` is given with Epochs, where it has no effect.

    Examples
    --------
    >>> import mne, numpy as np
    >>> from igbss_stream.mne import fit_ica
    >>> x = np.random.default_rng(0).laplace(size=(4, 1000))
    >>> raw = mne.io.RawArray(1e-5 * x, mne.create_info(4, 250.0, "eeg"), verbose="ERROR")
    >>> ica = fit_ica(raw)
    >>> ica.get_sources(raw).get_data().std(axis=1).round(6).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    samples = SampleChoice(start, stop, decim, reject, flat, tstep, reject_by_annotation)
    _check_linear(settings)
    info = _pick_info(raw, picks)
    check_n_components(n_components, len(info["ch_names"]))
    if n_components is not None and settings.get("n_sources") is not None:
        raise ParameterError("n_components and n_sources set the same number. Pass one of them.")
    x, dropped = _load_samples(raw, info["ch_names"], samples)
    if n_components is not None:
        n_sources = count_components(x.T, info.get_channel_types(), n_components)
        settings = settings | {"n_sources": n_sources}
    chosen = _check_linear(settings)
    plan = SeparationPlan(chosen, len(info["ch_names"]))
    _check_one_matrix(plan)
    separation = plan.prepare_for(x, info["ch_names"]).separate_window(x)
    n_iter, stage = separation.n_iter, separation.stage
    mean = np.zeros(x.shape[1]) if stage.mean is None else stage.mean
    model = _LinearModel(stage.mixing[0], stage.unmixing[0], mean, _to_savable(chosen), n_iter, len(x))
    ica = _to_ica(model, info, _compute_covariance(x, mean))
    if isinstance(raw, mne.BaseEpochs):
        ica.current_fit, ica.reject_ = "epochs", raw.reject
    else:
        ica.reject_, ica.drop_inds_ = reject, dropped
    return ica


def ica_of_output(
    path: str | os.PathLike[str], info: "mne.Info", *, factor: float | None = None
) -> "mne.preprocessing.ICA":
    """Return the separation of an output file of `igbss-stream batch` as MNE's ICA.

    Parameters
    ----------
    path : str or path
        The HDF5 file.
    info : mne.Info
        Of the separated recording; channels are matched by name.
    factor : float, optional
        SI units (V, T, T/m) per unit of the output; follows from its attribute `input_unit` by default.

    Returns
    -------
    mne.preprocessing.ICA
        Its attribute `exclude` lists the sources that were removed from /cleaned.

    Raises
    ------
    RecordingError
        If the file cannot be read.
    ParameterError
        If channels are missing in `info`, the unit is unknown, or the model is not a single matrix.

    Warns
    -----
    IgbssWarning
        If the samples were prepared (filtered, referenced) before separation: the Raw must be prepared too.
    """
    with OutputFile(path) as output:
        found, facts = output.read_model(), output.read_facts()
    if found.is_prepared:
        warnings.warn(
            f"{str(Path(path))!r} was learned from prepared samples (see its attribute preparation); "
            "prepare the Raw in the same way before you apply the ICA to it.",
            IgbssWarning,
            stacklevel=2,
        )
    _check_output(found, facts, path)
    missing = [name for name in found.channels if name not in info["ch_names"]]
    if missing:
        raise ParameterError(
            f"{len(missing)} channels of {str(Path(path))!r} are missing in info: "
            f"{', '.join(missing[:8])}. Rename the channels of the Raw to those of the output."
        )
    si = _get_si_factor(found.unit, path) if factor is None else float(factor)
    mean = np.zeros(facts.n_channels) if found.mean is None else found.mean
    matrices = found.mixing * si, found.unmixing / si, mean * si
    n_learned = facts.n_samples - facts.n_bad_samples
    model = _LinearModel(*matrices, found.settings, 1, n_learned)
    ica = _to_ica(model, _select_info(info, found.channels), None)
    ica.exclude = [one.source for one in found.excluded]
    return ica


def sources_of(raw: "mne.io.BaseRaw", ica: "mne.preprocessing.ICA") -> "mne.io.RawArray":
    """Return the sources of a Raw as a Raw, with channels ``source-0``, ``source-1``, ... of type misc.

    Parameters
    ----------
    raw : mne.io.Raw
    ica : mne.preprocessing.ICA
        From `fit_ica` or `ica_of_output`.

    Returns
    -------
    mne.io.RawArray
        With the times, annotations and measurement date of `raw`.
    """
    data = ica.get_sources(raw).get_data()
    names = [f"source-{n}" for n in range(len(data))]
    info = mne.create_info(names, raw.info["sfreq"], "misc")
    out = mne.io.RawArray(data, info, first_samp=raw.first_samp, verbose="ERROR")
    out.set_meas_date(raw.info["meas_date"])
    # without the names of channels, which the sources do not have
    given = raw.annotations
    out.set_annotations(
        mne.Annotations(given.onset, given.duration, given.description, orig_time=given.orig_time)
    )
    return out


def _check_linear(settings: dict[str, Any]) -> ModelSettings:
    """Return the settings; refuse those of a separation that is not linear."""
    try:
        chosen = ModelSettings(**settings)
    except TypeError as error:
        raise ParameterError(f"{error}: see the parameters of igbss_stream.separate.") from None
    name = chosen.transform if isinstance(chosen.transform, str) else chosen.transform.name
    for setting, value, required in (
        ("transform", name, "exp"),
        ("order", chosen.order if chosen.is_learned else 1, 1),
        ("latent_mass", chosen.latent_mass, 0),
    ):
        if value != required:
            raise ParameterError(
                f"an ICA is linear, which needs {setting} = {required}. Got {value!r} instead."
            )
    return chosen


def _check_one_matrix(plan: SeparationPlan) -> None:
    """Refuse a structure that needs a fit, or changes from sample to sample."""
    if not (plan.by_sample and plan.has_one_matrix):
        raise ParameterError(
            f"an ICA has one matrix for all samples, which solver {plan.solver!r} does not give. "
            "Use structure 'learned', or 'systematic' with one source per channel."
        )


def _pick_info(raw: Any, picks: Any) -> "mne.Info":
    """Return the info of the picked channels of a Raw or Epochs."""
    if not isinstance(raw, mne.io.BaseRaw | mne.BaseEpochs):
        raise ParameterError(f"raw must be a Raw or Epochs of MNE. Got {type(raw).__name__} instead.")
    empty = mne.io.RawArray(np.zeros((len(raw.ch_names), 1)), raw.info.copy(), verbose="ERROR")
    try:
        names = empty.copy().pick("data" if picks is None else picks, exclude="bads").ch_names
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise ParameterError(f"picks = {picks!r} picks no channels: {error}") from error
    types = dict(zip(raw.ch_names, raw.get_channel_types(), strict=True))
    fit = {"eog", "mag", "grad", "eeg", "csd", "seeg", "ecog", "dbs", "hbo", "hbr"}
    wrong = [f"{name} ({types[name]})" for name in names if types[name] not in fit]
    if wrong:
        raise ParameterError(
            f"MNE's ICA supports data and EOG channels only. Got {', '.join(wrong[:8])}; leave them out."
        )
    return _select_info(raw.info, names)


def _select_info(info: "mne.Info", names: Any) -> "mne.Info":
    """Return the info of channels in the order of the names, without compensation, like MNE's ICA."""
    picked = mne.pick_info(info, [info["ch_names"].index(name) for name in names])
    if picked["comps"]:
        with picked._unlock():
            picked["comps"] = []
    return picked


def _load_samples(raw: Any, names: list[str], samples: SampleChoice) -> tuple[Array, list[tuple[int, int]]]:
    """Return the samples to learn from, (samples, channels), and the runs that were rejected."""
    in_epochs = isinstance(raw, mne.BaseEpochs)
    check_memory(
        _N_COPIES * len(names) * len(raw.times) * (len(raw.events) if in_epochs else 1) * 8,
        "separating these samples",
        "crop or resample them, or use igbss-stream batch, which reads block by block, and ica_of_output",
    )
    if not in_epochs:
        data, dropped = samples.read_raw(raw, names)
        return np.ascontiguousarray(data.T), dropped
    if samples.for_raw_only:
        warnings.warn(
            f"{', '.join(samples.for_raw_only)} have no effect on Epochs; drop epochs by epochs.drop_bad.",
            IgbssWarning,
            stacklevel=3,
        )
    return np.ascontiguousarray(samples.read_epochs(raw, names).T), []


def _compute_covariance(x: Array, mean: Array) -> Array:
    """Return the covariance about the mean, without loss of digits in small units."""
    spread = x.std(axis=0)
    standard = (x - mean) / spread
    return np.asarray(standard.T @ standard / len(x) * np.outer(spread, spread))


def _to_savable(settings: ModelSettings) -> dict[str, Any]:
    """Return the settings without semicolons, at which MNE splits saved text."""
    savable: dict[str, Any] = json.loads(settings.to_json().replace(";", ","))
    return savable


def _get_si_factor(unit: str | None, path: str | os.PathLike[str]) -> float:
    if unit not in _IN_SI:
        raise ParameterError(
            f"the channels in {str(Path(path))!r} have the unit {unit!r}, which cannot be converted into "
            "SI units. Pass factor: the number of V, T or T/m per unit."
        )
    return _IN_SI[unit]


def _check_output(model: StoredModel, facts: OutputFacts, path: str | os.PathLike[str]) -> None:
    """Refuse an output whose model is not a single matrix."""
    n_channels, n_sources = facts.n_channels, facts.n_sources
    fits = (
        model.mixing.shape == (n_channels, n_sources)
        and model.unmixing.shape == (n_sources, n_channels)
        and (model.mean is None or model.mean.shape == (n_channels,))
    )
    transform = model.transform.get("name", "")
    if transform != "exp" or facts.solver != "closed-form" or not fits:
        raise ParameterError(
            f"{str(Path(path))!r} does not contain a linear separation (transform {transform!r}, solver "
            f"{facts.solver!r}, mixing {model.mixing.shape}, unmixing {model.unmixing.shape}); pass an "
            "output with structure 'learned' and order 1."
        )


def _to_ica(model: _LinearModel, info: "mne.Info", covariance: Array | None) -> "mne.preprocessing.ICA":
    """Return an ICA with the attributes that MNE's fit sets, in our order of sources."""
    n_sources = model.mixing.shape[1]
    power = np.sum(model.mixing**2, axis=1) if covariance is None else np.diag(covariance)
    unit = _compute_units(power, info)
    form = compute_pca_form(model.mixing, model.unmixing, model.mean, unit, covariance)
    ica = mne.preprocessing.ICA(n_sources if n_sources > 1 else None, method="infomax")
    ica.method, ica.fit_params = "igbss", model.settings
    ica.info, ica.ch_names = info, info["ch_names"]
    ica.current_fit, ica.reject_ = "raw", None
    ica.n_components_, ica.n_samples_, ica.n_iter_ = n_sources, model.n_samples, model.n_iter
    ica.pre_whitener_, ica.pca_mean_ = form.pre_whitener, form.mean
    if form.pre_whitener.shape[1] > 1:
        ica.noise_cov = _make_noise_covariance(form.pre_whitener, info)
    ica.pca_components_, ica.pca_explained_variance_ = form.components, form.variance
    ica.unmixing_matrix_ = form.unmixing
    ica._update_mixing_matrix()
    ica._update_ica_names()
    return ica


def _compute_units(power: Array, info: "mne.Info") -> Array:
    """Return the scale of each channel: that of its type, like MNE."""
    types = np.array(info.get_channel_types())
    unit = np.empty(len(types))
    for kind in np.unique(types):
        unit[types == kind] = np.sqrt(power[types == kind].mean())
    return unit


def _make_noise_covariance(pre_whitener: Array, info: "mne.Info") -> "mne.Covariance":
    """Return the covariance that a full pre-whitener whitens; without one, MNE expects a diagonal."""
    inverse = np.linalg.inv(pre_whitener)
    return mne.Covariance(inverse @ inverse.T, info["ch_names"], info["bads"], info["projs"], nfree=1)
