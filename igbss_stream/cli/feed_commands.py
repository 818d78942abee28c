"""The commands `replay`, `simulate` and `listen`."""

import math
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from igbss_stream.cli.console import (
    add_options,
    key_options,
    progress_bar,
    reading_options,
    report_errors,
    say,
)
from igbss_stream.errors import ParameterError

if TYPE_CHECKING:
    from igbss_stream.files.writers.recording_layout import IfExists
    from igbss_stream.files.writers.stream_recording import RecordingSink
    from igbss_stream.playback.pacing import PacedStream


_feed_options = add_options(
    click.option(
        "--to",
        "address",
        required=True,
        help="Address to publish at: tcp://HOST:PORT, ipc://PATH or a local port; the port * picks a free "
        "one.",
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
        help="2 is twice as fast as real time; 0 is as fast as subscribers can read, without losses.",
    ),
    click.option("--wait", is_flag=True, help="Wait for the first subscriber."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object with counts at the end."),
    click.option("-q", "--quiet", is_flag=True, help="Print only errors and warnings."),
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
@click.option("--name", help="Name of the stream.  [default: the name of the file]")
@click.option("--loop", is_flag=True, help="Start again at the end, until interrupted; indices continue.")
@_feed_options
@report_errors
def replay(
    path: Path,
    dataset: str | None,
    axis: int | None,
    rate: float | None,
    channels: str | None,
    factor: float | None,
    unit: str | None,
    events: str | None,
    montage: str | None,
    missing: float | None,
    name: str | None,
    loop: bool,
    address: str,
    block: str,
    speed: float,
    wait: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Publish a recording as a live stream."""
    from igbss_stream.files.open import open_with_options
    from igbss_stream.files.read_options import ReadOptions
    from igbss_stream.playback import replay as replaying

    wanted = ReadOptions(dataset, axis, rate, channels, factor, unit, events, montage, missing)
    with open_with_options(path, wanted) as recording:
        feed = replaying.replay(recording, name or path.stem, block, speed=speed, loop=loop)
        _publish(feed, address, wait=wait, as_json=as_json, quiet=quiet)


_SIMULATE_EXAMPLES = """\b
Examples:
  igbss-stream simulate --to 5555
  igbss-stream simulate --to 5555 --channels 64 --rate 1000 --drift 0.05
  igbss-stream simulate --to 5555 --duration 60 --truth truth.h5 --speed 0 --wait"""


@click.command(epilog=_SIMULATE_EXAMPLES)
@click.option("--channels", "n_channels", default=32, show_default=True, help="Number of electrodes.")
@click.option("--rate", default=250.0, show_default=True, help="Sampling rate in Hz, above 100.")
@click.option("--seed", default=0, show_default=True, help="Random seed; each seed is another head.")
@click.option(
    "--drift",
    default=0.0,
    show_default=True,
    help="Drift of the sources on the head, in radians; 0.05 is large.",
)
@click.option(
    "--montage",
    type=click.Choice(["even", "10-20"]),
    default="even",
    show_default=True,
    help="Electrodes: evenly distributed and named E1, E2, ..., or those of the 10-20 system.",
)
@click.option("--duration", type=float, help="Length in seconds.  [default: endless]")
@click.option(
    "--truth",
    type=click.Path(path_type=Path),
    help="Write the true sources and mixing to this HDF5 file; needs --duration.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file of --truth if it exists.")
@click.option("--name", default="simulation", show_default=True, help="Name of the stream.")
@_feed_options
@report_errors
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
    """Publish a simulated EEG with known sources.

    The sources are blinks, alpha, mains of 50 Hz, muscle, heart and background. The same seed gives the
    same samples.
    """
    from igbss_stream.playback.simulate import Simulation, simulate_stream, write_truth

    simulation = Simulation(n_channels, rate, seed, drift, montage)
    n_samples = None if duration is None else _count_samples(duration, rate)
    feed = simulate_stream(simulation, name, block, speed=speed, n_samples=n_samples)
    if truth is not None:
        if n_samples is None:
            raise ParameterError("--truth needs --duration, which sets the length of the file.")
        with progress_bar(quiet) as progress:
            write_truth(simulation, truth, n_samples, overwrite=overwrite, progress=progress)
    _publish(feed, address, wait=wait, as_json=as_json, quiet=quiet)


_LISTEN_EXAMPLES = """\b
Examples:
  igbss-stream listen 5556
  igbss-stream listen tcp://192.168.0.7:5556 --topic sources --seconds 60 --record sources.h5
  igbss-stream listen 5556 --record eeg.h5 --rotate 1h
  igbss-stream listen 5556 --json | jq .delay
  igbss-stream listen 5560 --server-key "$SERVER_KEY" --key-file client.env"""


def _refuse_old_name(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Refuse an option that was renamed."""
    if value is not None:
        raise click.UsageError("--existing was renamed; pass --if-exists instead.", context)


@click.command(epilog=_LISTEN_EXAMPLES)
@click.argument("address")
@click.option("--topic", default="", help="Name of the stream.  [default: the first to arrive]")
@key_options
@click.option("--record", type=click.Path(path_type=Path), help="Record the stream to this HDF5 file.")
@click.option(
    "--if-exists",
    default="refuse",
    show_default=True,
    type=click.Choice(["refuse", "overwrite", "append", "number"]),
    help="What to do if the file of --record exists; number writes a numbered file beside it.",
)
@click.option(
    "--rotate",
    metavar="LIMIT",
    help="Begin a new file, named by time, after a time (1h, 1d), a size (500MB) or both (1d,2GB).",
)
@click.option("--existing", hidden=True, expose_value=False, callback=_refuse_old_name)
@click.option("--seconds", type=float, help="Stop after this time.  [default: when the stream ends]")
@click.option("--json", is_flag=True, help="Print one JSON object per second.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and warnings.")
@report_errors
def listen(
    address: str,
    topic: str,
    server_key: str | None,
    key_file: Path | None,
    record: Path | None,
    if_exists: "IfExists",
    rotate: str | None,
    seconds: float | None,
    json: bool,
    quiet: bool,
) -> None:
    """Monitor a published stream: rate, gaps, latency and amplitudes of its sources.

    Shows a table on a terminal and prints a line per second elsewhere. Ends with the stream, or on Ctrl-C.
    """
    from igbss_stream._util.signals import StopSignal
    from igbss_stream.cli.key_file import load_client_keys
    from igbss_stream.playback import listen as listening
    from igbss_stream.playback.render import open_display
    from igbss_stream.subscriber import Subscriber

    if seconds is not None and not 0 < seconds < math.inf:
        raise ParameterError(f"--seconds must be a time above 0. Got {seconds:g} instead.")
    if rotate is not None and record is None:
        raise ParameterError("--rotate needs --record, which names the files.")
    (keys,) = load_client_keys(key_file, {"--server-key": server_key})
    with (
        StopSignal() as stop,
        Subscriber(address, topic, keys=keys) as subscriber,
        _open_recorder(record, if_exists, rotate) as recorder,
        open_display(quiet=quiet, as_json=json) as show,
    ):
        listening.listen(
            subscriber, stop, show, seconds=math.inf if seconds is None else seconds, recorder=recorder
        )
    sys.exit(stop.exit_code)


def _open_recorder(
    path: Path | None, if_exists: "IfExists", rotate: str | None
) -> "AbstractContextManager[RecordingSink | None]":
    """Return the sink of a recording, if one was requested."""
    if path is None:
        return nullcontext()
    from igbss_stream.files.writers.rotation import parse_rotation
    from igbss_stream.files.writers.stream_recording import RecordingSink

    rotation = None if rotate is None else parse_rotation(rotate)
    return RecordingSink(path, if_exists=if_exists, rotate=rotation)


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
            say(where, err=as_json)
        with progress_bar(quiet) as progress:
            done = publish(paced, sink, stop, wait=wait, progress=progress)
    if done.overflows:
        say(
            f"Warning: subscribers fell behind and missed messages ({done.overflows} x); lower --speed, or "
            "use longer blocks.",
            err=True,
        )
    if as_json:
        say(done.as_json(stream, place, interrupted=stop.requested))
    elif not quiet:
        how = "interrupted" if stop.requested else "done"
        say(f"{how}: {done.n_samples} samples in {done.seconds:.2f} s")
    sys.exit(stop.exit_code)


def _count_samples(seconds: float, rate: float) -> int:
    """Convert a duration to samples."""
    if not (math.isfinite(seconds) and seconds * rate >= 1):
        raise ParameterError(f"--duration must be at least one sample. Got {seconds:g} instead.")
    return round(seconds * rate)
