"""The tables of the paper: errors, signal to noise and signs, each method on the same mixtures."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import click
import numpy as np
import paper_numbers
from numpy.typing import NDArray
from page_tables import with_best_in_bold
from paper_methods import LEARNED, OURS, STRONG, WEAK, Method
from paper_mixtures import Experiment, Mixture
from paper_report import Report, mean_and_deviation
from scipy.optimize import linear_sum_assignment

from igbss_stream.errors import IgbssError
from igbss_stream.separation.metrics import match_sources, rmse, standardise

Array = NDArray[np.float64]

METHODS = OURS + STRONG + WEAK
REPORTED = {"paper: IGBSS": "IGBSS", "paper: FastICA": "FastICA", "paper: PCA": "PCA"}
REPORTED_WEAK = {"paper: DL": "DL", "paper: NMF": "NMF"}


@dataclass(frozen=True)
class Score:
    """How one method did on one mixture.

    Parameters
    ----------
    rmse : float
        As the paper has it: of images scaled from 0 to 1, of other sources with unit variance.
    standard : float
        With unit variance, whatever the sources.
    snr : float
        In dB, the mean over sources, scaled as for `rmse`.
    upright : float
        Share of sources with the right sign, as the method delivers them.
    converged : bool
    """

    rmse: float
    standard: float
    snr: float
    upright: float
    converged: bool


def tables(report: Report, drawn: Sequence[Experiment], n_jobs: int = 1) -> None:
    """Separate every mixture by every method, in parallel processes, and write the tables."""
    tasks = [(i, each) for each in drawn for i in range(len(METHODS))]
    if n_jobs > 1:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for each process: more get in each other's way
        with ProcessPoolExecutor(n_jobs, get_context("spawn")) as pool:
            found = list(pool.map(_task, tasks))
    else:
        found = list(map(_task, tasks))
    scores: Scores = {(each.name, each.seeds): {} for each in drawn}
    for (i, each), scored in zip(tasks, found, strict=True):
        scores[each.name, each.seeds][METHODS[i]] = scored
    groups = ("ours", "IGBSS and the strongest baselines", OURS + STRONG, REPORTED)
    weak = ("weak", "weaker baselines", (LEARNED, *WEAK), REPORTED_WEAK)
    for name, title, methods, reported in groups, weak:
        errors = _rows(scores, methods, lambda one: one.rmse, 3, reported, paper_numbers.RMSE)
        report.table(f"rmse-{name}", f"RMSE: {title}", *errors, RMSE_NOTE)
        ratios = _rows(scores, methods, lambda one: one.snr, 1, reported, paper_numbers.SNR, largest=True)
        report.table(f"snr-{name}", f"Signal to noise (dB): {title}", *ratios, SNR_NOTE)
    keyed = [(each, (each.name, each.seeds)) for each in drawn]
    several = {key: scores[key][LEARNED] for each, key in keyed if each.mixtures[0].order > 1}
    if several:
        report.table("products", "Learned with products of sources", *_products(several))
    pictures = {key: scores[key] for each, key in keyed if each.min_max}
    if pictures:
        errors = _rows(pictures, OURS + STRONG, lambda one: one.standard, 3, {}, {})
        report.table("rmse-standard", "RMSE: pictures with unit variance", *errors, RMSE_NOTE)
    report.table("signs", "Sources with the right sign (per cent), no oracle", *_signs(scores))


def _task(task: tuple[int, Experiment]) -> list["Score | None"]:
    """Return the scores of a method, by its place: functions do not travel to other processes."""
    at, experiment = task
    return list(_scored(METHODS[at], experiment))


def _scored(method: Method, experiment: Experiment) -> Iterator[Score | None]:
    """Yield the score of each mixture, None for one that the method gives no sources for."""
    for mixture in experiment.mixtures:
        try:
            yield score(method, mixture, experiment.min_max)
        except (IgbssError, ValueError, ArithmeticError) as error:
            click.echo(f"{experiment.name}, {method.name}: {error}", err=True)
            yield None


RMSE_NOTE = "Mean ± standard deviation over mixtures; 0 is perfect, the best in bold."
SNR_NOTE = (
    "20 log10(|source| / |error|), the mean over sources. The paper does not say how it averages, and its\n"
    "ratios do not follow from its errors: they are not on the scale of ours."
)


def score(method: Method, mixture: Mixture, min_max: bool = False) -> Score:
    """Separate a mixture and compare with the truth."""
    truth = mixture.truth
    sources, converged = method(mixture.x, truth.shape[1], mixture.order)
    upright = float(np.mean(signs(sources, truth) > 0))
    if method.oracle:
        sources = with_best_signs(sources, truth)
    scaled = from_0_to_1 if min_max else standardise
    wanted = scaled(truth)
    error = scaled(sources)[:, match_sources(sources, truth)] - wanted
    snr = 20.0 * np.log10(np.linalg.norm(wanted, axis=0) / np.linalg.norm(error, axis=0))
    return Score(
        float(np.sqrt(np.mean(error**2))), rmse(sources, truth), float(np.mean(snr)), upright, converged
    )


def from_0_to_1(x: Array) -> Array:
    """Return each column scaled from 0 to 1."""
    return np.asarray((x - x.min(axis=0)) / np.ptp(x, axis=0))


def assigned(sources: Array, truth: Array) -> NDArray[np.int_]:
    """Return the column of `sources` that goes with each true one, whichever way up it is."""
    similar = standardise(truth).T @ standardise(sources)
    return np.asarray(linear_sum_assignment(np.abs(similar), maximize=True)[1])


def signs(sources: Array, truth: Array) -> Array:
    """Return the sign of the source that goes with each true one."""
    similar = standardise(sources[:, assigned(sources, truth)]) * standardise(truth)
    return np.asarray(np.sign(similar.sum(axis=0)))


def with_best_signs(sources: Array, truth: Array) -> Array:
    """Turn each source so that it agrees with the true one most like it."""
    similar = standardise(truth).T @ standardise(sources)
    most = np.abs(similar).argmax(axis=0)
    return sources * np.where(similar[most, np.arange(sources.shape[1])] < 0, -1.0, 1.0)


Row = tuple[str, str]  # an experiment and its seeds
Scores = dict[Row, dict[Method, list[Score | None]]]
Cells = dict[str, dict[str, str]]


def _rows(
    scores: Scores,
    methods: Sequence[Method],
    figure: Callable[[Score], float],
    digits: int,
    reported: dict[str, str],
    paper: Cells,
    largest: bool = False,
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: an experiment a row, then the figures of the paper."""
    rows = []
    for (name, seeds), by_method in scores.items():
        values = [[figure(one) for one in by_method[method] if one] for method in methods]
        cells = [mean_and_deviation(each, digits) for each in values]
        none = -np.inf if largest else np.inf
        means = [float(np.mean(each)) if each else none for each in values]
        cells = with_best_in_bold(cells, means, largest)
        rows.append([name, seeds, *cells, *(paper.get(name, {}).get(key, "") for key in reported.values())])
    return ["", "seeds", *(method.name for method in methods), *reported], rows


