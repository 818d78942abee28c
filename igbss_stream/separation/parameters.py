"""Declare the parameters of the model: names, types, defaults, bounds, choices and documentation.

`ModelParameters` is the only declaration. From it derive

- `igbss_stream.separation.settings.ModelSettings`, which checks the values;
- the options of the command ``batch`` (`igbss_stream.cli.model_options`);
- the section ``model`` of a configuration (`igbss_stream.daemon.config.model_section`);
- the table in docs/parameters.md (tools/parameters_page.py).

The function `separate` and the estimator `IGBSS` spell their parameters out, since users and scikit-learn
inspect them; a test compares their names, defaults and docstrings with the declaration. This module imports
nothing heavy, because every command imports it.
"""

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from igbss_stream.separation.transform import Transform

LEARNED = "learned"
UNIT_VARIANCE = "unit-variance"

Start = str | tuple[Any, Any]
"""Start of a fit: a name, or a pair (theta_z, theta_a)."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """What is declared of a parameter, besides its name.

    Parameters
    ----------
    kind : type
        int, float or str.
    default : object
        None for a parameter that may be omitted.
    help : str
        One line, for the help of a command.
    doc : str
        One or more sentences. Values are in double quotes.
    choices : tuple of str
        Names that are allowed; empty for numbers.
    ge, lt : float, optional
        Bounds: at least `ge`, less than `lt`.
    default_text : str
        Meaning of None as a default.
    other_type : str
        Type that Python callers may pass as well.
    other_doc : str
        A sentence about it.
    """

    kind: type
    default: Any
    help: str
    doc: str
    choices: tuple[str, ...] = ()
    ge: float | None = None
    lt: float | None = None
    default_text: str = ""
    other_type: str = ""
    other_doc: str = ""

    @property
    def python_type(self) -> str:
        """The type as numpydoc writes it, with the default."""
        names = ", ".join(f'"{name}"' for name in self.choices)
        kind = f"{{{names}}}" if names else self.kind.__name__
        other = f" or {self.other_type}" if self.other_type else ""
        default = f'"{self.default}"' if isinstance(self.default, str) else self.default
        return f"{kind}{other}, " + ("optional" if self.default is None else f"default={default}")

    @property
    def python_doc(self) -> str:
        """The documentation for Python callers."""
        return f"{self.doc} {self.other_doc}".strip()


def _describe(kind: type, help: str, doc: str, **more: Any) -> dict[str, Any]:
    """Return the metadata of a field of `ModelParameters`; see `Parameter`."""
    return {"kind": kind, "help": help, "doc": doc, **more}


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelParameters:
    """The parameters of `igbss_stream.separate`, as declared; see `PARAMETERS` for their documentation."""

    n_sources: int | None = field(
        default=None,
        metadata=_describe(
            int,
            "Number of sources.",
            "Number of sources. Default: the number of channels, or of columns of a matrix; the rank of "
            "the samples if the structure is learned.",
            ge=1,
            default_text="number of channels, or rank of the samples",
        ),
    )
    structure: Any = field(
        default=LEARNED,
        metadata=_describe(
            str,
            "Which sources reach which channels: learned (from the samples), systematic, cyclic, random.",
            'Which sources reach which channels: "learned" from the samples; "systematic", where '
            'source n misses channel n, as published; "cyclic", where the missed channel moves from '
            'sample to sample; or "random", where each source misses a channel drawn at random.',
            choices=(LEARNED, "systematic", "cyclic", "random"),
            other_type="array-like",
            other_doc="A matrix (channels, sources) contains finite weights, at least 0.",
        ),
    )
    order: int = field(
        default=1,
        metadata=_describe(
            int,
            "Largest number of sources that interact.",
            "Largest number of sources that interact. Above 1, a learned structure includes products "
            "of up to this number of sources, which requires few sources and several thousand "
            "samples.",
            ge=1,
        ),
    )
    transform: "str | Transform" = field(
        default="exp",
        metadata=_describe(
            str,
            "How samples become probabilities: exp, min-max or sum.",
            'How samples become probabilities: "exp", "min-max" or "sum".',
            choices=("exp", "min-max", "sum"),
            other_type="Transform",
            other_doc="An object of `igbss_stream.separation.transform` has a scale of your choice.",
        ),
    )
    closure: Any = field(
        default="strict",
        metadata=_describe(
            str,
            "Channels above a mixing node: strict (those that its sources reach) or full (all).",
            'Which received nodes are above a mixing node: those that its sources reach ("strict"), '
            'or all of them ("full").',
            choices=("strict", "full"),
        ),
    )
    solver: str = field(
        default="auto",
        metadata=_describe(
            str,
            "Solver of the fit: auto, closed-form, joint, blocked or gradient.",
            'Solver of the fit: "closed-form", "joint", "blocked" or "gradient". "auto" uses the '
            'closed form where it is exact, otherwise the joint natural gradient ("joint").',
            choices=("auto", "closed-form", "joint", "blocked", "gradient"),
        ),
    )
    latent_mass: float = field(
        default=0.0,
        metadata=_describe(
            float,
            "Share of probability on the latent states.",
            "Share of probability on the latent states, below 1. Above 0, the optimum is unique and "
            "in the interior.",
            ge=0.0,
            lt=1.0,
        ),
    )
    init: Start = field(
        default="zero",
        metadata=_describe(
            str,
            "Start of a fit: zero or random.",
            'Start of a fit: "zero" or "random".',
            choices=("zero", "random"),
            other_type="(theta_z, theta_a)",
            other_doc="A pair contains the natural parameters to start from.",
        ),
    )
    tol: float = field(
        default=1e-10,
        metadata=_describe(
            float,
            "Largest relative gradient of a converged fit.",
            "Largest relative gradient of a converged fit: the deviation of eta from eta_hat, divided "
            "by eta_hat.",
            ge=0.0,
        ),
    )
    max_iter: int = field(
        default=1000,
        metadata=_describe(
            int, "Largest number of iterations.", "Largest number of iterations of a fit.", ge=1
        ),
    )
    random_state: Any = field(
        default=None,
        metadata=_describe(
            int,
            "Seed of structure random and init random.",
            'Seed of structure "random" and init "random".',
            ge=0,
            other_type="numpy.random.Generator",
        ),
    )
    scaling: str = field(
        default=UNIT_VARIANCE,
        metadata=_describe(
            str,
            "Scale of learned sources: unit-variance, or back-projected (unit of the strongest channel).",
            'Scale of learned sources: "unit-variance", with the unit in the mixing; or '
            '"back-projected", in the unit of the channel where each source is strongest.',
            choices=(UNIT_VARIANCE, "back-projected"),
        ),
    )
    view: float | None = field(
        default=None,
        metadata=_describe(
            float,
            "Ridge of the view that a structure is learned from; 0: innovations.",
            "Ridge of the view of the sources that a structure is learned from: 0 for innovations, which "
            "are most accurate without sensor noise; 20 for a robust view, close to the samples. Default: "
            "the most accurate view that the samples do not contradict.",
            ge=0.0,
            default_text="selected from the samples",
        ),
    )
    drift: str = field(
        default="remove",
        metadata=_describe(
            str,
            "Slow drift in the samples that a structure is learned from: remove or keep.",
            'Slow drift that dominates the samples: "remove" it from the copy that a structure is learned '
            'from, or "keep" it. The sources are those of the samples as they are.',
            choices=("remove", "keep"),
        ),
    )


PARAMETERS: dict[str, Parameter] = {
    declared.name: Parameter(default=declared.default, **declared.metadata)
    for declared in fields(ModelParameters)
}
"""The declaration of each parameter, by its name."""


def as_markdown(text: str) -> str:
    """Return documentation with values in backticks in place of quotes."""
    return re.sub(r'"([^"]+)"', r"`\1`", text)
