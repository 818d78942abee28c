"""Which channels of a file are wanted: by name, by position, or by a range of positions."""

import re
from collections.abc import Sequence

from igbss_stream.errors import ParameterError, printable

_RANGE = re.compile(r"(\d+)-(\d+)")
_SHOWN = 12  # names that a message lists


def picked(wanted: Sequence[str] | str, names: Sequence[str], what: str) -> tuple[int, ...]:
    """Return the positions of the channels that are wanted, in the order in which they are asked for.

    Parameters
    ----------
    wanted : sequence of str, or str
        Names, positions counted from 0, or ranges of them, ``"8-15"``; as one text, with commas between.
        A name counts first: a channel may be called ``3``.
    names : sequence of str
        Names of all channels.
    what : str
        What has these channels, for the message.

    Returns
    -------
    tuple of int

    Raises
    ------
    ParameterError
        If there is no such channel, or one is asked for twice.
    """
    parts = wanted.split(",") if isinstance(wanted, str) else wanted
    found = [i for part in parts for i in _positions(part.strip(), names, what)]
    twice = sorted({i for i in found if found.count(i) > 1})
    if twice:
        raise ParameterError(f"channels names {printable(names[twice[0]])!r} twice; name it once")
    return tuple(found)


def ranges(positions: Sequence[int]) -> str:
    """Write rising positions as one text that `picked` takes, such as ``0-3,8``."""
    spans: list[list[int]] = []
    for position in positions:
        if spans and position == spans[-1][1] + 1:
            spans[-1][1] = position
        else:
            spans.append([position, position])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _positions(part: str, names: Sequence[str], what: str) -> list[int]:
    same = [i for i, name in enumerate(names) if name == part]
    if len(same) > 1:
        raise ParameterError(
            f"{what} has {len(same)} channels called {part!r}; give their positions instead: "
            f"{', '.join(map(str, same))}"
        )
    if same:
        return same
    span = _RANGE.fullmatch(part)
    first, last = (int(span[1]), int(span[2])) if span else (-1, -1)
    if part.isascii() and part.isdigit():
        first = last = int(part)
    if 0 <= first <= last < len(names):
        return list(range(first, last + 1))
    listed = ", ".join(map(printable, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
    raise ParameterError(
        f"{what} has no channel {part!r}; give names, positions from 0 to {len(names) - 1}, or ranges of "
        f"them such as 0-3, of: {listed}"
    )