def _signs(scores: Scores) -> tuple[list[str], list[list[str]], str]:
    """Return header, rows and note of the table of signs."""
    methods = [method for method in METHODS if method not in OURS[:1]]
    rows = [
        [name, seeds, *(_per_cent([one.upright for one in by_method[m] if one]) for m in methods)]
        for (name, seeds), by_method in scores.items()
    ]
    return ["", "seeds", *(m.name.replace(" (oracle)", "") for m in methods)], rows, _convergence(scores)


def _per_cent(shares: Sequence[float]) -> str:
    return f"{100 * np.mean(shares):.0f}" if shares else "-"


def _convergence(scores: Scores) -> str:
    """Return which methods did not converge, or gave no sources, and how often."""
    runs = {m: [one for by_method in scores.values() for one in by_method[m]] for m in METHODS}
    doubts = {m: sum(one is not None and not one.converged for one in ran) for m, ran in runs.items()}
    failed = {m: ran.count(None) for m, ran in runs.items()}

    def counted(counts: dict[Method, int]) -> str:
        return ", ".join(f"{m.name} {n} of {len(runs[m])}" for m, n in counts.items() if n) or "none"

    return (
        f"Runs that ended before the method called itself converged: {counted(doubts)}.\n"
        f"Mixtures that a method gave no sources for: {counted(failed)}."
    )


SOLVED = 0.1  # error below which a mixture counts as undone


def _products(scores: dict[Row, list[Score | None]]) -> tuple[list[str], list[list[str]], str]:
    """Return header, rows and note of the table of mixtures with products."""
    rows = []
    for (name, seeds), every in scores.items():
        given = [one for one in every if one]
        undone = [one for one in given if one.rmse < SOLVED]
        rows.append(
            [
                name,
                seeds,
                str(len(every)),
                mean_and_deviation([one.rmse for one in given]),
                f"{np.median([one.rmse for one in given]):.3f}" if given else "-",
                str(len(undone)),
                _per_cent([one.upright for one in undone]),
                _per_cent([one.upright for one in given]),
                str(len(every) - len(given)),
            ]
        )
    header = [
        "",
        "seeds",
        "mixtures",
        "RMSE",
        "median",
        f"below {SOLVED}",
        "right signs there, %",
        "right signs, %",
        "failed",
    ]
    return header, rows, PRODUCTS_NOTE


PRODUCTS_NOTE = (
    "Errors as above: of pictures scaled from 0 to 1, of series with unit variance. Where there are fewer\n"
    "mixtures than seeds, they are the first ones, here and in the other tables."
)
