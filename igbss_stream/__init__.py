"""Streaming blind source separation, with sign, order and scale that hold.

The way of a sample through the package::

    ingest/       a recording or a feed becomes blocks of (samples, channels)
    repair        bad samples of a feed are filled or cut out (`fill`)
    preparation/  re-referenced, filtered, resampled, if that is asked for
    survey        what is in them that cannot be separated, and where their scale lies
    transform     samples become log-probabilities, and back
    separator     a window becomes its sources, through model/ and, if learned, `learned`
    cleaning      channels without some of the sources, if that is asked for
    publish/      sources go to a file or a socket

    batch/        drives the whole for recordings, one or many, into files of sources
    live/         drives it while samples come: daemon, configuration, feeds to try, a look at what comes
    one_call      drives it for an array: `separate`
    export/       takes sources of a file on to other formats
    view/         a page that shows a stream of sources

In a stream `pipeline` takes the steps from transform to cleaning, by models that `learning` provides; its
two ways are `paths`, sample by sample or through the windows of `window` and `overlap_add`. What moves
between the stages are the chunks and gaps of `chunk`; `wire` turns them into messages and back, `sockets`
opens what they go through, and `subscriber` reads a published stream.

`model/` holds the mathematics and knows nothing of streams; `config` has the parameters that all share.
`sklearn` is the estimator, `mne` the ICA of MNE, `cli` the command `igbss-stream`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from igbss_stream.separation.api import separate
    from igbss_stream.separation.result import Separation
    from igbss_stream.subscriber import Subscriber

__version__ = "0.1.0"
__all__ = ["Separation", "Subscriber", "__version__", "separate"]

_HOMES = {"Separation": "separation.result", "separate": "separation.api", "Subscriber": "subscriber"}


def __getattr__(name: str) -> Any:
    # numba takes half a second to import: not for `igbss-stream --help`
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"igbss_stream.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
