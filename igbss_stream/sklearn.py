"""Estimator `IGBSS` with the interface of scikit-learn. Requires the extra ``sklearn``."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from igbss_stream._util.dtypes import as_samples, refuse_losses
from igbss_stream._util.optional import describe_missing
from igbss_stream.separation.parameters import Start
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.result import Separation
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.stages import LinearStage
from igbss_stream.separation.transform import Transform

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        describe_missing("sklearn", "igbss_stream.sklearn is an estimator of scikit-learn", error)
    ) from error


# the bases are Any to the type checker: scikit-learn has no types
class IGBSS(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Information-geometric blind source separation.

    The parameters are those of `igbss_stream.separate`.

    Parameters
    ----------
    n_sources : int, optional
        Number of sources. Default: the number of channels, or of columns of a matrix; the rank of the
        samples if the structure is learned.
    structure : {"learned", "systematic", "cyclic", "random"} or array-like, default="learned"
        Which sources reach which channels: "learned" from the samples; "systematic", where source n misses
        channel n, as published; "cyclic", where the missed channel moves from sample to sample; or
        "random", where each source misses a channel drawn at random. A matrix (channels, sources) contains
        finite weights, at least 0.
    order : int, default=1
        Largest number of sources that interact. Above 1, a learned structure includes products of up to
        this number of sources, which requires few sources and several thousand samples.
    transform : {"exp", "min-max", "sum"} or Transform, default="exp"
        How samples become probabilities: "exp", "min-max" or "sum". An object of
        `igbss_stream.separation.transform` has a scale of your choice.
    closure : {"strict", "full"}, default="strict"
        Which received nodes are above a mixing node: those that its sources reach ("strict"), or all of
        them ("full").
    solver : {"auto", "closed-form", "joint", "blocked", "gradient"}, default="auto"
        Solver of the fit: "closed-form", "joint", "blocked" or "gradient". "auto" uses the closed form
        where it is exact, otherwise the joint natural gradient ("joint").
    latent_mass : float, default=0.0
        Share of probability on the latent states, below 1. Above 0, the optimum is unique and in the
        interior.
    init : {"zero", "random"} or (theta_z, theta_a), default="zero"
        Start of a fit: "zero" or "random". A pair contains the natural parameters to start from.
    tol : float, default=1e-10
        Largest relative gradient of a converged fit: the deviation of eta from eta_hat, divided by eta_hat.
    max_iter : int, default=1000
        Largest number of iterations of a fit.
    random_state : int or numpy.random.Generator, optional
        Seed of structure "random" and init "random".
    scaling : {"unit-variance", "back-projected"}, default="unit-variance"
        Scale of learned sources: "unit-variance", with the unit in the mixing; or "back-projected", in the
        unit of the channel where each source is strongest.
    view : float, optional
        Ridge of the view of the sources that a structure is learned from: 0 for innovations, which are most
        accurate without sensor noise; 20 for a robust view, close to the samples. Default: the most
        accurate view that the samples do not contradict.
    drift : {"remove", "keep"}, default="remove"
        Slow drift that dominates the samples: "remove" it from the copy that a structure is learned from,
        or "keep" it. The sources are those of the samples as they are.
    warm_start : bool, default=False
        Whether `fit` starts from the previous learned structure, and keeps its order, signs, scale and
        view.

    Attributes
    ----------
    components_ : ndarray of shape (sources, channels)
        Unmixing matrix, with a leading axis if the structure changes from sample to sample.
    mixing_ : ndarray of shape (channels, sources)
        Mixing matrix: the incidence of sources on channels; in the unit of the channels if learned.
    mean_ : ndarray of shape (channels,)
        Subtracted from the channels before unmixing; zero unless the structure is learned.
    view_ : float or None
        Ridge of the view that the structure was learned from; None for other structures.
    reliability_ : ndarray of shape (sources,) or None
        Predicted ratio of each source to the interference of all others, in dB; None unless learned.
    n_iter_ : int
        Number of iterations; 1 for the closed form.
    converged_ : bool
        Whether the fit reached `tol`.
    kl_ : ndarray of shape (n_iter_ + 1,)
        KL(p_hat || p) at the start and after each iteration, in nats.
    theta_z_ : ndarray of shape (samples, sources)
        Natural parameters of the source layer.
    theta_a_ : ndarray of shape (channels, subsets)
        Natural parameters of the mixing layer.

    Notes
    -----
    `fit` learns the structure, if it is "learned", and the state of the transform. `transform` separates
    other samples by a separate fit; with the closed form, sample by sample.

    The parameter `transform` has the same name as the method. Read it with ``get_params()["transform"]``
    and change it with ``set_params(transform=...)``.

    Examples
    --------
    >>> import numpy as np
    >>> from igbss_stream.sklearn import IGBSS
    >>> x = np.random.default_rng(0).normal(size=(100, 4))
    >>> model = IGBSS().fit(x)
    >>> bool(np.allclose(model.inverse_transform(model.transform(x)), x))
    True
    """

    def __init__(
        self,
        n_sources: int | None = None,
        *,
        structure: str | ArrayLike = "learned",
        order: int = 1,
        transform: str | Transform = "exp",
        closure: str = "strict",
        solver: str = "auto",
        latent_mass: float = 0.0,
        init: Start = "zero",
        tol: float = 1e-10,
        max_iter: int = 1000,
        random_state: Any = None,
        scaling: str = "unit-variance",
        view: float | None = None,
        drift: str = "remove",
        warm_start: bool = False,
    ) -> None:
        self.n_sources = n_sources
        self.structure = structure
        self.order = order
        self._transform = transform  # self.transform is the method
        self.closure = closure
        self.solver = solver
        self.latent_mass = latent_mass
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.scaling = scaling
        self.view = view
        self.drift = drift
        self.warm_start = warm_start

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {**super().get_params(deep=deep), "transform": self._transform}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        if "transform" in params:
            self._transform = params.pop("transform")
        super().set_params(**params)
        return self

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (samples, channels)
        y : None
            Ignored.

        Returns
        -------
        self
        """
        self._fit(X)
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None) -> NDArray[Any]:
        """Fit the model and return the sources, (samples, sources), in the unit of X."""
        return self._fit(X).sources

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the sources of samples of the same channels.

        Parameters
        ----------
        X : array-like of shape (samples, channels)

        Returns
        -------
        ndarray of shape (samples, sources), in the unit of X
        """
        check_is_fitted(self)
        refuse_losses(X, "X")  # scikit-learn drops masks, and the last digits of integers
        samples = as_samples(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))
        if self._separator.by_sample:
            return self._separator.separate_samples(samples)
        return self._separator.separate_window(samples).sources

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the channels that result from sources.

        Parameters
        ----------
        X : array-like of shape (samples, sources)

        Returns
        -------
        ndarray of shape (samples, channels), in the unit of X
        """
        check_is_fitted(self)
        return self._separator.mix_sources(as_samples(X, "X"))

    @property
    def _n_features_out(self) -> int:
        return self._separator.stage.n_sources

    def _fit(self, X: ArrayLike) -> Separation:
        params = self.get_params(deep=False)
        is_fitted = hasattr(self, "components_")
        warm_start = params.pop("warm_start") and is_fitted
        settings = ModelSettings(**params)
        warm_start = warm_start and settings.is_learned
        refuse_losses(X, "X")
        checked = validate_data(
            self, X, dtype=[np.float64, np.float32], ensure_min_samples=2, ensure_min_features=2
        )
        samples = as_samples(checked)
        if warm_start and settings.view is None:
            settings = replace(settings, view=self.view_)
        names = getattr(self, "feature_names_in_", [f"channel {i}" for i in range(samples.shape[1])])
        previous = LinearStage(self.mixing_[None], self.components_[None]) if warm_start else None
        self._separator = SeparationPlan(settings, samples.shape[1], previous).prepare_for(samples, names)
        separation = self._separator.separate_window(samples)
        self.components_: NDArray[np.float64] = separation.unmixing
        self.mixing_: NDArray[np.float64] = separation.mixing
        self.mean_ = np.zeros(samples.shape[1]) if separation.mean is None else separation.mean
        self.view_: float | None = separation.view
        self.reliability_: NDArray[np.float64] | None = separation.reliability
        self.n_iter_, self.converged_ = separation.n_iter, separation.converged
        self.kl_, self.theta_z_, self.theta_a_ = separation.kl, separation.theta_z, separation.theta_a
        return separation
