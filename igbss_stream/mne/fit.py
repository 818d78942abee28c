"""Separate a Raw or Epochs of MNE."""

import json
import warnings
from typing import Any

import mne
import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.memory import check_memory
from igbss_stream.errors import IgbssWarning, ParameterError
from igbss_stream.mne.convert import LinearModel, select_info, to_ica
from igbss_stream.mne.samples import SampleChoice, check_n_components, count_components
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings

Array = NDArray[np.float64]

_N_COPIES = 4  # copies of the samples in memory while learning


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
    model = LinearModel(stage.mixing[0], stage.unmixing[0], mean, _to_savable(chosen), n_iter, len(x))
    ica = to_ica(model, info, _compute_covariance(x, mean))
    if isinstance(raw, mne.BaseEpochs):
        ica.current_fit, ica.reject_ = "epochs", raw.reject
    else:
        ica.reject_, ica.drop_inds_ = reject, dropped
    return ica


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
    return select_info(raw.info, names)


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
