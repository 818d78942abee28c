"""The commands around the daemon: `replay` and `simulate` feed it, `listen` watches what it publishes."""

import math
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from igbss_stream.cli.console import (
    key_options,
    progress_bar,
    reading_options,
    reports_mistakes,
    with_options,
)
from igbss_stream.errors import ParameterError

if TYPE_CHECKING:
    from igbss_stream.files.writers.stream_recording import Existing, RecordingSink
    from igbss_stream.playback.pacing import PacedStream


_feed_options = with_options(
    click.option(
        "--to",
        "address",
        required=True,
        help="Address to publish at: tcp://HOST:PORT, ipc://PATH or a port of this machine; * as the "
        "port takes a free one.",
    ),
    click.option(
        "--block",
        default="0.1s",
        show_default=True,
        help="Length of a message: samples (25) or time (0.1s, 100ms).",
    ),
    click.option(
        "--speed",
        default=1.0,
        show_default=True,
        help="2 is twice as fast as real time; 0 is as fast as subscribers can read, and they miss "
        "nothing.",
    ),
    click.option("--wait", is_flag=True, help="Begin when a first subscriber is there."),
    click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object at the end, on what was published."
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors and warnings."),
)


_REPLAY_EXAMPLES = """\b
Examples:
  igbss-stream replay eeg.h5 --to 5555
  igbss-stream replay eeg.h5 --to tcp://127.0.0.1:5555 --block 20ms --loop
  igbss-stream replay probe.h5 --dataset /raw/adc --axis 1 --rate 1000 --to 5555 --speed 0 --wait
  igbss-stream replay eeg.h5 --to 5555 --json | jq .rate"""


