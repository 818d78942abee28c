"""`check` and `run` refuse a model in a file that does not match the configuration."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.stream_settings import StreamSettings
from igbss_stream.files.results.output import OutputFile
from tests.calibrations import FILE, configure
from tests.commands import Command
from tests.recordings import write_recording

pytestmark = pytest.mark.jit  # learns structures

CLEANED_SINK = "{kind: hdf5, path: out/live.h5, publish: cleaned}"
MISTAKES: dict[str, tuple[str, dict[str, Any], str]] = {
    "no file": ("from: none.h5", {}, "model.from: .*none.h5' does not exist"),
    "no output": ("from: in.h5", {}, "model.from: .*in.h5' was not written by `igbss-stream batch`"),
    "text": ("from: run.yaml", {}, "model.from: .*run.yaml' is not an HDF5 file"),
    "another scaling": (
        "from: sources.h5, scaling: back-projected",
        {},
        "model.scaling is 'unit-variance' in '.*sources.h5', which model.from names. Got 'back-proj",
    ),
    "another number": ("from: sources.h5, n_sources: 3", {}, "model.n_sources is 4 in .* Got 3 instead"),
    "nothing to remove": (
        "from: sources.h5",
        {"sinks": [CLEANED_SINK]},
        r"sinks\[0\].publish is cleaned, but",
    ),
    "another channel": (
        "from: sources.h5",
        {"more": "    clean: {exclude_like: [{channel: Fz}]}"},
        "clean.exclude_like is not that of '.*sources.h5'",
    ),
    "no such source": (
        "from: sources.h5",
        {"more": "    clean: {exclude: [9]}"},
        "model.from: source 9 cannot be removed: there are 4",
    ),
    "a missing channel": (
        "from: sources.h5",
        {"source": "{kind: file, path: in.h5, channels: [EOG, Cz, Pz]}"},
        "model.from: the stream lacks channels of the model of '.*': Fz",
    ),
    "a missing name": (
        "from: sources.h5",
        {"source": "{kind: zmq, address: '1', channels: [EOG, Fz, C3, Pz]}"},
        "model.from: the stream lacks channels of the model of '.*': Cz. It has EOG, Fz, C3, Pz;",
    ),
    "another reference": (
        "from: sources.h5",
        {"more": "    prepare: {reference: [Pz]}"},
        "model.from: prepare.reference leaves other channels than those of the model of '.*': Pz; leave",
    ),
    "another unit": (
        "from: sources.h5",
        {"source": "{kind: zmq, address: '1', channels: [EOG, Fz, Cz, Pz], unit: mV}"},
        "model.from: the stream is in mV, but the model of '.*' was learned in uV",
    ),
}


@pytest.mark.parametrize(("model", "options", "words"), MISTAKES.values(), ids=MISTAKES)
def test_check_refuses(
    igbss: Command,
    calibrate: Callable[..., Path],
    tmp_path: Path,
    model: str,
    options: dict[str, Any],
    words: str,
) -> None:
    calibrate()
    path = configure(tmp_path, model, **{"source": FILE} | options)
    result = igbss("check", path)
    assert result.exit_code == 2
    assert re.search(rf"run\.yaml: streams\[0\]\.{words}", result.stderr), result.stderr
    if not {"source", "more"} & set(options) or "clean" in options.get("more", ""):
        result = igbss("run", path)
        assert result.exit_code == 2
        assert re.search(f"^Error: stream s: {words}", result.stderr, re.M), result.stderr


@pytest.mark.slow
def test_products_are_refused(igbss: Command, calibrate: Callable[..., Path], tmp_path: Path) -> None:
    calibrate("--order", "2", "--n-sources", "2")
    result = igbss("check", configure(tmp_path, source=FILE))
    assert result.exit_code == 2
    assert "has order 2, and products of sources cannot be applied to a stream" in result.stderr


def test_keys_that_need_or_rule_out_a_file(igbss: Command, tmp_path: Path) -> None:
    result = igbss("check", configure(tmp_path, "follow: true"))
    assert result.exit_code == 2
    assert "streams[0].model.follow needs from, the file with the first model." in result.stderr
    result = igbss("check", configure(tmp_path, "from: out/live.h5"))
    assert result.exit_code == 2
    assert "out/live.h5' is used by streams[0].model.from as well" in result.stderr


def test_the_log_states_the_labels_of_the_file(igbss: Command, tmp_path: Path) -> None:
    names = ("Fp1", "Fp2", "C3", "C4", "O1", "O2")
    x = 1e-5 * np.random.default_rng(90_413).laplace(size=(2000, 6)) @ np.diag([9, 8, 1, 1, 1, 1])
    write_recording(tmp_path / "in.h5", x, rate=250.0, unit="V", channels=names)
    assert igbss("batch", tmp_path / "in.h5", "-o", tmp_path / "sources.h5").exit_code == 0
    (tmp_path / "run.yaml").write_text(
        "streams: [{name: s, source: {kind: file, path: in.h5}, model: {from: sources.h5}, "
        "sinks: [{kind: hdf5, path: out.h5}]}]"
    )
    (stream,) = load(tmp_path / "run.yaml").streams
    (line,) = (text for text in StreamSettings.create(stream).iter_start() if text.startswith("labels"))
    with OutputFile(tmp_path / "sources.h5") as file:
        labels = file.read_labels()
    assert labels is not None
    others = [name for name in labels.labels if name != "brain"]
    assert line.startswith(f"labels in '{tmp_path / 'sources.h5'}': ")
    assert f"{6 - len(others)} brain" in line
    assert all(name in line for name in others)
