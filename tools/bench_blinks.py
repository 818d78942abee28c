"""How much of the eye blinks is left at Fz, and how little else is changed: against ICA as MNE does it.

The recording is eeg32_128hz.h5: 30 channels of EEG and two beside the eyes, EOG1 and EOG2. Both methods get
it high-passed at 1 Hz, which MNE advises before ICA. Blinks are found by MNE on the EOG channels.
"""

import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import h5py
import numpy as np
from bench_figure import Figure
from numpy.typing import NDArray
from paper_recordings import EEG

from igbss_stream.batch.separate import separate_recording
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.files.open import open_recording
from igbss_stream.separation.cleaning import MIN_CORRELATION, MIN_SCORE, Cleaning
from igbss_stream.separation.settings import ModelSettings

Array = NDArray[np.float64]

EOG = ("EOG1", "EOG2")
SITE = "Fz"
HIGH_PASS = 1.0  # Hz
N_SOURCES = 20
SEEDS = (0, 1, 2)
METHODS: tuple[tuple[str, dict[str, Any] | None], ...] = (
    ("fastica", None),
    ("picard", {"ortho": False, "extended": True}),
    ("infomax", {"extended": True}),
)
# Seconds around a blink: its peak, what it is measured from, and what is no longer free of it.
_PEAK, _BASE, _AROUND = 0.02, (0.3, 0.5), 0.5


@dataclass(frozen=True)
class Blinks:
    """A recording with blinks, and what is measured of it.

    Parameters
    ----------
    raw : mne.io.Raw
        In volts.
    peaks : ndarray of int
        Samples of the blinks.
    """

    raw: Any
    peaks: NDArray[np.int_]

    @property
    def samples(self) -> Array:
        """In microvolts, (samples, channels)."""
        return np.asarray(1e6 * self.raw.get_data().T)

    @property
    def rate(self) -> float:
        """In Hz."""
        return float(self.raw.info["sfreq"])

    def amplitude(self, x: Array) -> float:
        """Return the median over blinks of peak less baseline at Fz, in microvolts."""
        site = x[:, self.raw.ch_names.index(SITE)]
        peak, near, far = (round(seconds * self.rate) for seconds in (_PEAK, *_BASE))
        base = np.concatenate([np.arange(-far, -near), np.arange(near, far)])
        return float(
            np.median(
                [site[at - peak : at + peak + 1].mean() - np.median(site[at + base]) for at in self.peaks]
            )
        )

    def change(self, x: Array) -> float:
        """Return what is changed away from blinks: its RMS over that of the channel, median over EEG."""
        around = round(_AROUND * self.rate)
        free = np.ones(len(x), bool)
        for at in self.peaks:
            free[at - around : at + around] = False
        eeg = [i for i, name in enumerate(self.raw.ch_names) if name not in EOG]
        raw, cleaned = (samples[free][:, eeg] for samples in (self.samples, x))
        return float(np.median((cleaned - raw).std(axis=0) / raw.std(axis=0)))


def blinks_of(folder: Path, high_pass: float | None = HIGH_PASS) -> Blinks:
    """Return the recording, high-passed at a frequency in Hz, and its blinks."""
    import mne

    with h5py.File(folder / EEG) as file:
        x, names, rate = file["data"][()], list(file["data"].attrs["channels"]), file["data"].attrs["rate"]
    kinds = ["eog" if name in EOG else "eeg" for name in names]
    info = mne.create_info(names, float(rate), kinds, verbose="error")
    raw = mne.io.RawArray(1e-6 * x.T.astype(np.float64), info, verbose="error")
    found = mne.preprocessing.find_eog_events(raw, verbose="error")[:, 0]
    if high_pass is not None:
        raw.filter(high_pass, None, picks="all", verbose="error")
    edge = round(_AROUND * float(rate))
    return Blinks(raw, found[(found >= edge) & (found < len(x) - edge)])


def cleaned_by_us(
    blinks: Blinks, least: float = MIN_CORRELATION, n_sources: int | None = N_SOURCES
) -> tuple[Array, str]:
    """Return what `batch --exclude-like EOG1:R --exclude-like EOG2:R` writes, and what it took out."""
    like = Cleaning(exclude_like=tuple((name, least) for name in EOG))
    return _clean(blinks, like, ModelSettings(n_sources=n_sources))


def cleaned_by_label(blinks: Blinks) -> tuple[Array, str]:
    """Return what `batch --exclude-labelled eye` writes with all other options at their defaults."""
    return _clean(blinks, Cleaning(exclude_labelled=(("eye", MIN_SCORE),)), ModelSettings())


