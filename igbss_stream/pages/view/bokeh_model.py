"""What the server and the script of a page tell each other: the properties of one model of Bokeh."""

from typing import Any

from bokeh.core import properties as bp
from bokeh.model import DataModel


class Live(DataModel):
    """What is shown, and what is wanted.

    The server writes `layout`, `marks` and `status` (JSON) and `strip`, in base64, as the script of Bokeh
    cannot take a document that holds bytes: four float64 (number of the layout, first column, columns, 0),
    then in float32 the lows and highs of the sources and of the channels, one column after the other. The
    script writes the others; `ready` once it listens.
    """

    layout: Any = bp.String("")
    marks: Any = bp.String("[]")
    status: Any = bp.String("")
    strip: Any = bp.String("")

    ready: Any = bp.Bool(False)
    columns: Any = bp.Int(600)
    span: Any = bp.Float(10.0)
    paused: Any = bp.Bool(False)
    chosen: Any = bp.Int(0)
    seen: Any = bp.Int(0)
