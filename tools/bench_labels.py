#!/usr/bin/env python
"""Measure precision and recall of labels on sources whose kind is known, beside ICLabel's.

    .venv/bin/python tools/bench_labels.py DIR
    .venv/bin/python tools/bench_labels.py DIR --recording eeg.fif --seeds 400:412

DIR is the folder of the recordings that docs/method.md lists. Artefacts of known course are added to EEG:
blinks and eye movements, a recorded ECG, and muscle activity, with maps of dipoles near or far from the
head. The EEG is eeg32_128hz.h5 without its EOG channels and without its blinks; `--recording` adds others.
Both labellers judge the same sources: those of `separate`, and those of extended Infomax (Picard). A
source is an artefact if its |correlation| with the artefact is 0.7 or more, and is none below 0.4; those
between do not count. Needs the packages mne, python-picard and wfdb; ICLabel needs mne-icalabel and
onnxruntime, and is left out without them.
"""

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from bench_blinks import EOG, HIGH_PASS, blinks_of
from eeg_recording import read_eeg
from label_artefacts import KINDS, add_artefacts
from numpy.typing import NDArray

from igbss_stream._util.electrodes import find_position

Array = NDArray[np.float64]

LEAST = 0.8  # score
_IS, _IS_NOT = 0.7, 0.4  # |correlation| with the artefact
_SECONDS = 100.0  # of a recording, for each seed
_AROUND = 0.5  # seconds around a blink of the recording that are left out
_OURS = {"eye": ["eye blink", "eye movement"], "heart": ["heart"], "muscle": ["muscle"]}
_THEIRS = {"eye": 2, "heart": 3, "muscle": 1}  # columns of ICLabel


@dataclass(frozen=True)
class Background:
    """EEG that artefacts are added to.

    Parameters
    ----------
    name : str
    x : ndarray of shape (samples, channels)
        In microvolts.
    names : list of str
        Electrodes of the 10-20 system.
    rate : float
    kinds : tuple of str
        Kinds of artefacts that the EEG itself does not contain, as far as is known.
    """

    name: str
    x: Array
    names: list[str]
    rate: float
    kinds: tuple[str, ...]


def read_sample(folder: Path) -> Background:
    """Return the EEG with its EOG channels hidden, and the seconds around its blinks left out."""
    found = blinks_of(folder, HIGH_PASS)
    around, kept = round(_AROUND * found.rate), np.ones(len(found.samples), bool)
    for at in found.peaks:
        kept[at - around : at + around] = False
    names = list(found.raw.ch_names)
    eeg = [i for i, name in enumerate(names) if name not in EOG]
    return Background(
        "sample", found.samples[kept][:, eeg], [names[i] for i in eeg], found.rate, tuple(KINDS)
    )


def read_other(path: Path) -> Background:
    """Return another EEG, whose own eye movements are not known."""
    found = read_eeg(path, HIGH_PASS, None)
    placed = [i for i, name in enumerate(found.channels) if find_position(name) is not None]
    names = [found.channels[i] for i in placed]
    return Background(path.name, found.x[:, placed], names, found.rate, ("heart", "muscle"))


def make_raw(background: Background, x: Array) -> Any:
    """Return channels as a Raw of MNE, with positions of the 10-20 system on a sphere."""
    import mne

    raw = mne.io.RawArray(
        1e-6 * x.T, mne.create_info(background.names, background.rate, "eeg"), verbose="ERROR"
    )
    at = {name: 0.095 * np.asarray(find_position(name)) for name in background.names}
    return raw.set_montage(mne.channels.make_dig_montage(at, coord_frame="head"))


