"""Sections of sinks, which publish or record sources or cleaned channels."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from igbss_stream.daemon.config.base import Count, PositiveSeconds, Section, Text
from igbss_stream.daemon.config.keys import CurveServerSection
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.addresses import Address, check_address
from igbss_stream.files.writers.rotation import Rotation, parse_rotation

Published = Literal["sources", "cleaned"]


class ZmqOutput(Section, frozen=True, kw_only=True, tag_field="kind", tag="zmq"):
    """A ZeroMQ publisher (XPUB) in the format of docs/wire.md, for any number of subscribers.

    Parameters
    ----------
    address : str
        Address to bind to. A port alone is open to this machine only, `tcp://*:PORT` to the network.
    queue : int
        Number of messages buffered for each subscriber. A subscriber that falls further behind misses
        messages.
    curve : CurveServerSection or None
        Keys for encryption; only clients that are allowed are admitted.
    publish : {"sources", "cleaned"}
        `sources`, or the channels without the sources that section `clean` removes (`cleaned`).
    """

    address: Annotated[Address, Meta(examples=["tcp://127.0.0.1:5560"])]
    queue: Count = 1000
    curve: CurveServerSection | None = None
    publish: Published = "sources"

    def __post_init__(self) -> None:
        check_address(self.address, bind=True)


class Hdf5Output(Section, frozen=True, kw_only=True, tag_field="kind", tag="hdf5"):
    """A recording in an HDF5 file (docs/recording.md).

    Parameters
    ----------
    path : Path
        The file.
    flush : float
        Seconds between writes to the disk; a crash loses at most this much.
    if_exists : {"append", "number", "overwrite", "refuse"}
        What to do if the file exists: `append` to it, or begin a numbered file if it cannot be continued;
        begin a numbered file (`number`); `overwrite` it; or `refuse` to start.
    rotate : str or None
        When to begin a new file: after a time (`1h`, `1d`), a size of the samples (`500MB`), or both
        (`1d,2GB`). Each file is named by the time at which it begins, in UTC. `null` never.
    publish : {"sources", "cleaned"}
        `sources`, or the channels without the sources that section `clean` removes (`cleaned`).
    """

    path: Annotated[Path, Meta(examples=["sources.h5"])]
    flush: PositiveSeconds = 1.0
    if_exists: Literal["append", "number", "overwrite", "refuse"] = "append"
    rotate: Text | None = None
    publish: Published = "sources"

    def __post_init__(self) -> None:
        try:
            rotation = self.rotation
        except ParameterError as error:
            raise ParameterError(f"rotate is not valid: {error}", parameter="rotate") from None
        if rotation is not None and self.if_exists != "append":
            raise ParameterError(
                "if_exists has no effect with rotate, which gives every file a new name. Leave it out.",
                parameter="if_exists",
            )

    @property
    def rotation(self) -> Rotation | None:
        """When to begin a new file."""
        return None if self.rotate is None else parse_rotation(self.rotate)


class LslOutput(Section, frozen=True, kw_only=True, tag_field="kind", tag="lsl"):
    """An outlet of the Lab Streaming Layer (needs pylsl).

    Parameters
    ----------
    name : str
        Name of the outlet.
    type : str
        Type of the outlet.
    publish : {"sources", "cleaned"}
        `sources`, or the channels without the sources that section `clean` removes (`cleaned`).
    """

    name: Annotated[Text, Meta(examples=["sources"])]
    type: Text = "Sources"
    publish: Published = "sources"


Output = ZmqOutput | Hdf5Output | LslOutput
