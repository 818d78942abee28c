"""The code in docs/interoperate.md runs as it stands."""

from pathlib import Path

import numpy as np
import pytest

from tests.commands import Command
from tests.doc_pages import run_python
from tests.recordings import NAMES, noise, read_output


@pytest.mark.jit
def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mne = pytest.importorskip("mne")
    monkeypatch.chdir(tmp_path)
    with mne.use_log_level("ERROR"):
        run_python("docs/interoperate.md")
    assert (tmp_path / "clean-ica.fif").exists()


@pytest.mark.jit
def test_a_fif_through_batch_into_an_ica(separated: Command, tmp_path: Path) -> None:
    """From file to file to ICA: `apply` takes out of the Raw what the output says of a source."""
    mne = pytest.importorskip("mne")
    from igbss_stream.mne import ica_of_output

    x = 1e-5 * noise(800) ** 3 @ np.random.default_rng(2).standard_normal((4, 4)).T
    info = mne.create_info([*NAMES, "trigger"], 250.0, ["eeg"] * 4 + ["stim"])
    raw = mne.io.RawArray(np.vstack([x.T, np.zeros(800)]), info, verbose="ERROR")
    raw.save(tmp_path / "in_raw.fif", fmt="double", verbose="ERROR")
    separated(tmp_path / "in_raw.fif", "--structure", "learned", "--n-sources", 3)
    output = read_output(tmp_path / "out.h5")
    ica = ica_of_output(tmp_path / "out.h5", raw.info)
    found = ica.get_sources(raw).get_data().T
    np.testing.assert_allclose(found, output.sources, rtol=1e-9, atol=1e-9)
    cleaned = ica.apply(raw.copy(), exclude=[1], verbose="ERROR").get_data(list(NAMES)).T
    want = x - np.outer(output.sources[:, 1], output.mixing[:, 1])
    np.testing.assert_allclose(cleaned, want, atol=1e-10 * x.std())
