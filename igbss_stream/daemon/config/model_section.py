"""The section `model`, and what `igbss_stream.separation.settings.ModelSettings` it stands for."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from igbss_stream.daemon.config.base import Count, Section
from igbss_stream.errors import ParameterError

if TYPE_CHECKING:
    from igbss_stream.separation.settings import ModelSettings
    from igbss_stream.separation.transform import Transform

# numbers in the unit of the samples, which may be 1e-19 as well as 1e9
_Scale = Annotated[float, Meta(gt=0, le=1e300)]
_Level = Annotated[float, Meta(ge=-1e300, le=1e300)]


class Weights(Section, frozen=True, kw_only=True):
    """A structure of one's own.

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
        Unit of the exponent, in the unit of the samples; left out, taken from the first samples.
    """

    scale: _Scale | None = None


class MinMaxTransform(Section, frozen=True, kw_only=True, tag_field="kind", tag="min-max"):
    """Min-max normalisation over all channels.

    Parameters
    ----------
    margin : float
        Distance of the minimum from zero, as a share of the range.
    low : float or None
        Where the normalised value is 0, in the unit of the samples; left out, taken from the first samples.
    span : float or None
        Distance from `low` to where the normalised value is 1; left out, taken from the first samples.
    """

    margin: Annotated[float, Meta(ge=1e-9, le=1e6)] = 0.1
    low: _Level | None = None
    span: _Scale | None = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.span is None):
            raise ParameterError("low and span go together: give both or neither.", parameter="low")


class SumTransform(Section, frozen=True, kw_only=True, tag_field="kind", tag="sum"):
    """Division by the sum, for samples >= 0.

    Parameters
    ----------
    scale : float or None
        Where the value is 1, in the unit of the samples; left out, taken from the first samples.
    """

    scale: _Scale | None = None


class Model(Section, frozen=True, kw_only=True):
    """How to separate: the parameters of `igbss_stream.separate`.

    Parameters
    ----------
    n_sources : int or None
        Number of sources; left out, as many as the samples can tell apart.
    structure : str or Weights
        Which sources reach which channels: `learned` from the samples, a name, or a file of weights.
    order : int
        Largest number of sources that interact.
    transform : str, ExpTransform, MinMaxTransform or SumTransform
        How samples become probabilities: a name, or a section with more to set.
    closure : {"strict", "full"}
        What lies above a mixing node: what its sources reach, or everything.
    solver : {"auto", "closed-form", "joint", "blocked", "gradient"}
        `auto` takes the closed form where it is exact, the joint natural gradient elsewhere.
    latent_mass : float
        Share of probability on the latent states.
    init : {"zero", "random"}
        Where a descent starts.
    tol : float
        Largest relative gradient of a converged fit.
    max_iter : int
        Largest number of iterations of a fit.
    random_state : int or None
        Seed of structure `random` and of init `random`.
    scaling : {"unit-variance", "back-projected"}
        Scale of learned sources: unit variance, or the unit of the channel where each is strongest.
    """

    n_sources: Count | None = None
    structure: Literal["learned", "systematic", "cyclic", "random"] | Weights = "learned"
    order: Count = 1
    transform: Literal["exp", "min-max", "sum"] | ExpTransform | MinMaxTransform | SumTransform = "exp"
    closure: Literal["strict", "full"] = "strict"
    solver: Literal["auto", "closed-form", "joint", "blocked", "gradient"] = "auto"
    latent_mass: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    init: Literal["zero", "random"] = "zero"
    tol: Annotated[float, Meta(gt=0, le=1)] = 1e-10
    max_iter: Count = 1000
    random_state: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None = None
    scaling: Literal["unit-variance", "back-projected"] = "unit-variance"

    @property
    def is_linear(self) -> bool:
        """Whether sources add up to the channels."""
        return self.transform == "exp" or isinstance(self.transform, ExpTransform)

    def settings(self) -> "ModelSettings":
        """Return the settings of the separator; reads the file of weights, if there is one.

        Raises
        ------
        ParameterError
            If the values do not go together, or the weights cannot be used.
        """
        from igbss_stream.separation.settings import ModelSettings

        if self.structure == "learned" and self.order != 1:
            raise ParameterError(
                "order must be 1 in a stream whose structure is learned: products of sources cannot be "
                f"learned anew while it runs. Got {self.order} instead.",
                parameter="order",
            )
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        return ModelSettings(**given | {"structure": self._structure(), "transform": self._transform()})

    def _structure(self) -> Any:
        if isinstance(self.structure, str):
            return self.structure
        from igbss_stream.files.matrix_file import read_matrix
        from igbss_stream.model.poset import make_incidence

        weights = read_matrix(self.structure.file, "structure.file")
        make_incidence(weights, len(weights), self.n_sources)  # refuses what cannot be weights
        return weights

    def _transform(self) -> "str | Transform":
        from igbss_stream.separation.transform import Exp, MinMax, Sum

        if isinstance(self.transform, ExpTransform):
            return Exp(scale=self.transform.scale)
        if isinstance(self.transform, MinMaxTransform):
            return MinMax(self.transform.margin, self.transform.low, self.transform.span)
        if isinstance(self.transform, SumTransform):
            return Sum(scale=self.transform.scale)
        return self.transform
