"""From samples to sources: the one function that separates, and the object that does it in pieces.

`separate` takes a whole array. `Separator` is what it is made of: prepared once (structure, solver, state
of the transform), it then takes window after window; `batch` uses it so.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from igbss_stream.config import ModelSettings, Start, start_from
from igbss_stream.dtypes import as_samples
from igbss_stream.errors import IgbssWarning, InputError, ParameterError
from igbss_stream.linear import unmix
from igbss_stream.model.loglinear import Target, target
from igbss_stream.model.poset import Poset, incidence
from igbss_stream.model.solve import Fit, limit, solve
from igbss_stream.survey import Survey, survey_of
from igbss_stream.transform import Exp, Transform, as_transform

Array = NDArray[np.float64]

# exp of more than this overflows in p, or underflows where the model would need it
_LARGEST_RANGE = 600.0
_ROWS_AT_ONCE = 1 << 14  # rows whose logarithms are held at a time: they stay in cache


@dataclass(frozen=True, eq=False)
class Separation:
    """Sources of a window, and the model they come from.

    The closed form needs no fit: theta, p, eta and kl of its `fit` are then worked out when first asked
    for, as the limit the fits tend to (see `igbss_stream.model.solve.limit`).

    Parameters
    ----------
    sources : ndarray of shape (samples, sources)
        In the unit of the input.
    poset : Poset
        The sample space, with the incidence.
    transform : Transform
        How samples became probabilities, with its state.
    solver : str
        The solver that was used.
    mean : ndarray of shape (channels,) or None
        What a learned structure takes off the channels first.
    """

    sources: NDArray[Any]
    poset: Poset
    transform: Transform
    solver: str
    mean: Array | None
    _window: "_Window"
    _fit: Fit | None = None

    @property
    def mixing(self) -> Array:
        """Incidence W (channels, sources), with a leading axis if it changes from sample to sample.

        With transform "exp" the channels are ``sources @ mixing.T``, plus `mean` if there is one.
        """
        weights = self.poset.incidence
        return weights[0] if len(weights) == 1 else weights

    @property
    def unmixing(self) -> Array:
        """Pseudo-inverse of `mixing`, (sources, channels)."""
        inverse = self.poset.unmixing
        return inverse[0] if len(inverse) == 1 else inverse

    @cached_property
    def fit(self) -> Fit:
        """The fit: theta, p, eta, KL per iteration, and how it ended."""
        return self._fit or self._window.limit()

    @property
    def theta_z(self) -> Array:
        """Natural parameters of the source layer, (samples, sources)."""
        return self.fit.theta_z

    @property
    def theta_a(self) -> Array:
        """Natural parameters of the mixing layer, (channels, subsets)."""
        return self.fit.theta_a

    @property
    def p_z(self) -> Array:
        """Probability of the source states, (samples, sources)."""
        return self.fit.p.p_z

    @property
    def p_x(self) -> Array:
        """Probability of the received states, (samples, channels); also their eta."""
        return self.fit.p.p_x

    @property
    def p_a(self) -> Array:
        """Probability of the mixing states, (channels, subsets)."""
        return self.fit.p.p_a

    @property
    def eta_z(self) -> Array:
        """Expectation parameters of the source layer, (samples, sources)."""
        return self.fit.eta_z

    @property
    def eta_a(self) -> Array:
        """Expectation parameters of the mixing layer, (channels, subsets)."""
        return self.fit.eta_a

    @property
    def kl(self) -> Array:
        """KL(p_hat || p) at the start and after each iteration, in nats; never rises."""
        return self.fit.kl

    @property
    def n_iter(self) -> int:
        """Number of iterations; 1 for the closed form."""
        return self.fit.n_iter if self._fit else 1

    @property
    def converged(self) -> bool:
        """Whether the largest relative gradient is within the tolerance."""
        return self._fit.converged if self._fit else True

    @property
    def reason(self) -> str:
        """Why the solver stopped."""
        return self.fit.reason


class Separator:
    """Separates windows of one recording or stream by one structure and one state of the transform.

    Parameters
    ----------
    settings : ModelSettings
    n_channels : int

    Raises
    ------
    ParameterError
        If the settings do not fit the number of channels.
    """

    def __init__(self, settings: ModelSettings, n_channels: int) -> None:
        if n_channels < 2:
            raise InputError(f"separation needs at least 2 channels. Got {n_channels} instead.")
        self.settings = settings
        self.n_channels = n_channels
        self.transform = as_transform(settings.transform)
        self.mean: Array | None = None
        self._poset: Poset | None = None
        self.solver = "closed-form"
        if not settings.is_learned:
            weights = incidence(settings.structure, n_channels, settings.n_sources, settings.random_state)
            self._poset = Poset(weights, settings.order, settings.closure)
            self.solver = _resolve(settings, self._poset)
            self._warn_of_equal_channels()

    @property
    def poset(self) -> Poset:
        """The sample space; a learned one is there once `prepare` has seen the samples."""
        if self._poset is None:
            raise RuntimeError("the structure is not learned yet: prepare the separator first")
        return self._poset

    @property
    def by_sample(self) -> bool:
        """Whether each sample is separated on its own, so that windows may be cut anywhere."""
        return self.solver == "closed-form"

    @property
    def needs_survey(self) -> bool:
        """Whether `prepare` has to see all samples before the first is separated."""
        return self.settings.is_learned or not (self.by_sample and self.transform.linear)

    def new_survey(self, names: Sequence[str], dtype: np.dtype[Any], n_samples: int) -> Survey:
        """Return an empty survey that gathers what `prepare` needs."""
        return Survey(
            names,
            dtype,
            n_samples,
            keep_rows=self.needs_survey and self.transform.linear and not self.settings.is_learned,
            covariance=self.settings.is_learned or self.settings.n_sources is not None,
            keep_excerpt=self.settings.is_learned,
        )

    def prepare(self, survey: Survey, *, remedy: str = "") -> None:
        """Refuse samples that cannot be separated; take the state of the transform from the others.

        Raises
        ------
        InputError
            See `Survey.check`; also if n_sources was asked for and exceeds the rank of the samples.

        Warns
        -----
        IgbssWarning
            If a learned structure has fewer sources than channels because the rank is lower.
        """
        survey.check(remedy=remedy)
        wanted = self.settings.n_sources
        if wanted is not None and wanted > survey.rank:
            raise InputError(
                f"n_sources = {wanted} exceeds the rank of the samples, {survey.rank} (of "
                f"{self.n_channels} channels, as after average reference or ICA cleaning). Ask for at most "
                f"{survey.rank}."
            )
        if self.settings.is_learned:
            self._learn(survey, survey.rank if wanted is None else wanted)
        elif self.needs_survey:
            self.transform = self.transform.fit(survey)

    def _learn(self, survey: Survey, n_sources: int) -> None:
        from igbss_stream.model.structure import learn  # its kernels are for this alone

        if self.settings.n_sources is None and n_sources < self.n_channels:
            warnings.warn(
                f"the {self.n_channels} channels have rank {n_sources} (as after average reference or ICA "
                f"cleaning): {n_sources} sources are separated.",
                IgbssWarning,
                stacklevel=4,
            )
        excerpt = survey.excerpt
        resting = np.flatnonzero(np.ptp(excerpt, axis=0) == 0)
        if resting.size:
            raise InputError(
                f"{survey.names[resting[0]]} rests in all stretches that a structure is learned from, as a "
                "trigger does. Leave the channel out."
            )
        learned = learn(excerpt, n_sources)
        self.mean = learned.mean
        self._poset = Poset(learned.mixing[None], 1, self.settings.closure)

    def separate(self, x: NDArray[Any], names: Sequence[str]) -> Separation:
        """Survey a whole recording, prepare for it, and return its separation as one window."""
        survey = self.new_survey(names, x.dtype, len(x))
        survey.update(x)
        self.prepare(survey)
        return self.window(x)

    def sources(self, x: NDArray[Any], start: int = 0) -> NDArray[Any]:
        """Return the sources of samples that stand alone, by the closed form.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            C-ordered float32 or float64.
        start : int
            Index of the first sample in the recording, for messages.

        Returns
        -------
        ndarray of shape (samples, sources), of the type of x
        """
        if self.transform.linear:
            return unmix(self.poset, x, mean=self.mean)
        out = np.empty((len(x), self.poset.n_sources), x.dtype)
        for at in range(0, len(x), _ROWS_AT_ONCE):
            part = slice(at, at + _ROWS_AT_ONCE)
            log_values = self.transform.log(x[part])
            _check_positive(log_values, "solver 'closed-form'", start + at)
            out[part] = self.transform.inverse(unmix(self.poset, log_values))
        return out

    def window(self, x: NDArray[Any], start: int = 0) -> Separation:
        """Return the separation of a window.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            C-ordered float32 or float64.
        start : int
            Index of its first sample in the recording; a whole number of periods of the incidence.
        """
        if start % self.poset.periods:
            raise ValueError(f"start must be a multiple of {self.poset.periods}, got {start}")
        transform = self.transform
        if self.mean is not None and isinstance(transform, Exp):
            transform = replace(transform, center=self.mean)
        window = _Window(self.poset, transform, x, start, self.settings.latent_mass)
        if self.by_sample:
            return Separation(
                self.sources(x, start), self.poset, self.transform, self.solver, self.mean, window
            )
        shape_z, shape_a = (len(x), self.poset.n_sources), (self.poset.n_channels, self.poset.n_subsets)
        fit = solve(
            self.poset,
            window.goal,
            *start_from(self.settings.init, shape_z, shape_a, self.settings.random_state),
            solver=self.solver,
            tol=self.settings.tol,
            max_iter=self.settings.max_iter,
        )
        sources = window.sources(fit).astype(x.dtype, copy=False)
        return Separation(sources, self.poset, self.transform, self.solver, None, window, fit)

    def _warn_of_equal_channels(self) -> None:
        groups = ["; ".join(", ".join(map(str, group)) for group in self.poset.equal_channels)]
        if groups[0]:
            warnings.warn(
                f"the structure cannot tell channels apart: rows {groups[0]} are equal, so the model gives "
                "these channels one signal. More sources, or a structure of your own, avoid it.",
                IgbssWarning,
                stacklevel=4,
            )


class _Window:
    """A window in the model's terms: what p_hat is, and how a fit becomes sources."""

    def __init__(
        self, poset: Poset, transform: Transform, x: NDArray[Any], start: int, latent_mass: float
    ) -> None:
        self.poset, self.transform, self.latent_mass = poset, transform, latent_mass
        self.x, self.start = x, start

    @cached_property
    def log_values(self) -> Array:
        """Transformed samples, (samples, channels)."""
        return np.ascontiguousarray(self.transform.log(self.x))

    @cached_property
    def goal(self) -> Target:
        """The empirical distribution."""
        top = self.log_values.max()
        if np.isposinf(top):
            raise InputError(f"transform '{self.transform.name}' overflows. Give it a larger scale.")
        if np.isneginf(top):
            raise InputError(f"transform '{self.transform.name}' leaves no mass: all samples are zero.")
        finite = self.log_values[np.isfinite(self.log_values)]
        if top - finite.min() > _LARGEST_RANGE:
            sample, channel = np.unravel_index(np.argmax(np.abs(self.log_values)), self.log_values.shape)
            furthest = f"{self.x[sample, channel]:g} (sample {self.start + sample}, channel {channel})"
            raise InputError(
                f"transform '{self.transform.name}' spans exp({top - finite.min():.3g}), more than float64 "
                f"holds; furthest out is {furthest}. Give a larger scale, cut the outlier out, or use "
                "transform 'min-max'."
            )
        if self.latent_mass == 0:
            _check_positive(self.log_values, "latent_mass = 0", self.start)
        return target(self.poset, np.exp(self.log_values - top), self.latent_mass)

    def sources(self, fit: Fit) -> Array:
        """Return the sources of a fit: the pseudo-inverse of W applied to log p of the received layer.

        That is log p(z) but for a constant a source, which the transform's own scale fixes: channels
        and sources are then in one unit, and a perfect fit gives what the closed form gives.
        """
        share = np.log(np.exp(self.log_values - self.log_values.max()).sum()) + self.log_values.max()
        log_fitted = np.log(fit.p.p_x) + (share - np.log1p(-self.latent_mass))
        if self.transform.linear:
            return unmix(self.poset, self.transform.inverse(log_fitted))
        return self.transform.inverse(unmix(self.poset, log_fitted))

    def limit(self) -> Fit:
        """Return the limit of the fits, for the closed form."""
        if self.transform.linear and getattr(self.transform, "scale", None) is None:
            names = [str(i) for i in range(self.x.shape[1])]
            self.transform = self.transform.fit(survey_of(self.x, names, keep_rows=True))
        return limit(self.poset, self.goal, unmix(self.poset, self.log_values))


