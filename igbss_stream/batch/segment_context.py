"""Store what the first pass over a recording found and all its segments share.

Which channels are flat, and which sources resemble a channel, depends on all samples; a single segment
would give another answer. The results are stored in the model file.
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

ATTRIBUTE = "first_pass"  # attribute of the model file


@dataclass(frozen=True, kw_only=True)
class FirstPass:
    """Results of the pass over all samples of a recording.

    Parameters
    ----------
    flat : tuple of int
        Positions of the channels that are left out.
    excluded : tuple of Excluded
        Sources to remove from the channels, with cleaning.
    notices : tuple of str
        Notices about these sources.
    """

    flat: tuple[int, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    notices: tuple[str, ...] = ()

    @classmethod
    def of(cls, flat: Sequence[int], cleaner: Cleaner | None) -> Self:
        """Return the results of a pass.

        Parameters
        ----------
        flat : sequence of int
        cleaner : Cleaner or None
            Removes sources from the channels, with cleaning.
        """
        if cleaner is None:
            return cls(flat=tuple(flat))
        return cls(flat=tuple(flat), excluded=cleaner.excluded, notices=cleaner.notices)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the results from the model file.

        Parameters
        ----------
        path : Path

        Raises
        ------
        RecordingError
            If the file cannot be read, or does not contain them.
        """
        with OutputFile(path) as file:
            stored = file.read_json(ATTRIBUTE)
        return cls(
            flat=tuple(stored["flat"]),
            excluded=tuple(map(Excluded.from_list, stored["excluded"])),
            notices=tuple(stored["notices"]),
        )

    def to_json(self) -> str:
        """Return the results as JSON, which preserves numbers to the bit."""
        excluded = [one.to_list() for one in self.excluded]
        return json.dumps({"flat": self.flat, "excluded": excluded, "notices": self.notices})

    def separator(self, model: KnownModel, cleaning: Cleaning | None) -> Separator:
        """Return the separator of all segments, which removes the same sources from each.

        Parameters
        ----------
        model : KnownModel
            Model that the pass learned or loaded.
        cleaning : Cleaning or None
            Requested cleaning.
        """
        separator = model.separator
        cleaner = None if cleaning is None else Cleaner(separator.stage, self.excluded)
        return separator.with_cleaner(cleaning, cleaner)


@dataclass(frozen=True)
class Segment:
    """Rows of a recording that are separated as one job.

    Parameters
    ----------
    rows : (int, int)
        First row and the row after the last; all samples are known to be usable.
    found : FirstPass
        Results of the pass over the whole recording.
    """

    rows: tuple[int, int]
    found: FirstPass
