"""Section `prepare`: re-referencing, filters and resampling."""

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from igbss_stream.daemon.config.base import Channels, Rate, Section

if TYPE_CHECKING:
    from igbss_stream.preparation.settings import Preparation


class PrepareSection(Section, frozen=True, kw_only=True):
    """Preparation of the samples before they are separated (docs/preparing.md).

    Frequencies and rates are in Hz. Filters run forward only and therefore delay the signal.

    Parameters
    ----------
    reference : {"average"}, tuple of str or None
        Reference whose mean is subtracted from each channel: `average` for all channels, or a list of
        names. Re-referencing lowers the rank of the samples by one.
    highpass : float or None
        Cut-off frequency of the high-pass filter; slower components are removed.
    lowpass : float or None
        Cut-off frequency of the low-pass filter; faster components are removed.
    filter_order : int
        Order of each of the two filters.
    notch : tuple of float
        Frequencies to remove, such as those of the mains: `[50, 100]`.
    notch_width : float
        Distance between the edges of a notch.
    resample : float or None
        New sampling rate. Its ratio to the old one must be a ratio of whole numbers.
    """

    reference: Literal["average"] | Channels | None = None
    highpass: Rate | None = None
    lowpass: Rate | None = None
    filter_order: Annotated[int, Meta(ge=1, le=16)] = 4
    notch: Annotated[tuple[Rate, ...], Meta(description="a list of numbers above 0")] = ()
    notch_width: Rate = 2.0
    resample: Rate | None = None

    def __post_init__(self) -> None:
        self.as_settings()

    def as_settings(self) -> "Preparation":
        """Return the settings of the stage that prepares samples."""
        from igbss_stream.preparation.settings import Preparation

        return Preparation(**{name: getattr(self, name) for name in self.__struct_fields__})
