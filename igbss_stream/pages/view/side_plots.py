"""Plot the selected source: spectrum, weights as bars, and scalp map."""

from typing import Any

import numpy as np
from bokeh.models import (
    BasicTicker,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    Range1d,
)
from bokeh.models.annotations import ColorBar
from bokeh.plotting import figure
from numpy.typing import NDArray

from igbss_stream.pages.plotting.scales import blend, choose_unit
from igbss_stream.pages.plotting.scalp import RADIUS, Montage, find_montage, interpolate_weights
from igbss_stream.pages.view.state import MixingWeights
from igbss_stream.positions import Positions

# Of a light page, until colours.js sets those of the page. It finds glyphs by their tags.
_INK, _SOFT, _SOURCE = "#1f2937", "#6b7280", "#b45309"
_SIDE = 215  # of the map, in pixels of the screen
_PIXELS = 96  # computed per side of the map
_MAX_LABELS = 20  # channels that have a label under their bar
_MARGIN = 0.05  # around the weights, as a share of their range
_PALETTE = [blend(share) for share in np.linspace(-1, 1, 65)]


def _make_figure(name: str, height: int, **options: Any) -> Any:
    """Create a plot in the style of the page."""
    plot: Any = figure(
        name=name, height=height, sizing_mode="stretch_width", toolbar_location=None, tools="", **options
    )
    plot.min_border_left, plot.min_border_right = 66, 14
    plot.outline_line_color = plot.background_fill_color = plot.border_fill_color = None
    plot.grid.grid_line_color = "#e5e7eb"
    plot.axis.axis_line_color = plot.axis.major_tick_line_color = "#9ca3af"
    plot.axis.minor_tick_line_color = None
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.axis_label_text_font_size = plot.axis.major_label_text_font_size = "11px"
    plot.axis.axis_label_text_color = plot.axis.major_label_text_color = _SOFT
    plot.title.text_font_size, plot.title.text_color = "12px", _INK
    return plot


class SpectrumPlot:
    """Power spectrum of the selected source."""

    def __init__(self) -> None:
        self.plot = _make_figure(
            "spectrum", 200, y_axis_type="log", title="Spectrum", y_range=Range1d(start=0.1, end=1)
        )
        self.plot.xaxis.axis_label = "Hz"
        self.plot.x_range = Range1d(start=0, end=1)
        self._data = ColumnDataSource({"f": [], "p": []})
        line = self.plot.line("f", "p", source=self._data, color=_SOURCE, line_width=1.5)
        line.glyph.tags = ["source"]
        self.plot.add_tools(
            HoverTool(renderers=[line], tooltips=[("Hz", "@f{0.0}"), ("power", "@p{0.00e}")], mode="vline")
        )

    def show(self, frequency: NDArray[Any], density: NDArray[Any], unit: str) -> None:
        """Draw a spectrum.

        Parameters
        ----------
        frequency, density : ndarray
        unit : str
            Of the source.
        """
        there = density > 0
        read = choose_unit(
            unit, float(np.sqrt(density.sum() * frequency[1])) if len(frequency) > 1 else 0.0
        )
        density, unit = density * read.factor**2, read.unit
        self._data.data = {"f": frequency[there], "p": density[there]}
        self.plot.yaxis.axis_label = f"{unit}²/Hz" if unit else "power/Hz"
        if there.any():
            self.plot.x_range.end = float(frequency[-1])
            low, high = float(density[there].min()), float(density[there].max())
            self.plot.y_range.update(start=low / 2, end=high * 2)


def _scale_weights(weights: MixingWeights, source: int) -> tuple[NDArray[Any], str]:
    """Return the weights of a source in the displayed unit, which is the same for all sources."""
    read = choose_unit(weights.unit, float(np.abs(weights.matrix).max()))
    return weights.matrix[:, source] * read.factor, read.unit


