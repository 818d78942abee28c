"""Describe the state of a stream in sentences and figures."""

from dataclasses import dataclass

from igbss_stream.errors import printable
from igbss_stream.model.learning import Learning
from igbss_stream.model.selection import MAX_CONTRADICTION
from igbss_stream.pages.view.feed import DaemonMetrics
from igbss_stream.pages.view.state import ViewState
from igbss_stream.playback.monitoring import Report

_MOST_NAMES = 8  # of bad channels in a sentence
_SILENT = 1.5  # seconds without a sample before the page reports silence


@dataclass(frozen=True, slots=True)
class StatusFigure:
    """An item of the status line.

    Parameters
    ----------
    name, value : str
    about : str
        Explanation, in a sentence.
    """

    name: str
    value: str
    about: str


def describe_state(report: Report | None, state: ViewState, address: str) -> str:
    """Return sentences on the current state; empty if there are no problems.

    Parameters
    ----------
    report : Report or None
    state : ViewState
    address : str
        Address of the publisher.

    Returns
    -------
    str
    """
    if report is not None and report.refusal:
        return (
            f"{address} does not let the page in: {report.refusal}. "
            "The page resumes by itself once it is let in."
        )
    if report is None or (report.stream is None and report.index is None):
        waited = 0.0 if report is None else report.seconds
        return (
            f"Waiting for {address}: nothing has arrived for {waited:.0f} s. "
            "Check the address, the topic if one was given, and that the daemon is running."
        )
    if report.ended:
        return "The stream has ended. If it restarts, the page resumes by itself."
    if report.index is None:
        return f"Waiting for {address}: the stream exists, but no sample has arrived yet."
    if report.silence > _SILENT:
        return (
            f"The feed is silent: no sample has arrived from {address} for {report.silence:.0f} s. "
            "The page resumes by itself when samples arrive."
        )
    if state.problem:
        return state.problem
    if state.marks and state.marks[-1].text == "learning" and state.version is None:
        return "The daemon is learning its first model. Sources appear when it has finished."
    if state.bad_channels:
        names = list(map(printable, state.bad_channels[:_MOST_NAMES]))
        more = len(state.bad_channels) - len(names)
        return f"Bad channels now: {', '.join(names)}{f' and {more} more' if more else ''}."
    return ""


def list_figures(
    report: Report | None, daemon: DaemonMetrics | None, learning: Learning | None = None
) -> list[StatusFigure]:
    """Return the status line.

    Parameters
    ----------
    report : Report or None
        Statistics of the stream as received here.
    daemon : DaemonMetrics or None
        Metrics of the daemon for the stream.
    learning : Learning, optional
        How the model of the last samples was learned.

    Returns
    -------
    list of Figure
    """
    found = [] if report is None or report.index is None else _list_stream_figures(report, learning)
    return found if daemon is None else [*found, _make_daemon_figure(daemon)]


def _list_stream_figures(report: Report, learning: Learning | None) -> list[StatusFigure]:
    nominal = "" if report.nominal_rate is None else f" of {report.nominal_rate:g}"
    rate = "-" if report.rate is None else f"{report.rate:.4g}"
    delay = "-" if report.delay is None else f"{1e3 * report.delay:.0f} ms"
    return [
        StatusFigure("stream", printable(report.stream or "-"), "Name of the stream."),
        *_list_other_streams(report),
        StatusFigure("rate", f"{rate}{nominal} Hz", "Samples per second over the last ten seconds."),
        StatusFigure(
            "delay", delay, "From the time of the last sample to its arrival here, by both clocks."
        ),
        StatusFigure(
            "model", _format_count(report.model), "Version of the model that produced the last samples."
        ),
        *([] if learning is None else [_make_learning_figure(learning)]),
        StatusFigure("sample", _format_count(report.index), "Index after the last sample."),
        *_list_gap_figures(report),
        StatusFigure(
            "drops",
            _format_drops(report.drops, report.samples_dropped),
            "Samples published, but dropped on the way to this page.",
        ),
    ]


def _list_gap_figures(report: Report) -> list[StatusFigure]:
    """Return the declared gaps since the page was opened, by what they mean."""
    learning, lost = report.samples_learning, report.samples_never_received
    missing = report.samples_lost - learning - lost
    about = "Samples without sources because the daemon was learning its first model; nothing was lost."
    return [
        *([StatusFigure("learning", _format_count(learning), about)] if learning else []),
        StatusFigure("missing", _format_count(missing), "Samples that arrived but could not be separated."),
        StatusFigure("lost", _format_count(lost), "Samples that never reached the daemon."),
    ]


def _make_learning_figure(learning: Learning) -> StatusFigure:
    return StatusFigure(
        "learned from",
        learning.describe_view(),
        "View of the sources that the model was learned from: innovations are most accurate without sensor "
        "noise, a view of 5 is closest to the samples. A view that a more robust one contradicts by more "
        f"than {MAX_CONTRADICTION:g} is not selected.",
    )


def _list_other_streams(report: Report) -> list[StatusFigure]:
    names = ", ".join(map(printable, report.others))
    about = "Other streams at the same address; view --topic NAME shows one of them."
    return [StatusFigure("others", f"{names} (--topic NAME)", about)] if names else []


def _make_daemon_figure(daemon: DaemonMetrics) -> StatusFigure:
    delay, samples = daemon.delay, daemon.samples
    bound = "-" if delay is None else "over 1 s" if delay == float("inf") else f"< {1e3 * delay:g} ms"
    fates = {"in": "in", "out": "out", "gap": "without sources"}
    parts = [f"{name} {_format_count(samples.get(fate, 0))}" for fate, name in fates.items()]
    return StatusFigure(
        "daemon",
        " · ".join([*parts, f"p99 {bound}"]),
        "Counters of the daemon: samples received, published and without sources (learning, missing or "
        "lost); 99 % of the messages left it within this time after their arrival.",
    )


def _format_drops(times: int, samples: int) -> str:
    return "0" if not times else f"{times} ({_format_count(samples)} samples)"


def _format_count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}".replace(",", " ")
