"""Label the sources of MNE's ICA, any ICA, without EOG and ECG channels."""

from typing import Any

import mne
import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError
from igbss_stream.labels.labelling import Labelling
from igbss_stream.labels.labelling import label_sources as label_courses

_NAMES = {
    "brain": "brain",
    "muscle": "muscle",
    "eye blink": "eog",
    "eye movement": "eog",
    "heart": "ecg",
    "line noise": "line_noise",
    "channel noise": "ch_noise",
    "other": "other",
}
"""Keys of `ica.labels_` in the spelling of MNE-ICALabel."""


def label_sources(ica: "mne.preprocessing.ICA", raw: "mne.io.BaseRaw") -> Labelling:
    """Label the sources of an ICA, and store the labels in `ica.labels_`.

    Parameters
    ----------
    ica : mne.preprocessing.ICA
        From `fit_ica`, `ica_of_output` or MNE.
    raw : mne.io.Raw
        The recording, prepared as that which the ICA was fitted to. Segments with a ``BAD...`` annotation
        are left out. Positions of its EEG channels are used, or else names of the 10-20 system.

    Returns
    -------
    Labelling
        `ica.labels_` has the numbers of the sources under ``brain``, ``muscle``, ``eog`` (blinks and
        movements), ``ecg``, ``line_noise``, ``ch_noise`` and ``other``, as from MNE-ICALabel.

    Raises
    ------
    ParameterError
        If the ICA is not fitted, or there are less than two seconds.

    Examples
    --------
    >>> import mne, numpy as np
    >>> from igbss_stream.mne import fit_ica, label_sources
    >>> x = np.random.default_rng(0).laplace(size=(4, 1000))
    >>> raw = mne.io.RawArray(1e-5 * x, mne.create_info(4, 250.0, "eeg"), verbose="ERROR")
    >>> ica = fit_ica(raw)
    >>> len(label_sources(ica, raw).labels)
    4
    """
    if not hasattr(ica, "unmixing_matrix_"):
        raise ParameterError("the ICA is not fitted: call fit, or use fit_ica.")
    sources = ica.get_sources(raw)
    data, times = sources.get_data(reject_by_annotation="omit", return_times=True, verbose="ERROR")
    breaks = np.flatnonzero(np.diff(times) > 1.5 / raw.info["sfreq"]) + 1
    names = list(ica.ch_names)
    found = label_courses(
        data.T,
        ica.get_components(),
        names,
        float(raw.info["sfreq"]),
        positions=_find_directions(ica.info, names),
        breaks=breaks.tolist(),
    )
    ica.labels_ = {name: [] for name in dict.fromkeys(_NAMES.values())}
    for i, label in enumerate(found.labels):
        ica.labels_[_NAMES[label]].append(i)
    return found


def _find_directions(info: "mne.Info", names: list[str]) -> "dict[int, NDArray[np.float64]] | None":
    """Return directions of channels from the centre of the head, if MNE knows positions of any."""
    found: dict[int, Any] = {}
    for i, name in enumerate(names):
        at = np.asarray(info["chs"][info["ch_names"].index(name)]["loc"][:3], np.float64)
        if np.isfinite(at).all() and at.any():
            found[i] = at
    if len(found) < 4:
        return None
    centre = _fit_centre(found)
    return {i: (at - centre) / np.linalg.norm(at - centre) for i, at in found.items()}


def _fit_centre(positions: dict[int, Any]) -> "NDArray[np.float64]":
    """Return the centre of the sphere that is nearest to positions, by least squares."""
    points = np.array(list(positions.values()))
    system = np.column_stack([2 * points, np.ones(len(points))])
    solution = np.linalg.lstsq(system, np.sum(points**2, axis=1), rcond=None)[0]
    return np.asarray(solution[:3])
