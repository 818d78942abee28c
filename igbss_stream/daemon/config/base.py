"""Base class of the sections of a configuration, and common types of their values."""

from typing import Annotated

from msgspec import Meta, Struct

from igbss_stream.errors import ParameterError

_DAY = 86_400.0


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Frozen settings. The docstring describes every field; the reference is generated from it.

    `__post_init__` checks conditions on several fields. It raises a `ParameterError` with the name of the
    field as its `parameter`, from which the reader finds the place in the file.
    """


Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(?!\n)$",
        description="a name of letters, digits, '.', '_' and '-', at most 64",
    ),
]
Text = Annotated[str, Meta(min_length=1, max_length=256, description="a text (not empty)")]
PositiveSeconds = Annotated[float, Meta(gt=0, le=_DAY)]
Seconds = Annotated[float, Meta(ge=0, le=_DAY)]
Rate = Annotated[float, Meta(gt=0, le=1e9)]
Count = Annotated[int, Meta(ge=1, le=10_000_000)]
Picks = Annotated[
    tuple[Text | Annotated[int, Meta(ge=0)], ...],
    Meta(min_length=1, description="a list of channels (names, positions, ranges)"),
]
HostNames = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,253}(?!\n)$", description="a host name")], ...],
    Meta(description="a list of host names, without ports"),
]
Channels = Annotated[tuple[Text, ...], Meta(min_length=1, description="a list of names (one per channel)")]
Names = Annotated[tuple[Text, ...], Meta(min_length=1, description="a list of names")]


def check_at_most(name: str, value: float | None, other: str, limit: float | None) -> None:
    """Check that one field is at most another; None is no limit, or no value.

    Raises
    ------
    ParameterError
        If it is larger.
    """
    if value is not None and limit is not None and value > limit:
        raise ParameterError(
            f"{name} must be at most {other}, {limit:g}. Got {value:g} instead.", parameter=name
        )
