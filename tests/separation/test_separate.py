"""Test `separate` against the formulas, for all types, chunks, solvers and starts."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream._util.dtypes import as_samples
from igbss_stream.cli.demo import draw_mixing, make_time_series
from igbss_stream.errors import IgbssWarning, InputError, ParameterError
from igbss_stream.model.poset import Closure, Poset, make_incidence
from igbss_stream.separation.metrics import rmse
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.stages import LinearStage
from igbss_stream.separation.statistics import survey_array
from igbss_stream.separation.transform import Exp, MinMax, Sum
from tests import reference
from tests.published import model_settings, separate

Samples = NDArray[Any]


def series(seed: int, n_samples: int = 500) -> Samples:
    return make_time_series(n_samples) @ draw_mixing(seed).T


class TestClosedForm:
    def test_published_figure(self) -> None:
        """Sources of the paper's time series match those of the authors' code: RMSE 0.7226."""
        x = series(0)
        separation = separate(x, transform=MinMax(margin=0.1 / (x.max() - x.min())))
        assert separation.solver == "closed-form"
        assert rmse(separation.sources, make_time_series()) == pytest.approx(0.7226, abs=5e-5)
        assert rmse(separation.p_z, make_time_series()) == pytest.approx(0.7226, abs=5e-5)

    @pytest.mark.parametrize("n_channels", [2, 3, 4, 5, 8, 13])
    @pytest.mark.parametrize("structure", ["systematic", "cyclic", "random"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_sources_are_the_solution_of_the_mixing_equation(
        self, n_channels: int, structure: str, dtype: type
    ) -> None:
        x: Samples = np.random.default_rng(1).normal(7.0, 3.0, (40, n_channels)).astype(dtype)
        separation = separate(x, structure=structure, random_state=3)
        want = np.linalg.solve(separation.mixing, x.T.astype(np.float64)).T
        precision = float(np.finfo(dtype).eps)
        np.testing.assert_allclose(separation.sources, want, rtol=4 * precision, atol=100 * precision)
        assert separation.sources.dtype == dtype
        np.testing.assert_allclose(separation.unmixing @ separation.mixing, np.eye(n_channels), atol=1e-12)

    def test_large_offsets_do_not_lose_digits(self) -> None:
        """Sums are in float64: an offset of 4200 on a signal of 10 only adds the rounding of storage."""
        rng = np.random.default_rng(0)
        x = (4200.0 + rng.normal(0.0, 10.0, (200, 64))).astype(np.float32)
        want = np.linalg.solve(1.0 - np.eye(64), x.T.astype(np.float64)).T
        np.testing.assert_array_equal(separate(x).sources, want.astype(np.float32))

    @pytest.mark.parametrize("transform", ["min-max", "sum"])
    def test_other_transforms_unmix_logarithms(self, transform: str) -> None:
        x = np.random.default_rng(1).uniform(1.0, 5.0, (70, 4))
        separation = separate(x, transform=transform)
        state = separation.transform
        logs: Samples = np.linalg.solve(separation.mixing, state.log(x).T).T
        want = state.inverse(logs)
        np.testing.assert_allclose(separation.sources, want, rtol=1e-11)
        back = state.inverse(separation.stage.mix(state.log(separation.sources)))
        np.testing.assert_allclose(back, x, rtol=1e-10)

    @given(st.lists(st.integers(0, 60), max_size=6), st.sampled_from([2, 3, 4, 7]), st.booleans())
    def test_samples_are_independent_to_the_bit(
        self, cuts: list[int], n_channels: int, dense: bool
    ) -> None:
        rng = np.random.default_rng(0)
        weights = (
            rng.uniform(0.1, 1, (1, n_channels, n_channels))
            if dense
            else make_incidence("random", n_channels)
        )
        poset, x = Poset(weights), rng.normal(size=(60, n_channels)).astype(np.float32)
        stage = LinearStage.from_poset(poset)
        parts = [stage.unmix(np.ascontiguousarray(part)) for part in np.split(x, sorted(cuts))]
        np.testing.assert_array_equal(np.concatenate(parts), stage.unmix(x))

    def test_blocks_of_rows_do_not_matter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        x = np.random.default_rng(0).uniform(1.0, 2.0, (500, 3))
        whole = separate(x, transform="min-max").sources
        monkeypatch.setattr("igbss_stream.separation.engine._ROWS_AT_ONCE", 7)
        np.testing.assert_array_equal(separate(x, transform="min-max").sources, whole)

    @pytest.mark.parametrize("transform", ["exp", "min-max", "sum"])
    @pytest.mark.parametrize(("order", "closure"), [(1, "strict"), (2, "strict"), (3, "full")])
    def test_is_the_limit_of_the_joint_solver(self, transform: str, order: int, closure: Closure) -> None:
        x = series(1, 60)
        x = x - x.min() + 0.5
        exact = separate(x, transform=transform, order=order, closure=closure)
        gaps = []
        for mass in (1e-4, 1e-6):
            fit = separate(x, transform=transform, order=order, closure=closure, latent_mass=mass)
            assert fit.converged
            logs = np.log(fit.p_z), np.log(exact.p_z)
            for fitted, limit in zip(logs[0].T, logs[1].T, strict=True):
                gaps.append(1.0 - np.corrcoef(fitted, limit)[0, 1])
        assert max(gaps[3:]) < 1e-9
        assert max(gaps[3:]) < max(gaps[:3]) + 1e-12
        np.testing.assert_allclose(fit.sources, exact.sources, rtol=1e-3, atol=1e-3)

    def test_attributes_of_the_fit(self) -> None:
        x = series(2, 50)
        separation = separate(x)
        assert (separation.n_iter, separation.converged) == (1, True)
        assert separation.reason.startswith("closed form")
        dense = reference.Poset(3, 3, 50, 1, "strict", separation.poset.incidence)
        state = Exp().fit(survey_array(x, ["a", "b", "c"], keep_rows=True))
        goal = reference.target(dense, np.exp(state.log(x)), 0.0)
        some = goal > 0
        start = np.sum(goal[some] * np.log(goal[some] * goal.size))
        np.testing.assert_allclose(separation.kl, [start, 0.0], rtol=1e-12)
        np.testing.assert_allclose(separation.p_x.sum(), 1.0)
        np.testing.assert_allclose(separation.p_z.sum(), 1.0)
        np.testing.assert_allclose(separation.p_a.sum(), 1.0)
        np.testing.assert_allclose(separation.eta_z, separation.p_x @ separation.mixing, rtol=1e-12)
        assert separation.eta_a.shape == separation.theta_a.shape == (3, 3)

    def test_two_channels_are_swapped(self) -> None:
        x = np.random.default_rng(0).normal(size=(30, 2))
        separation = separate(x)
        np.testing.assert_allclose(separation.sources, x[:, ::-1], rtol=1e-13, atol=1e-15)
        assert separation.kl[-1] == pytest.approx(np.log(2.0))
        fit = separate(x, latent_mass=1e-7)
        assert fit.kl[-1] == pytest.approx(np.log(2.0), rel=1e-4)


class TestFits:
    @pytest.mark.jit
    @pytest.mark.parametrize("closure", ["strict", "full"])
    @pytest.mark.parametrize("order", [1, 2, 3])
    @pytest.mark.parametrize("transform", ["exp", "min-max", "sum"])
    def test_every_mixture_of_the_paper_converges(
        self, transform: str, order: int, closure: Closure
    ) -> None:
        """40 draws of the mixing matrix; warnings are errors, and so is a singular matrix."""
        for seed in range(40):
            x = series(seed)
            x = x - x.min() + 0.1 if transform == "sum" else x
            fit = separate(x, transform=transform, order=order, closure=closure, latent_mass=1e-3)
            assert fit.converged, (seed, fit.reason)
            assert np.all(np.diff(fit.kl) <= 0.0)
            assert np.isfinite(fit.sources).all()

    @pytest.mark.jit
    @pytest.mark.parametrize("closure", ["strict", "full"])
    @pytest.mark.parametrize("order", [1, 2, 3])
    @pytest.mark.parametrize("transform", ["exp", "min-max", "sum"])
    def test_the_start_does_not_matter(self, transform: str, order: int, closure: Closure) -> None:
        for seed in range(10):
            x = series(seed)
            x = x - x.min() + 0.1 if transform == "sum" else x
            first, second = (
                separate(
                    x, transform=transform, order=order, closure=closure, latent_mass=1e-3, init="random",
                    random_state=start,
                )
                for start in (2 * seed, 2 * seed + 1)
            )  # fmt: skip
            assert first.converged
            assert second.converged
            np.testing.assert_allclose(first.sources, second.sources, rtol=1e-8, atol=1e-8)

    @pytest.mark.parametrize("structure", ["systematic", "cyclic", "random"])
    def test_fewer_sources_than_channels(self, structure: str) -> None:
        x = np.random.default_rng(0).normal(5.0, 2.0, (40, 4))
        fit = separate(x, n_sources=3, structure=structure, random_state=0)
        assert (fit.solver, fit.converged) == ("joint", True)
        assert fit.sources.shape == (40, 3)
        if structure != "cyclic":  # there the constant between log p(z) and a source has periods
            state = fit.transform
            assert isinstance(state, Exp)
            gap = np.log(fit.p_z) - fit.sources / state.scale
            np.testing.assert_allclose(gap - gap[0], 0.0, atol=1e-7)

    def test_exact_data_of_fewer_sources_are_recovered(self) -> None:
        """Channels that the model can express are reproduced, and their sources found."""
        truth = np.random.default_rng(0).normal(0.0, 0.3, (50, 2))
        weights = np.array([[0.2, 1.0], [1.0, 0.4], [0.7, 0.7], [1.0, 1.0]])
        fit = separate(truth @ weights.T, structure=weights, transform=Exp(scale=1.0, center=0.0))
        np.testing.assert_allclose(fit.sources, truth, atol=1e-7)

    def test_a_warm_start_at_the_optimum_converges_at_once(self) -> None:
        x = series(3, 80)
        cold = separate(x, latent_mass=1e-3)
        warm = separate(x, latent_mass=1e-3, init=(cold.theta_z, cold.theta_a))
        assert (warm.n_iter, warm.converged) == (0, True)
        np.testing.assert_array_equal(warm.sources, cold.sources)

    def test_runs_are_reproducible_to_the_bit(self) -> None:
        x = series(3, 80)
        options: dict[str, Any] = {"latent_mass": 1e-2, "order": 2, "init": "random", "random_state": 5}
        first, second = separate(x, **options), separate(x, **options)
        np.testing.assert_array_equal(first.sources, second.sources)
        np.testing.assert_array_equal(first.kl, second.kl)

    @pytest.mark.parametrize("solver", ["blocked", "gradient"])
    def test_a_fit_that_does_not_converge_is_reported(self, solver: str) -> None:
        fit = separate(series(0, 30), solver=solver, latent_mass=1e-3, max_iter=5)
        assert not fit.converged
        assert (fit.n_iter, "max_iter = 5" in fit.reason) == (5, True)
        assert np.all(np.diff(fit.kl) <= 0.0)

    def test_solver_auto_avoids_the_closed_form_unless_it_is_exact(self) -> None:
        x = np.random.default_rng(0).normal(size=(20, 3))
        chain = [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]
        assert separate(x, structure=chain).solver == "joint"
        assert separate(x).solver == "closed-form"
        assert separate(x, latent_mass=1e-3).solver == "joint"


class TestInput:
    @pytest.mark.parametrize("latent_mass", [0.0, 1e-3])
    def test_types_and_layouts_give_the_same_sources(self, latent_mass: float) -> None:
        integers = np.random.default_rng(0).integers(-1000, 1000, (30, 3))
        want = separate(integers.astype(np.float64), latent_mass=latent_mass).sources
        readonly = integers.astype(np.float64)
        readonly.flags.writeable = False
        for x in (
            integers.astype(np.float32),
            integers.astype(np.int16),
            integers.astype(np.int32),
            integers.astype(">f8"),
            integers.astype(">i2"),
            np.asfortranarray(integers, dtype=np.float64),
            np.repeat(integers, 2, axis=1)[:, ::2].astype(np.float64),
            readonly,
            np.frombuffer(integers.astype(np.float32).tobytes(), np.float32).reshape(30, 3),
            integers.tolist(),
            integers.astype(object),
        ):
            got = separate(x, latent_mass=latent_mass).sources
            precision = 1e-5 if got.dtype == np.float32 else 1e-8
            np.testing.assert_allclose(got, want, rtol=precision, atol=precision * 1000)
        half = (integers // 8).astype(np.float16)
        np.testing.assert_allclose(
            separate(half).sources, separate(half.astype(np.float64)).sources, rtol=1e-5, atol=1e-3
        )

    def test_the_input_is_not_modified(self) -> None:
        x = series(0, 30)
        before = x.copy()
        separate(x, latent_mass=1e-3)
        np.testing.assert_array_equal(x, before)

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (
                lambda x: separate(x[:, 0]),
                InputError,
                "Got shape (20,) instead: a single channel cannot",
            ),
            (lambda x: separate(x[:, :1]), InputError, "at least 2 channels. Got 1"),
            (
                lambda x: separate(x[None]),
                InputError,
                "the shape (samples, channels). Got shape (1, 20, 4)",
            ),
            (lambda x: separate(x[:1]), InputError, "at least 2 samples"),
            (lambda x: separate(x.astype(str)), InputError, "dtype <U32"),
            (lambda x: separate(x.astype(complex)), InputError, "dtype complex128"),
            (lambda x: separate(np.array([["a", None], [1, 2]])), InputError, "real numbers"),
            (lambda x: separate(np.where(x > 2, np.nan, x)), InputError, "NaN or infinite: channel"),
            (
                lambda x: separate(x, n_sources=5),
                ParameterError,
                "at most the number of channels, 4. Got 5",
            ),
            (
                lambda x: separate(x - x.mean(1, keepdims=True), n_sources=4),
                InputError,
                "rank of the samples, 3",
            ),
            (lambda x: separate(x, transform="sum"), InputError, "transform 'sum' needs samples >= 0"),
            (
                lambda x: separate(np.maximum(x, 0), transform="sum"),
                InputError,
                "'closed-form' needs values above zero. Got 0 at sample 0, channel 0",
            ),
            (
                lambda x: separate(np.maximum(x, 0), transform="sum", solver="joint"),
                InputError,
                "latent_mass = 0 needs values above zero",
            ),
            (lambda x: separate(x, solver="newton"), ParameterError, "Got 'newton'"),
            (lambda x: separate(x, solver="closed-form", latent_mass=0.1), ParameterError, "Got 0.1"),
            (
                lambda x: separate(x, solver="closed-form", n_sources=3),
                ParameterError,
                "one source per channel",
            ),
            (
                lambda x: separate(x[:, :2], structure=[[1, 0], [1, 1]], solver="closed-form"),
                ParameterError,
                "not exact for this structure",
            ),
            (lambda x: separate(x, latent_mass=1.0), ParameterError, "[0, 1). Got 1.0"),
            (lambda x: separate(x, latent_mass=True), ParameterError, "Got True"),
            (lambda x: separate(x, tol=-1), ParameterError, "tol must be a number in [0, inf). Got -1"),
            (lambda x: separate(x, max_iter=0), ParameterError, "max_iter must be a whole number >= 1"),
            (lambda x: separate(x, init="warm"), ParameterError, "Got 'warm'"),
            (lambda x: separate(x, init=("a", "b"), solver="joint"), ParameterError, "a pair (theta_z"),
            (lambda x: separate(x, init=(x, x), solver="joint"), ParameterError, "theta_a of shape (4, 4)"),
            (
                lambda x: separate(x, init=(x * np.nan, np.eye(4)), solver="joint"),
                ParameterError,
                "theta_z with NaN",
            ),
            (
                lambda x: separate(1e4 * x, transform=Exp(scale=1.0), solver="joint"),
                InputError,
                "more than float64 can represent",
            ),
            (
                lambda x: separate(x, transform=Exp(scale=1e-308), solver="joint"),
                InputError,
                "overflows. Give it a larger scale",
            ),
            (lambda x: separate(0 * x, transform="sum"), InputError, "flat"),
        ],
    )
    def test_errors_name_the_problem(
        self, call: Callable[[Samples], Any], error: type[Exception], message: str
    ) -> None:
        x = np.random.default_rng(1).normal(size=(20, 4))
        x[0, 0] = -1.0
        with pytest.raises(error, match=re.escape(message)):
            call(x)

    def test_zeros_are_allowed_with_latent_mass(self) -> None:
        x = np.maximum(np.random.default_rng(1).normal(size=(20, 4)), 0.0)
        fit = separate(x, transform="sum", latent_mass=1e-2)
        assert fit.converged
        assert np.isfinite(fit.sources).all()
        plan = SeparationPlan(model_settings(transform=Sum(scale=1.0), latent_mass=1e-2), 4)
        silent = plan.prepare_for(x, ["a", "b", "c", "d"])
        with pytest.raises(InputError, match="all samples are zero"):
            silent.separate_window(x * 0.0)

    def test_equal_channels_raise_a_warning(self) -> None:
        x = np.random.default_rng(1).normal(size=(20, 4))
        with pytest.warns(IgbssWarning, match="does not distinguish channels: rows 2, 3 are equal"):
            separate(x, n_sources=2)

    @pytest.mark.parametrize("start", [1, 2, 7, 8])
    def test_window_of_a_cyclic_structure_may_start_anywhere(self, start: int) -> None:
        x = np.random.default_rng(1).normal(size=(20, 4))
        transform = Exp(scale=1.0, center=np.zeros(4))
        plan = SeparationPlan(model_settings(structure="cyclic", n_sources=3, transform=transform), 4)
        separator = plan.prepare_for(x, ["a", "b", "c", "d"])
        # Sample m is cut off channel (3 m + n) % 4: beginning later is turning the channels.
        turned = np.ascontiguousarray(np.roll(x, -3 * start, axis=1))
        found, expected = separator.separate_window(x, start), separator.separate_window(turned)
        np.testing.assert_allclose(found.sources, expected.sources, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(
            separator.separate_window(x, 4000, period=start).sources, found.sources
        )

    def test_mixing_of_a_cyclic_structure_has_periods(self) -> None:
        x = np.random.default_rng(1).normal(size=(20, 4))
        separation = separate(x, structure="cyclic", n_sources=3)
        assert separation.mixing.shape == (4, 4, 3)
        assert separation.unmixing.shape == (4, 3, 4)

    def test_errors_name_the_array(self) -> None:
        with pytest.raises(InputError, match="mixture has dtype"):
            as_samples(np.array([["a"]]), "mixture")