@click.command(epilog=_REPLAY_EXAMPLES)
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@reading_options
@click.option("--name", help="Name of the stream.  [default: that of the file]")
@click.option("--loop", is_flag=True, help="Begin again at the end, until interrupted; indices go on.")
@_feed_options
@reports_mistakes
def replay(
    path: Path,
    dataset: str | None,
    axis: int | None,
    rate: float | None,
    channels: str | None,
    factor: float | None,
    unit: str | None,
    name: str | None,
    loop: bool,
    address: str,
    block: str,
    speed: float,
    wait: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Publish a recording as if it came live."""
    from igbss_stream.files.open import open_recording
    from igbss_stream.playback import replay as replaying

    with open_recording(
        path, dataset, axis, rate, channels=channels, factor=factor, unit=unit
    ) as recording:
        feed = replaying.replay(recording, name or path.stem, block, speed=speed, loop=loop)
        _publish(feed, address, wait=wait, as_json=as_json, quiet=quiet)


_SIMULATE_EXAMPLES = """\b
Examples:
  igbss-stream simulate --to 5555
  igbss-stream simulate --to 5555 --channels 64 --rate 1000 --drift 0.05
  igbss-stream simulate --to 5555 --duration 60 --truth truth.h5 --speed 0 --wait"""


@click.command(epilog=_SIMULATE_EXAMPLES)
@click.option("--channels", "n_channels", default=32, show_default=True, help="Number of electrodes.")
@click.option("--rate", default=250.0, show_default=True, help="Samples a second, above 100.")
@click.option("--seed", default=0, show_default=True, help="Another one is another head.")
@click.option(
    "--drift",
    default=0.0,
    show_default=True,
    help="How far sources wander on the head, in radians; 0.05 is much.",
)
@click.option(
    "--montage",
    type=click.Choice(["even", "10-20"]),
    default="even",
    show_default=True,
    help="Where the electrodes lie: evenly, called E1, E2 ..., or as the 10-20 system names them.",
)
@click.option("--duration", type=float, help="Seconds until it ends.  [default: never]")
@click.option(
    "--truth",
    type=click.Path(path_type=Path),
    help="HDF5 file to write the true sources and mixing to; needs --duration.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file of --truth if it exists.")
@click.option("--name", default="simulation", show_default=True, help="Name of the stream.")
@_feed_options
@reports_mistakes
def simulate(
    n_channels: int,
    rate: float,
    seed: int,
    drift: float,
    montage: str,
    duration: float | None,
    truth: Path | None,
    overwrite: bool,
    name: str,
    address: str,
    block: str,
    speed: float,
    wait: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Publish a made-up EEG whose sources are known.

    Blinks, alpha, mains of 50 Hz, muscle and heart, with a background behind them; the same seed gives
    the same samples.
    """
    from igbss_stream.playback.simulate import Simulation, simulate_stream, write_truth

    simulation = Simulation(n_channels, rate, seed, drift, montage)
    n_samples = None if duration is None else _n_samples(duration, rate)
    feed = simulate_stream(simulation, name, block, speed=speed, n_samples=n_samples)
    if truth is not None:
        if n_samples is None:
            raise ParameterError("--truth needs --duration, to know where the file ends.")
        with progress_bar(quiet) as progress:
            write_truth(simulation, truth, n_samples, overwrite=overwrite, progress=progress)
    _publish(feed, address, wait=wait, as_json=as_json, quiet=quiet)


_LISTEN_EXAMPLES = """\b
Examples:
  igbss-stream listen 5556
  igbss-stream listen tcp://192.168.0.7:5556 --topic sources --seconds 60 --record sources.h5
  igbss-stream listen 5556 --json | jq .delay
  igbss-stream listen 5560 --server-key "$SERVER_KEY" --key-file client.env"""


def _refuse_old_name(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Refuse an option that was renamed."""
    if value is not None:
        raise click.UsageError("--existing was renamed; pass --if-exists instead.", context)


@click.command(epilog=_LISTEN_EXAMPLES)
@click.argument("address")
@click.option("--topic", default="", help="Name of the stream.  [default: the first one that comes]")
@key_options
@click.option("--record", type=click.Path(path_type=Path), help="HDF5 file to write what comes to.")
@click.option(
    "--if-exists",
    default="refuse",
    show_default=True,
    type=click.Choice(["refuse", "overwrite", "append", "number"]),
    help="What to do if the file of --record exists; number records beside it.",
)
@click.option("--existing", hidden=True, expose_value=False, callback=_refuse_old_name)
@click.option("--seconds", type=float, help="Stop after this time.  [default: when the stream ends]")
@click.option("--json", is_flag=True, help="Print one JSON object a second.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors and warnings.")
@reports_mistakes
def listen(
    address: str,
    topic: str,
    server_key: str | None,
    key_file: Path | None,
    record: Path | None,
    if_exists: "Existing",
    seconds: float | None,
    json: bool,
    quiet: bool,
) -> None:
    """Watch a published stream: its rate, gaps, delay, and the size of its sources.

    A table on a terminal, elsewhere a line a second. Ends with the stream, or after Ctrl-C.
    """
    from igbss_stream._util.signals import StopSignal
    from igbss_stream.cli.key_file import client_keys
    from igbss_stream.playback import listen as listening
    from igbss_stream.playback.render import open_display
    from igbss_stream.subscriber import Subscriber

    if seconds is not None and not 0 < seconds < math.inf:
        raise ParameterError(f"--seconds must be a time above 0. Got {seconds:g} instead.")
    (keys,) = client_keys(key_file, {"--server-key": server_key})
    with (
        StopSignal() as stop,
        Subscriber(address, topic, keys=keys) as subscriber,
        _recorder(record, if_exists) as recorder,
        open_display(quiet=quiet, json=json) as show,
    ):
        listening.listen(
            subscriber, stop, show, seconds=math.inf if seconds is None else seconds, recorder=recorder
        )
    sys.exit(stop.exit_code)


def _recorder(path: Path | None, if_exists: "Existing") -> "AbstractContextManager[RecordingSink | None]":
    """Return the sink of a recording, if one is wanted."""
    if path is None:
        return nullcontext()
    from igbss_stream.files.writers.stream_recording import RecordingSink

    return RecordingSink(path, existing=if_exists)


def _publish(paced: "PacedStream", address: str, *, wait: bool, as_json: bool, quiet: bool) -> None:
    """Publish a stream, print the address and the outcome, and exit."""
    from igbss_stream._util.signals import StopSignal
    from igbss_stream.feeds.zmq_publisher import ZmqPublisher
    from igbss_stream.playback.publishing import publish

    stream = paced.stream
    with StopSignal() as stop, ZmqPublisher(address) as sink:
        place = sink.address
        if not quiet:
            where = f"'{stream.name}' at {place}: {stream.n_channels} channels, {stream.rate:g} Hz"
            click.echo(where, err=as_json)
        with progress_bar(quiet) as progress:
            done = publish(paced, sink, stop, wait=wait, progress=progress)
    if done.overflows:
        click.echo(
            f"Warning: subscribers fell behind and missed messages ({done.overflows} x); lower --speed, or "
            "use longer blocks.",
            err=True,
        )
    if as_json:
        click.echo(done.as_json(stream, place, interrupted=stop.requested))
    elif not quiet:
        how = "interrupted" if stop.requested else "done"
        click.echo(f"{how}: {done.n_samples} samples in {done.seconds:.2f} s")
    sys.exit(stop.exit_code)


def _n_samples(seconds: float, rate: float) -> int:
    """Return a duration in samples."""
    if not (math.isfinite(seconds) and seconds * rate >= 1):
        raise ParameterError(f"--duration must be a time of at least one sample. Got {seconds:g} instead.")
    return round(seconds * rate)
