"""Options of `batch` that say which sources are taken out of the channels."""

from typing import TYPE_CHECKING

import click

from igbss_stream.cli.console import with_options
from igbss_stream.errors import ParameterError

if TYPE_CHECKING:
    from igbss_stream.separation.cleaning import Cleaning


cleaning_options = with_options(
    click.option(
        "--exclude",
        metavar="N,...",
        help="Sources by number, from 0, with commas between: write the channels without them.",
    ),
    click.option(
        "--exclude-like",
        multiple=True,
        metavar="CHANNEL[:R]",
        help="Take out sources whose correlation with this channel is R or more, or -R or less; may be "
        "repeated.  [default of R: 0.5]",
    ),
)


def cleaning_of(exclude: str | None, exclude_like: tuple[str, ...]) -> "Cleaning | None":
    """Return what the options ask for; None if neither is given.

    Parameters
    ----------
    exclude : str, optional
        Such as ``"0,3"``.
    exclude_like : tuple of str
        Each such as ``"EOG1"`` or ``"EOG1:0.5"``.

    Raises
    ------
    ParameterError
        If one cannot be read.
    """
    if exclude is None and not exclude_like:
        return None
    from igbss_stream.separation.cleaning import Cleaning

    return Cleaning(exclude=_numbers(exclude), exclude_like=tuple(map(_channel, exclude_like)))


def _numbers(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not (word.isascii() and word.isdigit()):
            raise ParameterError(
                f"--exclude takes numbers of sources with commas between, such as 0,3. Got {text!r} "
                "instead."
            )
    return tuple(map(int, words))


def _channel(text: str) -> tuple[str, float]:
    """Return a channel and a least correlation; a name may hold colons."""
    from igbss_stream.separation.cleaning import MIN_CORRELATION

    name, colon, number = text.rpartition(":")
    if not colon:
        return text, MIN_CORRELATION
    try:
        return name, float(number)
    except ValueError:
        raise ParameterError(
            "--exclude-like takes a channel, a colon and the least correlation, such as EOG1:0.5. "
            f"Got {text!r} instead."
        ) from None
