"""Settings of the stage that leaves out bad channels."""

import math
from dataclasses import dataclass

from igbss_stream.errors import ParameterError

ACTIONS = ("auto", "replace", "interpolate", "report", "off")

FEWEST_CHANNELS = 8
"""Of a stream that ``"auto"`` watches: fewer do not show what one of them should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadChannelSettings:
    """When a channel of a stream is bad, and what happens then. Times are in seconds.

    Parameters
    ----------
    action : {"auto", "replace", "interpolate", "report", "off"}
        Replace the samples of bad channels by what the other channels predict, interpolate them on the head
        by spherical splines, report bad channels only, or do nothing. ``"auto"`` replaces them in streams
        of at least eight channels.
    flat : float
        Shortest time without a change, or without a usable sample, after which a channel is bad. It is four
        times as long as the longest such time that is usual in the channel, if that is more.
    unlike : float
        Largest deviation from what the other channels predict, as a multiple of the usual one.
    recover : float
        Time for which a channel must be good before its samples are used again.
    fade : float
        Duration of the cross-fade to the samples of a channel that is good again.

    Raises
    ------
    ParameterError
        If a value is not valid.
    """

    action: str = "auto"
    flat: float = 0.05
    unlike: float = 8.0
    recover: float = 2.0
    fade: float = 0.2

    def watches(self, n_channels: int) -> bool:
        """Return whether the channels of a stream are watched."""
        fewest = {"auto": FEWEST_CHANNELS, "off": n_channels + 1}
        return n_channels >= fewest.get(self.action, 3)

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ParameterError(
                f"action must be one of {', '.join(ACTIONS)}. Got {self.action!r} instead.",
                parameter="action",
            )
        for name, least in (("flat", 0.0), ("unlike", 1.0), ("recover", 0.0), ("fade", 0.0)):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            is_least = is_number and (value > least or (name == "fade" and value == least))
            if not (is_number and math.isfinite(value) and is_least):
                raise ParameterError(
                    f"{name} must be a finite number above {least:g}. Got {value!r} instead.",
                    parameter=name,
                )
