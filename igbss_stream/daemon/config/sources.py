"""Sections of sources, which provide the samples of a stream."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from igbss_stream.daemon.config.base import (
    Channels,
    Count,
    Names,
    Picks,
    PositiveSeconds,
    Rate,
    Seconds,
    Section,
    Text,
)
from igbss_stream.daemon.config.keys import CurveClientSection, CurveServerSection
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.addresses import Address, check_address
from igbss_stream.feeds.lsl_query import LslQuery
from igbss_stream.files.read_options import ReadOptions


class LimitsSection(Section, frozen=True, kw_only=True):
    """Limits on messages from the network. Larger messages are rejected and counted.

    Parameters
    ----------
    message_bytes : int
        Largest size of the samples in a message, in bytes.
    channels : int
        Largest number of channels.
    """

    message_bytes: Annotated[int, Meta(ge=1024, le=1 << 31)] = 1 << 26
    channels: Annotated[int, Meta(ge=1, le=65_536)] = 4096


class ZmqInput(Section, frozen=True, kw_only=True, tag_field="kind", tag="zmq"):
    """Messages in the format of docs/wire.md, from a ZeroMQ socket.

    Parameters
    ----------
    address : str
        Address to connect to, or to bind to. A port alone means this machine.
    socket : {"sub", "pull"}
        `sub` reads from PUB and XPUB sockets, `pull` from PUSH sockets.
    bind : bool
        Whether the daemon binds and senders connect to it, instead of the other way round.
    topic : str
        Name of the stream to receive, for `sub`. If left out, the first stream to arrive.
    queue : int
        Number of messages that ZeroMQ buffers while the daemon is busy. Beyond that, a publisher drops
        messages.
    reorder_window : float
        Seconds of later samples to receive before a missing message is given up as lost. 0 is right for one
        publisher over TCP, which keeps the order.
    silence : float
        Seconds without a sample before a warning.
    rate : float or None
        Expected sampling rate (Hz). A stream whose rate differs by more than a thousandth is refused.
    unit : str or None
        Expected unit, and the unit of a stream that states none. A stream that states another is refused.
    channels : tuple of str or None
        Names for the channels. A stream with another number of channels is refused. If left out, the names
        in the stream, or numbers if it has none.
    montage : Path or None
        Positions of the channels: a table with the columns name, x, y, z, another file that MNE reads, or
        the name of a montage of MNE. If left out, those that the stream states.
    events : tuple of str or None
        Trigger channels, whose onsets are events. They are not separated.
    omit : tuple of str or None
        Other channels that are not separated, such as counters of samples.
    limits : LimitsSection
        Limits on messages from the network.
    curve : CurveClientSection, CurveServerSection or None
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
    montage: Path | None = None
    events: Names | None = None
    omit: Names | None = None
    limits: LimitsSection = LimitsSection()
    curve: CurveClientSection | CurveServerSection | None = None

    def __post_init__(self) -> None:
        check_address(self.address, bind=self.bind)
        if self.topic and self.socket == "pull":
            raise ParameterError(
                "topic needs socket: sub; a pull socket receives every stream. Leave topic out.",
                parameter="topic",
            )


class OpenEphysInput(Section, frozen=True, kw_only=True, tag_field="kind", tag="openephys"):
    """Messages from the ZMQ Interface plugin of the Open Ephys GUI (0.6 and later).

    Parameters
    ----------
    address : str
        Address of the plugin.
    queue : int
        Number of messages that ZeroMQ buffers while the daemon is busy; the plugin sends one for each
        channel of a block.
    reorder_window : float
        Seconds of later samples to receive before a missing block is given up as lost.
    silence : float
        Seconds without a sample before a warning.
    rate : float or None
        Expected sampling rate (Hz). A stream whose rate differs by more than a thousandth is refused.
    unit : str
        Unit of the samples, which the plugin does not state: microvolts, but volts for ADC channels.
    channels : tuple of str or None
        Names for the channels. A stream with another number of channels is refused. If left out, numbers.
    montage : Path or None
        Positions of the channels: a table with the columns name, x, y, z, another file that MNE reads, or
        the name of a montage of MNE. If left out, there are none.
    events : tuple of str or None
        Trigger channels, whose onsets are events. They are not separated.
    omit : tuple of str or None
        Other channels that are not separated, such as counters of samples.
    limits : LimitsSection
        Limits on messages from the network.
    """

    address: Address = "tcp://127.0.0.1:5556"
    queue: Count = 10_000
    reorder_window: Seconds = 0.0
    silence: PositiveSeconds = 5.0
    rate: Rate | None = None
    unit: Text = "uV"
    channels: Channels | None = None
    montage: Path | None = None
    events: Names | None = None
    omit: Names | None = None
    limits: LimitsSection = LimitsSection()

    def __post_init__(self) -> None:
        check_address(self.address, bind=False)


class LslMarkersSection(Section, frozen=True, kw_only=True):
    """Streams of markers of the Lab Streaming Layer. Set at least one of name, type and source_id.

    Parameters
    ----------
    name : str or None
        Name of the streams.
    type : str or None
        Type of the streams, such as `Markers`. Streams of this package need a name or source_id.
    source_id : str or None
        Identifier of the sender. With one, no marker is lost while the sender restarts.
    """

    name: Text | None = None
    type: Annotated[Text | None, Meta(examples=["Markers"])] = None
    source_id: Text | None = None

    def __post_init__(self) -> None:
        _check_properties(self)

    def as_query(self) -> LslQuery:
        """Return the query by which the streams are found."""
        return LslQuery(self.name, self.type, self.source_id)


