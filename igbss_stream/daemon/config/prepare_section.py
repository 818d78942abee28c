"""What is done to the samples of a stream before they are separated."""

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from igbss_stream.daemon.config.base import Channels, Rate, Section

if TYPE_CHECKING:
    from igbss_stream.preparation.settings import Preparation


class Prepare(Section, frozen=True, kw_only=True):
    """What is done to the samples before they are separated; docs/preparing.md tells more.

    Frequencies and rates are in Hz. Filters run forward alone, so they delay what passes.

    Parameters
    ----------
    reference : {"average"}, tuple of str or None
        Whose mean is subtracted from each channel: `average` for all channels, or a list of names. It
        lowers the rank of the samples by one.
    highpass : float or None
        What is slower is taken out.
    lowpass : float or None
        What is faster is taken out.
    filter_order : int
        Order of each of the two filters.
    notch : tuple of float
        Frequencies that are taken out, such as those of the mains: `[50, 100]`.
    notch_width : float
        Distance of the edges of a notch.
    resample : float or None
        The new rate, in a ratio of whole numbers to the old one.
    """

    reference: Literal["average"] | Channels | None = None
    highpass: Rate | None = None
    lowpass: Rate | None = None
    filter_order: Annotated[int, Meta(ge=1, le=16)] = 4
    notch: Annotated[tuple[Rate, ...], Meta(description="a list of numbers above 0")] = ()
    notch_width: Rate = 2.0
    resample: Rate | None = None

    def __post_init__(self) -> None:
        self.settings()

    def settings(self) -> "Preparation":
        """Return the settings of the stage."""
        from igbss_stream.preparation.settings import Preparation

        return Preparation(**{name: getattr(self, name) for name in self.__struct_fields__})
