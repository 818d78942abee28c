"""Sections `model` and `repair` of a configuration, and the settings built from them."""

from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import numpy as np
import pytest

from igbss_stream.daemon.config.model_section import (
    ExpTransform,
    MinMaxTransform,
    ModelSection,
    SumTransform,
    WeightsFile,
)
from igbss_stream.daemon.config.schema import RepairSection
from igbss_stream.preparation.repair.gap_filler import POLICIES
from igbss_stream.preparation.repair.stage import RepairSettings
from igbss_stream.separation.parameters import PARAMETERS
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.transform import Exp, MinMax, Sum
from tests.configurations import FindMistakes, LoadConfig, stream


def test_defaults_of_the_model_match_the_library() -> None:
    settings = ModelSection().as_settings()
    for field in fields(ModelSettings):
        assert getattr(settings, field.name) == field.default, field.name
    names = [field.name for field in fields(ModelSettings)]
    assert ["from", "follow", *names] == list(ModelSection.__struct_fields__)


@pytest.mark.parametrize("name", PARAMETERS)
def test_fields_have_the_declared_names_and_bounds(name: str) -> None:
    parameter = PARAMETERS[name]
    (field,) = (field for field in msgspec.structs.fields(ModelSection) if field.name == name)
    assert field.default == parameter.default
    schema = msgspec.json.schema(field.type, schema_hook=lambda _: {})
    alternatives = [schema, *schema.get("anyOf", [])]
    names = [choice for part in alternatives for choice in part.get("enum", [])]
    assert sorted(names) == sorted(parameter.choices)
    if parameter.ge is not None:
        assert any(part.get("minimum") == parameter.ge for part in alternatives)
    if parameter.lt is not None:
        assert any(part.get("exclusiveMaximum") == parameter.lt for part in alternatives)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"order": 0}, "order must be a whole number from 1. Got 0 instead."),
        ({"latent_mass": 1.0}, "latent_mass must be a number from 0 below 1. Got 1.0 instead."),
        ({"tol": float("inf")}, "tol must be a number from 0. Got '.inf' instead."),
        ({"random_state": -1}, "random_state must be a whole number from 0 or null. Got -1 instead."),
    ],
)
def test_values_out_of_bounds(find_mistakes: FindMistakes, keys: dict[str, Any], message: str) -> None:
    (line,) = find_mistakes(stream(model=keys))
    assert line.endswith(f"streams[0].model.{message}")


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
    assert ModelSection(transform=transform).as_settings().transform == expected


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
    settings = ModelSection(**given).as_settings()
    assert {name: getattr(settings, name) for name in given} == given


def test_weights_come_from_a_file(load_config: LoadConfig, tmp_path: Path) -> None:
    weights = np.array([[1.0, 0.5], [0.0, 1.0], [2.0, 3.0]])
    np.savetxt(tmp_path / "weights.csv", weights, delimiter=",")
    config = load_config(stream(model={"structure": {"file": "weights.csv"}}))
    assert config.streams[0].model.structure == WeightsFile(file=tmp_path / "weights.csv")
    np.testing.assert_array_equal(config.streams[0].model.as_settings().structure, weights)


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