def _check_properties(section: "LslMarkersSection | LslInput") -> None:
    if not (section.name or section.type or section.source_id):
        raise ParameterError(
            "name must be set, or type, or source_id, to find the stream.", parameter="name"
        )


class LslInput(Section, frozen=True, kw_only=True, tag_field="kind", tag="lsl"):
    """A stream of the Lab Streaming Layer (needs pylsl). Set at least one of name, type and source_id.

    Parameters
    ----------
    name : str or None
        Name of the stream.
    type : str or None
        Type of the stream, such as `EEG`.
    source_id : str or None
        Identifier of the device. With it, the stream is found again after the device restarts.
    wait : float or None
        Seconds to wait for the stream to appear at the start; `null` waits without a limit.
    buffer : float
        Seconds of samples that are buffered while the daemon is busy.
    silence : float
        Seconds without a sample before a warning.
    rate : float or None
        Sampling rate (Hz), if the stream states none or a wrong one.
    unit : str or None
        Expected unit, and the unit of a stream that states none. A stream that states another is refused.
    channels : tuple of str or None
        Names for the channels. A stream with another number of channels is refused. If left out, the names
        in the stream, or numbers if it has none.
    montage : Path or None
        Positions of the channels: a table with the columns name, x, y, z, another file that MNE reads, or
        the name of a montage of MNE. If left out, those that the stream states.
    events : tuple of str or None
        Trigger channels, whose onsets are events. They are not separated.
    omit : tuple of str or None
        Other channels that are not separated, such as counters of samples.
    markers : tuple of LslMarkersSection
        Streams of markers, text or numbers, whose markers become events of this stream.
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
    montage: Path | None = None
    events: Names | None = None
    omit: Names | None = None
    markers: tuple[LslMarkersSection, ...] = ()

    def __post_init__(self) -> None:
        _check_properties(self)


def get_montage_name(montage: Path | None) -> str | None:
    """Return a montage of a configuration as the readers take it: a file, or else a name of MNE."""
    if montage is None:
        return None
    return str(montage) if montage.suffix or montage.is_file() else montage.name


class FileInput(Section, frozen=True, kw_only=True, tag_field="kind", tag="file"):
    """A recording in a file, played back as if it were measured now.

    The file may have any format listed in docs/reading.md. The format is recognised by the content.

    Parameters
    ----------
    path : Path
        The file.
    dataset : str or None
        Dataset with the samples; `igbss-stream inspect` lists the datasets of a file. If left out, it is
        found from the layout of the file.
    axis : {0, 1} or None
        Axis of the dataset that runs over samples; in MATLAB files, 0 if rows are samples. If left out,
        it follows from the layout, or is 0.
    rate : float or None
        Sampling rate (Hz), if it is missing or wrong in the file.
    channels : tuple of str or int, or None
        Channels to read, in this order: names, positions from 0, or ranges such as `0-7`. If left out, all
        measured channels.
    factor : float or None
        Factor that multiplies the stored numbers, in place of the scale in the file.
    unit : str or None
        Unit of the samples, if it is missing or wrong in the file.
    events : tuple of str or None
        Columns of text, trigger channels or marker streams whose events are read. If left out, the
        annotations, trigger channels and marker streams that the file states.
    montage : Path or None
        Positions of the channels: a table with the columns name, x, y, z, another file that MNE reads, or
        the name of a montage of MNE. If left out, those of electrodes.tsv of BIDS beside the file, or of
        the file.
    missing : float or None
        Stored number that means that a sample is missing, such as -200; it becomes NaN.
    speed : float
        Playback speed; 1 is real time, 0 plays as fast as samples can be separated. Samples have the time
        of now at 1, that of their measurement at 0, and none at other speeds.
    block : float
        Seconds of the recording that are read at a time.
    loop : bool
        Whether to start again at the end. The stream restarts there.
    """

    path: Annotated[Path, Meta(examples=["recording.h5"])]
    dataset: Text | None = None
    axis: Literal[0, 1] | None = None
    rate: Rate | None = None
    channels: Picks | None = None
    factor: Annotated[float, Meta(ge=-1e300, le=1e300)] | None = None
    unit: Text | None = None
    events: Names | None = None
    montage: Path | None = None
    missing: Annotated[float, Meta(ge=-1e300, le=1e300)] | None = None
    speed: Annotated[float, Meta(ge=0, le=1e6)] = 1.0
    block: PositiveSeconds = 0.1
    loop: bool = False

    def __post_init__(self) -> None:
        self.as_read_options()

    def as_read_options(self) -> ReadOptions:
        """Return the options of the reader."""
        channels = None if self.channels is None else tuple(map(str, self.channels))
        return ReadOptions(
            self.dataset,
            self.axis,
            self.rate,
            channels,
            self.factor,
            self.unit,
            self.events,
            get_montage_name(self.montage),
            self.missing,
        )


Input = ZmqInput | OpenEphysInput | LslInput | FileInput