def separate_raw(raw: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name of a method and its ICA."""
    import mne

    from igbss_stream.mne import fit_ica

    yield "igbss", fit_ica(raw)
    options = {"ortho": False, "extended": True}
    ica = mne.preprocessing.ICA(
        method="picard", fit_params=options, random_state=0, max_iter=500, verbose="ERROR"
    )
    yield "infomax", ica.fit(raw, verbose="ERROR")


def score(raw: Any, ica: Any) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield the name of a labeller and its scores of the sources for each kind."""
    from igbss_stream.labels.scores import LABELS
    from igbss_stream.mne import label_sources

    scores = label_sources(ica, raw).scores
    yield (
        "ours",
        {
            kind: np.nanmax(scores[:, [LABELS.index(name) for name in names]], axis=1)
            for kind, names in _OURS.items()
        },
    )
    if find_spec("mne_icalabel") and find_spec("onnxruntime"):
        from mne_icalabel import label_components

        label_components(raw.copy().set_eeg_reference("average", verbose="ERROR"), ica, "iclabel")
        yield "ICLabel", {kind: ica.labels_scores_[:, column] for kind, column in _THEIRS.items()}


def count(
    scores: dict[str, Array], correlations: dict[str, Array], kinds: tuple[str, ...]
) -> Counter[tuple[str, str]]:
    """Count the artefacts that a labeller found and missed, and the other sources that it took for one."""
    found: Counter[tuple[str, str]] = Counter()
    for kind in kinds:
        of_kind = correlations.get(kind, np.zeros(len(scores[kind])))
        labelled = scores[kind] >= LEAST
        found[kind, "found"] += int(np.sum(labelled & (of_kind >= _IS)))
        found[kind, "missed"] += int(np.sum(~labelled & (of_kind >= _IS)))
        found[kind, "false"] += int(np.sum(labelled & (of_kind < _IS_NOT)))
    return found


def measure(
    background: Background, seed: int, folder: Path
) -> Iterator[tuple[str, Counter[tuple[str, str]]]]:
    """Yield what each labeller found in the sources of each method, with the artefacts of a seed."""
    spoilt = add_artefacts(
        background.x, background.names, background.rate, background.kinds, _SECONDS, seed, folder
    )
    raw = make_raw(background, spoilt.x)
    for method, ica in separate_raw(raw):
        y = ica.get_sources(raw).get_data().T
        correlations = {
            kind: np.max([np.abs(np.corrcoef(wave, y.T)[0, 1:]) for wave in waves], axis=0)
            for kind, waves in spoilt.waves.items()
        }
        for labeller, scores in score(raw, ica):
            yield f"{method}, {labeller}", count(scores, correlations, background.kinds)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--recording",
    "others",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Another EEG.",
)
@click.option("--seeds", default="400:412", show_default=True, help="FROM:TO")
def main(folder: Path, others: tuple[Path, ...], seeds: str) -> None:
    """Measure precision and recall of labels, with the recordings in FOLDER."""
    warnings.simplefilter("ignore")
    first, last = map(int, seeds.split(":"))
    for background in (read_sample(folder), *map(read_other, others)):
        totals: dict[str, Counter[tuple[str, str]]] = {}
        for seed in range(first, last):
            for name, found in measure(background, seed, folder):
                totals.setdefault(name, Counter()).update(found)
        show(background, totals)


def show(background: Background, totals: dict[str, Counter[tuple[str, str]]]) -> None:
    """Print a table."""
    what = f"{len(background.names)} channels, {background.rate:g} Hz"
    print(f"\n{background.name}: {what}; at a score of {LEAST:g}")
    print(f"{'sources, labels':24}" + "".join(f"  {kind:>44}" for kind in background.kinds))
    for name, found in totals.items():
        cells = []
        for kind in background.kinds:
            right, missed, false = (found[kind, what] for what in ("found", "missed", "false"))
            precision = f"{right / (right + false):.2f}" if right + false else "-"
            recall = f"{right / (right + missed):.2f}" if right + missed else "-"
            cells.append(f"precision {precision} recall {recall} ({right}/{right + missed}, {false} false)")
        print(f"{name:24}" + "".join(f"  {cell:>44}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
