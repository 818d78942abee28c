"""Section `model` of a configuration, derived from the declaration of the model parameters."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, defstruct

from igbss_stream.daemon.config.base import Section
from igbss_stream.errors import ParameterError
from igbss_stream.separation.parameters import PARAMETERS, Parameter, as_markdown

if TYPE_CHECKING:
    from igbss_stream.separation.settings import ModelSettings
    from igbss_stream.separation.transform import Transform

_LARGEST = 1e300  # excludes infinity
# numbers in the unit of the samples, which may be 1e-19 as well as 1e9
_Scale = Annotated[float, Meta(gt=0, le=_LARGEST)]
_Level = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]


class WeightsFile(Section, frozen=True, kw_only=True):
    """A structure given by a matrix of weights.

    Parameters
    ----------
    file : Path
        File (.npy, .csv or .txt) with a matrix of weights >= 0, channels by sources.
    """

    file: Annotated[Path, Meta(examples=["weights.csv"])]


class ExpTransform(Section, frozen=True, kw_only=True, tag_field="kind", tag="exp"):
    """The exponential kernel.

    Parameters
    ----------
    scale : float or None
        Unit of the exponent, in the unit of the samples. Default: estimated from the first samples.
    """

    scale: _Scale | None = None


class MinMaxTransform(Section, frozen=True, kw_only=True, tag_field="kind", tag="min-max"):
    """Min-max normalisation over all channels.

    Parameters
    ----------
    margin : float
        Distance of the minimum from zero, as a share of the range.
    low : float or None
        Sample whose normalised value is 0, in the unit of the samples. Default: from the first samples.
    span : float or None
        Distance from `low` to the sample whose normalised value is 1. Default: from the first samples.
    """

    margin: Annotated[float, Meta(ge=1e-9, le=1e6)] = 0.1
    low: _Level | None = None
    span: _Scale | None = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.span is None):
            raise ParameterError(
                "low needs span, and span needs low: set both or neither.", parameter="low"
            )


class SumTransform(Section, frozen=True, kw_only=True, tag_field="kind", tag="sum"):
    """Division by the sum, for samples >= 0.

    Parameters
    ----------
    scale : float or None
        Sample whose value is 1, in the unit of the samples. Default: the mean of the first samples.
    """

    scale: _Scale | None = None


# sections that a configuration allows besides the declared names, and what to say of them
_SECTIONS: dict[str, tuple[Any, str]] = {
    "structure": (WeightsFile, "A section names a file of weights."),
    "transform": (ExpTransform | MinMaxTransform | SumTransform, "A section sets its scale."),
}


def _build_type(name: str, parameter: Parameter) -> Any:
    """Return the annotation of a field, with the declared choices or bounds."""
    literal: Any = Literal
    kind: Any = literal[parameter.choices] if parameter.choices else parameter.kind
    bounds: dict[str, Any] = {"ge": parameter.ge, "lt": parameter.lt}
    if parameter.kind is float and parameter.lt is None:
        bounds["le"] = _LARGEST
    if not parameter.choices:
        kind = Annotated[kind, Meta(**bounds)]
    if name in _SECTIONS:
        kind = kind | _SECTIONS[name][0]
    return kind | None if parameter.default is None else kind


# keys besides the parameters: annotation, default, type in the docstring, and description
_CALIBRATION: dict[str, tuple[Any, Any, str, str]] = {
    "from": (
        Path | None,
        None,
        "Path or None",
        "File with a learned model: an output or a model file of `batch`, or the state of a daemon "
        "(docs/live.md). The other parameters, and what `prepare` and `clean` leave out, are those of the "
        "file. `null` learns a model from the stream.",
    ),
    "follow": (
        bool,
        False,
        "bool",
        "Only with `from`. `false` keeps the model of the file. `true` learns later models as the section "
        "`learning` sets, starting from it.",
    ),
}


def _build_docstring() -> str:
    lines = ["How to separate: the parameters of `igbss_stream.separate`.", "", "Parameters", "----------"]
    for name, (_, _, kind, text) in _CALIBRATION.items():
        lines += [f"{name} : {kind}", f"    {text}"]
    for name, parameter in PARAMETERS.items():
        more = f" {_SECTIONS[name][1]}" if name in _SECTIONS else ""
        lines += [f"{name} : {parameter.kind.__name__}", f"    {as_markdown(parameter.doc)}{more}"]
    return "\n".join(lines)


_Declared: Any = defstruct(
    "_Declared",
    [
        *((name, kind, default) for name, (kind, default, _, _) in _CALIBRATION.items()),
        *(
            (name, _build_type(name, parameter), parameter.default)
            for name, parameter in PARAMETERS.items()
        ),
    ],
    bases=(Section,),
    frozen=True,
    kw_only=True,
)


class ModelSection(_Declared):  # type: ignore[misc]  # the base is generated, and Any to the type checker
    """The declared parameters; see `_build_docstring`."""

    def __post_init__(self) -> None:
        if self.follow and self.file is None:
            raise ParameterError("follow needs from, the file with the first model.", parameter="follow")

    @property
    def file(self) -> Path | None:
        """The value of `from`, which is a keyword of Python."""
        path: Path | None = getattr(self, "from")
        return path

    @property
    def is_linear(self) -> bool:
        """Whether sources add up to the channels."""
        return self.transform == "exp" or isinstance(self.transform, ExpTransform)

    def as_settings(self) -> "ModelSettings":
        """Return the settings of the separator; read the file of weights if there is one.

        Raises
        ------
        ParameterError
            If the values contradict each other, or the weights cannot be used.
        """
        from igbss_stream.separation.settings import ModelSettings

        if self.structure == "learned" and self.order != 1:
            raise ParameterError(
                "order must be 1 in a stream whose structure is learned: products of sources cannot be "
                f"learned repeatedly while it runs. Got {self.order} instead.",
                parameter="order",
            )
        given = {name: getattr(self, name) for name in PARAMETERS}
        structure, transform = self._load_structure(), self._make_transform()
        return ModelSettings(**given | {"structure": structure, "transform": transform})

    def _load_structure(self) -> Any:
        if isinstance(self.structure, str):
            return self.structure
        from igbss_stream.files.matrix_file import read_matrix
        from igbss_stream.model.poset import make_incidence

        weights = read_matrix(self.structure.file, "structure.file")
        make_incidence(weights, len(weights), self.n_sources)  # raises an error if they cannot be used
        return weights

    def _make_transform(self) -> "str | Transform":
        from igbss_stream.separation.transform import Exp, MinMax, Sum

        if isinstance(self.transform, ExpTransform):
            return Exp(scale=self.transform.scale)
        if isinstance(self.transform, MinMaxTransform):
            return MinMax(self.transform.margin, self.transform.low, self.transform.span)
        if isinstance(self.transform, SumTransform):
            return Sum(scale=self.transform.scale)
        name: str = self.transform
        return name


ModelSection.__doc__ = _build_docstring()
