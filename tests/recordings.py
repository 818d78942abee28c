"""Recordings written for a test, what a run made of them, and what it should have made of them."""

import json
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NAMES = ("Fz", "Cz", "Pz", "Oz")
RATE = 250.0


def noise(n_samples: int = 60, n_channels: int = 4, seed: int = 0) -> Array:
    """Return channels that have nothing in common, (samples, channels)."""
    return np.random.default_rng(seed).laplace(size=(n_samples, n_channels))


def write_recording(
    path: Path,
    x: Any,
    *,
    dataset: str = "/data",
    storage: Mapping[str, Any] | None = None,
    **attrs: Any,
) -> Path:
    """Write samples to an HDF5 file; `storage` goes to h5py, `attrs` to the dataset."""
    with h5py.File(path, "w") as file:
        file.create_dataset(dataset, data=x, **(storage or {})).attrs.update(attrs)
    return path


@contextmanager
def file_size_limit(n_bytes: int) -> Iterator[None]:
    """Let no file grow beyond a limit; Python ignores the signal, so that writes fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@dataclass(frozen=True)
class Output:
    """Everything in the file that a run wrote; a dataset that is not there is None."""

    datasets: dict[str, NDArray[Any]]
    names: dict[str, list[str]]
    rate: float | None
    unit: str | None
    attrs: dict[str, Any]

    @property
    def sources(self) -> NDArray[Any]:
        return self.datasets["sources"]

    @property
    def mixing(self) -> NDArray[Any]:
        return self.datasets["mixing"]

    @property
    def unmixing(self) -> NDArray[Any]:
        return self.datasets["unmixing"]

    @property
    def fits(self) -> NDArray[Any]:
        return self.datasets["fits"]

    @property
    def fits_kl(self) -> NDArray[Any]:
        return self.datasets["fits_kl"]

    @property
    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = json.loads(self.attrs["settings"])
        return settings

    @property
    def transform(self) -> dict[str, Any]:
        transform: dict[str, Any] = json.loads(self.attrs["transform"])
        return transform


def read_output(path: Path) -> Output:
    with h5py.File(path, "r") as file:
        attrs = file["sources"].attrs
        return Output(
            datasets={name: dataset[()] for name, dataset in file.items()},
            names={name: list(dataset.attrs.get("channels", ())) for name, dataset in file.items()},
            rate=attrs.get("rate"),
            unit=attrs.get("unit"),
            attrs=dict(file.attrs),
        )


def systematic(n_channels: int) -> Array:
    """Return the mixing in which source n reaches every channel but channel n."""
    return 1.0 - np.eye(n_channels)


def unmixed(x: NDArray[Any], mixing: Array | None = None) -> Array:
    """Return the sources of the closed form in float64, from the formula alone."""
    weights = systematic(x.shape[1]) if mixing is None else mixing
    return np.asarray(x.astype(np.float64) @ np.linalg.pinv(weights).T)


def unmixed_by(output: Output, x: NDArray[Any]) -> Array:
    """Return the sources of the unmixing that an output holds, in float64."""
    mean = output.datasets.get("mean", 0.0)
    return np.asarray((x.astype(np.float64) - mean) @ output.unmixing.T)


def assert_equal_to_rounding(actual: NDArray[Any], expected: Array, x: NDArray[Any]) -> None:
    """Assert that `actual` is `expected`, worked out in float64 from `x` and rounded to its own type."""
    noise = 16 * np.finfo(np.float64).eps * float(np.abs(x).max())
    np.testing.assert_allclose(actual, expected, rtol=float(np.finfo(actual.dtype).eps), atol=noise)
