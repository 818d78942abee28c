"""Where the sources of a stream go, or its channels without some of them."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from igbss_stream.daemon.config.base import Count, PositiveSeconds, Section, Text
from igbss_stream.daemon.config.keys import CurveServer
from igbss_stream.feeds.addresses import Address, check_address

What = Literal["sources", "cleaned"]


class ZmqOutput(Section, frozen=True, kw_only=True, tag_field="kind", tag="zmq"):
    """A ZeroMQ publisher (XPUB) in the format of docs/wire.md, for any number of subscribers.

    Parameters
    ----------
    address : str
        Address to bind to. A port alone is open to this machine only, `tcp://*:PORT` to the network.
    queue : int
        Messages held for each subscriber. One that falls further behind misses messages.
    curve : CurveServer or None
        Keys, to encrypt and to let in only those who are allowed.
    publish : {"sources", "cleaned"}
        Sources, or channels without those that the section `clean` takes out.
    """

    address: Annotated[Address, Meta(examples=["tcp://127.0.0.1:5560"])]
    queue: Count = 1000
    curve: CurveServer | None = None
    publish: What = "sources"

    def __post_init__(self) -> None:
        check_address(self.address, bind=True)


class Hdf5Output(Section, frozen=True, kw_only=True, tag_field="kind", tag="hdf5"):
    """An HDF5 file.

    Parameters
    ----------
    path : Path
        The file.
    flush : float
        Seconds between writes to the disk: the most that a crash can lose.
    if_exists : {"refuse", "overwrite", "append"}
        What becomes of a file that is there already.
    publish : {"sources", "cleaned"}
        Sources, or channels without those that the section `clean` takes out.
    """

    path: Annotated[Path, Meta(examples=["sources.h5"])]
    flush: PositiveSeconds = 1.0
    if_exists: Literal["refuse", "overwrite", "append"] = "refuse"
    publish: What = "sources"


class LslOutput(Section, frozen=True, kw_only=True, tag_field="kind", tag="lsl"):
    """An outlet of the Lab Streaming Layer (needs pylsl).

    Parameters
    ----------
    name : str
        Name of the outlet.
    type : str
        Type that the outlet states.
    publish : {"sources", "cleaned"}
        Sources, or channels without those that the section `clean` takes out.
    """

    name: Annotated[Text, Meta(examples=["sources"])]
    type: Text = "Sources"
    publish: What = "sources"


Sink = ZmqOutput | Hdf5Output | LslOutput
