"""Open an output of `batch`, or a recording of a stream, for a report."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import IgbssError, RecordingError
from igbss_stream.events import Events
from igbss_stream.files.montage import load_montage_of
from igbss_stream.files.results.label_tables import make_excluded
from igbss_stream.files.results.learned_models import LearnedModel, read_models_of_stream
from igbss_stream.files.results.output import OutputFacts, OutputFile
from igbss_stream.files.results.series import Series
from igbss_stream.files.results.stored_model import Origin, StoredModel
from igbss_stream.files.results.stream_recording import StreamFacts, StreamFile
from igbss_stream.separation.source_choice import Excluded


class Histories:
    """The divergence at each iteration of each fit, read on demand.

    Parameters
    ----------
    output : OutputFile
    fits : ndarray
        One row per window.
    """

    def __init__(self, output: OutputFile, fits: NDArray[np.void]) -> None:
        self._output, self._fits = output, fits

    def get(self, fit: int) -> NDArray[np.float64]:
        """Return the divergence at the start and after each iteration, (n_iter + 1,).

        Raises
        ------
        RecordingError
            If it is missing from the output.
        """
        first, n_iter = (int(self._fits[name][fit]) for name in ("kl_row", "n_iter"))
        return self._output.read_numbers("fits_kl", first, first + n_iter + 1)


@dataclass(frozen=True, eq=False)
class ReportData:
    """The parts of an open output that a report shows.

    Parameters
    ----------
    path : Path
    size : int
        Of the file, in bytes.
    attributes : dict
        Of the file; JSON attributes are decoded.
    facts : OutputFacts
    model : StoredModel
    sources : Series
    cleaned : Series or None
    excluded : tuple of Excluded
        Sources that were excluded from the cleaned channels.
    fits : ndarray or None
        One row per window.
    histories : Histories or None
        None in outputs of older versions.
    stream : StreamFacts or None
        Set for a recording of a stream. Such a recording contains no weights, so the model has no channels.
    learned : tuple of LearnedModel
        How the models of a stream were learned, where that is known.
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
    learned: tuple[LearnedModel, ...] = ()

    @classmethod
    def from_output(cls, output: OutputFile) -> "ReportData":
        """Read an output of `batch`.

        Raises
        ------
        RecordingError
            If the file was not written by `batch`, has no samples or is damaged.
        """
        try:
            return cls._from_output(output)
        except IgbssError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise RecordingError(
                f"{str(output.path)!r} does not have the structure of an output of `batch`: "
                f"{error}; separate again"
            ) from error

    @classmethod
    def _from_output(cls, output: OutputFile) -> "ReportData":
        facts, model = output.read_facts(), output.read_model()
        sources = output.open_series("sources")
        cleaned = output.open_series("cleaned") if output.has_dataset("cleaned") else None
        if cleaned is not None and facts.bad and cleaned.n_channels > len(model.channels):
            cleaned = cleaned.pick(model.channels)  # without those that are interpolated
        _check(output.path, model, sources, cleaned)
        fits = _read_fits(output)
        return cls(
            path=output.path,
            size=os.stat(output.path).st_size,
            attributes=output.read_attributes(),
            facts=facts,
            model=model,
            sources=sources,
            cleaned=cleaned,
            excluded=_read_excluded(output, sources.n_channels),
            fits=fits,
            histories=Histories(output, fits)
            if fits is not None and output.has_dataset("fits_kl")
            else None,
        )

    @classmethod
    def from_stream(cls, file: StreamFile) -> "ReportData":
        """Read a recording of a stream.

        Raises
        ------
        RecordingError
            If the file has no samples or is damaged.
        """
        stream, sources, learned = file.read_facts(), file.open_series(), read_models_of_stream(file)
        last = learned[-1].learning if learned else None
        n = sources.n_channels
        no_model = StoredModel(
            (), None, np.empty((0, n)), np.empty((n, 0)), None, {}, {}, {}, last, Origin((), 0)
        )
        return cls(
            path=file.path,
            size=os.stat(file.path).st_size,
            attributes={"input": stream.name},
            facts=OutputFacts(None, "", sources.rate, sources.n_samples, 0, n, 0, 0),
            model=no_model,
            sources=sources,
            cleaned=None,
            excluded=(),
            fits=None,
            histories=None,
            stream=stream,
            learned=learned,
        )

    def place_channels(self, montage: str) -> "ReportData":
        """Return the data with the positions of a montage; see `load_montage`."""
        positions = load_montage_of(montage, self.model.channels, repr(str(self.path)))
        return replace(self, model=replace(self.model, positions=positions))

    @property
    def has_weights(self) -> bool:
        """Whether the weights of the sources in the channels are known."""
        return bool(self.model.channels)

    @property
    def noun(self) -> str:
        """The word "source", or "channel" if the stream was published as cleaned channels."""
        return "source" if self.stream is None or self.sources.has_sources else "channel"

    @property
    def can_be_cleaned(self) -> bool:
        """Whether sources can be taken out of the channels: they add up to them, or a daemon does it."""
        if self.stream is not None:
            return self.noun == "source"
        return self.model.transform.get("name") == "exp"

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Gaps of the sources."""
        return self.sources.gaps

    @property
    def events(self) -> Events:
        """Events of the sources."""
        return self.sources.events

    @property
    def n_missing(self) -> int:
        """Number of missing samples."""
        return sum(gap.n_samples for gap in self.gaps)

    @property
    def n_indices(self) -> int:
        """Number of samples, missing ones included."""
        return int(self.sources.n_samples + self.n_missing)

    @property
    def excluded_sources(self) -> tuple[int, ...]:
        """Numbers of the excluded sources, each once, in the order of the table."""
        return tuple(dict.fromkeys(one.source for one in self.excluded))


def _check(path: Path, model: StoredModel, sources: Series, cleaned: Series | None) -> None:
    """Check that the shapes of the parts match."""
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
                f"{what} in {str(path)!r} have {found} entries, but other datasets have {wanted}; "
                "separate again"
            )


def _read_fits(output: OutputFile) -> NDArray[np.void] | None:
    fits = output.read_table("fits")
    if fits is None:
        return None
    more = ["kl_row"] if output.has_dataset("fits_kl") else []
    return fits[["start", "n_samples", "n_iter", "kl", "converged", *more]]


def _read_excluded(output: OutputFile, n_sources: int) -> tuple[Excluded, ...]:
    table = output.read_table("excluded")
    if table is None:
        return ()
    return tuple(one for one in make_excluded(table) if 0 <= one.source < n_sources)
