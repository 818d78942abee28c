"""Messages: round trips, rejections, and floods of random messages."""

import dataclasses
import json
import random
import struct
import tracemalloc
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import IgbssError, ParameterError, WireError
from igbss_stream.feeds.cleaning_facts import CleaningFacts
from igbss_stream.feeds.encoder import Encoder
from igbss_stream.feeds.model_facts import LearningFacts, Mixing
from igbss_stream.feeds.wire import (
    DataMessage,
    EndMessage,
    GapMessage,
    Message,
    MetaMessage,
    RejectReason,
    WireLimits,
    decode,
)
from igbss_stream.model.learning import Learning

STREAM = Stream("EEG Ω", 1000.25, ("Fp1", "Čz", "O2"), "µV", np.dtype(np.float32), 1.7e9, 5)
FIELDS: dict[str, Any] = {
    "version": 1, "kind": "data", "stream": "s", "rate": 250, "dtype": "float32", "shape": [2, 3], "start": 4, "seq": 7
}  # fmt: skip
BUFFER = np.arange(6, dtype="<f4").tobytes()


def sent(frames: list[Any]) -> list[bytes]:
    """Return frames as bytes, as they arrive."""
    return [bytes(frame) for frame in frames]


def refusal(frames: list[bytes], limits: WireLimits | None = None) -> WireError:
    with pytest.raises(WireError) as caught:
        decode(frames, limits or WireLimits())
    assert caught.value.reason in set(RejectReason)
    assert str(caught.value).startswith(f"{caught.value.reason}: ")
    return caught.value


def read(changes: dict[str, Any] | None = None, buffer: bytes = BUFFER, topic: bytes = b"s") -> Message:
    header = {name: value for name, value in (FIELDS | (changes or {})).items() if value is not ...}
    return decode([topic, json.dumps(header).encode(), buffer])


def refused(changes: dict[str, Any], buffer: bytes = BUFFER) -> WireError:
    with pytest.raises(WireError) as caught:
        read(changes, buffer)
    return caught.value


@given(
    st.integers(1, 40),
    st.integers(0, 2**53 - 41),
    st.integers(0, 99),
    st.sampled_from([np.float32, np.float64]),
)
def test_chunks_come_back_bit_for_bit(n_samples: int, start: int, model: int, dtype: type) -> None:
    stream = Stream(STREAM.name, STREAM.rate, STREAM.channels, None, np.dtype(dtype))
    data: NDArray[Any] = np.random.default_rng(n_samples).standard_normal((n_samples, 3)).astype(dtype)
    data[0] = np.nan, np.inf, -0.0
    encoder = Encoder(stream, run=3)
    encoder.encode(Gap(0, 0, "x"))
    message = decode(sent(encoder.encode(Chunk(data, start, model))))
    assert isinstance(message, DataMessage)
    assert message.data.tobytes() == data.tobytes()
    assert message.data.flags.c_contiguous
    assert message.data.dtype == dtype
    assert message.data.dtype.isnative
    header = message.header
    assert (header.start, header.model, header.seq, header.run, header.shape) == (
        start,
        model,
        1,
        3,
        data.shape,
    )


def test_meta_carries_the_whole_stream() -> None:
    meta = decode(sent(Encoder(STREAM, 1, {"mixing": [[1.5, 2.0]]}).encode_meta()))
    assert isinstance(meta, MetaMessage)
    assert meta.description == STREAM
    assert meta.extra == {"mixing": [[1.5, 2.0]]}
    assert meta.software.startswith("igbss_stream ")


def test_the_mixing_comes_back_to_the_bit_with_every_description() -> None:
    rows = np.random.default_rng(0).normal(size=(4, 3))
    mixing = Mixing(
        version=2,
        channels=("a", "b", "c", "Ω"),
        unit="µV",
        matrix=tuple(map(tuple, rows.tolist())),
        mean=(0.1,) * 4,
    )
    encoder = Encoder(STREAM, 1)
    encoder.set_model(mixing)
    for _ in range(2):
        meta = decode(sent(encoder.encode_meta()))
        assert isinstance(meta, MetaMessage)
        assert meta.mixing == mixing
        assert np.array(meta.mixing.matrix).tobytes() == rows.tobytes()
    encoder.set_model(None)
    assert b"mixing" not in sent(encoder.encode_meta())[1]


