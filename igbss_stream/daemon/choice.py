"""Which sources of a stream were chosen to be taken out of the channels while it runs, and their names."""

from collections.abc import Collection
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from igbss_stream.daemon.config.base import Name
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.cleaning_facts import MAX_NAMED, SourceNames, SourceNumbers

_LONGEST_LIST = 200  # characters: an event has a label of at most 255 bytes
_MOST_EARLIER = 100  # choices that can be undone


class ChoiceRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to change a choice; docs/live.md defines the fields.

    Parameters
    ----------
    stream : str or None
        Name of the stream; may be left out if there is only one.
    exclude : tuple of int or None, optional
        The sources to take out; None returns to those that the configuration determines.
    add, remove : tuple of int
        Sources to take out, and to put back, besides those of now.
    undo : bool
        Whether to return to the choice before the last one.
    names : tuple of (int, str)
        Names of sources; an empty name removes it.
    """

    stream: Name | None = None
    exclude: SourceNumbers | UnsetType | None = UNSET
    add: SourceNumbers = ()
    remove: SourceNumbers = ()
    undo: bool = False
    names: SourceNames = ()

    def __post_init__(self) -> None:
        if (self.exclude is not UNSET) + bool(self.add or self.remove) + self.undo > 1:
            raise ValueError("pass one of exclude, undo, or add and remove")

    @property
    def changes_sources(self) -> bool:
        """Whether sources are to be taken out or put back."""
        return self.undo or self.exclude is not UNSET or bool(self.add or self.remove)


class SourceChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The choice of one stream.

    Parameters
    ----------
    excluded : tuple of int or None
        Numbers of the sources that are taken out, sorted; None for those that the configuration determines.
    names : tuple of (int, str)
        Names of sources, by number.
    earlier : tuple
        Values of `excluded` before, the latest last.
    """

    excluded: SourceNumbers | None = None
    names: SourceNames = ()
    earlier: Annotated[tuple[SourceNumbers | None, ...], msgspec.Meta(max_length=_MOST_EARLIER)] = ()

    def follow(self, request: ChoiceRequest, current: Collection[int]) -> "SourceChoice":
        """Return the choice after a request.

        Parameters
        ----------
        request : ChoiceRequest
        current : collection of int
            The sources that are taken out now.

        Raises
        ------
        ParameterError
            If there is nothing to undo, or too many sources would have names.
        """
        names = dict(self.names) | dict(request.names)
        named = tuple(sorted((source, name) for source, name in names.items() if name))
        if len(named) > MAX_NAMED:
            raise ParameterError(f"at most {MAX_NAMED} sources can have names. Remove some first.")
        changed = msgspec.structs.replace(self, names=named)
        if request.undo:
            if not self.earlier:
                raise ParameterError("there is no choice to undo: the sources are as at the start.")
            return msgspec.structs.replace(changed, excluded=self.earlier[-1], earlier=self.earlier[:-1])
        excluded = self.excluded
        if not isinstance(request.exclude, UnsetType):
            excluded = None if request.exclude is None else tuple(sorted(set(request.exclude)))
        elif request.add or request.remove:
            excluded = tuple(sorted({*current, *request.add}.difference(request.remove)))
        if excluded == self.excluded:
            return changed
        earlier = (*self.earlier, self.excluded)[-_MOST_EARLIER:]
        return msgspec.structs.replace(changed, excluded=excluded, earlier=earlier)

    @property
    def is_default(self) -> bool:
        """Whether nothing was ever chosen or named."""
        return self == SourceChoice()


def format_choice(sources: Collection[int], *, is_configured: bool) -> str:
    """Return the label of the event of a choice, such as ``"exclude 0,3"``, as the option of `batch`.

    Parameters
    ----------
    sources : collection of int
        That are taken out.
    is_configured : bool
        Whether the configuration determines them.
    """
    listed = ",".join(map(str, sources)) or "none"
    end = " (as configured)" if is_configured else ""
    if len(listed) + len(end) > _LONGEST_LIST:  # no number is cut
        listed, end = listed[:_LONGEST_LIST].rpartition(",")[0], f",... ({len(sources)} sources)"
    return f"exclude {listed}{end}"


def decode_choice(data: bytes) -> SourceChoice:
    """Return the choice that `encode_choice` encoded.

    Raises
    ------
    ValueError
        If it is damaged.
    """
    return msgspec.json.decode(data, type=SourceChoice)


def encode_choice(choice: SourceChoice) -> bytes:
    """Return a choice as JSON."""
    return msgspec.json.encode(choice)


def parse_request(body: bytes) -> ChoiceRequest:
    """Return the request in a body.

    Raises
    ------
    ParameterError
        If it is not JSON, or a value is not valid.
    """
    try:
        request: ChoiceRequest = msgspec.json.decode(body, type=ChoiceRequest)
        msgspec.json.encode(request)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ParameterError(f"the request is not valid: {error}") from None
    return request
