"""The model stored in an output of `batch`."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import RecordingError
from igbss_stream.labels.labelling import Labelling
from igbss_stream.model.learning import Learning
from igbss_stream.positions import Positions
from igbss_stream.separation.source_choice import Excluded

Array = NDArray[np.float64]

_N_LISTED = 3  # recordings in an output
_LARGEST_ERROR = 1e-4  # of an inverse, far above rounding
_DETAILS = ("filter_order", "notch_width")  # of filters; have no effect without them


@dataclass(frozen=True)
class Origin:
    """The recordings from which a model was learned.

    Parameters
    ----------
    recordings : tuple of str
        File names without folders; at most the first three.
    n_recordings : int
    """

    recordings: tuple[str, ...]
    n_recordings: int

    @classmethod
    def read(cls, attrs: Any) -> "Origin":
        """Read the origin of the model from the attributes of an output."""
        if "model" in attrs:
            stored = json.loads(attrs["model"])
            return cls(tuple(map(str, stored["recordings"])), int(stored["n_recordings"]))
        names = [str(name) for name in attrs.get("learned_from", [attrs.get("input", "")])]
        return cls(tuple(names[:_N_LISTED]), len(names))

    def as_dict(self, path: Path) -> dict[str, Any]:
        """Return the attribute of an output whose model was read from a file; `read` parses it."""
        name = os.fsencode(path.name).decode(errors="replace")
        return {"file": name, "recordings": self.recordings, "n_recordings": self.n_recordings}


@dataclass(frozen=True, eq=False)
class StoredModel:
    """The model stored in an output.

    Parameters
    ----------
    channels : tuple of str
    unit : str or None
        Unit of the channels, if known.
    mixing : ndarray of shape (channels, sources) or (periods, channels, sources)
    unmixing : ndarray of shape (sources, channels) or (periods, sources, channels)
    mean : ndarray of shape (channels,) or None
        None if the structure is not learned.
    settings, transform, preparation : dict
        As stored in JSON. Files of older versions have no preparation.
    learning : Learning or None
        How the structure was learned; None if it was not, or by an older version.
    origin : Origin
        The recordings from which it was learned.
    incidence, inverse : ndarray, optional
        Weights of the sample space and their left inverse, with the shapes of mixing and unmixing. Only
        states of the daemon contain them and the next two.
    cut : ndarray of shape (sources,), optional
        See `igbss_stream.model.poset.Poset.cut`.
    version : int, optional
        Version of the model in its stream.
    cleaning : dict, optional
        Which sources to remove, as described in JSON.
    excluded : tuple of Excluded
        Which sources were removed.
    labels : Labelling, optional
        Labels of the sources.
    positions : Positions or None
        Of the channels, if they are stored.
    """

    channels: tuple[str, ...]
    unit: str | None
    mixing: Array
    unmixing: Array
    mean: Array | None
    settings: dict[str, Any]
    transform: dict[str, Any]
    preparation: dict[str, Any]
    learning: Learning | None
    origin: Origin
    incidence: Array | None = None
    inverse: Array | None = None
    cut: NDArray[np.int64] | None = None
    version: int | None = None
    cleaning: dict[str, Any] | None = None
    excluded: tuple[Excluded, ...] = ()
    labels: Labelling | None = None
    positions: Positions | None = None

    def check(self) -> None:
        """Check that the arrays fit each other, and that the unmixing inverts the mixing.

        Raises
        ------
        RecordingError
            If the file was damaged after it was written.
        """
        shape = self.mixing.shape
        turned = (*shape[:-2], shape[-1], shape[-2])
        wanted = {
            "mixing": (*shape[:-2], len(self.channels), shape[-1]),
            "unmixing": turned,
            "incidence": shape,
            "inverse": turned,
            "mean": shape[-2:-1],
            "cut": shape[-1:],
        }
        for name, of_name in wanted.items():
            values = getattr(self, name)
            if values is None:
                continue
            if values.shape != of_name:
                raise RecordingError(f"{name} has the shape {values.shape} instead of {of_name}")
            if not np.isfinite(values).all():
                raise RecordingError(f"{name} has values that are not finite")
        if self.cut is not None and not np.array_equal(np.sort(self.cut), np.arange(shape[-1])):
            raise RecordingError("cut is not an order of the sources")
        for name, forward, backward in (
            ("unmixing", self.mixing, self.unmixing),
            ("inverse", self.incidence, self.inverse),
        ):
            if forward is None or backward is None:
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                error = np.abs(backward @ forward - np.eye(shape[-1])).max(initial=0.0)
            if not error < _LARGEST_ERROR:
                raise RecordingError(f"{name} is not the inverse of the weights")

    @property
    def is_prepared(self) -> bool:
        """Whether samples were re-referenced, filtered or resampled before separation."""
        return any(value for name, value in self.preparation.items() if name not in _DETAILS)
