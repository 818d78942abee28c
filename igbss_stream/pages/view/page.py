"""Serve one open page: what it shows now, and the frames that it receives twenty times a second."""

import json
import time
from base64 import b64encode
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import numpy as np
from bokeh.core import properties as bp
from bokeh.document import Document
from bokeh.model import DataModel
from bokeh.models import CustomJS
from numpy.typing import NDArray

from igbss_stream.pages.plotting.scales import choose_unit
from igbss_stream.pages.plotting.spectrum import compute_spectrum
from igbss_stream.pages.view.choosing import Choosing
from igbss_stream.pages.view.display import Display, parse_display
from igbss_stream.pages.view.feed import Feed
from igbss_stream.pages.view.side_plots import ScalpMap, SpectrumPlot, WeightBars
from igbss_stream.pages.view.state import MixingWeights, TracePanel, ViewState
from igbss_stream.pages.view.status import describe_state, list_figures
from igbss_stream.pages.view.traces import (
    ScreenColumns,
    choose_spacing,
    compute_medians,
    compute_width,
    reduce_to_columns,
)

FRAME = 47  # ms between frames, to which Bokeh adds one or two: slightly more than 20 a second
_TICK = 500  # ms between updates of the status, the spectrum and the weights
_MARKS = 0.25  # seconds between updates of the marks, each of which redraws all of them
_MAX_UNSEEN = 60  # frames that the browser may be behind; then later frames wait and are sent as one
_MAX_COLUMNS, _MIN_COLUMNS = 4000, 50
_SPECTRUM = 20.0  # seconds, at most
_N_SAMPLED = 800  # about the number of samples of a trace from which spacing and centre are computed
_FIT = 4  # ticks between two computations of spacing and centres
_OFF_CENTRE = 0.15  # of a row: largest distance of a trace from its centre
_BEHIND, _JUMP = (
    0.25,
    2.0,
)  # seconds behind the last sample: above the first it accelerates, above the second jumps
_MORE, _LESS = 1.9, 0.3  # of the current spacing: beyond these a new spacing is used


class Live(DataModel):
    """Properties that the server and the script of a page exchange.

    The server writes `layout`, `marks`, `status`, `taken` and `answer` (JSON), `control`, `locked` and
    `strip`. A strip is encoded in base64, because the script of Bokeh does not accept documents with bytes.
    It contains four float64 (number of the layout, first column, number of columns, 0), then in float32 the
    lows and highs of the sources and of the channels, column by column. The script writes the other
    properties, and sets `ready` once it listens. `request` has a request to choose sources, with the token,
    which no other page gets.
    """

    layout: Any = bp.String("")
    marks: Any = bp.String("[]")
    status: Any = bp.String("")
    strip: Any = bp.String("")
    taken: Any = bp.String("")
    answer: Any = bp.String("")
    control: Any = bp.Bool(False)
    locked: Any = bp.Bool(False)

    ready: Any = bp.Bool(False)
    columns: Any = bp.Int(600)
    span: Any = bp.Float(10.0)
    paused: Any = bp.Bool(False)
    chosen: Any = bp.Int(0)
    seen: Any = bp.Int(0)
    display: Any = bp.String("{}")
    request: Any = bp.String("")


class ScrollPosition:
    """Position of the right edge of the page, which moves smoothly although samples arrive in messages.

    It stays behind the last sample by about the length of a message, and by at most `_BEHIND` in the long
    run.
    """

    def __init__(self) -> None:
        self._position: float | None = None
        self._last_call = 0.0

    def advance(self, stop: int, rate: float, now: float) -> int:
        """Move the position and return the index after the last sample to show.

        Parameters
        ----------
        stop : int
            Index after the last sample received.
        rate : float
            In Hz.
        now : float
            In seconds.
        """
        passed, self._last_call = now - self._last_call, now
        if self._position is None or not 0 <= stop - self._position <= _JUMP * rate:
            self._position = float(stop)
        behind = (stop - self._position) / rate
        self._position = min(float(stop), self._position + passed * rate * (1 + max(0.0, behind - _BEHIND)))
        return int(self._position)


