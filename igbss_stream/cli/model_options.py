"""Options of `batch` for the model, derived from the declaration of the model parameters."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from igbss_stream.cli.console import Decorator, add_options, complete_from
from igbss_stream.errors import ParameterError
from igbss_stream.separation.parameters import PARAMETERS, Parameter

if TYPE_CHECKING:
    from igbss_stream.separation.settings import ModelSettings
    from igbss_stream.separation.transform import Transform

# options that a command has besides the declared parameters, after one of these
_AFTER = {
    "transform": (
        click.option("--scale", type=float, help="Scale of transform exp, in the unit of the recording."),
        click.option("--margin", type=float, help="Margin of transform min-max, as a share of the range."),
    )
}
_FILE = " Or a file (.npy, .csv, .txt) with a matrix of weights, channels by sources."


def _make_option(name: str, parameter: Parameter) -> Decorator:
    is_optional, help_text = parameter.default is None, parameter.help
    more: dict[str, Any] = {}
    if name == "structure":
        help_text += _FILE
    if is_optional and parameter.default_text:
        help_text += f"  [default: {parameter.default_text}]"
    if parameter.choices:
        more["shell_complete"] = complete_from(*parameter.choices, files=name == "structure")
    return click.option(
        f"--{name.replace('_', '-')}",
        type=parameter.kind,
        default=parameter.default,
        show_default=not is_optional,
        help=help_text,
        **more,
    )


def _make_options() -> Iterator[Decorator]:
    for name, parameter in PARAMETERS.items():
        yield _make_option(name, parameter)
        yield from _AFTER.get(name, ())


model_options = add_options(*_make_options())


def make_model_settings(options: dict[str, Any]) -> "ModelSettings":
    """Return the settings for the values of these options.

    Parameters
    ----------
    options : dict
        As click passes them.

    Raises
    ------
    ParameterError
        If a value cannot be used.
    """
    from igbss_stream.separation.settings import ModelSettings

    values = dict(options)
    structure, transform = values.pop("structure"), values.pop("transform")
    scale, margin = values.pop("scale"), values.pop("margin")
    return ModelSettings(
        structure=_load_structure(structure), transform=_make_transform(transform, scale, margin), **values
    )


def _make_transform(name: str, scale: float | None, margin: float | None) -> "str | Transform":
    from igbss_stream.separation.transform import Exp, MinMax

    chosen: str | Transform = name
    if scale is not None:
        _check_transform("--scale", "exp", name)
        chosen = Exp(scale=scale)
    if margin is not None:
        _check_transform("--margin", "min-max", name)
        chosen = MinMax(margin=margin)
    return chosen


def _check_transform(option: str, name: str, transform: str) -> None:
    if transform != name:
        raise ParameterError(
            f"{option} requires --transform {name}. Got --transform {transform} instead; "
            f"leave {option} out."
        )


def _load_structure(structure: str) -> Any:
    """Return the name of a structure, or the matrix in the file of that name."""
    from igbss_stream.files.matrix_file import MATRIX_FILES, read_matrix

    path = Path(structure)
    is_file = path.suffix in MATRIX_FILES or path.is_file()
    return read_matrix(path, "--structure") if is_file else structure
