"""g.Recorder of g.tec: /RawData/Samples in microvolts, and a description of the channels in XML."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from igbss_stream.files.readers.hdf5.file import naming, positive
from igbss_stream.files.readers.hdf5.layouts.values import dataset, if_one_each, word
from igbss_stream.files.readers.hdf5.signal import Contents, Signal

LAYOUT = "g.Recorder"
_SAMPLES = "/RawData/Samples"
_DESCRIPTION = "/RawData/AcquisitionTaskDescription"


def find(file: Any, path: Path) -> Contents | None:
    """Describe the samples, if there are any."""
    samples = dataset(file, _SAMPLES)
    if samples is None or dataset(file, _DESCRIPTION) is None or samples.ndim != 2:
        return None
    n_channels = samples.shape[1]
    root = _parsed(word(file, _DESCRIPTION))
    names = if_one_each(_values(root, "ChannelName"), n_channels)
    kinds = if_one_each(_values(root, "ChannelType"), n_channels)
    triggers = if_one_each(_values(root, "IsTriggerChannel"), n_channels)
    types = tuple(
        "trigger" if trigger.lower() == "true" else kind or "EEG"
        for kind, trigger in zip(kinds or ("",) * n_channels, triggers or ("",) * n_channels, strict=True)
    )
    rate = _rate(root)
    signal = Signal(
        dataset=_SAMPLES,
        shape=samples.shape,
        rate=rate,
        unit="uV",
        channels=names,
        types=types if root is not None else (),
        notes=() if names else ("the description names no channel for each column; they are numbered",),
        trouble=""
        if rate
        else f"{naming(_SAMPLES, path)} has no SamplingFrequency in {_DESCRIPTION}; pass --rate",
        untimed=not rate,
    )
    return Contents(LAYOUT, f"it has {_SAMPLES} and {_DESCRIPTION}", (signal,))


def _parsed(xml: str | None) -> ElementTree.Element | None:
    """Parse a description; one that declares entities is none, as those can be made to fill the memory."""
    if xml is None or "<!" in xml:
        return None
    try:
        return ElementTree.fromstring(xml.removeprefix("\ufeff"))
    except (ElementTree.ParseError, ValueError):
        return None


def _values(root: ElementTree.Element | None, tag: str) -> tuple[str, ...]:
    """Return the texts of a tag in the properties of the channels."""
    if root is None:
        return ()
    # The list and each of its entries have the same name.
    entries = root.findall("./ChannelProperties/ChannelProperties")
    return tuple((entry.findtext(tag) or "").strip() for entry in entries)


def _rate(root: ElementTree.Element | None) -> float | None:
    if root is None:
        return None
    stated = positive((root.findtext("SamplingFrequency") or "").strip())
    if stated is not None:
        return stated
    each = {positive(value) for value in _values(root, "SampleRate")}
    return each.pop() if len(each) == 1 else None
