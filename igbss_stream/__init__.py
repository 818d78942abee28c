"""Streaming blind source separation, with sign, order and scale that hold.

The way of a sample through the package::

    ingest/       a recording or a feed becomes blocks of (samples, channels)
    preparation/  re-referenced, filtered, resampled, if that is asked for
    survey        what is in them that cannot be separated, and where their scale lies
    transform     samples become log-probabilities, and back
    separator     a window becomes its sources, through model/ and, if learned, `learned`
    publish/      sources go to a file or a socket
    batch         drives the whole, from a recording to a file of sources
    live/         what runs while samples come: its configuration, feeds to try, a look at what comes

Between the stages of a stream move the chunks and gaps of `chunk`; `wire` turns them into messages and
back, `sockets` opens what they go through, and `subscriber` reads a published stream.

`model/` holds the mathematics and knows nothing of streams; `sklearn` is the estimator, `mne` the ICA of
MNE; `cli` the command `igbss-stream`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from igbss_stream.one_call import separate
    from igbss_stream.separation import Separation
    from igbss_stream.subscriber import Subscriber

__version__ = "0.1.0"
__all__ = ["Separation", "Subscriber", "__version__", "separate"]

_HOMES = {"Separation": "separation", "separate": "one_call", "Subscriber": "subscriber"}


def __getattr__(name: str) -> Any:
    # numba takes half a second to import: not for `igbss-stream --help`
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"igbss_stream.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