def test_what_is_taken_out_comes_back_with_every_description() -> None:
    encoder = Encoder(STREAM, 1)
    assert b"cleaning" not in sent(encoder.encode_meta())[1]
    most = tuple((i, "\U0001f9e0" * 64) for i in range(1024))
    for facts in (
        CleaningFacts(start=3),
        CleaningFacts(start=7, excluded=(0, 2), names=((2, "\u03b1"),), chosen=True, undo=1),
        CleaningFacts(start=2**53 - 1, excluded=tuple(range(65536)), names=most),
    ):
        encoder.set_cleaning(facts)
        frames = sent(encoder.encode_meta())
        assert len(frames[1]) < WireLimits().header_bytes
        meta = decode(frames)
        assert isinstance(meta, MetaMessage)
        assert meta.cleaning == facts


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"start": -1},
        {"start": 0, "excluded": [-1]},
        {"start": 0, "excluded": [65536]},
        {"start": 0, "names": [[0, "x" * 65]]},
        {"start": 0, "names": [[0, "a\u0000"]]},
        {"start": 0, "names": [[0]]},
    ],
)
def test_invalid_statements_of_what_is_taken_out_are_rejected(facts: dict[str, Any]) -> None:
    topic, head, buffer = sent(Encoder(STREAM, 1).encode_meta())
    header = json.dumps(json.loads(head) | {"cleaning": facts}).encode()
    with pytest.raises(WireError, match="header"):
        decode([topic, header, buffer])


def test_a_mixing_that_no_header_holds_is_left_out() -> None:
    stream = Stream("s", 1.0, tuple(f"source-{n}" for n in range(129)))
    encoder = Encoder(stream, 1)
    large = Mixing(version=1, channels=stream.channels, matrix=((-1 / 3 * 1e-200,) * 129,) * 129)
    encoder.set_model(large)
    assert b"mixing" not in sent(encoder.encode_meta())[1]
    most = msgspec.structs.replace(large, channels=("c",) * 127, matrix=large.matrix[:127])
    encoder.set_model(most)  # 127 x 129
    head = sent(encoder.encode_meta())[1]
    assert b"mixing" in head
    assert len(head) < WireLimits().header_bytes


GOOD_MIXING: dict[str, Any] = {"version": 1, "channels": ["a", "b"], "matrix": [[1], [2.5]]}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"matrix": [[1]]}, "2 rows (channels) of 1 numbers"),
        ({"matrix": [[1], [2, 3]]}, "2 rows of [1, 2]"),
        ({"matrix": [[1], [None]]}, "matrix"),
        ({"matrix": []}, "0 rows"),
        ({"mean": [1]}, "mixing.mean must have 2 numbers"),
        ({"channels": ["a"] * 5000}, "channels"),
        ({"version": -1}, "version"),
    ],
)
def test_a_mixing_that_does_not_fit_is_refused(wrong: dict[str, Any], words: str) -> None:
    head = {k: v for k, v in FIELDS.items() if k != "shape"} | {"kind": "meta", "channels": ["x"]}
    good = decode([b"s", json.dumps(head | {"mixing": GOOD_MIXING}).encode(), b""])
    assert isinstance(good, MetaMessage)
    error = refusal([b"s", json.dumps(head | {"mixing": GOOD_MIXING | wrong}).encode(), b""])
    assert words in str(error)


LEARNING = Learning(
    (2.0, 1.0), 0.1, {1.0: 1 / 3, 0.1: 2.2, 0.01: 7.5}, np.array([14.25, -3.0, 1 / 3]), True
)


