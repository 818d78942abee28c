"""Escape text for HTML, format numbers, and render the elements of a report.

Names of files and channels may contain any characters.
"""

import html
import math
from collections.abc import Iterable, Sequence

from igbss_stream.errors import printable

EN_DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
_MAX_LENGTH = 300  # characters of a text


def escape(value: object) -> str:
    """Convert a value to text that is safe between tags and in quoted attributes."""
    shown = printable(str(value))
    return html.escape(shown if len(shown) <= _MAX_LENGTH else f"{shown[: _MAX_LENGTH - 1]}…")


def format_number(value: float, digits: int = 3) -> str:
    """Format a number with a number of significant digits; an en dash if it is not finite."""
    if not math.isfinite(value):
        return EN_DASH
    shown = f"{value:.{digits}g}"
    if "e" not in shown:
        return shown.replace("-", MINUS)
    mantissa, exponent = shown.split("e")
    if 0 < int(exponent) < 6:
        return f"{value:.0f}".replace("-", MINUS)
    return f"{mantissa}e{int(exponent)}".replace("-", MINUS)


def format_percent(share: float) -> str:
    """Format a share in percent."""
    if not math.isfinite(share):
        return EN_DASH
    shown = 100 * share
    places = 1 if shown >= 0.95 else 2
    return (
        f"{format_decimal(shown, places) if 0.095 <= shown < 99.95 else format_number(shown, 4 - places)} %"
    )


def format_decimal(value: float, places: int = 2) -> str:
    """Format a number with fixed decimal places for a column; large numbers like `format_number`."""
    if not abs(value) < 1000:
        return format_number(value)
    return f"{value:z.{places}f}".replace("-", MINUS)


def format_correlation(correlation: float) -> str:
    """Format a correlation."""
    return EN_DASH if not math.isfinite(correlation) else f"{correlation:+.2f}".replace("-", MINUS)


def format_duration(seconds: float) -> str:
    """Format a duration in hours, minutes and seconds, without leading zero units."""
    if seconds < 60:
        return f"{format_number(seconds, 4)} s"
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours} h {minutes:02d} min {rest:02d} s" if hours else f"{minutes} min {rest:02d} s"


def render_facts(rows: Iterable[tuple[str, str]]) -> str:
    """Render a list of names and values; values are HTML."""
    inner = "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in rows)
    return f'<dl class="facts">{inner}</dl>'


def render_table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Render a table.

    Parameters
    ----------
    header : sequence of str
    rows : iterable of sequence of str
        Cells are HTML.
    numbers : sequence of int
        Columns with numbers, which are aligned to the right.
    """

    def cells(tag: str, row: Sequence[str], scope: str = "") -> str:
        kinds = [' class="n"' if i in numbers else "" for i in range(len(row))]
        return "".join(f"<{tag}{scope}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    head = cells("th", [escape(name) for name in header], ' scope="col"')
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def render_figure(picture: str, caption: str, kind: str = "") -> str:
    """Render a picture and its caption; both are HTML."""
    named = f' class="{kind}"' if kind else ""
    return f"<figure{named}>{picture}<figcaption>{caption}</figcaption></figure>"
