"""What the tests of preparation share: recordings out of arrays, and samples that drift."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.recording import Facts, Fill, Recording

Array = NDArray[np.float64]


class ArrayRecording(Recording):
    """A recording whose samples are in an array, or are made by a function of the row."""

    def __init__(
        self,
        x: NDArray[Any],
        rate: float | None = 250.0,
        gaps: Sequence[tuple[int, int]] = (),
        repeats: int = 1,
        bad_rows: Sequence[tuple[int, int]] = (),
    ) -> None:
        names = tuple(f"c{i}" for i in range(x.shape[1]))
        made = make_gaps((row, n, "missing") for row, n in gaps)
        facts = Facts(
            "array",
            "a test",
            "/x",
            rate,
            "uV",
            names,
            bad=("c0",),
            bad_rows=tuple(bad_rows),
            gaps=made,
            notes=("so",),
        )
        super().__init__(Path("x"), facts, len(x) * repeats, x.dtype)
        self._x = x

    def close(self) -> None:
        """Nothing is open."""

    def _make_filler(self, n: int) -> Fill:
        def fill(start: int, out: NDArray[Any]) -> None:
            out[:] = self._x[np.arange(start, start + len(out)) % len(self._x)]

        return fill


def whole(recording: Recording, block: int = 1000) -> NDArray[Any]:
    """Return all samples of a recording, read in blocks."""
    return np.concatenate([samples.copy() for _, samples in recording.read_blocks(block)])


def drifting(n_samples: int, n_channels: int = 3, seed: int = 0) -> Array:
    """Return samples that drift from offsets far away, as electrodes do."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(n_samples, n_channels))
    return np.asarray(np.cumsum(steps, axis=0) + 4000.0 * np.arange(1, n_channels + 1))