def test_how_a_model_was_learned_comes_back_with_every_description() -> None:
    encoder = Encoder(STREAM, 1)
    assert json.loads(sent(encoder.encode_meta())[1]).get("learning") is None
    encoder.set_model(None, LearningFacts.from_learning(4, LEARNING))
    for _ in range(2):
        frames = sent(encoder.encode_meta())
        assert json.loads(frames[1])["learning"] == {
            "version": 4,
            "view": 0.1,
            "reliability": [14.25, -3.0, 1 / 3],
            "contradictions": [[1.0, 1 / 3], [0.1, 2.2], [0.01, 7.5]],
            "drift_removed": True,
        }
        meta = decode(frames)
        assert isinstance(meta, MetaMessage)
        assert meta.learning is not None
        learning = meta.learning.as_learning()
        assert str(learning) == str(LEARNING)
        assert learning.reliability.tobytes() == LEARNING.reliability.tobytes()
        assert (learning.contradictions, learning.losses) == (LEARNING.contradictions, ())
    encoder.set_model(None)
    assert b"learning" not in sent(encoder.encode_meta())[1]


def test_what_json_cannot_hold_is_not_sent() -> None:
    assert LearningFacts.from_learning(1, None) is None
    for worst in np.nan, np.inf:
        unknown = dataclasses.replace(LEARNING, reliability=np.array([1.0, worst, 2.0]))
        assert LearningFacts.from_learning(1, unknown) is None
        assert (
            LearningFacts.from_learning(1, dataclasses.replace(LEARNING, contradictions={1.0: worst}))
            is None
        )


GOOD_LEARNING: dict[str, Any] = {"version": 1, "view": 0, "reliability": [7]}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"reliability": [1, 2]}, "learning.reliability must have 1 numbers (sources). Got 2"),
        ({"reliability": []}, "Got 0 instead"),
        ({"reliability": None}, "learning.reliability"),
        ({"reliability": [None]}, "learning.reliability"),
        ({"view": -1}, "learning.view"),
        ({"view": None}, "learning.view"),
        ({"version": -1}, "learning.version"),
        ({"contradictions": [[1, 2, 3]]}, "learning.contradictions"),
        ({"contradictions": [[1, 2]] * 65}, "length <= 64"),
        ({"drift_removed": "yes"}, "learning.drift_removed"),
    ],
)
def test_a_learning_that_does_not_fit_is_refused(wrong: dict[str, Any], words: str) -> None:
    head = {k: v for k, v in FIELDS.items() if k != "shape"} | {"kind": "meta", "channels": ["x"]}
    for good in (GOOD_LEARNING, None, GOOD_LEARNING | {"later": [1]}):
        assert isinstance(decode([b"s", json.dumps(head | {"learning": good}).encode(), b""]), MetaMessage)
    error = refusal([b"s", json.dumps(head | {"learning": GOOD_LEARNING | wrong}).encode(), b""])
    assert words in str(error)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_reliability_that_is_not_finite_is_refused(number: str) -> None:
    head = {k: v for k, v in FIELDS.items() if k != "shape"} | {"kind": "meta", "channels": ["x"]}
    text = json.dumps(head | {"learning": GOOD_LEARNING}).replace("[7]", f"[{number}]")
    assert refusal([b"s", text.encode(), b""]).reason == "header"


def test_gaps_and_ends() -> None:
    encoder = Encoder(STREAM, 1)
    encoder.encode(Chunk(np.zeros((10, 3), np.float32), 0))
    message = decode(sent(encoder.encode(Gap(10, 7, "lost"))))
    assert isinstance(message, GapMessage)
    assert (message.start, message.n_samples, message.reason, message.seq) == (10, 7, "lost", 1)
    end = decode(sent(encoder.encode_end()))
    assert isinstance(end, EndMessage)
    assert (end.start, end.seq) == (17, 2)


def test_chunks_in_other_layouts_are_sent_as_the_stream_says() -> None:
    data = np.asfortranarray(np.arange(12.0).reshape(4, 3)).astype(">f8")
    message = decode(sent(Encoder(STREAM, 1).encode(Chunk(data, 0))))
    assert isinstance(message, DataMessage)
    assert message.data.dtype == np.float32
    assert np.array_equal(message.data, data)


