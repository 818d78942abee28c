"""Store what the first pass over a recording found and all its segments share.

Which channels are left out, and which sources resemble a channel, depends on all samples; a single segment
would give another answer. The results are stored in the model file.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from igbss_stream.batch.channels import LeftOut
from igbss_stream.batch.models import KnownModel
from igbss_stream.files.results.output import OutputFile
from igbss_stream.separation.cleaning import Cleaner, Cleaning
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.source_choice import Excluded

ATTRIBUTE = "first_pass"  # attribute of the model file


@dataclass(frozen=True, kw_only=True)
class FirstPass:
    """Results of the pass over all samples of a recording.

    Parameters
    ----------
    left_out : LeftOut
        Channels that are left out.
    excluded_rows : tuple of (int, int)
        Rows that nothing was learned from.
    excluded : tuple of Excluded
        Sources to remove from the channels, with cleaning.
    notices : tuple of str
        Notices about these sources.
    """

    left_out: LeftOut = field(default_factory=LeftOut)
    excluded_rows: tuple[tuple[int, int], ...] = ()
    excluded: tuple[Excluded, ...] = ()
    notices: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, left_out: LeftOut, excluded_rows: tuple[tuple[int, int], ...], cleaner: Cleaner | None
    ) -> Self:
        """Return the results of a pass.

        Parameters
        ----------
        left_out : LeftOut
        excluded_rows : tuple of (int, int)
        cleaner : Cleaner or None
            Removes sources from the channels, with cleaning.
        """
        found = cls(left_out=left_out, excluded_rows=excluded_rows)
        if cleaner is None:
            return found
        return replace(found, excluded=cleaner.excluded, notices=cleaner.notices)

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
            left_out=LeftOut(tuple(stored["flat"]), tuple(stored["bad"])),
            excluded_rows=tuple((start, stop) for start, stop in stored["excluded_rows"]),
            excluded=tuple(map(Excluded.from_list, stored["excluded"])),
            notices=tuple(stored["notices"]),
        )

    def to_json(self) -> str:
        """Return the results as JSON, which preserves numbers to the bit."""
        return json.dumps(
            {
                **asdict(self.left_out),
                "excluded_rows": self.excluded_rows,
                "excluded": [one.to_list() for one in self.excluded],
                "notices": self.notices,
            }
        )

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
