"""Choices of sources begin at a stated sample, are undone, and hold over models, runs and restarts."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import msgspec
import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.daemon import state
from igbss_stream.daemon.choice import ChoiceRequest, SourceChoice, format_choice, parse_request
from igbss_stream.daemon.config.clean_section import CleanSection
from igbss_stream.daemon.config.model_section import ModelSection
from igbss_stream.daemon.config.schema import StreamSection
from igbss_stream.daemon.config.sinks import Hdf5Output, Published
from igbss_stream.daemon.config.sources import ZmqInput
from igbss_stream.daemon.stream_runner import StreamRunner
from igbss_stream.errors import InputError, ParameterError, StateError
from igbss_stream.events import LONGEST_TEXT, Events
from igbss_stream.feeds.cleaning_facts import CleaningFacts
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.streaming.pipeline import Pipeline
from igbss_stream.streaming.stream_model import StreamModel
from tests.daemon.test_event_relay import ScriptedSource
from tests.stream_runners import CollectingSink

NOTHING = CleanSection()
STREAM = Stream("s", 500.0, ("a", "b", "c"), "uV")


def noise(start: int, n: int = 100, width: int = 3) -> Chunk:
    data = np.random.default_rng(start).normal(size=(n, width))
    return Chunk(data.astype(np.float32), start)


class Live:
    """A stream that publishes sources and cleaned channels, fed by hand."""

    def __init__(self, clean: CleanSection | None = NOTHING, choice: SourceChoice | None = None) -> None:
        kinds: tuple[Published, Published] = ("sources", "sources" if clean is None else "cleaned")
        config = StreamSection(
            name="s",
            source=ZmqInput(address="tcp://127.0.0.1:5555"),  # `source` is used
            model=ModelSection(structure="systematic"),
            clean=clean,
            sinks=tuple(Hdf5Output(path=Path(f"{i}.h5"), publish=kind) for i, kind in enumerate(kinds)),
        )
        self.source = ScriptedSource(stream=STREAM)
        self.sinks = CollectingSink(), CollectingSink()
        self.runner = StreamRunner(config, self.source, self.sinks, ThreadPoolExecutor(1), choice=choice)

    def push(self, chunk: Chunk) -> tuple[Any, Any]:
        """Return the sources and the second kind of samples that are published of a chunk."""
        self.source.steps.append(([chunk], Events()))
        self.runner.step(0.0)
        sources, other = (sink.items[-1] for sink in self.sinks)
        assert isinstance(sources, Chunk)
        assert isinstance(other, Chunk)
        assert sources.start == other.start == chunk.start
        return sources.data, other.data

    def choose(self, **request: Any) -> CleaningFacts:
        answer = self.runner.chooser.request(parse_request(msgspec.json.encode(request)))
        self.runner.serve()
        return answer.result(0)

    def remove(self, chunk: Chunk, sources: Any, *excluded: int) -> Any:
        """Return channels without some sources, from the weights of the model."""
        assert self.runner.model is not None
        mixing = self.runner.model.separator.stage.mixing[0]
        return chunk.data - sources[:, excluded].astype("f8") @ mixing[:, excluded].T

    @property
    def events(self) -> list[tuple[float, str]]:
        first, second = (sink.events for sink in self.sinks)
        assert first == second
        assert {event.source for event in first} <= {"choice"}
        return [(event.index, event.label) for event in first]


def test_a_choice_begins_at_the_stated_sample_and_is_undone() -> None:
    live = Live()
    chunk = noise(0)
    np.testing.assert_array_equal(live.push(chunk)[1], chunk.data)
    facts = live.choose(exclude=[2, 0])
    assert facts == CleaningFacts(start=100, excluded=(0, 2), chosen=True, undo=1)
    assert live.sinks[1].cleaning == [CleaningFacts(start=0, excluded=()), facts]
    assert live.events == []  # it follows its sample
    sources, cleaned = live.push(chunk := noise(100))
    np.testing.assert_allclose(cleaned, live.remove(chunk, sources, 0, 2), atol=1e-6)
    assert np.abs(cleaned - chunk.data).max() > 0.1
    assert live.choose(remove=[0], add=[1]).excluded == (1, 2)
    sources, cleaned = live.push(chunk := noise(200))
    np.testing.assert_allclose(cleaned, live.remove(chunk, sources, 1, 2), atol=1e-6)
    assert live.choose(undo=True) == CleaningFacts(start=300, excluded=(0, 2), chosen=True, undo=1)
    sources, cleaned = live.push(chunk := noise(300))
    np.testing.assert_allclose(cleaned, live.remove(chunk, sources, 0, 2), atol=1e-6)
    assert live.choose(undo=True) == CleaningFacts(start=400, excluded=())
    np.testing.assert_array_equal(live.push(chunk := noise(400))[1], chunk.data)
    assert live.events == [
        (100, "exclude 0,2"),
        (200, "exclude 1,2"),
        (300, "exclude 0,2"),
        (400, "exclude none (as configured)"),
    ]
    assert live.runner.events.n_out == live.runner.events.n_in == 4


def test_sources_stay_the_same_to_the_bit() -> None:
    """Choices change the cleaned channels only."""
    one, other = Live(), Live()
    for start in range(0, 400, 100):
        if start:
            one.choose(exclude=[start // 100 - 1])
        assert one.push(noise(start))[0].tobytes() == other.push(noise(start))[0].tobytes()


def test_a_choice_replaces_that_of_the_configuration_until_it_is_undone() -> None:
    live = Live(CleanSection(exclude=(1,)))
    sources, cleaned = live.push(chunk := noise(0))
    np.testing.assert_allclose(cleaned, live.remove(chunk, sources, 1), atol=1e-6)
    assert live.choose() == CleaningFacts(start=0, excluded=(1,))
    assert live.choose(add=[0]).excluded == (0, 1)
    assert live.choose(exclude=None) == CleaningFacts(start=100, excluded=(1,), undo=2)
    assert live.choose(exclude=None).undo == 2  # no change
    live.push(noise(100))
    assert live.events == [(100, "exclude 0,1"), (100, "exclude 1 (as configured)")]


def test_names_are_stated_and_recorded() -> None:
    live = Live()
    live.push(noise(0))
    assert live.choose(names=[[2, "blink"], [0, "Herz \u2665"]]).names == ((0, "Herz \u2665"), (2, "blink"))
    assert live.choose(names=[[0, ""]], exclude=[2]) == CleaningFacts(
        start=100, excluded=(2,), names=((2, "blink"),), chosen=True, undo=1
    )
    assert live.choose(undo=True).names == ((2, "blink"),)  # a name is no choice
    live.push(noise(100))
    assert [label for _, label in live.events] == [
        "name 0 Herz \u2665",
        "name 2 blink",
        "exclude 2",
        "name 0",
        "exclude none (as configured)",
    ]


def test_what_cannot_be_chosen_is_refused_and_changes_nothing() -> None:
    live = Live()
    with pytest.raises(ParameterError, match="stream s has no sources yet"):
        live.choose(exclude=[0])
    live.push(noise(0))
    live.choose(exclude=[1])
    for request, kind, words in (
        ({"exclude": [3]}, ParameterError, "source 3 cannot be removed: there are 3 sources"),
        ({"add": [0, 2]}, InputError, "all 3 sources would be removed"),
        ({"names": [[3, "x"]]}, ParameterError, "there is no source 3; name one of 0 to 2"),
    ):
        with pytest.raises(kind, match=words):
            live.choose(**request)
    sources, cleaned = live.push(chunk := noise(100))
    np.testing.assert_allclose(cleaned, live.remove(chunk, sources, 1), atol=1e-6)
    live.choose(undo=True)
    with pytest.raises(ParameterError, match="there is no choice to undo"):
        live.choose(undo=True)


def test_a_stream_without_a_section_says_what_to_configure() -> None:
    live = Live(clean=None)
    live.push(noise(0))
    assert live.sinks[0].cleaning == [None]
    with pytest.raises(ParameterError, match=r"add a section clean to it in the configuration \(clean: {}"):
        live.choose(add=[0])
    named = live.choose(names=[[0, "alpha"]])
    assert named == live.sinks[0].cleaning[-1] == CleaningFacts(start=100, names=((0, "alpha"),))


def test_a_request_that_nobody_waits_for_is_not_applied() -> None:
    live = Live()
    live.push(noise(0))
    answer = live.runner.chooser.request(ChoiceRequest(exclude=(0,)))
    assert answer.cancel()
    live.runner.serve()
    assert live.runner.chooser.choice.is_default


def test_a_choice_holds_for_later_models_and_runs() -> None:
    live = Live()
    live.push(noise(0))
    live.choose(exclude=[0], names=[[0, "blink"]])
    live.push(noise(100))
    model = live.runner.model
    assert model is not None
    assert live.runner.pipeline is not None
    live.runner.pipeline._activate(StreamModel(2, model.separator, 200))  # as after learning
    sources, cleaned = live.push(chunk := noise(200))
    np.testing.assert_allclose(cleaned, live.remove(chunk, sources, 0), atol=1e-6)
    live.source.run = 1
    sources, cleaned = live.push(chunk := noise(5000))
    np.testing.assert_allclose(cleaned, live.remove(chunk, sources, 0), atol=1e-6)
    assert live.events[2:] == [(5000, "exclude 0"), (5000, "name 0 blink")]  # stated again
    assert live.sinks[1].cleaning[-1] == CleaningFacts(
        start=5000, excluded=(0,), names=((0, "blink"),), chosen=True, undo=1
    )


def test_sources_that_a_model_lacks_are_ignored() -> None:
    separator = SeparationPlan(ModelSettings(structure="systematic"), 3).prepare()
    assert separator.stage.n_sources == 3
    for chosen, left in (((1, 7), (1,)), ((0, 1, 2), ()), ((9,), ())):
        cleaner = StreamModel(1, separator, 0, chosen=chosen).cleaner
        assert cleaner is not None
        assert cleaner.sources == left


def test_windows_are_cleaned_by_a_choice_and_their_sources_stay_the_same() -> None:
    """A warm start is kept: the fit of the next window does not begin anew."""
    known = ModelSettings(structure="systematic", solver="blocked", max_iter=3)
    stream = Stream("s", 100.0, ("a", "b", "c"), "uV")
    x = np.random.default_rng(5).laplace(size=(200, 3)).astype(np.float32)
    model = StreamModel(1, SeparationPlan(known, 3).prepare_for(x, stream.channels), 0)
    found = []
    for is_chosen in (False, True):
        pipeline = Pipeline(stream, known, window=(40, 20), model=model, chosen=())
        items = pipeline.push(Chunk(x[:100], 0))
        at = items[-1].stop
        if is_chosen:
            pipeline.choose((1,))
        items += pipeline.push(Chunk(x[100:], 100)) + pipeline.flush()
        chunks = [item for item in items if isinstance(item, Chunk)]
        found.append([np.concatenate([getattr(c, kind) for c in chunks]) for kind in ("data", "cleaned")])
    (sources, channels), (same, cleaned) = found
    assert sources.tobytes() == same.tobytes()
    np.testing.assert_array_equal(cleaned[:at], channels[:at])
    assert pipeline.model is not None
    mixing = pipeline.model.separator.stage.mixing[0]
    np.testing.assert_allclose(
        cleaned[at + 20 :], (x - np.outer(sources[:, 1], mixing[:, 1]))[at + 20 :], atol=1e-5
    )


def save(path: Path, choice: SourceChoice, structure: str = "systematic") -> StreamModel:
    model = StreamModel(1, SeparationPlan(ModelSettings(structure=structure), 3).prepare(), 0)
    state.save(path, model, Preparation(), "abc", "uV", choice=choice)
    return model


CHOICE = SourceChoice(excluded=(0, 2), names=((1, "\u03b1"),), earlier=(None, (0,)))


def test_a_choice_is_kept_in_the_state(tmp_path: Path) -> None:
    path = tmp_path / "s.h5"
    assert state.load_choice(path) is None
    model = save(path, CHOICE)
    assert state.load_choice(path) == CHOICE
    assert state.load_choice(path, model.separator) == CHOICE
    live = Live(choice=state.load_choice(path))
    sources, cleaned = live.push(chunk := noise(40))
    np.testing.assert_allclose(cleaned, live.remove(chunk, sources, 0, 2), atol=1e-6)
    assert live.events == [(40, "exclude 0,2"), (40, "name 1 \u03b1")]
    assert live.choose(undo=True).excluded == (0,)
    save(path, SourceChoice())
    assert state.load_choice(path) is None


def test_a_choice_for_another_fixed_model_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "s.h5", CHOICE)
    other = SeparationPlan(ModelSettings(structure=np.tri(3)), 3).prepare_for(noise(1).data, "abc")
    with pytest.raises(StateError, match=r"of another model than that of model\.from; remove the state"):
        state.load_choice(tmp_path / "s.h5", other)


@pytest.mark.parametrize(
    "damage", [b"{", b'{"excluded": [-1]}', b'{"names": [[0, "a\\u0000"]]}', b'{"earlier": 3}', b"\xff"]
)
def test_a_damaged_choice_is_refused(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "s.h5"
    save(path, CHOICE)
    with h5py.File(path, "r+") as file:
        del file["choice"]
        file["choice"] = np.array([damage])
    with pytest.raises(StateError, match="the choice of sources in the state"):
        state.load_choice(path)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"exclude": 1}',
        b'{"exclude": [65536]}',
        b'{"exclude": [0.5]}',
        b'{"exclude": [true]}',
        b'{"other": 1}',
        b'{"stream": "../x"}',
        b'{"exclude": [0], "undo": true}',
        b'{"add": [0], "exclude": null}',
        b'{"names": [[0, "a\\nb"]]}',
        b'{"names": [[0, "a\\n"]]}',
        b'{"names": [[0, "' + b"x" * 65 + b'"]]}',
        b'{"names": [[0, "\\ud800"]]}',
        b"[" * 100_000,
        json.dumps({"names": [[i, "x"] for i in range(1025)]}).encode(),
    ],
)
def test_invalid_requests_are_refused(body: bytes) -> None:
    with pytest.raises(ParameterError, match="the request is not valid: "):
        parse_request(body)


def test_choices_and_names_are_bounded() -> None:
    choice = SourceChoice()
    for i in range(300):
        choice = choice.follow(ChoiceRequest(exclude=(i,), names=((i, "x"),)), ())
    assert len(choice.earlier) == 100
    assert choice.earlier[-1] == (298,)
    with pytest.raises(ParameterError, match="at most 1024 sources can have names"):
        choice.follow(ChoiceRequest(names=tuple((i, "x") for i in range(1000, 2000))), ())


def test_labels_of_events_fit_and_no_number_is_cut() -> None:
    label = format_choice(range(1000, 1500), is_configured=False)
    assert len(label) <= LONGEST_TEXT
    listed, _, end = label.removeprefix("exclude ").partition(",... ")
    assert [int(one) for one in listed.split(",")] == list(range(1000, 1000 + listed.count(",") + 1))
    assert end == "(500 sources)"
