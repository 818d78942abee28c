"""`batch` and the daemon prepare samples before they separate them."""

import dataclasses
import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from scipy import signal

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.cli import main
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.daemon import Daemon
from igbss_stream.errors import StateError
from igbss_stream.preparation.online import OnlinePreparation
from igbss_stream.preparation.resampling import get_polyphase_filter
from igbss_stream.preparation.settings import Preparation
from tests.commands import SYSTEMATIC, Command, Refusal, assert_says
from tests.doc_pages import commands, run_python, text_of
from tests.prepared import drifting
from tests.realdata import DATA, needs_data
from tests.recordings import NAMES, noise, read_output, unmixed, unmixed_by, write_recording

OPTIONS = "--bandpass 1:40 --notch 50,100 --notch 75 --reference average --resample 100"


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """Return a recording of 3000 samples at 250 Hz with a gap after 2000."""
    path = write_recording(
        tmp_path / "in.h5", drifting(3000, 4), rate=250.0, unit="uV", channels=NAMES, t0=0.0
    )
    with h5py.File(path, "a") as file:
        kind = [("row", "i8"), ("start", "i8"), ("n_samples", "i8"), ("reason", "S40")]
        file["gaps"] = np.array([(2000, 2000, 13, b"lost")], kind)
    return path


def prepared_by_scipy() -> np.ndarray:
    """Return what the options come to, from SciPy's functions on whole arrays."""
    x = drifting(3000, 4)
    x -= x.mean(axis=1, keepdims=True)
    sos = np.concatenate(
        [
            signal.butter(4, 1.0, "highpass", output="sos", fs=250.0),
            signal.butter(4, 40.0, "lowpass", output="sos", fs=250.0),
            *(signal.tf2sos(*signal.iirnotch(f, f / 2.0, fs=250.0)) for f in (50.0, 100.0, 75.0)),
        ]
    )
    before, after = (signal.sosfiltfilt(sos, part, axis=0) for part in (x[:2000], x[2000:]))
    taps = get_polyphase_filter(2, 5).taps / 2
    before = signal.resample_poly(before, 2, 5, axis=0, window=taps, padtype="edge")
    # Index 2013 is no place of the new grid; 2015 is the next, two old samples on.
    pad = np.concatenate([np.repeat(after[:1], 498, axis=0), after])
    after = signal.resample_poly(pad, 2, 5, axis=0, window=taps, padtype="edge")[200:]
    return np.concatenate([before, after])


def test_batch_separates_what_is_prepared(separated: Command, long: Path, tmp_path: Path) -> None:
    line = separated(long, *OPTIONS.split()).output
    want = prepared_by_scipy()
    assert_says(line, f"4 channels x {len(want)} samples", "at 100 Hz")
    output = read_output(tmp_path / "out.h5")
    assert output.rate == 100.0
    expected = unmixed_by(output, want)
    np.testing.assert_allclose(output.sources, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    assert json.loads(output.attrs["preparation"]) == {
        "highpass": 1.0,
        "lowpass": 40.0,
        "filter_order": 4,
        "notch": [50.0, 100.0, 75.0],
        "notch_width": 2.0,
        "resample": 100.0,
        "reference": "average",
    }
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["gaps"][:].tolist() == [(800, 800, 6, b"lost")]


@pytest.mark.jit
def test_a_run_that_prepares_nothing_says_so(separated: Command, long: Path, tmp_path: Path) -> None:
    separated(long)
    output = read_output(tmp_path / "out.h5")
    assert json.loads(output.attrs["preparation"])["resample"] is None
    np.testing.assert_allclose(output.sources, unmixed_by(output, drifting(3000, 4)), rtol=1e-9, atol=1e-9)


def test_flat_channels_are_left_out_of_the_reference(
    separated: Command, batch_refused: Refusal, tmp_path: Path
) -> None:
    x = noise(500)
    x[:, 1] = 5.0
    path = write_recording(tmp_path / "in.h5", x, channels=NAMES)
    assert_says(batch_refused(path, "--reference", "average"), "1 of 4 channels", "Cz", "--drop-flat")
    assert_says(separated(path, "--reference", "average", "--drop-flat").output, "left out as flat: Cz")
    kept = x[:, [0, 2, 3]]
    output = read_output(tmp_path / "out.h5")
    referenced = kept - kept.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(output.sources, unmixed_by(output, referenced), atol=1e-12)
    assert output.sources.shape == (500, 2)  # the rank
    assert output.names["mixing"] == ["Fz", "Pz", "Oz"]


@pytest.mark.jit
def test_the_length_of_a_window_is_at_the_new_rate(separated: Command, long: Path, tmp_path: Path) -> None:
    separated(long, "--resample", 125, "--solver", "joint", "--latent-mass", 0.01, "--window", 2)
    assert set(read_output(tmp_path / "out.h5").fits["n_samples"][:-1]) == {250}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--bandpass 1-40", ["--bandpass", "two frequencies, such as 1:40", "'1-40'"]),
        ("--bandpass 1:40 --lowpass 30", ["--bandpass", "--bandpass sets --highpass and --lowpass"]),
        ("--bandpass 40:1", ["highpass", "below lowpass", "40 Hz"]),
        ("--notch 50;100", ["--notch", "50 or 50,100", "'50;100'"]),
        ("--lowpass 125", ["lowpass", "below 125 Hz", "125 Hz"]),
        ("--resample 99.987", ["resample", "ratio of whole numbers", "nearest", "Hz"]),
        ("--reference A1", ["reference", "A1", "no channel", "Fz, Cz, Pz, Oz"]),
        ("--highpass 1e-5", ["highpass", "at least 0.0025 Hz", "1e-05 Hz"]),
    ],
)
def test_mistakes_are_refused(batch_refused: Refusal, long: Path, options: str, words: list[str]) -> None:
    assert_says(batch_refused(long, *options.split()), *words)


