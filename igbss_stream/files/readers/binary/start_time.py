"""Parse the date and time of a recording."""

from collections.abc import Sequence
from datetime import UTC, datetime


def parse_start(date: str, time: str, forms: Sequence[str], notes: list[str]) -> float | None:
    """Return the Unix time of a date and a time in UTC; None, with a note, if they are not understood.

    Parameters
    ----------
    date, time : str
        The time as hours, minutes and seconds. An empty date is not noted.
    forms : sequence of str
        Forms of dates, the likeliest first, as in `datetime.strptime`.
    notes : list of str
    """
    for form in forms:
        try:
            return datetime.strptime(f"{date} {time}", f"{form} %H:%M:%S").replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    if date:
        notes.append(
            f"the date {date!r} at {time!r} is not understood, so the time of the first sample is unknown"
        )
    return None
