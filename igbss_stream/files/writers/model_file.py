"""Write the datasets and attributes of a model: in outputs, model files and states of the daemon.

`igbss_stream.files.results` reads them.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.version import __version__
from igbss_stream.bad_channels.memory import ChannelMemory
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from igbss_stream.labels.labelling import Labelling
from igbss_stream.labels.scores import LABELS
from igbss_stream.separation.cleaning import Cleaner
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.settings import to_plain
from igbss_stream.separation.stages import LinearStage

_CONTRADICTION = [("view", "f8"), ("contradiction", "f8")]


def write_model(
    sink: Hdf5Sink, channels: Sequence[str], unit: str | None, separator: Separator, preparation: str
) -> None:
    """Write the model.

    Parameters
    ----------
    sink : Hdf5Sink
    channels : sequence of str
    unit : str or None
        Unit of the channels.
    separator : Separator
        Prepared.
    preparation : str
        Preparation of the samples, as JSON.
    """
    stage = separator.stage
    mixed = unit if separator.settings.has_unit_variance else None
    sink.write("mixing", _as_stored(stage.mixing), channels=channels, unit=mixed)
    sink.write("unmixing", _as_stored(stage.unmixing), channels=channels)
    learning = separator.learning
    if learning is not None:
        sink.write("learning", learning.losses)
        sink.write("reliability", learning.reliability, unit="dB")
        sink.write("contradictions", np.array(list(learning.contradictions.items()), _CONTRADICTION))
    if separator.labels is not None:
        write_labels(sink, separator.labels)
    if stage.mean is not None:
        sink.write("mean", stage.mean, channels=channels, unit=unit)
    sink.set_attrs(
        igbss_stream_version=__version__,
        input_unit=unit,
        solver=separator.solver,
        settings=separator.settings.to_json(),
        preparation=preparation,
        transform=json.dumps(to_plain(separator.transform)),
        cleaning=None if separator.cleaning is None else json.dumps(separator.cleaning.to_dict()),
        view=None if learning is None else learning.view,
        drift=None if learning is None else ("removed" if learning.drift_removed else "kept"),
    )


def write_excluded(sink: Hdf5Sink, cleaner: Cleaner) -> None:
    """Write which sources were removed and why; channel and label are empty for sources given by number.

    Parameters
    ----------
    sink : Hdf5Sink
    cleaner : Cleaner
    """
    channels = [one.channel.encode() for one in cleaner.excluded]
    labels = [one.label.encode() for one in cleaner.excluded]
    rows = [
        (one.source, channel, one.correlation, label, one.score)
        for one, channel, label in zip(cleaner.excluded, channels, labels, strict=True)
    ]
    kind = [
        ("source", "i8"),
        ("channel", f"S{max(map(len, channels), default=0) or 1}"),
        ("correlation", "f8"),
        ("label", f"S{max(map(len, labels), default=0) or 1}"),
        ("score", "f8"),
    ]
    sink.write("excluded", np.array(rows, kind))


def write_labels(sink: Hdf5Sink, labels: Labelling) -> None:
    """Write the label of each source, its reason, and the scores of all labels.

    Parameters
    ----------
    sink : Hdf5Sink
    labels : Labelling
    """
    reasons = [reason.encode() for reason in labels.reasons]
    names = [label.encode() for label in labels.labels]
    kind: list[tuple[str, str]] = [
        ("source", "i8"),
        ("label", f"S{max(map(len, names))}"),
        ("score", "f8"),
        ("reason", f"S{max(map(len, reasons))}"),
        *((label.replace(" ", "_"), "f8") for label in LABELS),
    ]
    top = labels.top_scores.tolist()
    rows = [(i, names[i], top[i], reasons[i], *scores) for i, scores in enumerate(labels.scores.tolist())]
    sink.write("labels", np.array(rows, kind), notes=list(labels.notes) or None)


def write_stream_state(sink: Hdf5Sink, separator: Separator, stream: str, version: int) -> None:
    """Write what a daemon stores besides the model, to continue with exactly the same numbers.

    Parameters
    ----------
    sink : Hdf5Sink
    separator : Separator
    stream : str
        Name of the stream.
    version : int
        Version of the model.
    """
    poset, stage = separator.poset, separator.stage
    sink.write("incidence", _as_stored(poset.incidence))
    sink.write("inverse", _as_stored(poset.unmixing))
    if isinstance(stage, LinearStage) and stage.cut is not None:
        sink.write("cut", stage.cut)
    sink.set_attrs(learned_from=[stream], model_version=version)


def write_channel_memory(sink: Hdf5Sink, memory: ChannelMemory) -> None:
    """Write what a stream has learned of its channels.

    Parameters
    ----------
    sink : Hdf5Sink
    memory : ChannelMemory
    """
    sink.write("channel_memory", memory.table)
    sink.write(
        "channel_covariance",
        memory.covariance,
        channels=memory.channels,
        unit=memory.unit,
        rate=memory.rate,
        n_cells=memory.n_cells,
        n_rows=memory.n_rows,
        n_leap_cells=memory.n_leap_cells,
    )


def write_choice(sink: Hdf5Sink, choice: bytes) -> None:
    """Write which sources were chosen to be removed while the stream ran, as JSON."""
    sink.write("choice", np.array([choice]))


def _as_stored(weights: NDArray[np.float64]) -> NDArray[Any]:
    """Return weights without the axis of periods if there is a single one."""
    return weights if len(weights) > 1 else weights[0]
