"""The model in an output of `batch`, as it is stored."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FEW = 3  # recordings that an output names
_DETAILS = ("filter_order", "notch_width")  # of a preparation, that do nothing on their own


@dataclass(frozen=True)
class Origin:
    """The recordings that a model was made of.

    Parameters
    ----------
    recordings : tuple of str
        Names of their files, without folders; the first few if there are many.
    n_recordings : int
    """

    recordings: tuple[str, ...]
    n_recordings: int

    @classmethod
    def read(cls, attrs: Any) -> "Origin":
        """Return what the attributes of a file tell: of a model from elsewhere or of its own."""
        if "model" in attrs:
            told = json.loads(attrs["model"])
            return cls(tuple(map(str, told["recordings"])), int(told["n_recordings"]))
        names = [str(name) for name in attrs.get("learned_from", [attrs.get("input", "")])]
        return cls(tuple(names[:_FEW]), len(names))

    def told(self, path: Path) -> dict[str, Any]:
        """Return what an output tells of a model that was read from a file; `read` understands it."""
        name = os.fsencode(path.name).decode(errors="replace")
        return {"file": name, "recordings": self.recordings, "n_recordings": self.n_recordings}


@dataclass(frozen=True, eq=False)
class StoredModel:
    """The model in an output.

    Parameters
    ----------
    channels : tuple of str
    unit : str or None
        Of the channels, if known.
    mixing : ndarray of shape (channels, sources) or (periods, channels, sources)
    unmixing : ndarray of shape (sources, channels) or (periods, sources, channels)
    mean : ndarray of shape (channels,) or None
        None where the structure is not learned.
    settings, transform, preparation : dict
        As they were described in JSON; files of older versions know no preparation.
    losses : tuple of float
        Of the steps in which it was learned, see `igbss_stream.model.structure`; none if that is not known.
    origin : Origin
        What it was made of.
    """

    channels: tuple[str, ...]
    unit: str | None
    mixing: Array
    unmixing: Array
    mean: Array | None
    settings: dict[str, Any]
    transform: dict[str, Any]
    preparation: dict[str, Any]
    losses: tuple[float, ...]
    origin: Origin

    @property
    def is_prepared(self) -> bool:
        """Whether samples were referenced, filtered or resampled before."""
        return any(value for name, value in self.preparation.items() if name not in _DETAILS)
