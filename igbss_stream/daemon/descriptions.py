"""Descriptions of streams: what a sender states, which samples fit it, and what is expected."""

from dataclasses import replace

from igbss_stream.chunk import Stream
from igbss_stream.daemon.config.sources import LslInput, OpenEphysInput, ZmqInput, get_montage_name
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.wire import DataMessage, MetaMessage
from igbss_stream.files.montage import load_montage_of

_RATE_TOLERANCE = 1e-3  # largest relative difference of device clocks: 1000.012 Hz is 1 kHz


def describe(message: DataMessage, meta: MetaMessage | None) -> Stream:
    """Return the description of samples, with the names of channels of a description that fits them.

    Channels without names are numbered.

    Parameters
    ----------
    message : DataMessage
    meta : MetaMessage, optional
        The last description that arrived.
    """
    header = message.header
    if meta is not None and meta.stream == header.stream and is_described(message, meta.description):
        return replace(meta.description, t0=header.t0 if meta.t0 is None else meta.t0)
    names = tuple(f"channel {i}" for i in range(message.data.shape[1]))
    return Stream(header.stream, header.rate, names, header.unit, message.data.dtype, header.t0)


def is_described(message: DataMessage, stream: Stream) -> bool:
    """Return whether samples have the channels, dtype, rate and unit of a description."""
    header, data = message.header, message.data
    return (
        data.shape[1] == stream.n_channels
        and data.dtype == stream.dtype
        and (header.rate == stream.rate or abs(header.rate - stream.rate) <= _RATE_TOLERANCE * stream.rate)
        and (header.unit == stream.unit or header.unit is None or stream.unit is None)
    )


def is_alike(one: DataMessage, other: DataMessage) -> bool:
    """Return whether two messages of samples have the same description."""
    return one.header.stream == other.header.stream and is_described(other, describe(one, None))


def apply_expectations(name: str, config: ZmqInput | OpenEphysInput | LslInput, sent: Stream) -> Stream:
    """Return the description of a stream with the name, channels and unit of the configuration.

    Parameters
    ----------
    name : str
        Name of the stream in the daemon.
    config : section
    sent : Stream
        Description by the sender.

    Raises
    ------
    ParameterError
        If the stream is not as the configuration expects.
    """
    names, positions = sent.channels, sent.positions
    if config.rate is not None and abs(config.rate - sent.rate) > _RATE_TOLERANCE * config.rate:
        raise ParameterError(
            f"source.rate is {config.rate:g} Hz, but the stream has {sent.rate:g} Hz; correct source.rate "
            "or the sender."
        )
    if config.unit is not None and sent.unit is not None and sent.unit != config.unit:
        raise ParameterError(
            f"source.unit is {config.unit!r}, but the stream has {sent.unit!r}; correct source.unit or the "
            "sender."
        )
    if config.channels is not None:
        if len(config.channels) != len(names):
            raise ParameterError(
                f"source.channels names {len(config.channels)} channels, but the stream has {len(names)}; "
                "correct source.channels or the sender."
            )
        if positions is not None:
            positions = replace(positions.select(names), names=config.channels)
        names = config.channels
    montage = get_montage_name(config.montage)
    if montage is not None:
        positions = load_montage_of(montage, names, f"stream {name!r}")
    unit = sent.unit or config.unit
    return replace(sent, name=name, channels=names, unit=unit, delay=0, positions=positions)
