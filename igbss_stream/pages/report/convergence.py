"""How fits came to their ends, and how the structure was learned: in words, and drawn."""

import numpy as np
from numpy.typing import NDArray

from igbss_stream.pages.report.contents import Contents
from igbss_stream.pages.report.descents import DescentLine, descents_plot
from igbss_stream.pages.report.excerpt import indices, whole
from igbss_stream.pages.report.markup import figure, number, text
from igbss_stream.pages.report.plots import fits_plot

_MOST_FITS = 1500  # dots of a drawing
_MOST_LINES = 150  # windows whose descents are drawn


def convergence(contents: Contents) -> str:
    """Return what is known of fits, and of the search for the structure.

    Parameters
    ----------
    contents : Contents
    """
    learned = _learning(contents)
    if contents.fits is None or not len(contents.fits):
        return _without_fits(contents) + learned
    parts = (
        "<h3>Convergence</h3>",
        _ends(contents),
        _descents(contents),
    )
    return "".join(parts) + learned


def _without_fits(contents: Contents) -> str:
    how = "nothing was fitted"
    if contents.model.settings.get("structure") == "learned":
        how = (
            "what was fitted is its structure, once, by maximum likelihood"
            if contents.model.losses
            else "its structure was learned by maximum likelihood, of which the output keeps no values"
        )
    if contents.facts.solver != "closed-form":
        return f"<p>The output keeps no fits: {how}.</p>"
    return (
        "<p>No divergence is shown, since there was none to bring down: sources are <code>/unmixing</code> "
        f"times the channels, sample by sample, and {how}.</p>"
    )


def _ends(contents: Contents) -> str:
    fits = contents.fits
    assert fits is not None
    good, kl, n_iter = fits["converged"].astype(bool), fits["kl"], fits["n_iter"]
    if len(fits) == 1:
        ended = "which converged" if good[0] else "which did not converge"
        return (
            f"<p>The whole recording was fitted as one window, in {int(n_iter[0])} iterations, {ended}; KL "
            f"at the end {number(float(kl[0]))} nats.</p>"
        )
    words = (
        f"{len(fits):,} windows were fitted, {int(good.sum()):,} converged; {int(n_iter.min())} to "
        f"{int(n_iter.max())} iterations, median {number(float(np.median(n_iter)))}; KL at the end "
        f"{number(float(np.nanmin(kl)))} to {number(float(np.nanmax(kl)))} nats, median "
        f"{number(float(np.nanmedian(kl)))}."
    )
    middle = indices(contents, fits["start"]) + fits["n_samples"] / 2
    step = -(-len(fits) // _MOST_FITS)
    starts = np.arange(0, len(fits), step)
    picture = fits_plot(
        middle[starts] / (contents.sources.rate or 1.0),
        np.fmax.reduceat(kl, starts),
        np.logical_and.reduceat(good, starts),
        whole(contents),
        f"KL divergence at the end of each fit. {words}",
    )
    grouped = f" Each dot is the largest of {step} windows." if step > 1 else ""
    caption = f"KL(p̂, p) at the end of the fit of each window; red, hollow dots did not converge.{grouped}"
    return f"<p>{words}</p>" + figure(picture, caption)


def _descents(contents: Contents) -> str:
    """Return the divergence at each iteration, of some windows."""
    fits, histories = contents.fits, contents.histories
    assert fits is not None
    if contents.facts.solver == "inversion":
        return "<p>Each window takes one pass, by inversion: there are no iterations to show.</p>"
    if histories is None:
        return "<p>The output is of an older version, which kept the last value of each fit alone.</p>"
    drawn = np.unique(np.linspace(0, len(fits) - 1, min(len(fits), _MOST_LINES)).astype(int))
    named = _named(contents, drawn)
    lines = [DescentLine(histories.of(k), "other") for k in drawn.tolist() if k not in named]
    lines += [DescentLine(histories.of(k), kind) for k, (kind, _) in named.items()]
    rate = contents.sources.rate
    at = indices(contents, fits["start"]) / (rate or 1.0)
    unit = "s" if rate else "samples"
    keys = [
        f'<b class="{kind}-key">{name}</b>, at {number(float(at[k]), 4)} {unit} '
        f"({int(fits['n_iter'][k])} iterations)"
        for k, (kind, name) in named.items()
    ]
    others = len(lines) - len(named)
    pale = f"; pale: {others} of the others" if others else ""
    return figure(
        descents_plot(lines, "nats above the end", "iteration", "KL divergence over iterations"),
        "KL(p̂, p) over iterations, less its value at the end of the fit, which has no place on this "
        f"scale.<br>{'; '.join(keys)}{pale}.",
        "descents",
    )


def _named(contents: Contents, drawn: NDArray[np.int_]) -> dict[int, tuple[str, str]]:
    """Return class and name of the windows whose descents stand out."""
    fits, histories = contents.fits, contents.histories
    assert fits is not None
    assert histories is not None
    if len(fits) == 1:
        return {0: ("first", "the only window")}
    typical = int(np.argsort(fits["n_iter"], kind="stable")[(len(fits) - 1) // 2])
    most = int(fits["n_iter"][~fits["converged"]].max(initial=0)) or int(fits["n_iter"].max())
    late = np.flatnonzero((fits["n_iter"] == most) & (fits["converged"] == bool(fits["converged"].all())))
    # of those that took as many iterations, one that still fell at the end
    falls = {int(k): -float(np.diff(histories.of(int(k))[-2:]).sum()) for k in late[:_MOST_LINES]}
    slowest = max(falls, key=lambda k: (falls[k], -k))
    ended = bool(fits["converged"][slowest])
    return {
        0: ("first", "the first window"),
        typical: ("typical", "a typical one"),
        slowest: ("slowest", "the slowest" if ended else "one that did not converge"),
    }


def _learning(contents: Contents) -> str:
    losses = np.array(contents.model.losses)
    if len(losses) < 2:
        return ""
    words = (
        f"The structure was learned in {len(losses)} steps of maximum likelihood, after a choice among "
        f"several starts: from {number(losses[0], 6)} to {number(losses[-1], 6)} nats a sample of negative "
        "log-likelihood, up to a constant of the samples."
    )
    return f"<h3>How the structure was learned</h3><p>{text(words)}</p>" + figure(
        descents_plot(
            [DescentLine(losses, "first")],
            "nats a sample above the end",
            "step",
            f"Negative log-likelihood over steps. {words}",
        ),
        "negative log-likelihood before each step, less the least of them; it may rise a little where "
        "the law of a source was estimated anew",
        "descents",
    )
