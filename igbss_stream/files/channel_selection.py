"""Select channels by name, position or range of positions."""

import re
from collections.abc import Sequence

from igbss_stream.errors import ParameterError, printable

_RANGE = re.compile(r"(\d+)-(\d+)")
_N_LISTED = 12  # names in a message


def pick_channels(selection: Sequence[str] | str, names: Sequence[str], what: str) -> tuple[int, ...]:
    """Return the positions of selected channels, in the order of the selection.

    Parameters
    ----------
    selection : sequence of str, or str
        Names, positions counted from 0, or ranges of positions such as ``"8-15"``. A single string
        separates them by commas. Names take precedence: a channel may be called ``3``.
    names : sequence of str
        Names of all channels.
    what : str
        Name of the signal, for messages.

    Returns
    -------
    tuple of int

    Raises
    ------
    ParameterError
        If a channel does not exist or is selected twice.
    """
    parts = selection.split(",") if isinstance(selection, str) else selection
    found = [i for part in parts for i in _find_positions(part.strip(), names, what)]
    twice = sorted({i for i in found if found.count(i) > 1})
    if twice:
        raise ParameterError(f"channels contains {printable(names[twice[0]])!r} twice; list it once.")
    return tuple(found)


def format_ranges(positions: Sequence[int]) -> str:
    """Format increasing positions as a string for `pick_channels`, such as ``0-3,8``."""
    spans: list[list[int]] = []
    for position in positions:
        if spans and position == spans[-1][1] + 1:
            spans[-1][1] = position
        else:
            spans.append([position, position])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _find_positions(part: str, names: Sequence[str], what: str) -> list[int]:
    matches = [i for i, name in enumerate(names) if name == part]
    if len(matches) > 1:
        raise ParameterError(
            f"{what} has {len(matches)} channels called {part!r}; pass their positions instead: "
            f"{', '.join(map(str, matches))}"
        )
    if matches:
        return matches
    span = _RANGE.fullmatch(part)
    first, last = (int(span[1]), int(span[2])) if span else (-1, -1)
    if part.isascii() and part.isdigit():
        first = last = int(part)
    if 0 <= first <= last < len(names):
        return list(range(first, last + 1))
    listed = ", ".join(map(printable, names[:_N_LISTED])) + (", ..." if len(names) > _N_LISTED else "")
    raise ParameterError(
        f"{what} has no channel {part!r}; pass names, positions from 0 to {len(names) - 1}, or ranges of "
        f"positions such as 0-3. Channels: {listed}"
    )
