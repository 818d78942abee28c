"""The options of `batch` that say what the model is like."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from igbss_stream.cli.console import completes, with_options
from igbss_stream.errors import ParameterError

if TYPE_CHECKING:
    from igbss_stream.separation.settings import ModelSettings
    from igbss_stream.separation.transform import Transform


model_options = with_options(
    click.option("--n-sources", type=int, help="Number of sources.  [default: as many as channels]"),
    click.option(
        "--structure",
        default="learned",
        shell_complete=completes("learned", "systematic", "cyclic", "random", files=True),
        show_default=True,
        help="Which sources reach which channels: learned (from the samples), systematic, cyclic, "
        "random, or a file (.npy, .csv, .txt) with a matrix of weights, channels by sources.",
    ),
    click.option("--order", default=1, show_default=True, help="Largest number of sources that interact."),
    click.option(
        "--transform",
        default="exp",
        shell_complete=completes("exp", "min-max", "sum"),
        show_default=True,
        help="How samples become probabilities: exp, min-max or sum.",
    ),
    click.option("--scale", type=float, help="Scale of transform exp, in the unit of the recording."),
    click.option("--margin", type=float, help="Margin of transform min-max, as a share of the range."),
    click.option(
        "--closure",
        default="strict",
        shell_complete=completes("strict", "full"),
        show_default=True,
        help="strict or full: what lies above a mixing node.",
    ),
    click.option(
        "--solver",
        default="auto",
        shell_complete=completes("auto", "closed-form", "joint", "blocked", "gradient"),
        show_default=True,
        help="auto, closed-form, joint, blocked or gradient.",
    ),
    click.option("--latent-mass", default=0.0, show_default=True, help="Share of mass on latent states."),
    click.option(
        "--init",
        default="zero",
        shell_complete=completes("zero", "random"),
        show_default=True,
        help="Start of a fit: zero or random.",
    ),
    click.option(
        "--tol", default=1e-10, show_default=True, help="Relative gradient at which a fit is done."
    ),
    click.option("--max-iter", default=1000, show_default=True, help="Largest number of iterations."),
    click.option("--random-state", type=int, help="Seed of structure random and of init random."),
    click.option(
        "--scaling",
        default="unit-variance",
        shell_complete=completes("unit-variance", "back-projected"),
        show_default=True,
        help="Scale of learned sources: unit-variance, or back-projected to their strongest channel.",
    ),
)


def model_settings_from(options: dict[str, Any]) -> "ModelSettings":
    """Return what these options say.

    Parameters
    ----------
    options : dict
        As click hands them over.

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
        structure=_structure(structure), transform=_transform(transform, scale, margin), **values
    )


def _transform(name: str, scale: float | None, margin: float | None) -> "str | Transform":
    from igbss_stream.separation.transform import Exp, MinMax

    chosen: str | Transform = name
    if scale is not None:
        _belongs("--scale", "exp", name)
        chosen = Exp(scale=scale)
    if margin is not None:
        _belongs("--margin", "min-max", name)
        chosen = MinMax(margin=margin)
    return chosen


def _belongs(option: str, name: str, transform: str) -> None:
    if transform != name:
        raise ParameterError(f"{option} belongs to transform {name}. Got transform {transform} instead.")


def _structure(structure: str) -> Any:
    """Return the name of a structure, or the matrix in the file of that name."""
    from igbss_stream.files.matrix_file import MATRIX_FILES, read_matrix

    path = Path(structure)
    is_file = path.suffix in MATRIX_FILES or path.is_file()
    return read_matrix(path, "--structure") if is_file else structure
