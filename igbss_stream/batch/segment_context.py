"""What the first pass over a recording found that all its segments have to share, kept with the model.

Which channels are flat, and which sources are like a channel, takes all samples to say: a segment on its
own would find otherwise.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from igbss_stream.batch.models import KnownModel
from igbss_stream.files.results.output import OutputFile
from igbss_stream.separation.cleaning import Cleaner, Cleaning, Excluded
from igbss_stream.separation.engine import Separator

ATTRIBUTE = "first_pass"  # of the file with the model


@dataclass(frozen=True, kw_only=True)
class FirstPass:
    """What all samples of a recording say.

    Parameters
    ----------
    flat : tuple of int
        Positions of the channels that are left out.
    excluded : tuple of Excluded
        Sources that are taken out of the channels, if these are cleaned.
    notices : tuple of str
        What one may not expect of them.
    """

    flat: tuple[int, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    notices: tuple[str, ...] = ()

    @classmethod
    def of(cls, flat: Sequence[int], cleaner: Cleaner | None) -> Self:
        """Return what was found.

        Parameters
        ----------
        flat : sequence of int
        cleaner : Cleaner or None
            What takes sources out, if channels are cleaned.
        """
        if cleaner is None:
            return cls(flat=tuple(flat))
        return cls(flat=tuple(flat), excluded=cleaner.excluded, notices=cleaner.notices)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what `to_json` told, from the file with the model.

        Parameters
        ----------
        path : Path

        Raises
        ------
        RecordingError
            If it cannot be read, or does not have it.
        """
        with OutputFile(path) as file:
            told = file.told(ATTRIBUTE)
        return cls(
            flat=tuple(told["flat"]),
            excluded=tuple(map(Excluded.from_list, told["excluded"])),
            notices=tuple(told["notices"]),
        )

    def to_json(self) -> str:
        """Return it as JSON, which gives numbers back to the bit."""
        excluded = [one.to_list() for one in self.excluded]
        return json.dumps({"flat": self.flat, "excluded": excluded, "notices": self.notices})

    def separator(self, model: KnownModel, cleaning: Cleaning | None) -> Separator:
        """Return what separates each segment, and takes the same sources out of it.

        Parameters
        ----------
        model : KnownModel
            Learned, or made ready, by the pass.
        cleaning : Cleaning or None
            As asked for.
        """
        separator = model.separator
        cleaner = None if cleaning is None else Cleaner(separator.stage, self.excluded)
        return separator.with_cleaner(cleaning, cleaner)


@dataclass(frozen=True)
class Segment:
    """Rows of a recording that are separated on their own.

    Parameters
    ----------
    rows : (int, int)
        The first one, and the one after the last; all are known to be good.
    found : FirstPass
        By the pass over the whole recording.
    """

    rows: tuple[int, int]
    found: FirstPass
