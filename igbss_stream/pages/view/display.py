"""Filter and re-reference traces for display. What is published stays as it is."""

from typing import Annotated

import msgspec
import numpy as np

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.errors import ParameterError
from igbss_stream.pages.view.state import TracePanel
from igbss_stream.pages.view.traces import Ring
from igbss_stream.preparation.online import OnlinePreparation
from igbss_stream.preparation.settings import AVERAGE, Preparation

_WARM_UP = 10.0  # seconds before the visible ones that are filtered as well, until the filters have settled

Hertz = Annotated[float, msgspec.Meta(gt=0, le=1e6)]


class DisplaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How traces are changed for display.

    Parameters
    ----------
    highpass, lowpass, notch : float or None
        Edges and frequency in Hz.
    reference : str
        ``"average"`` or the name of a channel, which is subtracted from the channels; empty: as they are.
    shown : {"cleaned", "channels"}
        Whether the channels are shown without the sources that are taken out.
    """

    highpass: Hertz | None = None
    lowpass: Hertz | None = None
    notch: Hertz | None = None
    reference: str = ""
    shown: str = "cleaned"

    def make_preparation(self, *, is_sources: bool) -> Preparation:
        """Return the filters, and the reference of channels.

        Raises
        ------
        ParameterError
            If the edges do not fit each other.
        """
        reference: str | tuple[str, ...] | None = None
        if self.reference and not is_sources:
            reference = AVERAGE if self.reference == AVERAGE else (self.reference,)
        return Preparation(
            highpass=self.highpass,
            lowpass=self.lowpass,
            notch=() if self.notch is None else (self.notch,),
            reference=reference,
        )


def parse_display(text: str) -> DisplaySettings:
    """Return the settings that the script of a page sends as JSON; the defaults if they are not valid."""
    try:
        return msgspec.json.decode(text, type=DisplaySettings)
    except msgspec.MsgspecError:
        return DisplaySettings()


class FilteredPanel:
    """Traces of a panel, filtered and re-referenced as their samples arrive.

    Parameters
    ----------
    source : TracePanel
    rate : float
        In Hz.
    preparation : Preparation
        Without resampling.
    seconds : float
        Visible time span; what is before it is filtered only as far as the filters need it.

    Attributes
    ----------
    panel : TracePanel
        The filtered traces.

    Raises
    ------
    ParameterError
        If the preparation does not match the rate or the channels.
    """

    def __init__(self, source: TracePanel, rate: float, preparation: Preparation, seconds: float) -> None:
        self._source, self._preparation = source, preparation
        self._stream = Stream("display", rate, source.names, source.unit, np.dtype("f4"))
        self._n_before = round((seconds + _WARM_UP) * rate)
        self._position = 0
        self._online = OnlinePreparation(self._stream, preparation)
        names = self._online.output_stream.channels
        capacity = min(source.ring.capacity, self._n_before)
        self.panel = TracePanel(names, source.unit, Ring(len(names), capacity))

    def update(self) -> None:
        """Filter the samples that have arrived."""
        ring = self._source.ring
        if ring.stop is None or ring.start is None:
            return
        is_new = self.panel.ring.stop is None or not ring.start <= self._position <= ring.stop
        if is_new:
            self._position = max(ring.start, ring.stop - self._n_before)
            self._online = OnlinePreparation(self._stream, self._preparation)
        if self._position == ring.stop:
            return
        x = ring.read(self._position, ring.stop)
        for done in self._online.push(Chunk(x, self._position)):
            if isinstance(done, Chunk):
                self.panel.ring.write(done.start, done.data)
        self._position = ring.stop


class Display:
    """Traces of one open page as its viewer wants to see them."""

    def __init__(self) -> None:
        self.problem = ""
        self._filtered: dict[int, tuple[tuple[object, ...], FilteredPanel]] = {}

    def get_panel(
        self, place: int, source: TracePanel, rate: float, settings: DisplaySettings, seconds: float
    ) -> TracePanel:
        """Return the traces to draw of a panel, up to date.

        Parameters
        ----------
        place : int
            0 for the sources, 1 for the channels.
        source : TracePanel
        rate : float
            In Hz.
        settings : DisplaySettings
        seconds : float
            Visible time span.
        """
        key = (source, rate, msgspec.structs.replace(settings, shown=""), seconds)
        known = self._filtered.get(place)
        if known is None or known[0] != key:
            try:
                preparation = settings.make_preparation(is_sources=place == 0)
                if preparation.does_nothing:
                    self._filtered.pop(place, None)
                    return source
                known = key, FilteredPanel(source, rate, preparation, seconds)
            except ParameterError as error:
                self.problem = f"The traces are shown without filters: {error}"
                self._filtered.pop(place, None)
                return source
            self._filtered[place] = known
        known[1].update()
        return known[1].panel
