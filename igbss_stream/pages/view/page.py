"""One open page: what it shows now, and what it is sent twenty times a second."""

import json
import time
from base64 import b64encode
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.models import CustomJS
from numpy.typing import NDArray

from igbss_stream.pages.plotting.scales import reading
from igbss_stream.pages.plotting.spectrum import spectrum
from igbss_stream.pages.view.bokeh_model import Live
from igbss_stream.pages.view.feed import Feed
from igbss_stream.pages.view.side_plots import Bars, Map, Spectrum
from igbss_stream.pages.view.state import Panel, Shown, Weights
from igbss_stream.pages.view.status import figures, sentence
from igbss_stream.pages.view.traces import Columns, columns, middles, spacing_of, width_of

FRAME = 47  # ms between frames, to which Bokeh adds one or two: 20 a second and a little more
_TICK = 500  # ms between what changes slowly
_MARKS = 0.25  # seconds between changes of the marks, which are drawn all anew
_AHEAD = 60  # frames that the browser may be behind; then they wait for it, and come in one
_MOST_COLUMNS, _LEAST_COLUMNS = 4000, 50
_SPECTRUM = 20.0  # seconds at most
_SAMPLED = 800  # samples of a trace, about, that its spacing and middle are taken from
_FIT = 4  # ticks from one look at them to the next
_OFF = 0.15  # of a row, by which a trace may leave its middle
_BEHIND, _JUMP = 0.25, 2.0  # seconds behind the last sample: at which it hurries, and jumps
_MORE, _LESS = (
    1.9,
    0.3,
)  # of the present spacing: from there on another is taken up


class Head:
    """Where the right edge of the page is: it glides, though samples come in messages of some length.

    It stays behind the last sample by about the length of a message, `_BEHIND` at most in the long run.
    """

    def __init__(self) -> None:
        self._at: float | None = None
        self._then = 0.0

    def at(self, stop: int, rate: float, now: float) -> int:
        """Return the index after the last sample that is shown.

        Parameters
        ----------
        stop : int
            Index after the last sample that is there.
        rate : float
            In Hz.
        now : float
            In seconds.
        """
        passed, self._then = now - self._then, now
        if self._at is None or not 0 <= stop - self._at <= _JUMP * rate:
            self._at = float(stop)
        behind = (stop - self._at) / rate
        self._at = min(float(stop), self._at + passed * rate * (1 + max(0.0, behind - _BEHIND)))
        return int(self._at)


