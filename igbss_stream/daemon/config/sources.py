"""Where the samples of a stream come from."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from igbss_stream.daemon.config.base import (
    Channels,
    Count,
    Picks,
    PositiveSeconds,
    Rate,
    Seconds,
    Section,
    Text,
)
from igbss_stream.daemon.config.keys import CurveClient, CurveServer
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.addresses import Address, check_address
from igbss_stream.files.read_options import Wanted


class Limits(Section, frozen=True, kw_only=True):
    """What is taken from the network at most. Larger messages are refused and counted.

    Parameters
    ----------
    message_bytes : int
        Bytes of samples in a message.
    channels : int
        Number of channels.
    """

    message_bytes: Annotated[int, Meta(ge=1024, le=1 << 31)] = 1 << 26
    channels: Annotated[int, Meta(ge=1, le=65_536)] = 4096


class ZmqFeed(Section, frozen=True, kw_only=True, tag_field="kind", tag="zmq"):
    """Messages in the format of docs/wire.md, from a ZeroMQ socket.

    Parameters
    ----------
    address : str
        Address to connect to, or to bind to. A port alone is one of this machine.
    socket : {"sub", "pull"}
        `sub` reads from PUB and XPUB sockets, `pull` from PUSH sockets.
    bind : bool
        Whether the daemon binds and senders connect to it, or the other way round.
    topic : str
        Name of the stream to take, for `sub`. Left out, the first stream that comes is taken.
    queue : int
        Messages that ZeroMQ holds while the daemon is busy. A publisher drops those beyond it.
    reorder_window : float
        Seconds of samples beyond a missing message that are waited for it. 0 is right for one publisher
        over TCP, which keeps the order.
    silence : float
        Seconds without a message until a warning is given.
    rate : float or None
        Samples a second (Hz) to expect. A feed whose rate differs by more than a thousandth is refused.
    unit : str or None
        Unit to expect, and the unit of a feed that states none. A feed that states another is refused.
    channels : tuple of str or None
        Names to give the channels. A feed with another number of channels is refused. Left out, the
        feed's own names, or numbers where it has none.
    limits : Limits
        What is taken from the network at most.
    curve : CurveClient, CurveServer or None
        Keys, for an encrypted connection.
    """

    address: Annotated[Address, Meta(examples=["tcp://127.0.0.1:5555"])]
    socket: Literal["sub", "pull"] = "sub"
    bind: bool = False
    topic: Annotated[str, Meta(max_length=256)] = ""
    queue: Count = 1000
    reorder_window: Seconds = 0.1
    silence: PositiveSeconds = 5.0
    rate: Rate | None = None
    unit: Text | None = None
    channels: Channels | None = None
    limits: Limits = Limits()
    curve: CurveClient | CurveServer | None = None

    def __post_init__(self) -> None:
        check_address(self.address, bind=self.bind)
        if self.topic and self.socket == "pull":
            raise ParameterError(
                "topic goes with socket sub alone; a pull socket takes all that comes.", parameter="topic"
            )


class OpenEphysFeed(Section, frozen=True, kw_only=True, tag_field="kind", tag="openephys"):
    """What the ZMQ Interface plugin of the Open Ephys GUI (0.6 and later) sends.

    Parameters
    ----------
    address : str
        Address of the plugin.
    queue : int
        Messages that ZeroMQ holds while the daemon is busy; the plugin sends one for each channel of a
        block.
    reorder_window : float
        Seconds of samples beyond a missing block that are waited for it.
    silence : float
        Seconds without a message until a warning is given.
    rate : float or None
        Samples a second (Hz) to expect. A feed whose rate differs by more than a thousandth is refused.
    unit : str
        Unit of the samples, which the plugin does not state: microvolts, but volts for ADC channels.
    channels : tuple of str or None
        Names to give the channels. A feed with another number of channels is refused. Left out, numbers.
    limits : Limits
        What is taken from the network at most.
    """

    address: Address = "tcp://127.0.0.1:5556"
    queue: Count = 10_000
    reorder_window: Seconds = 0.0
    silence: PositiveSeconds = 5.0
    rate: Rate | None = None
    unit: Text = "uV"
    channels: Channels | None = None
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        check_address(self.address, bind=False)


class LslFeed(Section, frozen=True, kw_only=True, tag_field="kind", tag="lsl"):
    """A stream of the Lab Streaming Layer (needs pylsl). At least one of name, type and source_id is given.

    Parameters
    ----------
    name : str or None
        Name of the stream.
    type : str or None
        Type of the stream, such as `EEG`.
    source_id : str or None
        Identifier of the device. With it the stream is found again after the device restarted.
    wait : float or None
        Seconds to wait for the stream to appear at the start; `null` waits for ever.
    buffer : float
        Seconds of samples that are held while the daemon is busy.
    silence : float
        Seconds without a sample until a warning is given.
    rate : float or None
        Samples a second (Hz) to expect. Needed for a stream that states none.
    unit : str or None
        Unit to expect, and the unit of a stream that states none. A stream that states another is refused.
    channels : tuple of str or None
        Names to give the channels. A stream with another number of channels is refused. Left out, the
        stream's own names, or numbers where it has none.
    """

    name: Text | None = None
    type: Annotated[Text | None, Meta(examples=["EEG"])] = None
    source_id: Text | None = None
    wait: PositiveSeconds | None = None
    buffer: PositiveSeconds = 60.0
    silence: PositiveSeconds = 5.0
    rate: Rate | None = None
    unit: Text | None = None
    channels: Channels | None = None

    def __post_init__(self) -> None:
        if not (self.name or self.type or self.source_id):
            raise ParameterError(
                "name must be given, or type, or source_id: else no stream can be chosen.", parameter="name"
            )


class FileInput(Section, frozen=True, kw_only=True, tag_field="kind", tag="file"):
    """A recording in a file, played as if it were measured now.

    The file is HDF5, or of any other format in docs/reading.md; it is told by its content.

    Parameters
    ----------
    path : Path
        The file.
    dataset : str or None
        Dataset that holds the samples; `igbss-stream inspect` lists what there is. Left out, it is found by
        the layout of the file.
    axis : {0, 1} or None
        Axis of the dataset that runs over samples. Left out, the layout tells, or it is 0.
    rate : float or None
        Samples a second (Hz), if the file does not say or says it wrong.
    channels : tuple of str or int, or None
        Channels to take, in this order: names, positions from 0, or ranges such as `0-7`. Left out, all
        that are measured.
    factor : float or None
        What stored numbers are multiplied by, in place of the scale of the file.
    unit : str or None
        Unit of the samples, if the file does not say or says it wrong.
    speed : float
        Speed, 1 being that of the recording; 0 plays as fast as samples can be separated.
    block : float
        Seconds of the recording that are read at a time.
    loop : bool
        Whether to begin again at the end. The stream restarts there.
    """

    path: Annotated[Path, Meta(examples=["recording.h5"])]
    dataset: Text | None = None
    axis: Literal[0, 1] | None = None
    rate: Rate | None = None
    channels: Picks | None = None
    factor: Annotated[float, Meta(ge=-1e300, le=1e300)] | None = None
    unit: Text | None = None
    speed: Annotated[float, Meta(ge=0, le=1e6)] = 1.0
    block: PositiveSeconds = 0.1
    loop: bool = False

    def __post_init__(self) -> None:
        self.wanted()

    def wanted(self) -> Wanted:
        """Return what to read of the file."""
        channels = None if self.channels is None else tuple(map(str, self.channels))
        return Wanted(self.dataset, self.axis, self.rate, channels, self.factor, self.unit)


Feed = ZmqFeed | OpenEphysFeed | LslFeed | FileInput
