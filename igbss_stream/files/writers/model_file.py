"""Write the datasets and attributes of a model: in outputs, model files and states of the daemon.

`igbss_stream.files.results` reads them.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.version import __version__
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
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
    """Write which sources were removed and why; the channel is empty for sources given by number.

    Parameters
    ----------
    sink : Hdf5Sink
    cleaner : Cleaner
    """
    rows = [(one.source, one.channel.encode(), one.correlation) for one in cleaner.excluded]
    width = max((len(name) for _, name, _ in rows), default=0) or 1
    kind = [("source", "i8"), ("channel", f"S{width}"), ("correlation", "f8")]
    sink.write("excluded", np.array(rows, kind))


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


def _as_stored(weights: NDArray[np.float64]) -> NDArray[Any]:
    """Return weights without the axis of periods if there is a single one."""
    return weights if len(weights) > 1 else weights[0]
