"""MNE: a Raw in, an `mne.preprocessing.ICA` out whose plots, apply and save work. Needs the extra ``mne``.

docs/interoperate.md tells how it is used; `igbss_stream.separation.pca_form` has the formulas.
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
from igbss_stream._util.optional import describe_missing
from igbss_stream.errors import IgbssWarning, InputError, ParameterError
from igbss_stream.files.results.output import OutputFacts, OutputFile
from igbss_stream.files.results.stored_model import StoredModel
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.pca_form import pca_form
from igbss_stream.separation.settings import ModelSettings

try:
    import mne
except ImportError as error:
    raise ImportError(describe_missing("mne", "igbss_stream.mne works on a Raw of MNE", error)) from error

Array = NDArray[np.float64]

# SI units of one unit of a file, which MNE has all samples in.
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
_COPIES = 4  # of the samples that learning holds at once


@dataclass(frozen=True)
class _Model:
    """A linear separation and what MNE wants to know of how it came about."""

    mixing: Array
    unmixing: Array
    mean: Array
    settings: dict[str, Any]
    n_iter: int
    n_samples: int


def fit_ica(
    raw: "mne.io.BaseRaw", *, picks: Any = None, reject_by_annotation: bool = True, **settings: Any
) -> "mne.preprocessing.ICA":
    """Separate a Raw, and return the separation as MNE's ICA.

    Parameters
    ----------
    raw : mne.io.Raw
        Need not be preloaded.
    picks : str, sequence of str or int, optional
        Channels, as `mne.io.Raw.pick` takes them; good data channels when left out. Channels picked by name
        are taken also if they are marked as bad.
    reject_by_annotation : bool
        Whether stretches whose annotation begins with ``bad`` are left out of learning. What is left is
        joined. Sources are there for all samples in any case.
    **settings
        Of `igbss_stream.separate`: `n_sources`, `structure`, `scaling`, ...

    Returns
    -------
    mne.preprocessing.ICA
        Its sources are those of `igbss_stream.separate`, in order, sign and scale.

    Raises
    ------
    ParameterError
        If a setting does not exist, cannot be used, or does not give one matrix for all samples; if a
        channel is of a type that MNE's ICA does not take.
    InputError
        If the samples cannot be separated.
    RecordingError
        If memory does not suffice.

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
    chosen = _linear_settings(settings)
    info = _picked_info(raw, picks)
    separator = Separator(chosen, len(info["ch_names"]))
    _check_one_matrix(separator)
    x = _learned_from(raw, info["ch_names"], reject_by_annotation)
    n_iter, stage = separator.separate(x, info["ch_names"]).n_iter, separator.stage
    mean = np.zeros(x.shape[1]) if stage.mean is None else stage.mean
    model = _Model(stage.mixing[0], stage.unmixing[0], mean, _told(chosen), n_iter, len(x))
    return _as_ica(model, info, _covariance(x, mean))


def ica_of_output(
    path: str | os.PathLike[str], info: "mne.Info", *, factor: float | None = None
) -> "mne.preprocessing.ICA":
    """Return the separation in an output of `igbss-stream batch` as MNE's ICA.

    Parameters
    ----------
    path : str or path
        The HDF5 file.
    info : mne.Info
        Of the recording that was separated; channels are found in it by their names.
    factor : float, optional
        SI units (V, T, T/m) of one unit of the output; by its attribute `input_unit` when left out.

    Returns
    -------
    mne.preprocessing.ICA

    Raises
    ------
    RecordingError
        If the file cannot be read.
    ParameterError
        If channels are not in `info`, the unit is unknown, or its model is no single matrix.

    Warns
    -----
    IgbssWarning
        If the output is of samples that were prepared (filtered, referenced) before: they must be here too.
    """
    with OutputFile(path) as output:
        found, facts = output.model(), output.facts()
    if found.is_prepared:
        warnings.warn(
            f"{str(Path(path))!r} was learned from samples that were prepared first (see its "
            "attribute preparation); prepare the Raw the same way before the ICA is applied to it.",
            IgbssWarning,
            stacklevel=2,
        )
    _check_output(found, facts, path)
    missing = [name for name in found.channels if name not in info["ch_names"]]
    if missing:
        raise ParameterError(
            f"{len(missing)} channels of {str(Path(path))!r} are not in info: {', '.join(missing[:8])}. "
            "Rename the channels of the Raw to those of the output."
        )
    si = _in_si(found.unit, path) if factor is None else float(factor)
    mean = np.zeros(facts.n_channels) if found.mean is None else found.mean
    model = _Model(found.mixing * si, found.unmixing / si, mean * si, found.settings, 1, facts.n_samples)
    return _as_ica(model, _info_of(info, found.channels), None)


