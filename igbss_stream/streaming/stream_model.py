"""A model of a stream: a separator, its position in the stream, and what it removes from the channels."""

from dataclasses import dataclass, replace
from functools import cached_property

from igbss_stream.separation.cleaning import Cleaner
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.source_choice import Excluded


@dataclass(frozen=True, eq=False)
class StreamModel:
    """A separator with its version and its position in a stream.

    Parameters
    ----------
    version : int
        1 for the first model.
    separator : Separator
        Prepared.
    since : int
        Index from which on the model is active.
    learned_from : (int, int)
        Start and stop index of the samples that it was learned from; (0, 0) if it was given.
    seconds : float
        Time that learning took; 0 if it was given.
    chosen : tuple of int, optional
        Numbers of sources, sorted, to remove from the channels instead of those of the separator.
    """

    version: int
    separator: Separator
    since: int
    learned_from: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    chosen: tuple[int, ...] | None = None

    def choose(self, sources: tuple[int, ...] | None) -> "StreamModel":
        """Return the same model with another choice of sources to remove from the channels.

        Parameters
        ----------
        sources : tuple of int or None
            None for those of the separator.
        """
        return self if sources == self.chosen else replace(self, chosen=sources)

    @cached_property
    def cleaner(self) -> Cleaner | None:
        """What removes sources from the channels; None if no cleaned channels are computed.

        Chosen sources that the model lacks are ignored; if none would remain, none is removed.
        """
        if self.chosen is None:
            return self.separator.cleaner
        stage = self.separator.stage
        found = [Excluded(source) for source in self.chosen if source < stage.n_sources]
        return Cleaner(stage, tuple(found) if len(found) < stage.n_sources else ())
