"""What the channels are made of, as a model has it."""

from igbss_stream.chunk import Stream
from igbss_stream.feeds.wire import Mixing
from igbss_stream.separation.linear import LinearStage
from igbss_stream.streaming.model_updates import StreamModel


def mixing_of(model: StreamModel, stream: Stream) -> Mixing | None:
    """Return what a model makes the channels of.

    Parameters
    ----------
    model : StreamModel
    stream : Stream
        What comes in.

    Returns
    -------
    Mixing or None
        None where no one matrix says so: the transform is not linear, or the structure has periods.
    """
    stage = model.separator.stage
    if not (model.separator.transform.linear and isinstance(stage, LinearStage) and len(stage.mixing) == 1):
        return None
    return Mixing(
        version=model.version,
        channels=stream.channels,
        unit=stream.unit,
        matrix=tuple(map(tuple, stage.mixing[0].tolist())),
        mean=None if stage.mean is None else tuple(stage.mean.tolist()),
    )
