"""What a stream publishes besides sources: cleaned channels, and the mixing of its model."""

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.feeds.model_facts import Mixing, SensorPositions
from igbss_stream.separation.cleaning import Cleaner
from igbss_stream.separation.stages import LinearStage
from igbss_stream.streaming.stream_model import StreamModel


def pick_cleaned(item: Chunk | Gap) -> Chunk | Gap:
    """Return the cleaned channels of a chunk of sources as a chunk; a gap stays as it is."""
    if isinstance(item, Gap):
        return item
    if item.cleaned is None:
        raise RuntimeError("the chunk has no cleaned channels")
    return Chunk(item.cleaned, item.start, item.model_version)


def describe_removed(cleaner: Cleaner | None) -> str:
    """Return which sources a model removes from the channels, as the end of a sentence."""
    if cleaner is None:
        return ""
    return "; ".join((f", without {cleaner}", *cleaner.notices))


def describe_model(model: StreamModel) -> str:
    """Return the version of a model, how it was learned and what it removes, for the log."""
    text = f"model {model.version} from sample {model.since}"
    learning = model.separator.learning
    if model.seconds:
        text += f", learned in {model.seconds:.2f} s" + ("" if learning is None else f" from {learning}")
    return text + describe_removed(model.cleaner)


def compute_mixing(model: StreamModel, stream: Stream) -> Mixing | None:
    """Return the mixing of a model in the unit of the channels.

    Parameters
    ----------
    model : StreamModel
    stream : Stream
        Description of the channels.

    Returns
    -------
    Mixing or None
        None if the model has no single mixing matrix, because the transform is not linear or the structure
        has periods.
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
        positions=SensorPositions.from_stream(stream),
    )
