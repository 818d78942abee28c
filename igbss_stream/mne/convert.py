"""Express a linear separation as MNE's ICA."""

from dataclasses import dataclass
from typing import Any

import mne
import numpy as np
from numpy.typing import NDArray

from igbss_stream.separation.pca_form import compute_pca_form

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LinearModel:
    """A linear separation, and the facts about its fit that MNE stores."""

    mixing: Array
    unmixing: Array
    mean: Array
    settings: dict[str, Any]
    n_iter: int
    n_samples: int


def to_ica(model: LinearModel, info: "mne.Info", covariance: Array | None) -> "mne.preprocessing.ICA":
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


def select_info(info: "mne.Info", names: Any) -> "mne.Info":
    """Return the info of channels in the order of the names, without compensation, like MNE's ICA."""
    picked = mne.pick_info(info, [info["ch_names"].index(name) for name in names])
    if picked["comps"]:
        with picked._unlock():
            picked["comps"] = []
    return picked


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
