"""Read how the models of a file were learned: an output of `batch`, a state, or a recording of a stream."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream.files.results.output import OutputFile
from igbss_stream.files.results.stream_recording import StreamFile
from igbss_stream.labels.labelling import Labelling
from igbss_stream.labels.scores import LABELS
from igbss_stream.model.learning import Learning, name_view


@dataclass(frozen=True, eq=False)
class LearnedModel:
    """A model of a file, and how it was learned.

    Parameters
    ----------
    row : int
        First row of the samples that the model produced.
    version : int or None
        Version of the model in its stream; None in outputs of `batch`.
    sources : tuple of str
        Names of the sources.
    learning : Learning
    labels : Labelling, optional
        Labels of the sources, if they were labelled.
    """

    row: int
    version: int | None
    sources: tuple[str, ...]
    learning: Learning
    labels: Labelling | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the model as an object of JSON."""
        learning = self.learning
        return {
            "row": self.row,
            "version": self.version,
            "view": learning.view,
            "contradictions": [
                {"view": view, "contradiction": _round(value)}
                for view, value in learning.contradictions.items()
            ],
            "drift_removed": learning.drift_removed,
            "reliability": {
                name: _round(value)
                for name, value in zip(self.sources, learning.reliability.tolist(), strict=True)
            },
            "labels": None if self.labels is None else _describe_labels(self.sources, self.labels),
        }

    def as_lines(self) -> list[str]:
        """State the view of the model, the evidence for it, and the reliability of each source."""
        learning = self.learning
        which = "" if self.version is None else f", model {self.version}"
        tried = (f"{name_view(view)} {value:.1f}" for view, value in learning.contradictions.items())
        values = zip(self.sources, learning.reliability.tolist(), strict=True)
        return [
            f"learned from: {learning.describe_view()}{which}",
            *([f"contradictions: {', '.join(tried)}"] if learning.contradictions else []),
            f"reliability: {', '.join(f'{name} {value:.0f} dB' for name, value in values)}",
            *([] if self.labels is None else [f"labels: {self.labels.summarize(self.sources)}"]),
        ]


def read_learned_models(path: Path) -> tuple[LearnedModel, ...]:
    """Read how each model of an HDF5 file was learned, in the order of their samples.

    Parameters
    ----------
    path : Path

    Returns
    -------
    tuple of LearnedModel
        Empty if the file has no learned model, or does not state how it was learned.

    Raises
    ------
    RecordingError
        If the file is damaged.
    """
    with OutputFile(path) as output:
        if output.is_output:
            return _read_output(output)
    with StreamFile(path) as file:
        return read_models_of_stream(file) if file.is_stream else ()


def read_models_of_stream(file: StreamFile) -> tuple[LearnedModel, ...]:
    """Read how each model of a recording of a stream was learned.

    Parameters
    ----------
    file : StreamFile

    Returns
    -------
    tuple of LearnedModel

    Raises
    ------
    RecordingError
        If the file is damaged.
    """
    found = file.read_learning()
    return tuple(LearnedModel(row, version, file.channels, learning) for row, version, learning in found)


def _read_output(output: OutputFile) -> tuple[LearnedModel, ...]:
    learning = output.read_learning()
    if learning is None:
        return ()
    names = tuple(f"source-{n}" for n in range(len(learning.reliability)))
    return (LearnedModel(0, output.model_version, names, learning, output.read_labels()),)


def _describe_labels(sources: tuple[str, ...], labels: Labelling) -> dict[str, Any]:
    """Return labels as an object of JSON; a score is None where a label cannot be judged."""
    rows = zip(sources, labels.labels, labels.reasons, labels.scores.tolist(), strict=True)
    return {
        "sources": {
            name: {
                "label": label,
                "reason": reason,
                "scores": {kind: _round(score) for kind, score in zip(LABELS, scores, strict=True)},
            }
            for name, label, reason, scores in rows
        },
        "notes": list(labels.notes),
    }


def _round(value: float) -> float | None:
    """Round for JSON, which has no infinite numbers."""
    return round(value, 2) if np.isfinite(value) else None
