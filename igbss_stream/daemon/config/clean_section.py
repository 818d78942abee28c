"""The section `clean`: which sources are taken out of the channels, for sinks that publish those."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from igbss_stream.daemon.config.base import Section, Text
from igbss_stream.errors import ParameterError

if TYPE_CHECKING:
    from igbss_stream.separation.cleaning import Cleaning


class Like(Section, frozen=True, kw_only=True):
    """A channel whose like is taken out.

    Parameters
    ----------
    channel : str
        Name of the channel; it is one of those that are separated.
    min_correlation : float
        Least correlation, whatever its sign, of a source that is like it.
    """

    channel: Annotated[Text, Meta(examples=["EOG1"])]
    min_correlation: Annotated[float, Meta(gt=0, le=1)] = 0.5


class Clean(Section, frozen=True, kw_only=True):
    """Which sources are taken out of the channels, for sinks that publish `cleaned` (docs/cleaning.md).

    Parameters
    ----------
    exclude : tuple of int
        Numbers of sources, from 0.
    exclude_like : tuple of Like
        Channels: sources that correlate with one of them, over the samples that a model is learned from,
        are taken out.
    """

    exclude: tuple[Annotated[int, Meta(ge=0, le=65535)], ...] = ()
    exclude_like: tuple[Like, ...] = ()

    def __post_init__(self) -> None:
        if not (self.exclude or self.exclude_like):
            raise ParameterError(
                "exclude or exclude_like must name a source or a channel.", parameter="exclude"
            )

    def cleaning(self) -> "Cleaning":
        """Return it as the stage takes it."""
        from igbss_stream.separation.cleaning import Cleaning

        like = tuple((one.channel, one.min_correlation) for one in self.exclude_like)
        return Cleaning(exclude=self.exclude, exclude_like=like)