def _clean(blinks: Blinks, cleaning: Cleaning, model: ModelSettings) -> tuple[Array, str]:
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "in.h5", Path(folder) / "out.h5"
        with h5py.File(path, "w") as file:
            data = file.create_dataset("data", data=blinks.samples)
            data.attrs.update({"rate": blinks.rate, "unit": "uV", "channels": blinks.raw.ch_names})
        with open_recording(path) as recording, warnings.catch_warnings(action="ignore"):
            settings = BatchSettings(model=model, cleaning=cleaning)
            outcome = separate_recording(recording, out, settings)
        with h5py.File(out) as file:
            return file["cleaned"][()], str(outcome.taken_out)


def cleaned_by_mne(
    blinks: Blinks, method: str, options: dict[str, Any] | None, seed: int
) -> tuple[Array, int]:
    """Return what MNE's ICA leaves; how many components were taken out."""
    from mne.preprocessing import ICA

    with warnings.catch_warnings(action="ignore"):
        ica = ICA(method=method, fit_params=options, random_state=seed, max_iter="auto", verbose="error")
        ica.fit(blinks.raw, verbose="error")
    return _apply(ica, blinks)


def cleaned_by_fit_ica(blinks: Blinks) -> tuple[Array, int]:
    """Return what `igbss_stream.mne.fit_ica` leaves, used like MNE's ICA; how many were taken out."""
    from igbss_stream.mne import fit_ica

    return _apply(fit_ica(blinks.raw), blinks)


def _apply(ica: Any, blinks: Blinks) -> tuple[Array, int]:
    """Take out what `find_bads_eog` finds for either EOG channel."""
    with warnings.catch_warnings(action="ignore"):
        bad = {i for name in EOG for i in ica.find_bads_eog(blinks.raw, ch_name=name, verbose="error")[0]}
        cleaned = ica.apply(blinks.raw.copy(), exclude=sorted(bad), verbose="error")
    return np.asarray(1e6 * cleaned.get_data().T), len(bad)


def blinks(folder: Path) -> Iterator[Figure]:
    """Compare what is left of blinks at Fz, and what is changed elsewhere, with MNE's ICA in this run."""
    found = blinks_of(folder)
    yield _told("raw", found, found.samples, f"{len(found.peaks)} blinks")
    ours, taken = cleaned_by_us(found)
    yield _told(f"n_sources {N_SOURCES}, R {MIN_CORRELATION:g}", found, ours, taken)
    by_label, taken_by_label = cleaned_by_label(found)
    yield _told("--exclude-labelled eye", found, by_label, taken_by_label)
    for least in (0.6, 0.4, 0.3):
        yield _told(f"n_sources {N_SOURCES}, R {least:g}", found, *cleaned_by_us(found, least))
    for n_sources in (None, 25, 15):
        name = f"n_sources {n_sources or 'as channels'}, R {MIN_CORRELATION:g}"
        yield _told(name, found, *cleaned_by_us(found, n_sources=n_sources))
    by_habit, n_bad = cleaned_by_fit_ica(found)
    yield _told("fit_ica and find_bads_eog", found, by_habit, f"{n_bad} taken out")
    drifting = blinks_of(folder, high_pass=None)
    yield _told(
        f"no high-pass, n_sources {N_SOURCES}, R {MIN_CORRELATION:g}", drifting, *cleaned_by_us(drifting)
    )
    by_label_drifting = cleaned_by_label(drifting)
    yield _told("no high-pass, --exclude-labelled eye", drifting, *by_label_drifting)
    theirs, n_bad = cleaned_by_mne(drifting, *METHODS[0], SEEDS[0])
    yield _told(f"no high-pass, MNE {METHODS[0][0]}", drifting, theirs, f"{n_bad} taken out")
    left, changes = [], []
    for method, options in METHODS:
        for seed in SEEDS:
            theirs, n_bad = cleaned_by_mne(found, method, options, seed)
            left.append(found.amplitude(theirs))
            changes.append(found.change(theirs))
            yield _told(f"MNE {method}, seed {seed}", found, theirs, f"{n_bad} taken out")
    detail = f"{found.amplitude(ours):.2f} uV, MNE {median(left):.2f} uV (median of {len(left)} runs)"
    yield Figure("blinks left at Fz / MNE", found.amplitude(ours) / median(left), "", 1.0, detail)
    yield Figure("blinks left at Fz, --exclude-labelled eye", found.amplitude(by_label), "uV", 10.0)
    yield Figure(
        "change where there are no blinks, --exclude-labelled eye", found.change(by_label), "", 0.06
    )
    detail = f"{found.change(ours):.3f}, MNE {median(changes):.3f}"
    yield Figure(
        "change where there are no blinks / MNE", found.change(ours) / median(changes), "", 1.0, detail
    )


def _told(name: str, found: Blinks, x: Array, detail: str) -> Figure:
    details = f"change {found.change(x):.3f}; {detail}"
    return Figure(f"blinks left at Fz: {name}", found.amplitude(x), "uV", float("inf"), details)
