"""Names and error messages that readers share."""

from igbss_stream.errors import InputError


def check_counts(n_samples: int, n_channels: int, what: str, advice: str = "") -> None:
    """Refuse fewer than two channels or samples."""
    if n_channels < 2:
        count = "one channel" if n_channels else "no channel"
        raise InputError(f"{what} holds {count}; separation needs at least 2{advice}")
    if n_samples < 2:
        raise InputError(
            f"{what} holds too few samples ({n_samples}) of {n_channels} channels; separation needs "
            "at least 2"
        )


def numbered(stored: tuple[str, ...], n_channels: int) -> tuple[str, ...]:
    """Return a name for each channel, the stored one if there is one for each."""
    if len(stored) != n_channels:
        stored = ("",) * n_channels
    return tuple(name or f"channel-{i}" for i, name in enumerate(stored))


def one_line(error: Exception | str) -> str:
    """Return a message of a library, which may have several lines, in one."""
    return " ".join(str(error).split())
