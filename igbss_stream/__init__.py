"""Streaming blind source separation, with sign, order and scale that hold.

The way of a sample, from room to room::

    files/        a recording is read ...
    feeds/        ... or messages of a feed arrive, in the order of their samples
    preparation/  faulty samples are repaired; channels are re-referenced, filtered, resampled
    streaming/    in a stream, chunks pass the pipeline; models are updated on the way
    separation/   windows of channels become sources, and channels without selected sources
    labels/       sources get labels: eye blink, heart, muscle, brain ...
    model/        the mathematics: the log-linear model, its solvers, learned structures
    files/        sources are written to HDF5 and exported ...
    feeds/        ... or published

What drives it::

    batch/        separates recordings, one or many
    daemon/       separates streams while they arrive
    playback/     simulates, replays and monitors streams
    pages/        draws reports and the live page
    bad_channels/ finds channels that are flat, noisy or unlike the others
    cli/          the command `igbss-stream`

From Python: `separate` for an array, `label_sources` for its sources, `Subscriber` for a published stream,
`igbss_stream.sklearn` for scikit-learn, `igbss_stream.mne` for MNE. `chunk` defines what moves between the
stages, `errors` the exceptions; `_util/` contains general helpers. Each room imports only from the rooms
below it; the table is in pyproject.toml.
"""

from typing import TYPE_CHECKING, Any

from igbss_stream._util.version import __version__

if TYPE_CHECKING:
    from igbss_stream.labels.labelling import Labelling, label_sources
    from igbss_stream.separation.api import separate
    from igbss_stream.separation.result import Separation
    from igbss_stream.subscriber import Subscriber

__all__ = ["Labelling", "Separation", "Subscriber", "__version__", "label_sources", "separate"]

_HOMES = {
    "Labelling": "labels.labelling",
    "Separation": "separation.result",
    "Subscriber": "subscriber",
    "label_sources": "labels.labelling",
    "separate": "separation.api",
}


def __getattr__(name: str) -> Any:
    # numba takes half a second to import: not for `igbss-stream --help`
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"igbss_stream.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