@pytest.mark.parametrize(
    ("dtype", "working"),
    [("float32", "f4"), ("float64", "f8"), ("float16", "f4"), ("int16", "f4"), ("int32", "f8")],
)
def test_each_type_becomes_the_one_it_is_processed_in(dtype: str, working: str) -> None:
    values = np.array([[-3, 2, 1], [7, -30000, 5]])
    buffer = values.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    message = read({"dtype": dtype}, buffer)
    assert isinstance(message, DataMessage)
    assert message.data.dtype == working
    assert np.array_equal(message.data, values.astype(dtype))
    scaled = read({"dtype": dtype, "scale": 0.5}, buffer)
    assert isinstance(scaled, DataMessage)
    assert scaled.data.dtype == working
    assert np.array_equal(scaled.data, 0.5 * values.astype(dtype))


def test_samples_are_little_endian_in_order() -> None:
    message = read({}, struct.pack("<6f", *range(6)))
    assert isinstance(message, DataMessage)
    assert message.data.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_unknown_fields_are_ignored_and_optional_ones_may_be_missing() -> None:
    message = read({"colour": {"deep": [1]}, "start": ..., "seq": ...})
    assert isinstance(message, DataMessage)
    assert (message.header.start, message.header.seq, message.header.run, message.header.t0) == (None,) * 4


@pytest.mark.parametrize(
    ("changes", "reason", "text"),
    [
        ({"version": 2}, "version", "version 2 of the format"),
        ({"version": 9, "kind": "cloud", "stream": 3}, "version", "version 9"),
        ({"version": "1"}, "header", "Expected `int`"),
        ({"kind": "cloud"}, "header", "Invalid value 'cloud'"),
        ({"kind": ...}, "header", "missing required field `kind`"),
        ({"stream": "t"}, "topic", "is not the stream 't'"),
        ({"stream": ""}, "header", "length >= 1"),
        ({"rate": 0}, "header", ">= 1e-06"),
        ({"rate": 1e308}, "header", "<= 1000000000.0"),
        ({"start": 2**53 - 2}, "index", "2^53"),
        ({"rate": float("inf")}, "header", "malformed"),
        ({"dtype": ">f4"}, "dtype", "little-endian"),
        ({"dtype": "object"}, "dtype", "Got 'object'"),
        ({"dtype": "int64"}, "dtype", "must be one of float32"),
        ({"shape": [2, 2]}, "length", "2 x 2 float32 are 16 bytes. Got 24"),
        ({"shape": [2, 4]}, "length", "2 x 4 float32 are 32 bytes. Got 24"),
        ({"shape": [2**52, 3]}, "length", "Got 24 instead"),
        ({"shape": [2**62, 4]}, "header", "<= 9007199254740991"),
        ({"shape": [0, 3]}, "header", ">= 1"),
        ({"shape": [-2, -3]}, "header", ">= 1"),
        ({"shape": [6]}, "header", "length 2"),
        ({"shape": [1, 2, 3]}, "header", "length 2"),
        ({"shape": [2.0, 3.5]}, "header", "Expected `int`"),
        ({"shape": [1, 5000]}, "channels", "1 to 4096 channels. Got 5000"),
        ({"start": -1}, "header", ">= 0"),
        ({"seq": 1e300}, "header", "Expected `int"),
        ({"scale": 0}, "header", "> 0"),
        ({"kind": "gap", "n_samples": 3, "reason": "lost"}, "length", "24 bytes follow"),
        ({"kind": "meta", "channels": []}, "length", "24 bytes follow"),
    ],
)  # fmt: skip
def test_invalid_fields_are_rejected_with_their_reason(
    changes: dict[str, Any], reason: str, text: str
) -> None:
    error = refused(changes)
    assert error.reason == reason
    assert text in str(error)


def test_meta_without_channels_or_with_an_unknown_type_is_refused() -> None:
    meta = {"kind": "meta", "channels": []}
    assert refused(meta, b"").reason == "channels"
    assert refused(meta | {"channels": ["a"], "dtype": "int8"}, b"").reason == "dtype"


