"""Section `clean`, and models that are stored with the sources that they remove."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import yaml

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.daemon import state
from igbss_stream.daemon.config.clean_section import CleanSection, ExcludeLabelled, ExcludeLike, Label
from igbss_stream.daemon.config.lint import lint
from igbss_stream.daemon.config.summary import summarize
from igbss_stream.daemon.published import describe_removed, pick_cleaned
from igbss_stream.errors import StateError
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.cleaning import MIN_CORRELATION, MIN_SCORE, Cleaning
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.source_choice import LABEL_GROUPS, Excluded
from igbss_stream.streaming.stream_model import StreamModel
from tests.configurations import FindMistakes, LoadConfig, stream
from tests.doc_pages import blocks

NAMES = ["EOG1", "Fz", "Cz"]
ZMQ = {"kind": "zmq", "address": "5560", "publish": "cleaned"}


def test_the_section_becomes_the_cleaning_of_the_library(load_config: LoadConfig) -> None:
    section = {
        "exclude": [2],
        "exclude_like": [{"channel": "EOG1"}, {"channel": "a:b", "min_correlation": 0.7}],
    }
    (found,) = load_config(stream(clean=section, sinks=[ZMQ])).streams
    assert found.clean == CleanSection(
        exclude=(2,),
        exclude_like=(ExcludeLike(channel="EOG1"), ExcludeLike(channel="a:b", min_correlation=0.7)),
    )
    like = (("EOG1", MIN_CORRELATION), ("a:b", 0.7))
    assert found.clean.as_cleaning() == Cleaning(exclude=(2,), exclude_like=like)
    assert found.sinks[0].publish == "cleaned"


def test_sources_by_label(load_config: LoadConfig) -> None:
    (_, block) = blocks("docs/cleaning.md", "yaml")
    (found,) = load_config(stream(**yaml.safe_load(block.text), sinks=[ZMQ])).streams
    labels = (ExcludeLabelled(label="eye"), ExcludeLabelled(label="heart", min_score=0.7))
    assert found.clean == CleanSection(exclude_labelled=labels)
    cleaning = found.clean.as_cleaning()
    assert cleaning is not None
    assert cleaning.exclude_labelled == (("eye", MIN_SCORE), ("heart", 0.7))
    assert found.is_model_learned


def test_labels_of_the_section_are_those_of_the_package() -> None:
    assert get_args(Label) == tuple(LABEL_GROUPS)


def test_the_section_on_the_page_is_valid(load_config: LoadConfig) -> None:
    (block, _) = blocks("docs/cleaning.md", "yaml")
    (found,) = load_config(stream(**yaml.safe_load(block.text))).streams
    assert found.clean == CleanSection(exclude_like=(ExcludeLike(channel="EOG1", min_correlation=0.5),))
    assert found.sinks[0].publish == "cleaned"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing to remove": ({"sinks": [ZMQ]}, "sinks[0].publish is cleaned, but no sources are removed: add a section clean."),
    "empty": ({"clean": {}}, "clean.exclude must name a source, exclude_like a channel, or exclude_labelled a label."),
    "no number": ({"clean": {"exclude": [-1]}}, "clean.exclude[0] must be a whole number from 0 up to 65535. Got -1 instead."),
    "no correlation": (
        {"clean": {"exclude_like": [{"channel": "EOG1", "min_correlation": 2}]}},
        "clean.exclude_like[0].min_correlation must be a number above 0 up to 1. Got 2 instead.",
    ),
    "no label": (
        {"clean": {"exclude_labelled": [{"label": "nose"}]}},
        "clean.exclude_labelled[0].label must be",
    ),
    "another transform": (
        {"clean": {"exclude": [0]}, "model": {"transform": "min-max"}},
        "clean needs model.transform exp, with which the channels are a sum of sources.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("keys", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_sections_are_refused(
    find_mistakes: FindMistakes, keys: dict[str, Any], message: str
) -> None:
    (line,) = find_mistakes(stream(**keys))
    assert line.partition(" streams[0].")[2].startswith(message)


def test_warnings_and_summary(load_config: LoadConfig, run_file: Path) -> None:
    like = {"exclude": [3], "exclude_like": [{"channel": "EOG1", "min_correlation": 0.7}]}
    known = {"structure": "systematic"}
    config = load_config(stream(clean=like, sinks=[ZMQ], model=known, learning={"first": 5}))
    assert lint(config, run_file) == []  # sources like EOG1 are found from samples
    assert "structure systematic; without source-3, sources like EOG1 (0.7)" in summarize(config, run_file)
    assert "bound to tcp://127.0.0.1:5560, cleaned channels" in summarize(config, run_file)
    found = lint(load_config(stream(clean={"exclude": [3]}, model=known, learning={"first": 5})), run_file)
    assert found == [
        "streams[0].learning has no effect: the structure is not learned",
        "streams[0].clean has no effect: no sink has publish: cleaned",
    ]


def learn(cleaning: Cleaning | None) -> Separator:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(300, 3)) @ np.array([[2.0, 0.1, 0.1], [1.0, 1.0, 0.2], [0.5, 0.3, 1.0]]).T
    plan = SeparationPlan(ModelSettings(), 3, cleaning=cleaning)
    survey = plan.make_survey(NAMES, x.dtype, len(x))
    survey.update(x)
    return plan.prepare(survey)


def test_removed_sources_are_stored_with_the_model(tmp_path: Path) -> None:
    """After a restart the same sources are removed, before a new model is learned."""
    like = Cleaning(exclude=(2,), exclude_like=(("EOG1", 0.7), ("Cz", 0.999)))
    separator, path = learn(like), tmp_path / "s.h5"
    assert separator.cleaner is not None
    state.save(path, StreamModel(4, separator, 77), Preparation(), NAMES, None)
    model = state.load(path, ModelSettings(), Preparation(), like)
    assert model is not None
    again = model.separator.cleaner
    assert again is not None
    assert str(again) == str(separator.cleaner)
    assert [one.to_list() for one in again.excluded] == [
        one.to_list() for one in separator.cleaner.excluded
    ]
    assert again.excluded[1].channel == "EOG1"
    x = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    for one in model.separator, separator:
        assert one.cleaning == like
    sources = separator.separate_samples(x)
    np.testing.assert_array_equal(
        model.separator.clean_channels(x, sources), separator.clean_channels(x, sources)
    )
    state.save(path, model, Preparation(), NAMES, None)  # and again
    assert state.load(path, ModelSettings(), Preparation(), like) is not None


@pytest.mark.jit
def test_another_cleaning_needs_a_new_model_only_if_it_depends_on_samples(tmp_path: Path) -> None:
    path = tmp_path / "s.h5"
    for cleaning in (None, Cleaning(exclude_like=(("EOG1", 0.7),))):
        state.save(path, StreamModel(1, learn(cleaning), 0), Preparation(), NAMES, None)
        with pytest.raises(
            StateError, match=r"clean was .* and is now .*Cz.* Remove it to start without it"
        ):
            state.load(path, ModelSettings(), Preparation(), Cleaning(exclude_like=(("Cz", 0.7),)))
        by_number = state.load(path, ModelSettings(), Preparation(), Cleaning(exclude=(1,)))
        assert by_number is not None
        assert by_number.separator.cleaner is not None
        assert by_number.separator.cleaner.excluded[0].source == 1
        without = state.load(path, ModelSettings(), Preparation())
        assert without is not None
        assert without.separator.cleaner is None


def test_the_log_states_removed_sources() -> None:
    cleaner = learn(Cleaning(exclude=(2,), exclude_like=(("EOG1", 0.7), ("Cz", 0.999)))).cleaner
    assert cleaner is not None
    assert isinstance(cleaner.excluded[1], Excluded)
    found = cleaner.excluded[1]
    start = f", without source-2, source-{found.source} (EOG1 {found.correlation:.2f}); no source is like Cz by 0.999"
    assert describe_removed(cleaner).startswith(start)
    assert describe_removed(None) == ""


def test_a_gap_is_one_of_sources_and_of_channels() -> None:
    chunk = Chunk(np.ones((2, 3)), 5, 1, np.zeros((2, 4)))
    assert pick_cleaned(Gap(5, 2, "lost")) == Gap(5, 2, "lost")
    found = pick_cleaned(chunk)
    assert isinstance(found, Chunk)
    assert (found.data.shape, found.start, found.model_version) == ((2, 4), 5, 1)
