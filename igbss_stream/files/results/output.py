"""Read an output of `batch`: its attributes, its model, and its samples in blocks."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.bad_channels.memory import COLUMNS, ChannelMemory
from igbss_stream.errors import RecordingError
from igbss_stream.files.positions_dataset import POSITIONS_NAME, read_positions_dataset
from igbss_stream.files.readers.hdf5.file import (
    name_dataset,
    read_rate,
    report_damage,
)
from igbss_stream.files.readers.hdf5.layouts.values import get_dataset, is_numeric
from igbss_stream.files.results.checked_file import CheckedFile
from igbss_stream.files.results.label_tables import LABEL_TABLE, make_excluded, make_labelling
from igbss_stream.files.results.series import Series
from igbss_stream.files.results.stored_model import Origin, StoredModel
from igbss_stream.labels.labelling import Labelling
from igbss_stream.model.learning import Learning
from igbss_stream.positions import Positions
from igbss_stream.separation.source_choice import Excluded

Array = NDArray[np.float64]

_DEFAULTS = ("sources", "data")
_MARKS = ("settings", "transform", "solver", "igbss_stream_version")


@dataclass(frozen=True, eq=False)
class OutputFacts:
    """Description of an output.

    Parameters
    ----------
    job : dict or None
        Input and options, see `igbss_stream.batch.resume`; None in files of older versions.
    solver : str
        Name of the solver.
    rate : float or None
        In Hz.
    n_samples, n_channels, n_sources : int
        A file with only a model has no samples and no rate.
    n_windows, n_failed : int
        Number of fitted windows, and of those that did not converge.
    flat, bad : tuple of str
        Channels that were left out because they are flat, and because the file marks them as bad.
    n_bad_samples : int
        Number of samples that nothing was learned from because the file marks them as bad.
    notes : tuple of str
        Decisions of the reader.
    """

    job: dict[str, Any] | None
    solver: str
    rate: float | None
    n_samples: int
    n_channels: int
    n_sources: int
    n_windows: int
    n_failed: int
    flat: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    n_bad_samples: int = 0
    notes: tuple[str, ...] = ()


class OutputFile(CheckedFile):
    """An output of `batch`, open for reading. A context manager that closes it.

    Parameters
    ----------
    path : str or path

    Raises
    ------
    RecordingError
        If it cannot be opened.
    """

    @property
    def is_output(self) -> bool:
        """Whether the file was written by `batch`."""
        with report_damage(self.path):
            return all(mark in self._file.attrs for mark in _MARKS)

    @property
    def model_version(self) -> int | None:
        """Version of the model in its stream; None unless the file is the state of a daemon."""
        with report_damage(self.path):
            found = self._file.attrs.get("model_version")
            return None if found is None else int(found)

    def read_facts(self) -> OutputFacts:
        """Read the description of the output.

        Raises
        ------
        RecordingError
            If the file was written by another program, or is damaged.
        """
        with report_damage(self.path):
            file = self._file
            mixing, unmixing = (
                self._get_model_dataset("mixing", 2, 3),
                self._get_model_dataset("unmixing", 2, 3),
            )
            sources, fits = file.get("sources"), file.get("fits")
            bad_rows = self.read_table("bad_rows")
            self._check_parts(sources)
            return OutputFacts(
                job=json.loads(file.attrs["job"]) if "job" in file.attrs else None,
                solver=str(file.attrs["solver"]),
                rate=None if sources is None else read_rate(sources, name_dataset("/sources", self.path)),
                n_samples=0 if sources is None else int(sources.shape[0]),
                n_channels=int(mixing.shape[-2]),
                n_sources=int(unmixing.shape[-2]),
                n_windows=0 if fits is None else len(fits),
                n_failed=0 if fits is None else int(np.sum(~fits["converged"])),
                flat=tuple(map(str, file.attrs.get("flat_channels", ()))),
                bad=tuple(map(str, file.attrs.get("bad_channels", ()))),
                n_bad_samples=0 if bad_rows is None else int(bad_rows["n_samples"].sum()),
                notes=tuple(map(str, file.attrs.get("notes", ()))),
            )

    def read_model(self) -> StoredModel:
        """Read the model.

        Raises
        ------
        RecordingError
            If the file was written by another program, or is damaged.
        """
        with report_damage(self.path):
            attrs = self._file.attrs
            mixing, unmixing = (
                self._get_model_dataset("mixing", 2, 3),
                self._get_model_dataset("unmixing", 2, 3),
            )
            unit = attrs.get("input_unit")
            return StoredModel(
                channels=tuple(map(str, mixing.attrs["channels"])),
                unit=None if unit is None else str(unit),
                mixing=np.asarray(mixing[()], np.float64),
                unmixing=np.asarray(unmixing[()], np.float64),
                mean=np.asarray(self._get_model_dataset("mean", 1)[()], np.float64)
                if "mean" in self._file
                else None,
                settings=json.loads(attrs["settings"]),
                transform=json.loads(attrs["transform"]),
                preparation=json.loads(attrs.get("preparation", "{}")),
                learning=self.read_learning(),
                origin=Origin.read(attrs),
                incidence=self._read_optional_weights("incidence"),
                inverse=self._read_optional_weights("inverse"),
                cut=self._get_model_dataset("cut", 1)[()].astype(np.int64, casting="same_kind")
                if "cut" in self._file
                else None,
                version=self.model_version,
                cleaning=json.loads(attrs["cleaning"]) if "cleaning" in attrs else None,
                excluded=self._read_excluded(),
                labels=self.read_labels(),
                positions=self.read_positions(),
            )

    def read_positions(self) -> Positions | None:
        """Read the positions of the channels; None if there are none.

        Raises
        ------
        RecordingError
            If the file is damaged.
        """
        with report_damage(self.path):
            handle = get_dataset(self._file, POSITIONS_NAME)
            if handle is not None:
                self._check_size(handle, POSITIONS_NAME)
            return read_positions_dataset(handle)

    def read_channel_memory(self) -> ChannelMemory | None:
        """Read what a stream has learned of its channels; None if the file has nothing on it.

        Raises
        ------
        RecordingError
            If the file is damaged.
        """
        if "channel_covariance" not in self._file:
            return None
        covariance = self._get_model_dataset("channel_covariance", 3)
        table = self.read_table("channel_memory")
        with report_damage(self.path):
            attrs, unit = covariance.attrs, covariance.attrs.get("unit")
            return ChannelMemory(
                channels=tuple(map(str, attrs["channels"])),
                rate=float(attrs["rate"]),
                unit=None if unit is None else str(unit),
                covariance=np.asarray(covariance[()], np.float64),
                table=np.zeros(0, COLUMNS) if table is None else table.astype(COLUMNS),
                n_cells=int(attrs["n_cells"]),
                n_rows=int(attrs["n_rows"]),
                n_leap_cells=int(attrs["n_leap_cells"]),
            )

    def read_learning(self) -> Learning | None:
        """Read how the structure was learned; None if that is not stored, as before version 0.2.

        Raises
        ------
        RecordingError
            If the file is damaged.
        """
        with report_damage(self.path):
            attrs = self._file.attrs
            if "learning" not in self._file or "view" not in attrs:
                return None
            losses, reliability = (
                np.asarray(self._get_model_dataset(name, 1)[()], np.float64)
                for name in ("learning", "reliability")
            )
            n_sources = self._get_model_dataset("unmixing", 2, 3).shape[-2]
            if len(reliability) != n_sources:
                raise RecordingError(
                    f"{name_dataset('/reliability', self.path)} has {len(reliability)} numbers for "
                    f"{n_sources} sources: copy the file again, or separate again"
                )
            rows = self.read_table("contradictions")
            return Learning(
                losses=tuple(losses.tolist()),
                view=float(attrs["view"]),
                contradictions={} if rows is None else dict(rows.tolist()),
                reliability=reliability,
                drift_removed=str(attrs.get("drift")) == "removed",
            )

    def open_series(self, name: str | None = None) -> Series:
        """Open a dataset of samples, to read it in blocks.

        Parameters
        ----------
        name : str, optional
            E.g. ``"cleaned"``. Default: the sources of an output, the samples of a recording of a stream.

        Raises
        ------
        RecordingError
            If there is none of that name.
        InputError
            If it contains something other than real numbers.
        """
        if name is None:
            name = next((one for one in _DEFAULTS if self.has_dataset(one)), _DEFAULTS[0])
        handle = get_dataset(self._file, name)
        if handle is None or handle.ndim != 2 or 0 in handle.shape:
            found = [n for n, h in self._file.items() if isinstance(h, h5py.Dataset) and h.ndim == 2]
            raise RecordingError(
                f"{str(self.path)!r} has no samples in a dataset {name!r}; its two-dimensional "
                "datasets are: "
                f"{', '.join(found) or 'none'}; run `igbss-stream batch` to create a file with sources"
            )
        return Series(self.path, name, self._file, handle)

    def _check_parts(self, sources: Any) -> None:
        """Check that all parts are present if the sources are stored in several files."""
        if sources is None or not sources.is_virtual:
            return
        for part in sources.virtual_sources():
            if not os.path.isfile(self.path.parent / part.file_name):
                raise RecordingError(
                    f"{str(self.path)!r} stores its sources in parts, and the part '{part.file_name}' is "
                    "missing: restore it, or separate again with --resume"
                )

    def _read_optional_weights(self, name: str) -> Array | None:
        """Read weights that only some models have."""
        return (
            np.asarray(self._get_model_dataset(name, 2, 3)[()], np.float64) if name in self._file else None
        )

    def _read_excluded(self) -> tuple[Excluded, ...]:
        """Read which sources were removed; empty if none."""
        rows = self.read_table("excluded")
        if rows is None:
            return ()
        return make_excluded(rows)

    def read_choice(self) -> bytes | None:
        """Read the choice of sources of a state of the daemon, as JSON; None if it has none."""
        handle = get_dataset(self._file, "choice")
        if handle is None or handle.shape != (1,) or handle.dtype.kind != "S":
            return None
        return bytes(handle[0])

    def read_labels(self) -> Labelling | None:
        """Read the labels of the sources; None if they were not labelled.

        Raises
        ------
        RecordingError
            If the file is damaged.
        """
        rows = self.read_table(LABEL_TABLE)
        if rows is None:
            return None
        n_sources = self._get_model_dataset("unmixing", 2, 3).shape[-2]
        with report_damage(self.path):
            notes = self._file[LABEL_TABLE].attrs.get("notes", ())
            labels = make_labelling(rows, tuple(map(str, notes)))
        if len(labels.labels) != n_sources:
            raise RecordingError(
                f"{name_dataset(f'/{LABEL_TABLE}', self.path)} has {len(labels.labels)} rows for "
                f"{n_sources} sources: copy the file again, or separate again"
            )
        return labels

    def _get_model_dataset(self, name: str, *ndim: int) -> Any:
        """Return a dataset of the model, which must have one of the given numbers of axes."""
        handle = get_dataset(self._file, name)
        if not self.is_output or handle is None or not is_numeric(handle):
            raise RecordingError(
                f"{str(self.path)!r} was not written by `igbss-stream batch`; pass one of its outputs"
            )
        if handle.ndim not in ndim:
            raise RecordingError(
                f"{name_dataset(f'/{name}', self.path)} has {handle.ndim} axes, instead of "
                f"{' or '.join(map(str, ndim))}: copy the file again, or separate again"
            )
        self._check_size(handle, name)
        return handle


def is_output(path: Path) -> bool:
    """Return whether a file was written by `batch`; False if it cannot be opened.

    Parameters
    ----------
    path : Path
    """
    try:
        with OutputFile(path) as output:
            return output.is_output
    except RecordingError:
        return False


def read_output_facts(path: Path) -> OutputFacts:
    """Read the description of an output.

    Parameters
    ----------
    path : Path

    Returns
    -------
    OutputFacts

    Raises
    ------
    RecordingError
        If it cannot be read, or was written by another program.
    """
    with OutputFile(path) as output:
        return output.read_facts()
