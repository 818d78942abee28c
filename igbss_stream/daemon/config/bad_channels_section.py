"""Section `bad_channels`: channels that are left out while they are bad."""

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from igbss_stream.daemon.config.base import PositiveSeconds, Seconds, Section

if TYPE_CHECKING:
    from igbss_stream.preparation.bad_channels.settings import BadChannelSettings


class BadChannelsSection(Section, frozen=True, kw_only=True):
    """Handling of channels that go bad while the stream runs (docs/channels.md).

    Parameters
    ----------
    action : {"auto", "replace", "interpolate", "report", "off"}
        `replace`: samples of bad channels are replaced by what the other channels predict, until the
        channel is good again. `interpolate`: they are interpolated by spherical splines instead, which
        needs positions of the channels, or names of the 10-20 system. `report`: bad channels are only
        reported. `off`: neither. `auto`: `replace` for streams of at least eight channels, `off` for
        others.
    flat : float
        Seconds without a change, or without a usable sample, after which a channel is bad. If longer times
        are usual in a channel, four times the longest of these.
    unlike : float
        A channel is bad if it deviates from what the other channels predict by more than this multiple of
        what is usual.
    recover : float
        Seconds for which a channel must be good before its samples are used again.
    fade : float
        Seconds of the cross-fade to the samples of a channel that is good again.
    """

    action: Literal["auto", "replace", "interpolate", "report", "off"] = "auto"
    flat: PositiveSeconds = 0.05
    unlike: Annotated[float, Meta(gt=1, le=1e12)] = 8.0
    recover: PositiveSeconds = 2.0
    fade: Seconds = 0.2

    def as_settings(self) -> "BadChannelSettings":
        """Return the settings of the stage that replaces bad channels."""
        from igbss_stream.preparation.bad_channels.settings import BadChannelSettings

        return BadChannelSettings(**{name: getattr(self, name) for name in self.__struct_fields__})
