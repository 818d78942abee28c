"""g.Recorder of g.tec: /RawData/Samples in microvolts, with an XML description of the channels."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from igbss_stream.files.readers.hdf5.file import as_positive, name_dataset
from igbss_stream.files.readers.hdf5.layouts.values import get_dataset, keep_if_complete, read_text
from igbss_stream.files.readers.hdf5.signal import LayoutMatch, Signal

LAYOUT = "g.Recorder"
_SAMPLES = "/RawData/Samples"
_DESCRIPTION = "/RawData/AcquisitionTaskDescription"


def find(file: Any, path: Path) -> LayoutMatch | None:
    """Describe the samples of a file of this layout."""
    samples = get_dataset(file, _SAMPLES)
    if samples is None or get_dataset(file, _DESCRIPTION) is None or samples.ndim != 2:
        return None
    n_channels = samples.shape[1]
    root = _parse_xml(read_text(file, _DESCRIPTION))
    names = keep_if_complete(_read_values(root, "ChannelName"), n_channels)
    kinds = keep_if_complete(_read_values(root, "ChannelType"), n_channels)
    triggers = keep_if_complete(_read_values(root, "IsTriggerChannel"), n_channels)
    types = tuple(
        "trigger" if trigger.lower() == "true" else kind or "EEG"
        for kind, trigger in zip(kinds or ("",) * n_channels, triggers or ("",) * n_channels, strict=True)
    )
    rate = _find_rate(root)
    signal = Signal(
        dataset=_SAMPLES,
        shape=samples.shape,
        rate=rate,
        unit="uV",
        channels=names,
        types=types if root is not None else (),
        notes=() if names else ("the description does not name every channel; channels are numbered",),
        problem=""
        if rate
        else f"{name_dataset(_SAMPLES, path)} has no SamplingFrequency in {_DESCRIPTION}; pass --rate",
        needs_rate=not rate,
    )
    return LayoutMatch(LAYOUT, f"it has {_SAMPLES} and {_DESCRIPTION}", (signal,))


def _parse_xml(xml: str | None) -> ElementTree.Element | None:
    """Parse a description; refuse one with entities, which could expand until they fill the memory."""
    if xml is None or "<!" in xml:
        return None
    try:
        return ElementTree.fromstring(xml.removeprefix("\ufeff"))
    except (ElementTree.ParseError, ValueError):
        return None


def _read_values(root: ElementTree.Element | None, tag: str) -> tuple[str, ...]:
    """Return the texts of a tag in the properties of the channels."""
    if root is None:
        return ()
    # The list and its entries have the same tag.
    entries = root.findall("./ChannelProperties/ChannelProperties")
    return tuple((entry.findtext(tag) or "").strip() for entry in entries)


def _find_rate(root: ElementTree.Element | None) -> float | None:
    if root is None:
        return None
    stated = as_positive((root.findtext("SamplingFrequency") or "").strip())
    if stated is not None:
        return stated
    each = {as_positive(value) for value in _read_values(root, "SampleRate")}
    return each.pop() if len(each) == 1 else None
