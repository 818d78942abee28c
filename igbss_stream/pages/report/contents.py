"""What an output of `batch`, or a recording of a stream, holds, opened for a report."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import IgbssError, RecordingError
from igbss_stream.files.results.output import OutputFacts, OutputFile
from igbss_stream.files.results.series import Series
from igbss_stream.files.results.stored_model import Origin, StoredModel
from igbss_stream.files.results.stream_recording import StreamFacts, StreamFile
from igbss_stream.separation.cleaning import Excluded


class Histories:
    """The divergence at each iteration of each fit, read when it is asked for.

    Parameters
    ----------
    output : OutputFile
    fits : ndarray
        A row a window.
    """

    def __init__(self, output: OutputFile, fits: NDArray[np.void]) -> None:
        self._output, self._fits = output, fits

    def of(self, fit: int) -> NDArray[np.float64]:
        """Return the divergence at the start and after each iteration, (n_iter + 1,).

        Raises
        ------
        RecordingError
            If it is not there.
        """
        first, n_iter = (int(self._fits[name][fit]) for name in ("kl_row", "n_iter"))
        return self._output.read_numbers("fits_kl", first, first + n_iter + 1)


@dataclass(frozen=True, eq=False)
class Contents:
    """An output that is open.

    Parameters
    ----------
    path : Path
    size : int
        Of the file, in bytes.
    attributes : dict
        Of the file; those that are JSON as what it tells.
    facts : OutputFacts
    model : StoredModel
    sources : Series
    cleaned : Series or None
    excluded : tuple of Excluded
        Sources that were taken out of the channels.
    fits : ndarray or None
        A row a window.
    histories : Histories or None
        None in outputs of older versions.
    stream : StreamFacts or None
        Of a recording of a stream. It has no weights: its model is that of no channels.
    """

    path: Path
    size: int
    attributes: dict[str, Any]
    facts: OutputFacts
    model: StoredModel
    sources: Series
    cleaned: Series | None
    excluded: tuple[Excluded, ...]
    fits: NDArray[np.void] | None
    histories: Histories | None
    stream: StreamFacts | None = None

    @classmethod
    def of(cls, output: OutputFile) -> "Contents":
        """Look through an output.

        Raises
        ------
        RecordingError
            If `batch` did not write it, it has no samples, or it is damaged.
        """
        try:
            return cls._of(output)
        except IgbssError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise RecordingError(
                f"{str(output.path)!r} is not as `batch` writes it: {error}; separate again"
            ) from error

    @classmethod
    def _of(cls, output: OutputFile) -> "Contents":
        facts, model = output.read_facts(), output.read_model()
        sources = output.open_series("sources")
        cleaned = output.open_series("cleaned") if output.has_dataset("cleaned") else None
        _check(output.path, model, sources, cleaned)
        fits = _fits(output)
        return cls(
            path=output.path,
            size=os.stat(output.path).st_size,
            attributes=output.read_attributes(),
            facts=facts,
            model=model,
            sources=sources,
            cleaned=cleaned,
            excluded=_excluded(output, sources.n_channels),
            fits=fits,
            histories=Histories(output, fits)
            if fits is not None and output.has_dataset("fits_kl")
            else None,
        )

    @classmethod
    def of_stream(cls, file: StreamFile) -> "Contents":
        """Look through a recording of a stream.

        Raises
        ------
        RecordingError
            If it has no samples, or is damaged.
        """
        stream, sources = file.read_facts(), file.open_series()
        n = sources.n_channels
        nothing = StoredModel(
            (), None, np.empty((0, n)), np.empty((n, 0)), None, {}, {}, {}, (), Origin((), 0)
        )
        return cls(
            path=file.path,
            size=os.stat(file.path).st_size,
            attributes={"input": stream.name},
            facts=OutputFacts(None, "", sources.rate, sources.n_samples, 0, n, 0, 0),
            model=nothing,
            sources=sources,
            cleaned=None,
            excluded=(),
            fits=None,
            histories=None,
            stream=stream,
        )

    @property
    def has_weights(self) -> bool:
        """Whether it tells what channels are made of."""
        return bool(self.model.channels)

    @property
    def noun(self) -> str:
        """What the samples are of: a source, or a channel in a stream that was published cleaned."""
        names = [f"source-{n}" for n in range(self.sources.n_channels)]
        of_sources = self.stream is None or list(self.sources.channels) == names
        return "source" if of_sources else "channel"

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Where samples are missing."""
        return self.sources.gaps

    @property
    def n_missing(self) -> int:
        """How many samples are missing."""
        return sum(gap.n_samples for gap in self.gaps)

    @property
    def n_indices(self) -> int:
        """How many samples there would be if none were missing."""
        return int(self.sources.n_samples + self.n_missing)

    @property
    def excluded_sources(self) -> tuple[int, ...]:
        """The numbers of sources that were taken out, each once, in the order of the table."""
        return tuple(dict.fromkeys(one.source for one in self.excluded))


def _check(path: Path, model: StoredModel, sources: Series, cleaned: Series | None) -> None:
    """Refuse parts that do not fit each other."""
    n_sources, n_channels = model.unmixing.shape[-2:]
    shapes = {
        "/sources": (sources.n_channels, n_sources),
        "/mixing": (model.mixing.shape[-2], n_channels),
        "the channels of /mixing": (len(model.channels), n_channels),
    }
    if model.mean is not None:
        shapes["/mean"] = (len(model.mean), n_channels)
    if cleaned is not None:
        shapes["/cleaned"] = (cleaned.n_channels, n_channels)
        shapes["the samples of /cleaned"] = (cleaned.n_samples, sources.n_samples)
    for what, (found, wanted) in shapes.items():
        if found != wanted:
            raise RecordingError(
                f"{what} in {str(path)!r} have {found} entries, where others have {wanted}: separate again"
            )


def _fits(output: OutputFile) -> NDArray[np.void] | None:
    fits = output.read_table("fits")
    if fits is None:
        return None
    places = ["kl_row"] if output.has_dataset("fits_kl") else []
    return fits[["start", "n_samples", "n_iter", "kl", "converged", *places]]


def _excluded(output: OutputFile, n_sources: int) -> tuple[Excluded, ...]:
    table = output.read_table("excluded")
    if table is None:
        return ()
    found = tuple(
        Excluded(
            int(row["source"]), bytes(row["channel"]).decode(errors="replace"), float(row["correlation"])
        )
        for row in table
    )
    return tuple(one for one in found if 0 <= one.source < n_sources)
