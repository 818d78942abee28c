"""One declaration of the model parameters: functions, options, settings and documentation match it."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args

import click
import parameters_page
import pytest

from igbss_stream.cli import main
from igbss_stream.cli.model_options import make_model_settings
from igbss_stream.model.poset import LEARNED, STRUCTURES, Closure
from igbss_stream.separation.api import separate
from igbss_stream.separation.parameters import PARAMETERS, ModelParameters, Parameter, as_markdown
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.transform import TRANSFORMS
from igbss_stream.sklearn import IGBSS

SPELLED_OUT: dict[str, tuple[Callable[..., Any], Any, set[str]]] = {
    "separate": (separate, separate, {"x", "previous"}),
    "IGBSS": (IGBSS.__init__, IGBSS, {"self", "warm_start"}),
}


def read_docstring(documented: Any) -> dict[str, tuple[str, str]]:
    """Return type and text of each documented parameter."""
    doc = inspect.getdoc(documented) or ""
    listed = re.split(r"\n\n\w+\n-+\n", doc.partition("Parameters\n----------\n")[2])[0]
    entries = re.findall(r"^(\w+) : (.*)\n((?:    .*\n?)+)", listed, re.M)
    return {name: (kind, " ".join(text.split())) for name, kind, text in entries}


@pytest.mark.parametrize(("function", "_", "more"), SPELLED_OUT.values(), ids=SPELLED_OUT)
def test_signatures_have_the_declared_names_and_defaults(
    function: Callable[..., Any], _: Any, more: set[str]
) -> None:
    taken = inspect.signature(function).parameters
    found = {name: parameter.default for name, parameter in taken.items() if name not in more}
    assert found == {name: parameter.default for name, parameter in PARAMETERS.items()}


@pytest.mark.parametrize(("_", "documented", "more"), SPELLED_OUT.values(), ids=SPELLED_OUT)
def test_docstrings_have_the_declared_types_and_texts(_: Any, documented: Any, more: set[str]) -> None:
    found = {name: entry for name, entry in read_docstring(documented).items() if name not in more}
    assert found == {
        name: (parameter.python_type, parameter.python_doc) for name, parameter in PARAMETERS.items()
    }


def test_settings_have_the_declared_fields() -> None:
    assert [field.name for field in fields(ModelSettings)] == list(PARAMETERS)
    settings = ModelSettings()
    for name, parameter in PARAMETERS.items():
        assert getattr(settings, name) == parameter.default


def test_options_of_the_command_derive_from_the_declaration() -> None:
    options = {option.name: option for option in main.commands["batch"].params}
    for name, parameter in PARAMETERS.items():
        option = options[name]
        assert isinstance(option, click.Option)
        assert option.default == parameter.default
        assert (option.help or "").startswith(parameter.help)
        assert isinstance(option.type, type(click.types.convert_type(parameter.kind)))
    defaults = {name: parameter.default for name, parameter in PARAMETERS.items()}
    settings = make_model_settings(defaults | {"scale": None, "margin": None})
    assert settings.to_json() == ModelSettings().to_json()


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("structure", {LEARNED, *STRUCTURES}),
        ("transform", set(TRANSFORMS)),
        ("closure", set(get_args(Closure))),
    ],
)
def test_choices_are_those_of_the_library(name: str, names: set[str]) -> None:
    assert set(PARAMETERS[name].choices) == names


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS.items())
def test_declarations_are_complete(name: str, parameter: Parameter) -> None:
    assert parameter.help.endswith(".")
    assert len(parameter.help) <= 100
    assert parameter.doc.endswith(".")
    assert parameter.default is None or isinstance(parameter.default, parameter.kind)
    assert not parameter.choices or parameter.default in parameter.choices
    for choice in parameter.choices:
        assert f'"{choice}"' in parameter.doc
        assert choice in parameter.help


def test_the_page_is_up_to_date() -> None:
    assert parameters_page.PAGE.read_text() == parameters_page.build_page(), (
        "run: .venv/bin/python tools/parameters_page.py"
    )


def test_values_are_marked_as_code_in_markdown() -> None:
    assert as_markdown('"auto" or "joint", as `solver`') == "`auto` or `joint`, as `solver`"


def test_the_declaration_imports_nothing_heavy() -> None:
    code = f"import sys, {ModelParameters.__module__}; print([m for m in ('numpy', 'numba', 'msgspec') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