def test_a_recording_without_a_rate(batch_refused: Refusal, separated: Command, tmp_path: Path) -> None:
    path = write_recording(tmp_path / "in.h5", noise(300))
    assert_says(batch_refused(path, "--notch", "50"), "filters and resampling need", "pass --rate")
    separated(path, "--notch", "50", "--rate", 250)


def test_the_daemon_separates_what_is_prepared(tmp_path: Path) -> None:
    x = drifting(3000, 4)
    holed = np.concatenate([x[:2000], np.full((13, 4), np.nan), x[2000:]])
    write_recording(tmp_path / "in.h5", holed, rate=250.0)
    path = tmp_path / "run.yaml"
    path.write_text(
        f"""
        streams:
          - name: s
            source: {{kind: file, path: in.h5, speed: 0}}
            repair: {{gap: interpolate, max_fill: 0.02}}
            prepare: {{reference: average, highpass: 1, notch: [50], resample: 100}}
            model: {{structure: systematic}}
            sinks: [{{kind: hdf5, path: {tmp_path / "out.h5"}, if_exists: overwrite}}]
        state: {{path: state}}
        """
    )
    daemon = Daemon(load(path), path)
    daemon.run()
    stage = OnlinePreparation(
        Stream("s", 250.0, NAMES, dtype=np.dtype("f8")),
        Preparation(reference="average", highpass=1.0, notch=(50.0,), resample=100.0),
    )
    items: list[Chunk | Gap] = [Chunk(x[:2000], 0), Gap(2000, 13, "bad"), Chunk(x[2000:], 2013)]
    done = [one for item in items for one in stage.push(item)] + stage.flush()
    want = np.concatenate([one.data for one in done if isinstance(one, Chunk)])
    with h5py.File(tmp_path / "out.h5") as file:
        np.testing.assert_allclose(file["data"][:], unmixed(want), rtol=1e-9, atol=1e-9)
        assert file["gaps"][:].tolist() == [(800, 800, 6, b"bad")]
        assert file["data"].attrs["rate"] == 100.0
        # 5 samples of repair are 2 of the new rate
        assert file.attrs["delay"] == 26 + 2
    (runner,) = daemon.runners
    assert (runner.samples_in, runner.samples_out, runner.samples_gap) == (3013, len(want), 6)
    assert len(want) + 6 == -(-3013 * 2 // 5)
    Daemon(load(path), path)._close()  # the model is used if the preparation is the same
    path.write_text(path.read_text().replace("highpass: 1", "highpass: 2"))
    with pytest.raises(StateError, match=r"prepare\.highpass was 1\.0 and is now 2\.0\. Remove it"):
        Daemon(load(path), path)


def test_the_code_of_the_documentation_runs(
    long: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    long.rename("eeg.h5")
    run_python("docs/preparing.md")
    assert capsys.readouterr().out.splitlines()[-1] == "1000 (500, 4) 125.0"
    (command,) = commands("docs/preparing.md")
    runner = CliRunner()
    result = runner.invoke(main, [*command.words[1:], "--structure", "systematic"])
    assert result.exit_code == 0, result.output


def test_the_options_are_those_of_the_documentation() -> None:
    table = text_of("docs/preparing.md").split("## The steps")[0]
    listed = re.findall(r"`(--[a-z-]+)[^`]*`", "".join(re.findall(r"^\|.*", table, re.M)))
    ours = {option for param in main.commands["batch"].params for option in param.opts}
    fields = {field.name.replace("_", "-") for field in dataclasses.fields(Preparation)}
    assert set(listed) == {f"--{name}" for name in fields | {"bandpass"}}
    assert set(listed) <= ours


@needs_data
def test_a_notch_lowers_the_mains_and_leaves_the_rest(separated: Command, tmp_path: Path) -> None:
    """Eight electrodes with a hum of 60 Hz, 33 to 45 dB above its surroundings, which are measured alongside."""
    path = DATA / "hdf5" / "openbci8_250hz.h5"
    spectra = []
    for options in ((), ("--notch", "60", "--notch-width", "4")):
        separated(path, *SYSTEMATIC, "--overwrite", *options)  # the same weights for both
        sources = read_output(tmp_path / "out.h5").sources.astype(np.float64)
        f, power = signal.welch(sources, 250.0, nperseg=1024, axis=0)
        spectra.append(10 * np.log10(power))
    change = spectra[1] - spectra[0]
    assert (change[np.abs(f - 60) < 0.2] < -30).all()
    beside = (np.abs(f - 60) > 10) & (f > 1)
    assert np.abs(change[beside]).max() < 0.5
