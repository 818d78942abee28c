"""Strain of a gravitational-wave detector, as LIGO and GWOSC publish it: /strain/Strain."""

from pathlib import Path
from typing import Any

from igbss_stream.files.readers.hdf5.file import attribute, positive
from igbss_stream.files.readers.hdf5.layouts.values import dataset, word
from igbss_stream.files.readers.hdf5.signal import Contents, Signal

LAYOUT = "GWOSC"
_STRAIN = "/strain/Strain"


def find(file: Any, path: Path) -> Contents | None:
    """Describe the strain, if there is one."""
    strain = dataset(file, _STRAIN)
    spacing = None if strain is None else positive(attribute(strain, "Xspacing"))
    if strain is None or spacing is None:
        return None
    detector = word(file, "/meta/Detector") or "strain"
    signal = Signal(
        dataset=_STRAIN,
        shape=strain.shape,
        rate=1 / spacing,
        unit="strain",
        channels=(detector,),
        advice=": put the strains of several detectors at the same time side by side, as (samples, "
        "channels), into the dataset /data of a new file",
    )
    return Contents(LAYOUT, "/strain/Strain states Xspacing", (signal,))
