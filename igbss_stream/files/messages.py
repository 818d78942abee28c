"""Channel names and error messages that readers of all formats share."""

from igbss_stream.errors import InputError

NO_UNIT = "channels have several units or none, so the unit is unknown"
"""Note of a reader."""


def check_counts(n_samples: int, n_channels: int, what: str, advice: str = "") -> None:
    """Check that there are at least two channels and two samples.

    Parameters
    ----------
    n_samples, n_channels : int
    what : str
        Name of the signal, for messages.
    advice : str
        What to do about too few channels.

    Raises
    ------
    InputError
        If there are fewer.
    """
    if n_channels < 2:
        count = "one channel" if n_channels else "no channel"
        raise InputError(f"{what} has {count}; separation needs at least 2{advice}")
    if n_samples < 2:
        raise InputError(
            f"{what} has too few samples ({n_samples}) of {n_channels} channels; separation needs at "
            "least 2"
        )


def complete_names(names: tuple[str, ...], n_channels: int) -> tuple[str, ...]:
    """Return a name for each channel: the given ones if their number is right, or numbered ones."""
    if len(names) != n_channels:
        names = ("",) * n_channels
    return tuple(name or f"channel-{i}" for i, name in enumerate(names))


def ask_for_axis(what: str, rows: int, columns: int) -> str:
    """Return what to say about a matrix of MATLAB, which does not state where its samples are."""
    return (
        f"{what} is a matrix of {rows} x {columns} in MATLAB; pass --axis 0 if its rows are samples, "
        "--axis 1 if they are channels"
    )


def as_one_line(error: object) -> str:
    """Return the message of a library, which may have several lines, as one line."""
    return " ".join(str(error).split())