class Page:
    """Shows a feed in a document of Bokeh.

    Parameters
    ----------
    document : Document
    feed : Feed
    """

    def __init__(self, document: Document, feed: Feed) -> None:
        feed.start()
        self.live = Live(name="live")
        self._feed = feed
        self._spectrum, self._bars, self._map = Spectrum(), Bars(), Map()
        self._number = 0  # of the layout
        self._sent = 0  # strips
        self._head = Head()
        self._column: int | None = None  # the next one to send
        self._panels: list[Panel] = []
        self._fitted: list[dict[str, Any]] = []
        self._of: tuple[Any, ...] = ()
        self._marked = 0.0
        self._ticks = 0
        self._shown_weights: tuple[Any, int] | None = None
        document.title = "igbss-stream"
        document.template = _template()  # type: ignore[assignment] # takes text as well
        for root in (self.live, self._spectrum.plot, self._bars.plot, self._map.plot):
            document.add_root(root)
        self.live.on_change("paused", lambda name, old, new: self.frame())
        document.js_on_event("document_ready", CustomJS(args={"live": self.live}, code=_START))
        document.js_on_event("connection_lost", CustomJS(code="window.igbssView.lost()"))
        document.add_periodic_callback(self.frame, FRAME)
        document.add_periodic_callback(self.tick, _TICK)

    def frame(self) -> None:
        """Send what is new of the traces."""
        if not self.live.ready or self.live.paused or self._sent - self.live.seen > _AHEAD:
            return
        with self._feed.lock:
            shown = self._feed.shown
            if shown.sources is None or shown.stream is None or shown.sources.ring.stop is None:
                return
            width, count = self._grid(shown)
            stop = self._head.at(shown.sources.ring.stop, shown.stream.rate, time.monotonic()) // width
            if self._is_other(shown, width, count) or self._column is None or stop < self._column:
                self._begin(shown, width, count, stop)
            first = max(self._column or 0, stop - count - 1, 0)
            if stop <= first:
                return
            seen = [columns(panel.ring, width, first, stop) for panel in self._panels]
            self._mark(shown)
        self._send(seen)

    def tick(self) -> None:
        """Bring up to date what changes slowly."""
        feed = self._feed
        with feed.lock:
            shown = feed.shown
            words = sentence(feed.report, shown, feed.address)
            stretch = None if self.live.paused else self._stretch(shown)
            weights, unit = shown.weights, self._unit(shown)
            rate = shown.stream.rate if shown.stream else 1.0
            if self._ticks % _FIT == 0 and self._column is not None and not self.live.paused:
                self._fit(shown)
        self._ticks += 1
        if weights is None:
            self._bars.plot.visible = self._map.plot.visible = False
        line = [asdict(figure) for figure in figures(feed.report, feed.figures)]
        self.live.status = json.dumps({"sentence": words, "note": self._note(weights), "figures": line})
        if stretch is not None:
            self._spectrum.show(*spectrum(stretch, rate), unit)
        if weights is not None and self._shown_weights != (weights, self._chosen(weights.matrix.shape[1])):
            self._shown_weights = (weights, self._chosen(weights.matrix.shape[1]))
            self._bars.plot.visible = True
            self._bars.show(*self._shown_weights)
            self._map.show(*self._shown_weights)

    def _note(self, weights: Weights | None) -> str:
        """Return why there are no weights, or no map of them."""
        if weights is None:
            return "No channels, bars or map: the publisher has not told the weights of a model."
        if not self._map.plot.visible:
            return "No map of the scalp: too few channels have names of the 10-20 system."
        return ""

    def _grid(self, shown: Shown) -> tuple[int, int]:
        """Return the samples in a column, and how many columns the time span takes."""
        rate = shown.stream.rate if shown.stream else 1.0
        span = min(max(float(self.live.span), 0.1), shown.seconds)
        n_columns = min(max(int(self.live.columns), _LEAST_COLUMNS), _MOST_COLUMNS)
        width = width_of(span, rate, n_columns)
        return width, n_columns if width > 1 else int(np.ceil(span * rate))

    def _is_other(self, shown: Shown, width: int, count: int) -> bool:
        """Return whether all has to be drawn anew: the traces, their unit or the time span changed."""
        of = (shown.sources, shown.channels, shown.weights is None, width, count)
        changed = of != self._of
        self._of = of
        return changed

    def _begin(self, shown: Shown, width: int, count: int, stop: int) -> None:
        """Begin a layout: what is sent from now on is drawn on an empty page."""
        self._panels = [panel for panel in (shown.sources, shown.channels) if panel is not None]
        self._width, self._count = width, count
        self._number += 1
        self._column = max(0, stop - count - 1)
        self._fitted = [{} for _ in self._panels]
        self._fit(shown)

    def _fit(self, shown: Shown) -> None:
        """Choose the spacing of the rows and the middle of each trace, and tell if they changed."""
        stop = (shown.sources.ring.stop if shown.sources else None) or 0
        n = min(self._count * self._width, stop)
        changed = False
        for fitted, panel in zip(self._fitted, self._panels, strict=True):
            seen = panel.ring.read(stop - n, stop, max(1, n // _SAMPLED))
            changed |= _fit_panel(fitted, seen)
        if changed:
            self._tell(shown)

    def _tell(self, shown: Shown) -> None:
        if shown.stream is None:
            return
        units = [self._unit(shown), shown.channels.unit if shown.channels else None]
        abouts = ["", "as they came" if self._feed.channels_address else "as the model has them"]
        panels = [
            {"about": about, "names": panel.names, **asdict(reading(unit, fitted["spacing"])), **fitted}
            for about, unit, panel, fitted in zip(abouts, units, self._panels, self._fitted, strict=False)
        ]
        self.live.layout = json.dumps(
            {
                "number": self._number,
                "width": self._width,
                "count": self._count,
                "rate": shown.stream.rate,
                "t0": shown.stream.t0,
                "seconds": shown.seconds,
                "panels": panels,
            }
        )

    def _unit(self, shown: Shown) -> str:
        """Return the unit of the sources; those of unit variance are in standard deviations."""
        unit = shown.sources.unit if shown.sources else None
        return unit or "" if unit or shown.weights is None else "SD"

    def _mark(self, shown: Shown) -> None:
        now = time.monotonic()
        if now - self._marked < _MARKS:
            return
        self._marked = now
        oldest = (self._column or 0) - self._count
        marks = [asdict(mark) for mark in shown.marks if mark.stop >= oldest * self._width]
        self.live.marks = json.dumps(marks)

    def _send(self, seen: list[Columns]) -> None:
        head = np.array([self._number, seen[0].first, len(seen[0].low), 0], "<f8").tobytes()
        parts = (
            np.ascontiguousarray(part, "<f4").tobytes() for one in seen for part in (one.low, one.high)
        )
        self._column = seen[0].stop
        self._sent += 1
        self.live.strip = b64encode(b"".join((head, *parts))).decode()

    def _chosen(self, n_sources: int) -> int:
        return min(max(int(self.live.chosen), 0), n_sources - 1)

    def _stretch(self, shown: Shown) -> NDArray[np.float32] | None:
        """Return the last samples of the chosen source."""
        if shown.sources is None or shown.stream is None or shown.sources.ring.stop is None:
            return None
        stop, ring = shown.sources.ring.stop, shown.sources.ring
        n = min(ring.capacity, round(_SPECTRUM * shown.stream.rate))
        return ring.read(stop - n, stop, traces=self._chosen(ring.n_traces))


def _fit_panel(fitted: dict[str, Any], x: NDArray[np.float32]) -> bool:
    """Fit the spacing and middles of a panel to what is seen, and return whether one changed."""
    changed = not fitted
    if changed:
        fitted |= {"spacing": 1.0, "middles": [0.0] * x.shape[1]}
    if not np.isfinite(x).any():
        return changed
    spacing = spacing_of(x)
    if not _LESS < spacing / fitted["spacing"] < _MORE:
        fitted["spacing"], changed = spacing, True
    off = middles(x)
    moved = np.abs(off - fitted["middles"]) > _OFF * fitted["spacing"]
    if moved.any():
        fitted["middles"], changed = np.where(moved, off, fitted["middles"]).tolist(), True
    return changed


_START = "window.igbssView.start(live)"


def _template() -> str:
    """Return the page, with its looks and its script within: nothing is fetched from elsewhere."""
    folder = files("igbss_stream.pages.view")
    text = folder.joinpath("page.html").read_text("utf-8")
    for name in ("page.css", "panel.js", "page.js"):
        text = text.replace(f"/* {name} */", folder.joinpath(name).read_text("utf-8"))
    return text
