"""The options of `batch` that say what is done to samples before they are separated."""

from typing import TYPE_CHECKING, Any

import click

from igbss_stream.cli.console import with_options
from igbss_stream.errors import ParameterError

if TYPE_CHECKING:
    from igbss_stream.preparation.settings import Preparation


preparation_options = with_options(
    click.option("--reference", help="average, or names of channels, whose mean is subtracted."),
    click.option(
        "--bandpass",
        metavar="LOW:HIGH",
        help="Frequencies to keep, in Hz: --highpass and --lowpass in one.",
    ),
    click.option("--highpass", type=float, help="Take out what is slower than this, in Hz."),
    click.option("--lowpass", type=float, help="Take out what is faster than this, in Hz."),
    click.option("--filter-order", type=int, default=4, show_default=True, help="Order of these filters."),
    click.option(
        "--notch",
        multiple=True,
        help="Frequencies to take out, in Hz, such as those of the mains: 50,100,150.",
    ),
    click.option(
        "--notch-width", type=float, default=2.0, show_default=True, help="Width of a notch, in Hz."
    ),
    click.option("--resample", type=float, help="New rate, in Hz."),
)


def preparation_from(options: dict[str, Any]) -> "Preparation":
    """Return what these options say, and take them out of all options.

    Parameters
    ----------
    options : dict
        As click hands them over.

    Raises
    ------
    ParameterError
        If a value cannot be used.
    """
    from igbss_stream.preparation.settings import Preparation

    bandpass, highpass, lowpass, order, notch, width, resample, reference = (
        options.pop(name)
        for name in (
            "bandpass",
            "highpass",
            "lowpass",
            "filter_order",
            "notch",
            "notch_width",
            "resample",
            "reference",
        )
    )
    if bandpass is not None:
        if highpass is not None or lowpass is not None:
            raise ParameterError("--bandpass is --highpass and --lowpass in one; give it, or these.")
        highpass, lowpass = _numbers("--bandpass", bandpass, ":", "two frequencies, such as 1:40", 2)
    return Preparation(
        highpass=highpass,
        lowpass=lowpass,
        filter_order=order,
        notch=tuple(
            frequency
            for text in notch
            for frequency in _numbers("--notch", text, ",", "frequencies, such as 50 or 50,100")
        ),
        notch_width=width,
        resample=resample,
        reference=_reference(reference),
    )


def _numbers(option: str, text: str, between: str, wanted: str, count: int | None = None) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(between)]
    except ValueError:
        numbers = []
    if not numbers or count not in (None, len(numbers)):
        raise ParameterError(f"{option} must be {wanted}. Got {text!r} instead.")
    return numbers


def _reference(text: str | None) -> str | tuple[str, ...] | None:
    if text is None or text == "average":
        return text
    return tuple(name.strip() for name in text.split(","))