def sources_of(raw: "mne.io.BaseRaw", ica: "mne.preprocessing.ICA") -> "mne.io.RawArray":
    """Return the sources of a Raw as a Raw of their own, ``source-0``, ``source-1``, ... of type misc.

    Parameters
    ----------
    raw : mne.io.Raw
    ica : mne.preprocessing.ICA
        Of `fit_ica` or `ica_of_output`.

    Returns
    -------
    mne.io.RawArray
        With the times, the annotations and the measurement date of `raw`.
    """
    data = ica.get_sources(raw).get_data()
    names = [f"source-{n}" for n in range(len(data))]
    info = mne.create_info(names, raw.info["sfreq"], "misc")
    out = mne.io.RawArray(data, info, first_samp=raw.first_samp, verbose="ERROR")
    out.set_meas_date(raw.info["meas_date"])
    # an annotation of some channels would name what is not there
    where = raw.annotations
    out.set_annotations(
        mne.Annotations(where.onset, where.duration, where.description, orig_time=where.orig_time)
    )
    return out


def _linear_settings(settings: dict[str, Any]) -> ModelSettings:
    """Return settings that give one matrix, or refuse them before anything is learned."""
    try:
        chosen = ModelSettings(**settings)
    except TypeError as error:
        raise ParameterError(f"{error}: see the parameters of igbss_stream.separate.") from None
    name = chosen.transform if isinstance(chosen.transform, str) else chosen.transform.name
    for setting, value, wanted in (
        ("transform", name, "exp"),
        ("order", chosen.order if chosen.is_learned else 1, 1),
        ("latent_mass", chosen.latent_mass, 0),
    ):
        if value != wanted:
            raise ParameterError(
                f"an ICA is linear, which needs {setting} = {wanted}. Got {value!r} instead."
            )
    return chosen


def _check_one_matrix(separator: Separator) -> None:
    """Refuse a structure that needs a fit, or changes from sample to sample."""
    if not (separator.by_sample and (separator.settings.is_learned or len(separator.stage.mixing) == 1)):
        raise ParameterError(
            f"an ICA has one matrix for all samples, which solver {separator.solver!r} does not give. "
            "Use structure 'learned', or 'systematic' with as many sources as channels."
        )


def _picked_info(raw: "mne.io.BaseRaw", picks: Any) -> "mne.Info":
    """Return the info of the channels to separate."""
    empty = mne.io.RawArray(np.zeros((len(raw.ch_names), 1)), raw.info.copy(), verbose="ERROR")
    try:
        names = empty.copy().pick("data" if picks is None else picks, exclude="bads").ch_names
    except ValueError as error:
        raise ParameterError(f"picks = {picks!r} picks no channels: {error}") from error
    types = dict(zip(raw.ch_names, raw.get_channel_types(), strict=True))
    fit = {"eog", "mag", "grad", "eeg", "csd", "seeg", "ecog", "dbs", "hbo", "hbr"}
    wrong = [f"{name} ({types[name]})" for name in names if types[name] not in fit]
    if wrong:
        raise ParameterError(
            f"MNE's ICA takes data and EOG channels only. Got {', '.join(wrong[:8])}; leave them out."
        )
    return _info_of(raw.info, names)


def _info_of(info: "mne.Info", names: Any) -> "mne.Info":
    """Return the info of channels in the order of the names, without compensation, as MNE's ICA has it."""
    picked = mne.pick_info(info, [info["ch_names"].index(name) for name in names])
    if picked["comps"]:
        with picked._unlock():
            picked["comps"] = []
    return picked


