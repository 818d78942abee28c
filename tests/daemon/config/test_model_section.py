"""Sections `model` and `repair` of a configuration, and the settings built from them."""

from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from igbss_stream.daemon.config.model_section import (
    ExpTransform,
    MinMaxTransform,
    Model,
    SumTransform,
    Weights,
)
from igbss_stream.daemon.config.schema import RepairSection
from igbss_stream.preparation.repair.gap_filler import POLICIES
from igbss_stream.preparation.repair.stage import RepairSettings
from igbss_stream.separation.parameters import PARAMETERS
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.transform import Exp, MinMax, Sum
from tests.configurations import FindMistakes, LoadConfig, stream


def test_defaults_of_the_model_match_the_library() -> None:
    settings = Model().settings()
    for field in fields(ModelSettings):
        assert getattr(settings, field.name) == field.default, field.name
    assert [field.name for field in fields(ModelSettings)] == list(Model.__struct_fields__)


@pytest.mark.parametrize("key", ["solver", "init", "scaling"])
def test_names_match_the_library(key: str) -> None:
    hint = get_type_hints(Model)[key]
    assert get_origin(hint) is Literal
    assert get_args(hint) == PARAMETERS[key].choices


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (ExpTransform(scale=2.0), Exp(scale=2.0)),
        (MinMaxTransform(margin=0.3), MinMax(margin=0.3)),
        (MinMaxTransform(low=-1.0, span=4.0), MinMax(low=-1.0, span=4.0)),
        (SumTransform(scale=3.0), Sum(scale=3.0)),
        ("sum", "sum"),
    ],
)
def test_transforms(transform: Any, expected: Any) -> None:
    assert Model(transform=transform).settings().transform == expected


def test_every_field_reaches_the_library() -> None:
    given: dict[str, Any] = {
        "n_sources": 2,
        "structure": "random",
        "order": 2,
        "closure": "full",
        "solver": "joint",
        "latent_mass": 0.1,
        "init": "random",
        "tol": 1e-3,
        "max_iter": 7,
        "random_state": 5,
    }
    settings = Model(**given).settings()
    assert {name: getattr(settings, name) for name in given} == given


def test_weights_come_from_a_file(load_config: LoadConfig, tmp_path: Path) -> None:
    weights = np.array([[1.0, 0.5], [0.0, 1.0], [2.0, 3.0]])
    np.savetxt(tmp_path / "weights.csv", weights, delimiter=",")
    config = load_config(stream(model={"structure": {"file": "weights.csv"}}))
    assert config.streams[0].model.structure == Weights(file=tmp_path / "weights.csv")
    np.testing.assert_array_equal(config.streams[0].model.settings().structure, weights)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("w.csv", None, "streams[0].model.structure.file '"),
        ("w.csv", "a,b", "cannot be read as a matrix"),
        ("w.json", "[]", "must end in .npy, .csv or .txt"),
        ("w.csv", "1,-1\n1,1", "streams[0].model.structure must have finite weights >= 0"),
        ("w.csv", "1,1,1", "streams[0].model.structure must have between 1 and 1 columns"),
    ],
)
def test_invalid_weights(
    find_mistakes: FindMistakes, tmp_path: Path, name: str, text: str | None, words: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    (line,) = find_mistakes(stream(model={"structure": {"file": name}}))
    assert words in line


def test_repair_matches_the_library() -> None:
    assert RepairSection().as_settings() == RepairSettings()
    assert [field.name for field in fields(RepairSettings)] == list(RepairSection.__struct_fields__)
    assert get_args(get_type_hints(RepairSection)["gap"]) == tuple(POLICIES)
    given: dict[str, Any] = {
        "gap": "hold",
        "max_fill": 60.0,
        "outlier": 7.0,
        "outlier_window": 3.0,
        "accept_after": 0.5,
        "flat_after": None,
    }
    assert RepairSection(**given).as_settings() == RepairSettings(**given)