def separate(
    x: ArrayLike,
    *,
    n_sources: int | None = None,
    structure: str | ArrayLike = "systematic",
    order: int = 1,
    transform: str | Transform = "exp",
    closure: str = "strict",
    solver: str = "auto",
    latent_mass: float = 0.0,
    init: Start = "zero",
    tol: float = 1e-10,
    max_iter: int = 1000,
    random_state: int | np.random.Generator | None = None,
) -> Separation:
    """Separate the sources behind a set of channels.

    Parameters
    ----------
    x : array-like of shape (samples, channels)
        Real numbers of any type and order; float64 and integers of 32 bits and more are processed in
        float64, all else in float32.
    n_sources, structure, order, transform, closure, solver, latent_mass, init, tol, max_iter, random_state
        See `igbss_stream.config.ModelSettings`.

    Returns
    -------
    Separation

    Raises
    ------
    ParameterError
        If an option cannot be used.
    InputError
        If the samples cannot be separated; the message says which and why.

    Notes
    -----
    The model is that of Luo, Azizi, Sugiyama (UAI 2021).

    Examples
    --------
    >>> import numpy as np
    >>> from igbss_stream import separate
    >>> x = np.array([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]])
    >>> separate(x).sources
    array([[ 2. ,  1. ,  0. ],
           [-0.5,  1.5,  0.5]])
    """
    settings = ModelSettings(
        n_sources=n_sources,
        structure=structure,
        order=order,
        transform=transform,
        closure=closure,
        solver=solver,
        latent_mass=latent_mass,
        init=init,
        tol=tol,
        max_iter=max_iter,
        random_state=random_state,
    )
    samples = as_samples(x)
    names = [f"channel {i}" for i in range(samples.shape[1])]
    return Separator(settings, samples.shape[1]).separate(samples, names)


def _resolve(settings: ModelSettings, poset: Poset) -> str:
    if settings.solver == "closed-form" and poset.n_channels != poset.n_sources:
        raise ParameterError(
            f"solver 'closed-form' needs as many sources as channels, {poset.n_channels}. "
            f"Got n_sources = {poset.n_sources} instead; use solver 'joint'."
        )
    if settings.solver == "closed-form" and not poset.has_closed_form:
        raise ParameterError("solver 'closed-form' is not exact for this structure; use solver 'joint'.")
    if settings.solver != "auto":
        return settings.solver
    return "closed-form" if settings.latent_mass == 0 and poset.has_closed_form else "joint"


def _check_positive(log_values: Array, what: str, start: int) -> None:
    if log_values.size and np.isneginf(log_values.min()):
        sample, channel = np.argwhere(np.isneginf(log_values))[0]
        raise InputError(
            f"{what} needs values above zero. Got 0 at sample {start + sample}, channel {channel}; "
            "use transform 'exp' or 'min-max', or latent_mass = 1e-3."
        )
