"""Options of `batch` for the preparation of samples."""

from typing import TYPE_CHECKING, Any

import click

from igbss_stream.cli.console import add_options
from igbss_stream.errors import ParameterError

if TYPE_CHECKING:
    from igbss_stream.preparation.settings import Preparation


preparation_options = add_options(
    click.option("--reference", help="Reference to subtract: average, or the mean of the named channels."),
    click.option(
        "--bandpass",
        metavar="LOW:HIGH",
        help="Pass band in Hz; short for --highpass LOW --lowpass HIGH.",
    ),
    click.option("--highpass", type=float, help="High-pass cutoff in Hz."),
    click.option("--lowpass", type=float, help="Low-pass cutoff in Hz."),
    click.option(
        "--filter-order",
        type=int,
        default=4,
        show_default=True,
        help="Order of these filters.",
    ),
    click.option(
        "--notch",
        multiple=True,
        help="Frequencies to remove in Hz, such as mains and harmonics: 50,100,150.",
    ),
    click.option(
        "--notch-width", type=float, default=2.0, show_default=True, help="Width of a notch in Hz."
    ),
    click.option("--resample", type=float, help="New sampling rate in Hz."),
)


def parse_preparation(options: dict[str, Any]) -> "Preparation":
    """Return the preparation that these options request, and remove them from the options.

    Parameters
    ----------
    options : dict
        Options as passed by click.

    Raises
    ------
    ParameterError
        If a value is invalid.
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
            raise ParameterError("--bandpass sets --highpass and --lowpass; pass it or them, not both.")
        highpass, lowpass = _parse_numbers("--bandpass", bandpass, ":", "two frequencies, such as 1:40", 2)
    return Preparation(
        highpass=highpass,
        lowpass=lowpass,
        filter_order=order,
        notch=tuple(
            frequency
            for text in notch
            for frequency in _parse_numbers("--notch", text, ",", "frequencies, such as 50 or 50,100")
        ),
        notch_width=width,
        resample=resample,
        reference=_parse_reference(reference),
    )


def _parse_numbers(
    option: str, text: str, separator: str, expected: str, count: int | None = None
) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(separator)]
    except ValueError:
        numbers = []
    if not numbers or count not in (None, len(numbers)):
        raise ParameterError(f"{option} must be {expected}. Got {text!r} instead.")
    return numbers


def _parse_reference(text: str | None) -> str | tuple[str, ...] | None:
    if text is None or text == "average":
        return text
    return tuple(name.strip() for name in text.split(","))
