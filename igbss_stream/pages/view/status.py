"""What the page says of a stream in words and figures."""

from dataclasses import dataclass

from igbss_stream.errors import printable
from igbss_stream.pages.view.feed import DaemonFigures
from igbss_stream.pages.view.state import Shown
from igbss_stream.playback.monitoring import Report

_SILENT = 1.5  # seconds without a sample that are worth telling


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the status line.

    Parameters
    ----------
    name, value : str
    about : str
        What it is, in a sentence.
    """

    name: str
    value: str
    about: str


def sentence(report: Report | None, shown: Shown, address: str) -> str:
    """Return what a reader should know now, as plain sentences; empty if all is well.

    Parameters
    ----------
    report : Report or None
    shown : Shown
    address : str
        Of the publisher.

    Returns
    -------
    str
    """
    if report is not None and report.refusal:
        return (
            f"{address} does not let the page in: {report.refusal}. "
            "The page goes on by itself if it is let in later."
        )
    if report is None or (report.stream is None and report.index is None):
        waited = 0.0 if report is None else report.seconds
        return (
            f"Waiting for {address}: nothing has come for {waited:.0f} s. "
            "Check the address, the topic if one was given, and that the daemon runs."
        )
    if report.ended:
        return "The stream has ended. If it starts again, the page goes on by itself."
    if report.index is None:
        return f"Waiting for {address}: the stream is there, but no sample has come yet."
    if report.silence > _SILENT:
        return (
            f"The feed is silent: no sample has come from {address} for {report.silence:.0f} s. "
            "The page goes on by itself when samples come."
        )
    if shown.problem:
        return shown.problem
    if shown.marks and shown.marks[-1].text == "learning" and shown.version is None:
        return "The daemon is learning its first model. Sources appear when it is done."
    return ""


def figures(report: Report | None, daemon: DaemonFigures | None) -> list[Figure]:
    """Return the status line.

    Parameters
    ----------
    report : Report or None
        The stream as it comes in here.
    daemon : DaemonFigures or None
        What the daemon says of it.

    Returns
    -------
    list of Figure
    """
    found = [] if report is None or report.index is None else _of_stream(report)
    return found if daemon is None else [*found, _of_daemon(daemon)]


def _of_stream(report: Report) -> list[Figure]:
    nominal = "" if report.nominal_rate is None else f" of {report.nominal_rate:g}"
    rate = "-" if report.rate is None else f"{report.rate:.4g}"
    delay = "-" if report.delay is None else f"{1e3 * report.delay:.0f} ms"
    return [
        Figure("stream", printable(report.stream or "-"), "Name of the stream."),
        *_others(report),
        Figure("rate", f"{rate}{nominal} Hz", "Samples a second over the last ten seconds."),
        Figure("delay", delay, "From the time of the last sample to its arrival here, by both clocks."),
        Figure("model", _count(report.model), "Version of the model that made the last samples."),
        Figure("sample", _count(report.index), "Index after the last sample."),
        Figure("missing", _count(report.samples_lost), "Samples declared missing since this was opened."),
        Figure(
            "drops",
            _pair(report.drops, report.samples_dropped),
            "Published, but dropped on the way to this page.",
        ),
    ]


def _others(report: Report) -> list[Figure]:
    names = ", ".join(map(printable, report.others))
    about = "Other streams at the same address; view --topic NAME shows one of them."
    return [Figure("others", f"{names} (--topic NAME)", about)] if names else []


def _of_daemon(daemon: DaemonFigures) -> Figure:
    delay, samples = daemon.delay, daemon.samples
    bound = "-" if delay is None else "over 1 s" if delay == float("inf") else f"< {1e3 * delay:g} ms"
    parts = [f"{fate} {_count(samples.get(fate, 0))}" for fate in ("in", "out", "gap")]
    return Figure(
        "daemon",
        " · ".join([*parts, f"p99 {bound}"]),
        "What the daemon counts: samples that came in, were published, were declared missing; 99 % of the "
        "messages left it within this time of their arrival.",
    )


def _pair(times: int, samples: int) -> str:
    return "0" if not times else f"{times} ({_count(samples)} samples)"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}".replace(",", " ")
