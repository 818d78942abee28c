"""Positions of channels in streams: descriptions of LSL, the wire, and the map of the live page."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pylsl
import pytest

from igbss_stream.chunk import Stream
from igbss_stream.daemon.config.sources import LslInput
from igbss_stream.daemon.descriptions import apply_expectations
from igbss_stream.feeds.encoder import Encoder
from igbss_stream.feeds.lsl_inlet import LslInlet
from igbss_stream.feeds.lsl_publisher import LslPublisher
from igbss_stream.feeds.model_facts import Mixing, SensorPositions
from igbss_stream.feeds.wire import MetaMessage, decode
from igbss_stream.pages.view.side_plots import ScalpMap
from igbss_stream.pages.view.state import MixingWeights, ViewState
from igbss_stream.positions import HEAD, Positions
from tests import lsl_settings
from tests.waiting import DEADLINE

assert lsl_settings

NAMES = ("A1", "A2", "A3", "A4", "A5")
XYZ = np.array(
    [[0.0, 0.09, 0.06], [0.07, 0.01, 0.06], [-0.07, 0.01, 0.06], [0.0, 0.0051234, 0.13], [np.nan] * 3]
)
POSITIONS = Positions.from_table(NAMES, XYZ, HEAD, "montage cap.csv")
STREAM = Stream("eeg", 250.0, NAMES, "uV", positions=POSITIONS)


def test_locations_of_lsl_are_in_millimetres() -> None:
    info = pylsl.StreamInfo("cap", "EEG", 3, 100.0, "float32", "device")
    channels = info.desc().append_child("channels")
    for label, at in (("A1", ("12.5", "-80", "40")), ("A2", None), ("A3", ("0", "0", "up"))):
        channel = channels.append_child("channel")
        channel.append_child_value("label", label)
        if at is not None:
            location = channel.append_child("location")
            for axis, value in zip("XYZ", at, strict=True):
                location.append_child_value(axis, value)
    outlet = pylsl.StreamOutlet(info)
    with LslInlet("cap", timeout=DEADLINE) as inlet:
        found = inlet.stream.positions
    assert found is not None
    assert (found.names, found.source) == (("A1", "A2", "A3"), "positions of the stream (LSL)")
    np.testing.assert_allclose(found.xyz[0], [0.0125, -0.08, 0.04])
    assert found.is_known.tolist() == [True, False, False]
    del outlet


def test_published_positions_arrive_over_lsl() -> None:
    with LslPublisher() as sink:
        sink.start(STREAM)
        with LslInlet("eeg", timeout=DEADLINE) as inlet:
            found = inlet.stream.positions
    assert found is not None
    np.testing.assert_allclose(found.xyz, XYZ, atol=1e-7)


def test_a_stream_of_lsl_without_locations_has_no_positions() -> None:
    with LslPublisher() as sink:
        sink.start(Stream("eeg", 250.0, NAMES, "uV"))
        with LslInlet("eeg", timeout=DEADLINE) as inlet:
            assert inlet.stream.positions is None


def test_names_and_montages_of_a_configuration(tmp_path: Any) -> None:
    renamed = apply_expectations("s", LslInput(name="eeg", channels=tuple("abcde")), STREAM)
    assert renamed.positions is not None
    assert renamed.positions.names == tuple("abcde")
    np.testing.assert_array_equal(renamed.positions.xyz, XYZ)
    (tmp_path / "cap.csv").write_text("name,x,y,z\nA1,0,0,0.1\nA2,0.05,0,0.1\n")
    placed = apply_expectations("s", LslInput(name="eeg", montage=tmp_path / "cap.csv"), STREAM)
    assert placed.positions is not None
    assert placed.positions.is_known.tolist() == [True, True, False, False, False]


def receive(encoder: Encoder) -> MetaMessage:
    frames = [bytes(frame) for frame in encoder.encode_meta()]
    found = decode(frames)
    assert isinstance(found, MetaMessage)
    return found


def test_the_wire_has_positions_of_channels_and_of_the_mixing() -> None:
    encoder = Encoder(STREAM, 1)
    rounded = Positions.from_table(NAMES, XYZ.round(6), HEAD, POSITIONS.source)
    assert receive(encoder).description == replace(STREAM, positions=rounded)
    stated = SensorPositions.from_stream(STREAM)
    mixing = Mixing(
        version=1, channels=NAMES, matrix=tuple(map(tuple, np.eye(5).tolist())), positions=stated
    )
    encoder.set_model(mixing)
    assert receive(encoder).mixing == mixing
    header = json.loads(encoder.encode_meta()[1])
    assert header["positions"]["xyz"] == [*XYZ[:3].tolist(), [0.0, 0.005123, 0.13], None]


def test_streams_without_positions_have_the_description_of_before() -> None:
    header = json.loads(Encoder(Stream("eeg", 250.0, NAMES), 1).encode_meta()[1])
    assert "positions" not in header


@pytest.mark.parametrize("xyz", [((0.0, 0.0, 0.1),), (None,) * 9])
def test_positions_that_do_not_fit_the_channels_are_left_out(xyz: Any) -> None:
    assert SensorPositions(xyz=xyz).as_positions(NAMES) is None


def test_the_live_page_draws_a_map_by_position() -> None:
    scalp = ScalpMap()
    matrix = tuple(map(tuple, np.eye(5).tolist()))
    for positions, is_visible in ((SensorPositions.from_stream(STREAM), True), (None, False)):
        mixing = Mixing(version=1, channels=NAMES, matrix=matrix, positions=positions)
        scalp.show(MixingWeights.from_wire(mixing), 0)
        assert scalp.plot.visible == is_visible
    assert scalp.reason == "no positions are known, and 2 of 5 channels have names of the 10-20 system"


def test_a_montage_replaces_the_positions_on_the_page() -> None:
    montage = Positions.from_table(("A4", "A3", "A2", "A1"), XYZ[3::-1], HEAD, "montage cap.csv")
    mixing = Mixing(version=1, channels=NAMES, matrix=tuple((1.0, 0.0) for _ in NAMES))
    state = ViewState(montage=montage)
    meta = MetaMessage(
        version=1, stream="s", run=1, rate=250.0, dtype="float32", channels=("s0", "s1"), mixing=mixing
    )
    state.update([], meta)
    assert state.weights is not None
    scalp = ScalpMap()
    scalp.show(state.weights, 0)
    assert scalp.plot.visible
    assert scalp._dots.data["name"] == list(NAMES[:4])