class WeightBars:
    """Weights of the selected source in the channels."""

    def __init__(self) -> None:
        # Explicit ranges, because Bokeh warns about automatic ranges without data.
        self.plot = _make_figure(
            "weights",
            205,
            title="Weights in the channels",
            x_range=Range1d(start=-0.7, end=0.7),
            y_range=Range1d(start=-1, end=1),
        )
        self.plot.xgrid.grid_line_color = None
        self.plot.xaxis.major_label_orientation = np.pi / 2
        self._data = ColumnDataSource({"i": [], "w": [], "name": []})
        bars = self.plot.vbar("i", top="w", width=0.8, source=self._data, color=_SOURCE)
        bars.glyph.tags = ["source"]
        self.plot.add_tools(HoverTool(renderers=[bars], tooltips=[("channel", "@name"), ("weight", "@w")]))

    def show(self, weights: MixingWeights, source: int) -> None:
        """Draw the weights of a source.

        Parameters
        ----------
        weights : MixingWeights
        source : int
        """
        n, (strengths, unit) = len(weights.channels), _scale_weights(weights, source)
        low, high = min(0.0, float(strengths.min())), max(0.0, float(strengths.max()))
        edge = _MARGIN * (high - low) or 1.0
        self.plot.x_range.end = n - 0.3
        self.plot.y_range.update(start=low - edge * (low < 0), end=high + edge * (high > 0))
        self._data.data = {
            "i": np.arange(n),
            "w": strengths,
            "name": list(weights.channels),
        }
        shown = range(0, n, -(-n // _MAX_LABELS))
        self.plot.xaxis.ticker = FixedTicker(ticks=[*shown])
        self.plot.xaxis.major_label_overrides = {i: weights.channels[i] for i in shown}
        self.plot.yaxis.axis_label = unit


class ScalpMap:
    """Scalp map of the weights of the selected source.

    Attributes
    ----------
    reason : str
        Why there is no map.
    """

    def __init__(self) -> None:
        edge = 1.28
        self.plot = _make_figure(
            "scalp", 300, title="Scalp map, from above", x_range=(-edge, edge), y_range=(-edge, edge)
        )
        self.plot.update(
            width=None, height=None, sizing_mode="fixed", frame_width=_SIDE, frame_height=_SIDE
        )
        self.plot.min_border_left = 20
        self.plot.axis.visible = False
        self.plot.grid.grid_line_color = None
        self._colours = LinearColorMapper(palette=_PALETTE, low=-1, high=1, nan_color="#ffffff00")
        self._image = ColumnDataSource({"image": []})
        self._dots = ColumnDataSource({"x": [], "y": [], "name": [], "w": []})
        self._montages: dict[tuple[tuple[str, ...], Positions | None], Montage] = {}
        self.reason = ""
        self.plot.image(
            "image", x=-RADIUS, y=-RADIUS, dw=2 * RADIUS, dh=2 * RADIUS, source=self._image,
            color_mapper=self._colours,
        )  # fmt: skip
        self._draw_outline()
        dots = self.plot.scatter("x", "y", source=self._dots, size=4, color=_INK)
        self.plot.add_tools(HoverTool(renderers=[dots], tooltips=[("channel", "@name"), ("weight", "@w")]))
        self.plot.add_layout(
            ColorBar(
                color_mapper=self._colours, ticker=BasicTicker(desired_num_ticks=5), width=8,
                label_standoff=4, major_label_text_font_size="11px", major_label_text_color=_SOFT,
                background_fill_color=None,
            ),
            "right",
        )  # fmt: skip

    def show(self, weights: MixingWeights, source: int) -> None:
        """Draw the weights of a source; hide the map if positions of the channels are not known.

        Parameters
        ----------
        weights : MixingWeights
        source : int
        """
        key = weights.channels, weights.positions
        if key not in self._montages:
            self._montages = {key: find_montage(*key)}
        placed = self._montages[key]
        self.plot.visible, self.reason = placed.has_map, placed.reason
        if not placed.has_map:
            return
        column, unit = _scale_weights(weights, source)
        largest = float(np.abs(column[placed.channels]).max()) or 1.0
        self._colours.update(low=-largest, high=largest)
        self._image.data = {"image": [interpolate_weights(placed, column, _PIXELS)]}
        self._dots.data = {
            "x": placed.positions[:, 0],
            "y": placed.positions[:, 1],
            "name": [weights.channels[i] for i in placed.channels],
            "w": column[placed.channels],
        }
        self.plot.title.text = f"Scalp map, from above ({unit or 'no unit'})"

    def _draw_outline(self) -> None:
        turn = np.linspace(0, 2 * np.pi, 120)
        nose = ([-0.14, 0, 0.14], [RADIUS - 0.01, RADIUS + 0.14, RADIUS - 0.01])
        bend = np.linspace(-np.pi / 2, np.pi / 2, 24)
        ears = [(side * (RADIUS + 0.08 * np.cos(bend)), 0.22 * np.sin(bend)) for side in (-1, 1)]
        for x, y in ((RADIUS * np.cos(turn), RADIUS * np.sin(turn)), nose, *ears):
            self.plot.line(x, y, color=_SOFT, line_width=2).glyph.tags = ["soft"]
