"""Text made safe for HTML, and the few elements that a report is made of.

Names of files and channels may hold anything.
"""

import html
import math
from collections.abc import Iterable, Sequence

from igbss_stream.errors import printable

NONE, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
_LONGEST = 300  # characters of a text that is shown


def text(value: object) -> str:
    """Return anything as text that is safe between tags and in quoted attributes."""
    shown = printable(str(value))
    return html.escape(shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…")


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many digits that count, as it is read; an en dash for what is none."""
    if not math.isfinite(value):
        return NONE
    shown = f"{value:.{digits}g}"
    if "e" not in shown:
        return shown.replace("-", MINUS)
    mantissa, exponent = shown.split("e")
    if 0 < int(exponent) < 6:
        return f"{value:.0f}".replace("-", MINUS)
    return f"{mantissa}e{int(exponent)}".replace("-", MINUS)


def percent(share: float) -> str:
    """Return a share in percent."""
    if not math.isfinite(share):
        return NONE
    shown = 100 * share
    places = 1 if shown >= 0.95 else 2
    return f"{decimal(shown, places) if 0.095 <= shown < 99.95 else number(shown, 4 - places)} %"


def decimal(value: float, places: int = 2) -> str:
    """Return a number with so many places, as it stands in a column; a large one as `number` does."""
    if not abs(value) < 1000:
        return number(value)
    return f"{value:z.{places}f}".replace("-", MINUS)


def signed(correlation: float) -> str:
    """Return a correlation."""
    return NONE if not math.isfinite(correlation) else f"{correlation:+.2f}".replace("-", MINUS)


def duration(seconds: float) -> str:
    """Return a time as hours, minutes and seconds, as far as they are needed."""
    if seconds < 60:
        return f"{number(seconds, 4)} s"
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours} h {minutes:02d} min {rest:02d} s" if hours else f"{minutes} min {rest:02d} s"


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return a list of names and what they have; the latter is HTML."""
    inner = "".join(f"<div><dt>{text(name)}</dt><dd>{value}</dd></div>" for name, value in rows)
    return f'<dl class="facts">{inner}</dl>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return a table.

    Parameters
    ----------
    header : sequence of str
    rows : iterable of sequence of str
        Cells are HTML.
    numbers : sequence of int
        Columns that hold numbers, which stand to the right.
    """

    def cells(tag: str, row: Sequence[str], scope: str = "") -> str:
        kinds = [' class="n"' if i in numbers else "" for i in range(len(row))]
        return "".join(f"<{tag}{scope}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    head = cells("th", [text(name) for name in header], ' scope="col"')
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def figure(picture: str, caption: str, kind: str = "") -> str:
    """Return a picture and what is below it; both are HTML."""
    named = f' class="{kind}"' if kind else ""
    return f"<figure{named}>{picture}<figcaption>{caption}</figcaption></figure>"
