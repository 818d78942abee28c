"""Section `clean`: sources to remove from the channels."""

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from igbss_stream.daemon.config.base import Section, Text

if TYPE_CHECKING:
    from igbss_stream.separation.cleaning import Cleaning


Label = Literal[
    "eye",
    "eye blink",
    "eye movement",
    "heart",
    "muscle",
    "line",
    "line noise",
    "channel",
    "channel noise",
]


class ExcludeLike(Section, frozen=True, kw_only=True):
    """A channel such as an EOG channel; sources that correlate with it are removed.

    Parameters
    ----------
    channel : str
        Name of the channel. It must be one of the channels that are separated.
    min_correlation : float
        Smallest absolute correlation with the channel at which a source is removed.
    """

    channel: Annotated[Text, Meta(examples=["EOG1"])]
    min_correlation: Annotated[float, Meta(gt=0, le=1)] = 0.5


class ExcludeLabelled(Section, frozen=True, kw_only=True):
    """A label such as `eye`; sources with this label are removed.

    Parameters
    ----------
    label : str
        The label; `eye` is blinks and movements (docs/labels.md).
    min_score : float
        Smallest score of the label at which a source is removed.
    """

    label: Annotated[Label, Meta(examples=["eye"])]
    min_score: Annotated[float, Meta(gt=0, le=1)] = 0.8


class CleanSection(Section, frozen=True, kw_only=True):
    """Sources to remove from the channels, for sinks that publish `cleaned` (docs/cleaning.md).

    With a section `control`, the section may be empty (`clean: {}`): no source is removed until one is
    chosen while the stream runs (docs/live.md).

    Parameters
    ----------
    exclude : tuple of int
        Numbers of sources to remove, from 0.
    exclude_like : tuple of ExcludeLike
        Channels. Sources that correlate with one of them, over the samples from which a model is learned,
        are removed.
    exclude_labelled : tuple of ExcludeLabelled
        Labels. Sources with one of them, over the samples from which a model is learned, are removed.
    """

    exclude: tuple[Annotated[int, Meta(ge=0, le=65535)], ...] = ()
    exclude_like: tuple[ExcludeLike, ...] = ()
    exclude_labelled: tuple[ExcludeLabelled, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no source is named."""
        return not (self.exclude or self.exclude_like or self.exclude_labelled)

    def as_cleaning(self) -> "Cleaning | None":
        """Return the settings of the stage that removes sources; None if no source is named."""
        if self.is_empty:
            return None
        from igbss_stream.separation.cleaning import Cleaning

        like = tuple((item.channel, item.min_correlation) for item in self.exclude_like)
        labelled = tuple((item.label, item.min_score) for item in self.exclude_labelled)
        return Cleaning(exclude=self.exclude, exclude_like=like, exclude_labelled=labelled)
