"""Place the markers of an XDF file at the samples of one of its streams.

pyxdf has put the timestamps of all streams on one clock. Those of the samples may jitter, so a line through
each run without a gap is taken as their clock, as pyxdf does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import ParameterError, printable
from igbss_stream.events import Events, label_value
from igbss_stream.files.clock import SampleClock
from igbss_stream.files.readers.xdf_headers import XdfStream


@dataclass(frozen=True, eq=False)
class Markers:
    """The markers of a stream.

    Parameters
    ----------
    name : str
        Of the stream.
    values : sequence
        One row per marker, of texts or numbers.
    times : array of shape (markers,)
        In seconds.
    """

    name: str
    values: Sequence[Any]
    times: NDArray[np.float64]


def choose_marker_streams(
    found: list[XdfStream], stream: XdfStream, names: Sequence[str], what: str
) -> list[XdfStream]:
    """Return the streams with markers: those that are named, by name or number, or all.

    Parameters
    ----------
    found : list of XdfStream
    stream : XdfStream
        The stream that is read.
    names : sequence of str
        Of the option `events`.
    what : str
        Name of the file, for the message.

    Raises
    ------
    ParameterError
        If a named stream does not exist.
    """
    others = [each for each in found if each is not stream and each.n_samples]
    if not names:
        return [each for each in others if each.is_marker_stream]
    missing = [name for name in names if not any(name in (each.name, str(each.id)) for each in others)]
    if missing:
        listed = ", ".join(printable(each.name) for each in others) or "none"
        raise ParameterError(
            f"{what} has no other stream {printable(missing[0])!r} with samples, which --events names; the "
            f"others are: {listed}."
        )
    return [each for each in others if each.name in names or str(each.id) in names]


def place_markers(
    markers: Sequence[Markers], times: NDArray[np.float64], gaps: Sequence[Gap], rate: float | None
) -> Events:
    """Return the markers as events.

    Parameters
    ----------
    markers : sequence of Markers
    times : array of shape (samples,)
        Timestamps of the samples, in seconds.
    gaps : sequence of Gap
        Of the samples.
    rate : float or None
        In Hz.
    """
    if not markers or not rate or not np.isfinite(times).all():
        return Events()
    clock, tables = SampleClock.of_jittered_times(times, gaps), []
    for each in markers:
        labels = [", ".join(filter(None, map(label_value, row))) for row in each.values]
        tables.append(Events(clock.find_indices(each.times, rate), labels, None, each.name))
    joined = Events.join(tables)
    return joined[np.array([bool(label) for label in joined.label], bool)]