class Page:
    """Shows a feed in a Bokeh document.

    Parameters
    ----------
    document : Document
    feed : Feed
    """

    def __init__(self, document: Document, feed: Feed) -> None:
        feed.start()
        self.live = Live(name="live")
        self._feed = feed
        self._spectrum, self._bars, self._map = SpectrumPlot(), WeightBars(), ScalpMap()
        self._number = 0  # of the layout
        self._sent = 0  # strips
        self._scroll = ScrollPosition()
        self._column: int | None = None  # next column to send
        self._panels: list[TracePanel] = []
        self._display, self._is_cleaned = Display(), False
        self._choosing = Choosing(document, self.live, feed)
        self._fitted: list[dict[str, Any]] = []
        self._layout_key: tuple[Any, ...] = ()
        self._marked = 0.0
        self._ticks = 0
        self._drawn_weights: tuple[Any, int] | None = None
        document.title = "igbss-stream"
        document.template = _read_template()  # type: ignore[assignment] # takes text as well
        for root in (self.live, self._spectrum.plot, self._bars.plot, self._map.plot):
            document.add_root(root)
        self.live.on_change("paused", lambda name, old, new: self.frame())
        document.js_on_event("document_ready", CustomJS(args={"live": self.live}, code=_START))
        document.js_on_event("connection_lost", CustomJS(code="window.igbssView.lost()"))
        document.add_periodic_callback(self.frame, FRAME)
        document.add_periodic_callback(self.tick, _TICK)

    def frame(self) -> None:
        """Send the new columns of the traces."""
        if not self.live.ready or self.live.paused or self._sent - self.live.seen > _MAX_UNSEEN:
            return
        with self._feed.lock:
            state = self._feed.state
            self._choosing.show(state.cleaning)
            if state.sources is None or state.stream is None or state.sources.ring.stop is None:
                return
            width, count = self._compute_grid(state)
            panels = self._pick_panels(state)
            stop = (
                self._scroll.advance(state.sources.ring.stop, state.stream.rate, time.monotonic()) // width
            )
            if self._is_changed(panels, state, width, count) or self._column is None or stop < self._column:
                self._start_layout(panels, state, width, count, stop)
            first = max(self._column or 0, stop - count - 1, 0)
            self._send_marks(state)
            if stop <= first:
                return
            seen = [reduce_to_columns(panel.ring, width, first, stop) for panel in self._panels]
        self._send_strip(seen)

    def tick(self) -> None:
        """Update status, spectrum and weights."""
        feed = self._feed
        with feed.lock:
            state = feed.state
            words = describe_state(feed.report, state, feed.address) or self._display.problem
            stretch = None if self.live.paused else self._read_selected(state)
            weights, unit, learning = state.weights, self._get_unit(state), state.learning
            rate, channels = state.stream.rate if state.stream else 1.0, state.channels
            if self._ticks % _FIT == 0 and self._column is not None and not self.live.paused:
                self._fit(state)
        self._ticks += 1
        if weights is None:
            self._bars.plot.visible = self._map.plot.visible = False
        line = [asdict(figure) for figure in list_figures(feed.report, feed.daemon_metrics, learning)]
        reliability = None if learning is None else learning.reliability.round().astype(int).tolist()
        self.live.status = json.dumps(
            {
                "sentence": words,
                "note": self._describe_plots(weights),
                "figures": line,
                "reliability": reliability,
                "references": [] if channels is None else channels.names,
            }
        )
        if stretch is not None:
            self._spectrum.show(*compute_spectrum(stretch, rate), unit)
        if weights is not None and self._drawn_weights != (
            weights,
            self._get_selected(weights.matrix.shape[1]),
        ):
            self._drawn_weights = (weights, self._get_selected(weights.matrix.shape[1]))
            self._bars.plot.visible = True
            self._bars.show(*self._drawn_weights)
            self._map.show(*self._drawn_weights)

    def _describe_plots(self, weights: MixingWeights | None) -> str:
        """Explain why weights or their map are not shown."""
        if weights is None:
            return "No channels, bars or map: the publisher has not sent the weights of a model."
        if not self._map.plot.visible:
            return f"No map of the scalp: {self._map.reason}."
        return ""

    def _compute_grid(self, state: ViewState) -> tuple[int, int]:
        """Return the number of samples in a column, and the number of columns in the time span."""
        rate = state.stream.rate if state.stream else 1.0
        span = min(max(float(self.live.span), 0.1), state.seconds)
        n_columns = min(max(int(self.live.columns), _MIN_COLUMNS), _MAX_COLUMNS)
        width = compute_width(span, rate, n_columns)
        return width, n_columns if width > 1 else int(np.ceil(span * rate))

    def _pick_panels(self, state: ViewState) -> list[TracePanel]:
        """Return the traces to draw, cleaned, filtered and re-referenced as the viewer wants them."""
        settings, rate = parse_display(self.live.display), state.stream.rate if state.stream else 1.0
        self._is_cleaned = state.cleaned is not None and settings.shown == "cleaned"
        shown = [state.sources, state.cleaned if self._is_cleaned else state.channels]
        self._display.problem = ""
        span = min(float(self.live.span), state.seconds)
        return [
            self._display.get_panel(place, panel, rate, settings, span)
            for place, panel in enumerate(shown)
            if panel is not None
        ]

    def _is_changed(self, panels: list[TracePanel], state: ViewState, width: int, count: int) -> bool:
        """Check whether everything must be drawn again: traces, unit or time span have changed."""
        of = (*panels, state.weights is None, width, count)
        changed = of != self._layout_key
        self._layout_key = of
        return changed

    def _start_layout(
        self, panels: list[TracePanel], state: ViewState, width: int, count: int, stop: int
    ) -> None:
        """Start a layout: the next columns are drawn on an empty page."""
        self._panels = panels
        self._width, self._count = width, count
        self._number += 1
        self._column = max(0, stop - count - 1)
        self._fitted = [{} for _ in self._panels]
        self._fit(state)

    def _fit(self, state: ViewState) -> None:
        """Choose row spacing and centre of each trace, and send the layout if they changed."""
        stop = (state.sources.ring.stop if state.sources else None) or 0
        n = min(self._count * self._width, stop)
        changed = False
        for fitted, panel in zip(self._fitted, self._panels, strict=True):
            seen = panel.ring.read(stop - n, stop, max(1, n // _N_SAMPLED))
            changed |= _fit_panel(fitted, seen)
        if changed:
            self._send_layout(state)

    def _send_layout(self, state: ViewState) -> None:
        if state.stream is None:
            return
        units = [self._get_unit(state), self._panels[1].unit if len(self._panels) > 1 else None]
        received = self._feed.channels_address and not self._is_cleaned
        modelled = "cleaned, as modelled" if self._is_cleaned else "as modelled by the sources"
        abouts = ["", "as received" if received else modelled]
        panels = [
            {"about": about, "names": panel.names, **asdict(choose_unit(unit, fitted["spacing"])), **fitted}
            for about, unit, panel, fitted in zip(abouts, units, self._panels, self._fitted, strict=False)
        ]
        self.live.layout = json.dumps(
            {
                "number": self._number,
                "width": self._width,
                "count": self._count,
                "rate": state.stream.rate,
                "t0": state.stream.t0,
                "seconds": state.seconds,
                "panels": panels,
            }
        )

    def _get_unit(self, state: ViewState) -> str:
        """Return the unit of the sources: standard deviations (SD) if they have unit variance."""
        unit = state.sources.unit if state.sources else None
        return unit or "" if unit or state.weights is None else "SD"

    def _send_marks(self, state: ViewState) -> None:
        now = time.monotonic()
        if now - self._marked < _MARKS:
            return
        self._marked = now
        oldest = (self._column or 0) - self._count
        self.live.marks = json.dumps([asdict(mark) for mark in state.list_marks(oldest * self._width)])

    def _send_strip(self, seen: list[ScreenColumns]) -> None:
        head = np.array([self._number, seen[0].first, len(seen[0].low), 0], "<f8").tobytes()
        parts = (
            np.ascontiguousarray(part, "<f4").tobytes() for one in seen for part in (one.low, one.high)
        )
        self._column = seen[0].stop
        self._sent += 1
        self.live.strip = b64encode(b"".join((head, *parts))).decode()

    def _get_selected(self, n_sources: int) -> int:
        return min(max(int(self.live.chosen), 0), n_sources - 1)

    def _read_selected(self, state: ViewState) -> NDArray[np.float32] | None:
        """Return the last samples of the selected source."""
        if state.sources is None or state.stream is None or state.sources.ring.stop is None:
            return None
        stop, ring = state.sources.ring.stop, state.sources.ring
        n = min(ring.capacity, round(_SPECTRUM * state.stream.rate))
        return ring.read(stop - n, stop, traces=self._get_selected(ring.n_traces))


def _fit_panel(fitted: dict[str, Any], x: NDArray[np.float32]) -> bool:
    """Fit spacing and centres of a panel to visible samples, and return whether they changed."""
    changed = not fitted
    if changed:
        fitted |= {"spacing": 1.0, "middles": [0.0] * x.shape[1]}
    if not np.isfinite(x).any():
        return changed
    spacing = choose_spacing(x)
    if not _LESS < spacing / fitted["spacing"] < _MORE:
        fitted["spacing"], changed = spacing, True
    off = compute_medians(x)
    moved = np.abs(off - fitted["middles"]) > _OFF_CENTRE * fitted["spacing"]
    if moved.any():
        fitted["middles"], changed = np.where(moved, off, fitted["middles"]).tolist(), True
    return changed


_START = "window.igbssView.start(live)"


def _read_template() -> str:
    """Return the page with style and script included: it loads nothing from elsewhere."""
    folder = files("igbss_stream.pages.view")
    text = folder.joinpath("page.html").read_text("utf-8")
    for name in ("page.css", "colours.js", "panel.js", "choose.js", "page.js"):
        text = text.replace(f"/* {name} */", folder.joinpath(name).read_text("utf-8"))
    return text
