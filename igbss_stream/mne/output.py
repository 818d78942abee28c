"""Read an output of `batch` as MNE's ICA, and samples of our files as a Raw."""

import os
import warnings
from pathlib import Path
from typing import Any

import mne
import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import IgbssWarning, ParameterError
from igbss_stream.files.gaps import get_gap_rows, get_rows
from igbss_stream.files.results.output import OutputFacts, OutputFile
from igbss_stream.files.results.series import Series
from igbss_stream.files.results.stored_model import StoredModel
from igbss_stream.files.sample_marks import describe_gap
from igbss_stream.mne.convert import LinearModel, select_info, to_ica
from igbss_stream.positions import Positions

IN_SI = {
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
"""SI units per unit of a file; MNE stores all samples in SI units."""


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
    model = LinearModel(*matrices, found.settings, 1, n_learned)
    ica = to_ica(model, select_info(info, found.channels), None)
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


def raw_of_output(
    path: str | os.PathLike[str], dataset: str | None = None, *, factor: float | None = None
) -> "mne.io.RawArray":
    """Return the samples of an output of `batch`, or of a recording of a stream, as a Raw.

    Parameters
    ----------
    path : str or path
        The HDF5 file.
    dataset : str, optional
        E.g. ``"cleaned"``. Default: the sources of an output, the samples of a recording of a stream.
    factor : float, optional
        SI units (V, T, T/m) per unit of the samples; follows from their unit by default. Sources without a
        unit stay as they are.

    Returns
    -------
    mne.io.RawArray
        Sources are channels of type misc, others of type eeg, with their positions. It has the date of the
        first sample, and events as annotations. Where samples are missing, there is an annotation such as
        ``BAD boundary, gap: 40 samples missing``; `mne.Epochs` rejects epochs across it by default.

    Raises
    ------
    RecordingError
        If the file cannot be read.
    ParameterError
        If it has no sampling rate, or the unit is unknown.
    """
    with OutputFile(path) as output:
        series = output.open_series(dataset)
        data = series.read(0, series.n_samples).T.astype(np.float64)
    if series.rate is None:
        raise ParameterError(
            f"{str(Path(path))!r} has no sampling rate, which a Raw needs; separate again with --rate."
        )
    if factor is None:
        is_plain = series.has_sources and series.unit not in IN_SI
        factor = 1.0 if is_plain else _get_si_factor(series.unit, path)
    return make_raw(series, series.rate, data * factor)


def make_raw(series: Series, rate: float, data: NDArray[np.float64]) -> "mne.io.RawArray":
    """Return the samples of a series as a Raw, with its date, positions, events and gaps.

    Parameters
    ----------
    series : Series
    rate : float
        In Hz.
    data : ndarray of shape (channels, samples)
        Its samples, in SI units; not copied.
    """
    kind = "misc" if series.has_sources else "eeg"
    info = mne.create_info(list(series.channels), rate, kind, verbose="ERROR")
    if series.positions is not None and not series.has_sources:
        _set_positions(info, series.positions)
    raw = mne.io.RawArray(data, info, verbose="ERROR")
    if series.t0 is not None:
        raw.set_meas_date(series.t0)
    return raw.set_annotations(_annotate(series, rate, raw.info["meas_date"]), verbose="ERROR")


def _set_positions(info: "mne.Info", positions: Positions) -> None:
    """Set the known positions; those of other frames than that of the head are taken as in it."""
    known = np.flatnonzero(positions.is_known).tolist()
    named = {positions.names[i]: positions.xyz[i] for i in known}
    if named:
        montage = mne.channels.make_dig_montage(named, coord_frame="head")
        info.set_montage(montage, on_missing="ignore", verbose="ERROR")


def _annotate(series: Series, rate: float, date: Any) -> "mne.Annotations":
    """Return the events and the gaps at their rows, as a Raw has no room for missing samples."""
    gaps, events = series.gaps, series.events
    rows = get_rows(gaps, events.index)
    stops = get_rows(gaps, events.index + events.duration * rate)
    breaks = np.array(get_gap_rows(gaps), np.float64)
    return mne.Annotations(
        np.concatenate([rows, breaks]) / rate,
        np.concatenate([stops - rows, np.zeros(len(breaks))]) / rate,
        [*events.label, *(f"BAD boundary, {describe_gap(gap)}" for gap in gaps)],
        orig_time=date,
    )


def _get_si_factor(unit: str | None, path: str | os.PathLike[str]) -> float:
    if unit not in IN_SI:
        raise ParameterError(
            f"the channels in {str(Path(path))!r} have the unit {unit!r}, which cannot be converted into "
            "SI units. Pass factor: the number of V, T or T/m per unit."
        )
    return IN_SI[unit]


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
