"""What the description of a stream states of its sources: names, and which are taken out of channels."""

from typing import Annotated

import msgspec

from igbss_stream.feeds.model_facts import Count

MAX_NAMED = 1024
"""Largest number of sources with names."""
LONGEST_NAME = 64
"""Largest number of characters in the name of a source."""

SourceNumber = Annotated[int, msgspec.Meta(ge=0, le=65535)]
SourceNumbers = Annotated[tuple[SourceNumber, ...], msgspec.Meta(max_length=65536)]
SourceName = Annotated[str, msgspec.Meta(pattern=rf"^[^\x00-\x1f\x7f]{{0,{LONGEST_NAME}}}(?!\n)$")]
SourceNames = Annotated[tuple[tuple[SourceNumber, SourceName], ...], msgspec.Meta(max_length=MAX_NAMED)]


class CleaningFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Which sources are taken out of the channels, and the names of sources.

    Parameters
    ----------
    start : int
        Index of the first sample that this applies to.
    excluded : tuple of int or None
        Numbers of the sources that are taken out, sorted; None if the stream has no cleaned channels.
    names : tuple of (int, str)
        Sources that were given a name, by number.
    chosen : bool
        Whether the sources were chosen while the stream runs; otherwise the configuration determines them.
    undo : int
        Number of choices that can be undone.
    """

    start: Count
    excluded: SourceNumbers | None = None
    names: SourceNames = ()
    chosen: bool = False
    undo: Count = 0

    def is_same(self, other: "CleaningFacts | None") -> bool:
        """Return whether both state the same of the samples, wherever they begin."""
        return other is not None and msgspec.structs.replace(other, start=self.start) == self
