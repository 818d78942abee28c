"""`igbss_stream.mne.label_sources`: labels of an ICA, by names and by positions."""

import numpy as np
import pytest

from igbss_stream.errors import ParameterError
from tests.labels.heads import NAMES, POSITIONS, RATE, SOURCES, make_sources

mne = pytest.importorskip("mne")

from igbss_stream.mne import fit_ica, label_sources  # noqa: E402


@pytest.mark.jit
def test_sources_are_labelled_by_positions_or_names() -> None:
    """Labels are those of arrays; `ica.labels_` has the keys of MNE-ICALabel."""
    courses, maps = make_sources(2)
    x = 1e-6 * courses @ maps.T
    x += 1e-7 * np.random.default_rng(0).normal(size=x.shape)
    raw = mne.io.RawArray(x.T, mne.create_info(list(NAMES), RATE, "eeg"), verbose="ERROR")
    ica = fit_ica(raw, n_components=7)
    by_name = label_sources(ica, raw)
    assert sorted(by_name.labels) == sorted(SOURCES)
    assert [len(found) for found in ica.labels_.values()] == [1, 1, 2, 1, 1, 1, 0]
    assert list(ica.labels_) == ["brain", "muscle", "eog", "ecg", "line_noise", "ch_noise", "other"]
    mne.rename_channels(raw.info, {name: f"X{name}" for name in NAMES})
    places = 0.095 * POSITIONS + [0.0, 0.01, 0.04]  # in metres, on a head that is not at the origin
    at = {f"X{name}": place for name, place in zip(NAMES, places, strict=True)}
    raw.set_montage(mne.channels.make_dig_montage(at, coord_frame="head"))
    ica = fit_ica(raw, n_components=7)
    by_position = label_sources(ica, raw)
    assert by_position.labels == by_name.labels
    assert by_position.notes == ()
    with pytest.raises(ParameterError, match="not fitted"):
        label_sources(mne.preprocessing.ICA(), raw)
