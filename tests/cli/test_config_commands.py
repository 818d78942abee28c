"""`check`, `init` and `schema`."""

import json
import os
from pathlib import Path

import pytest

from tests.commands import Command, Refusal, Spawn, assert_says, contents
from tests.recordings import RATE, noise, write_recording
from tests.waiting import DEADLINE

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
SECRET = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"


def test_there_is_a_configuration_for_each_use() -> None:
    names = {path.stem for path in CONFIGS}
    assert names == {
        "eeg-zmq",
        "clean-eeg",
        "eeg-prepared",
        "sensors-pull",
        "lsl",
        "openephys",
        "secure",
        "record",
        "calibrated",
    }


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configurations_are_valid(igbss: Command, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setenv("IGBSS_KEY", SECRET)
    result = igbss("check", path)
    missing = {"record": ("source", "recording.h5"), "calibrated": ("model.from", "calibrated.h5")}
    has_input = path.stem not in missing  # others read a file that is not there
    assert result.exit_code == (0 if has_input else 2), result.output
    assert_says(result.stdout, str(path), "from", "to")
    assert SECRET not in result.output
    assert path.read_text().startswith("# ")
    expected = []
    if not has_input:
        key, name = missing[path.stem]
        expected = [f"streams[0].{key}: '{path.parent / name}' does not exist"]
    lines = result.stderr.splitlines()
    assert len(lines) == len(expected), lines
    assert_says(result.stderr, *expected)


def test_check_shows_what_would_run(igbss: Command, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        """
        streams:
          - name: one
            source: {kind: zmq, address: "*:5551", bind: true, socket: pull}
            sinks: [{kind: zmq, address: "5560"}, {kind: lsl, name: two}]
          - name: two
            source: {kind: file, path: in.h5, loop: true}
            prepare: {reference: average, highpass: 1, lowpass: 40, notch: [50, 100], resample: 250}
            model: {structure: systematic, n_sources: 3}
            sinks: [{kind: hdf5, path: out.h5}]
          - name: three
            source: {kind: file, path: in.h5, speed: 2}
            model: {structure: {file: weights.csv}}
            sinks: [{kind: hdf5, path: three.h5, rotate: "1d,2GB"}]
        state: {path: models}
        health: {port: 9464}
        """
    )
    write_recording(tmp_path / "in.h5", noise(), rate=RATE)
    (tmp_path / "weights.csv").write_text("1,0\n1,1\n")
    result = igbss("check", path)
    assert result.exit_code == 0
    assert result.stdout.replace(str(tmp_path), "").splitlines() == [
        "/run.yaml: 3 streams",
        "  one",
        "    from  zmq bound to tcp://*:5551, pull",
        "    by    structure learned after 10 s and then every 10 s",
        "    to    zmq bound to tcp://127.0.0.1:5560",
        "    to    lsl outlet two",
        "  two",
        "    from  file /in.h5, 1 times real time, in a loop",
        "    with  reference average; highpass 1 Hz; lowpass 40 Hz; notch 50, 100 Hz; resample 250 Hz",
        "    by    structure systematic; 3 sources",
        "    to    hdf5 /out.h5",
        "  three",
        "    from  file /in.h5, 2 times real time",
        "    by    structure in /weights.csv",
        "    to    hdf5 /three.h5, a new file every 1d,2GB",
        "  state in /models, every 60 s",
        "  health at http://127.0.0.1:9464/health",
    ]
    assert_says(result.stderr, "Warning: streams[0].source.address is open to the network")


def test_check_as_json(igbss: Command, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        "streams: [{name: a, source: {kind: zmq, address: '*:5551', bind: true}, "
        "sinks: [{kind: zmq, address: '5560'}, {kind: hdf5, path: out.h5}]}]"
    )
    result = igbss("check", path, "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert found["streams"] == [{"name": "a", "source": "zmq", "sinks": ["zmq", "hdf5"]}]
    assert (found["path"], found["mistakes"], len(found["warnings"])) == (str(path), [], 1)
    path.write_text("strems: []\nlog: {level: x}")
    result = igbss("check", path, "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, result.stderr, found["streams"]) == (2, "", [])
    assert found["mistakes"] == igbss("check", path).stderr.removeprefix("Error: ").splitlines()


def test_check_refuses_libraries_that_are_not_installed(
    igbss: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        "streams: [{name: a, source: {kind: lsl, type: EEG}, "
        "sinks: [{kind: zmq, address: '5560'}, {kind: lsl, name: x}]}]\nview: {}"
    )
    assert igbss("check", path).stderr == ""
    monkeypatch.setattr("igbss_stream.daemon.check.find_spec", lambda name: None)
    result = igbss("check", path)
    assert result.exit_code == 2
    assert_says(
        result.stderr,
        "streams[0].source needs pylsl",
        "streams[0].sinks[1] needs pylsl, which is not installed: pip install 'igbss-stream[lsl]'",
        "view needs Bokeh, which is not installed: pip install 'igbss-stream[view]'",
    )


def test_check_refuses_with_the_place(refused: Refusal, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        "streams:\n  - name: a b\n    source: {kind: lsl, type: EEG}\n    sinks: [{kind: lsl, name: x}]"
    )
    message = refused("check", path)
    assert message.startswith("Error: /run.yaml:2: streams[0].name must be a name of letters")
    assert "does not exist" in refused("check", tmp_path / "nothing.yaml")


OLD_NAMES: dict[str, tuple[str, str]] = {
    "kind of a source": (
        "source: {kind: hdf5, path: in.h5}\n    sinks: [{kind: hdf5, path: out.h5}]",
        "streams[0].source.kind 'hdf5' was renamed; write file instead.",
    ),
    "patience of ZeroMQ": (
        "source: {kind: zmq, address: '5555', patience: 0}\n    sinks: [{kind: hdf5, path: out.h5}]",
        "streams[0].source.patience was renamed; write reorder_window instead.",
    ),
    "patience of Open Ephys": (
        "source: {kind: openephys, patience: 0}\n    sinks: [{kind: hdf5, path: out.h5}]",
        "streams[0].source.patience was renamed; write reorder_window instead.",
    ),
    "least": (
        "source: {kind: openephys}\n    clean: {exclude_like: [{channel: EOG, least: 0.5}]}\n"
        "    sinks: [{kind: hdf5, path: out.h5}]",
        "streams[0].clean.exclude_like[0].least was renamed; write min_correlation instead.",
    ),
    "existing": (
        "source: {kind: openephys}\n    sinks: [{kind: hdf5, path: out.h5, existing: append}]",
        "streams[0].sinks[0].existing was renamed; write if_exists instead.",
    ),
}


@pytest.mark.parametrize(("stream", "message"), OLD_NAMES.values(), ids=OLD_NAMES)
@pytest.mark.parametrize("command", ["check", "run"])
def test_an_old_name_is_refused_with_the_new_one(
    igbss: Command, tmp_path: Path, command: str, stream: str, message: str
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"streams:\n  - name: a\n    {stream}\n")
    result = igbss(command, path)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.endswith(f": {message}")


def test_check_reports_all_mistakes(igbss: Command, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("strems: []\nlog: {level: x}")
    result = igbss("check", path)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert [line.split(" ")[-1] for line in result.stderr.splitlines()] == ["streams?", "1.", "instead."]


def test_init_writes_what_check_accepts(
    igbss: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = igbss("init")
    assert result.exit_code == 0
    assert_says(result.output, "igbss.yaml", "igbss-stream check igbss.yaml")
    assert igbss("check", "igbss.yaml").exit_code == 0
    assert list(contents(tmp_path)) == [tmp_path / "igbss.yaml"]
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "igbss.yaml").stat().st_mode & 0o777 == 0o666 & ~umask


def test_init_takes_the_kinds_of_source_and_sink(igbss: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    assert igbss("init", path, "--source", "file", "--sink", "lsl").exit_code == 0
    assert_says(igbss("check", path).stdout, "from  file", "to    lsl")


def test_init_replaces_a_file_only_on_request(igbss: Command, refused: Refusal, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("mine")
    assert_says(refused("init", path), "a.yaml' exists", "--overwrite")
    assert igbss("init", path, "--overwrite").exit_code == 0
    assert "streams:" in path.read_text()
    (tmp_path / "dangling.yaml").symlink_to("nowhere")
    assert "exists" in refused("init", tmp_path / "dangling.yaml")


def test_init_where_nothing_can_be_written(refused: Refusal, tmp_path: Path) -> None:
    assert_says(refused("init", tmp_path / "none" / "a.yaml"), "cannot be written", "No such file")
    (tmp_path / "folder").mkdir()
    assert "cannot be written" in refused("init", tmp_path / "folder", "--overwrite")
    assert "cannot be written" in refused("init", "/", "--overwrite")


def test_init_on_a_full_disk_leaves_the_older_file(
    igbss: Command, refused: Refusal, tmp_path: Path, spawn: Spawn
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("mine")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    process = spawn("init", path, "--overwrite", before=limit)
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 2
    assert_says(errors, "Error:", "cannot be written", "File too large")
    assert contents(tmp_path) == {path: b"mine"}


def test_schema_is_json(igbss: Command) -> None:
    result = igbss("schema")
    assert result.exit_code == 0
    assert json.loads(result.output)["$ref"] == "#/$defs/Config"


def test_reference_is_the_page(igbss: Command) -> None:
    page = Path(__file__).parents[2] / "docs" / "configuration.md"
    assert igbss("schema", "--markdown").output == page.read_text()