@pytest.mark.parametrize(
    "head",
    [
        b"", b"\xff\xfe", b"[1]", b"{", b"[" * 100_000, b'{"kind":"meta","extra":' + b'{"a":' * 100_000,
        b'{"version":1,"kind":"end","stream":"\xff"}', b'{"version":1,"kind":"end","stream":"\\ud800"}', b"null",
    ],
)  # fmt: skip
def test_invalid_headers_are_rejected(head: bytes) -> None:
    assert refusal([b"s", head, b""]).reason == "header"


def test_sizes_are_checked_before_anything_is_read() -> None:
    limits = WireLimits(message_bytes=10, header_bytes=100, channels=2)
    assert refusal([b"s", b"{}", bytes(11)], limits).reason == "size"
    assert refusal([b"s", bytes(101), b""], limits).reason == "size"
    for frames in ([], [b"s"], [b"s", b"{}"], [b"s", b"{}", b"", b""]):
        assert refusal(frames).reason == "frames"


def test_overflow_of_a_scale_gives_infinity() -> None:
    message = read({"scale": 1e300})
    assert isinstance(message, DataMessage)
    assert np.isinf(message.data).any()


def nonsense(rng: random.Random, good: list[list[bytes]]) -> list[bytes]:
    """Return a valid message with an error, or random bytes."""
    frames = list(rng.choice(good))
    which = rng.randrange(8)
    if which == 0:
        return [rng.randbytes(rng.randrange(40)) for _ in range(rng.randrange(6))]
    if which == 1:
        rng.shuffle(frames)
    elif which == 2:
        del frames[rng.randrange(3)]
    elif which == 3:
        at = rng.randrange(3)
        frames[at] = frames[at][: rng.randrange(len(frames[at]) + 1)]
    else:  # change bytes of the header, mostly to other characters of JSON
        head = bytearray(frames[1])
        for _ in range(rng.randrange(1, 5)):
            head[rng.randrange(len(head))] = rng.choice(b'0123456789eE+-.,:"[]{}\\nulrtfalse\x00\xff')
        frames[1] = bytes(head)
    return frames


def flood(n: int) -> None:
    """Decode n random messages; each is rejected with a reason, or happens to be valid."""
    rng = random.Random(0)
    encoder = Encoder(STREAM, 1, {"a": [1, "b"]})
    chunk = Chunk(np.ones((4, 3), np.float32), 12)
    good = [
        sent(frames)
        for frames in (
            encoder.encode(chunk),
            encoder.encode_meta(),
            encoder.encode(Gap(1, 2, "x")),
            encoder.encode_end(),
        )
    ]
    outcomes: Counter[str] = Counter()
    before = 0
    for i in range(n):
        if i == n // 10:  # caches are filled by now
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
        try:
            outcomes[type(decode(nonsense(rng, good))).__name__] += 1
        except WireError as error:
            outcomes[error.reason] += 1
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert sum(outcomes.values()) == n
    assert grown < 100_000
    assert outcomes["header"] > n // 10
    assert set(outcomes) >= {"frames", "topic", "version", "length", "dtype"}


def test_random_messages_are_rejected_and_leave_no_memory() -> None:
    flood(30_000)


@pytest.mark.slow
def test_a_million_random_messages() -> None:
    flood(1_000_000)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": ""}, "must not be empty"),
        ({"rate": 0.0}, "rate of stream 's' must be a finite number above 0. Got 0.0"),
        ({"rate": float("nan")}, "Got nan"),
        ({"channels": ()}, "has no channels"),
        ({"dtype": np.dtype(np.int16)}, "must be float32 or float64. Got int16"),
        ({"dtype": np.dtype(">f4")}, "Got >f4"),
    ],
)
def test_streams_that_cannot_be(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        dataclasses.replace(Stream("s", 1.0, ("a",)), **changes)


def test_time_is_derived_from_the_index() -> None:
    assert STREAM.time_of(4001) == 1.7e9 + 4001 / 1000.25
    assert Stream("s", 1.0, ("a",)).time_of(4) is None
    assert (Gap(3, 4, "lost").stop, Chunk(np.zeros((5, 1)), 2).stop, STREAM.n_channels) == (7, 7, 3)


def test_a_wire_error_is_an_error_of_the_package() -> None:
    assert issubclass(WireError, IgbssError)
