"""Strain of a gravitational-wave detector, as published by LIGO and GWOSC: /strain/Strain."""

from pathlib import Path
from typing import Any

from igbss_stream.files.readers.hdf5.file import as_positive, read_attribute
from igbss_stream.files.readers.hdf5.layouts.values import get_dataset, read_text
from igbss_stream.files.readers.hdf5.signal import LayoutMatch, Signal

LAYOUT = "GWOSC"
_STRAIN = "/strain/Strain"


def find(file: Any, path: Path) -> LayoutMatch | None:
    """Describe the strain, if there is one."""
    strain = get_dataset(file, _STRAIN)
    spacing = None if strain is None else as_positive(read_attribute(strain, "Xspacing"))
    if strain is None or spacing is None:
        return None
    detector = read_text(file, "/meta/Detector") or "strain"
    signal = Signal(
        dataset=_STRAIN,
        shape=strain.shape,
        rate=1 / spacing,
        unit="strain",
        channels=(detector,),
        advice="; store the simultaneous strains of several detectors as (samples, channels) in the "
        "dataset /data of a new file",
    )
    return LayoutMatch(LAYOUT, "/strain/Strain states Xspacing", (signal,))