def _learned_from(raw: "mne.io.BaseRaw", names: list[str], reject_by_annotation: bool) -> Array:
    """Return the samples to learn from, (samples, channels)."""
    check_memory(
        _COPIES * len(names) * raw.n_times * 8,
        "separating this Raw",
        "crop or resample it, or use igbss-stream batch, which reads in blocks, and ica_of_output",
    )
    data = raw.get_data(
        names, reject_by_annotation="omit" if reject_by_annotation else None, verbose="ERROR"
    )
    if not data.shape[1]:
        raise InputError("annotations mark all samples as bad. Pass reject_by_annotation=False.")
    return np.ascontiguousarray(data.T)


def _covariance(x: Array, mean: Array) -> Array:
    """Return the covariance about the mean; small units keep their digits."""
    spread = x.std(axis=0)
    standard = (x - mean) / spread
    return np.asarray(standard.T @ standard / len(x) * np.outer(spread, spread))


def _told(settings: ModelSettings) -> dict[str, Any]:
    """Return the settings in the form that MNE can save: it splits what it saves at semicolons."""
    told: dict[str, Any] = json.loads(settings.to_json().replace(";", ","))
    return told


def _in_si(unit: str | None, path: str | os.PathLike[str]) -> float:
    if unit not in _IN_SI:
        raise ParameterError(
            f"the unit of the channels in {str(Path(path))!r} is {unit!r}, which cannot be turned into "
            "that of MNE. Pass factor, in V, T or T/m to one of that unit."
        )
    return _IN_SI[unit]


def _check_output(model: StoredModel, facts: OutputFacts, path: str | os.PathLike[str]) -> None:
    """Refuse an output whose model is not one matrix."""
    n_channels, n_sources = facts.n_channels, facts.n_sources
    fits = (
        model.mixing.shape == (n_channels, n_sources)
        and model.unmixing.shape == (n_sources, n_channels)
        and (model.mean is None or model.mean.shape == (n_channels,))
    )
    transform = model.transform.get("name", "")
    if transform != "exp" or facts.solver != "closed-form" or not fits:
        raise ParameterError(
            f"{str(Path(path))!r} holds no linear separation (transform {transform!r}, solver "
            f"{facts.solver!r}, mixing {model.mixing.shape}, unmixing {model.unmixing.shape}); give one of "
            "structure 'learned' and order 1."
        )


def _as_ica(model: _Model, info: "mne.Info", covariance: Array | None) -> "mne.preprocessing.ICA":
    """Fill in an ICA as MNE's own fit does, but for the order, which is ours."""
    n_sources = model.mixing.shape[1]
    power = np.sum(model.mixing**2, axis=1) if covariance is None else np.diag(covariance)
    form = pca_form(model.mixing, model.unmixing, model.mean, _unit_by_type(power, info), covariance)
    ica = mne.preprocessing.ICA(n_sources if n_sources > 1 else None, method="infomax")
    ica.method, ica.fit_params = "igbss", model.settings
    ica.info, ica.ch_names = info, info["ch_names"]
    ica.current_fit, ica.reject_ = "raw", None
    ica.n_components_, ica.n_samples_, ica.n_iter_ = n_sources, model.n_samples, model.n_iter
    ica.pre_whitener_, ica.pca_mean_ = form.pre_whitener, form.mean
    if form.pre_whitener.shape[1] > 1:
        ica.noise_cov = _whitened_by(form.pre_whitener, info)
    ica.pca_components_, ica.pca_explained_variance_ = form.components, form.variance
    ica.unmixing_matrix_ = form.unmixing
    ica._update_mixing_matrix()
    ica._update_ica_names()
    return ica


def _unit_by_type(power: Array, info: "mne.Info") -> Array:
    """Return the scale of each channel: that of its type, as MNE takes it."""
    types = np.array(info.get_channel_types())
    unit = np.empty(len(types))
    for kind in np.unique(types):
        unit[types == kind] = np.sqrt(power[types == kind].mean())
    return unit


def _whitened_by(pre_whitener: Array, info: "mne.Info") -> "mne.Covariance":
    """Return the covariance that a full pre-whitener whitens: without one MNE has a diagonal alone."""
    inverse = np.linalg.inv(pre_whitener)
    return mne.Covariance(inverse @ inverse.T, info["ch_names"], info["bads"], info["projs"], nfree=1)
