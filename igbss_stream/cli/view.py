"""The command `view`: serve a live page that shows a published stream."""

import os
import sys
from pathlib import Path

import click

from igbss_stream._util.web_hosts import is_host_name
from igbss_stream.cli.console import key_options, report_errors, say
from igbss_stream.errors import ParameterError

_NICENESS = 5  # lower priority than the daemon that started the page
_EXAMPLES = """\b
Examples:
  igbss-stream view 5560
  igbss-stream view tcp://127.0.0.1:5560 --metrics http://127.0.0.1:9464/metrics
  igbss-stream view 5560 --channels 5555 --port 8000 --open
  igbss-stream view 5560 --montage biosemi64
  igbss-stream view 5560 --server-key "$SERVER_KEY" --key-file client.env"""


@click.command(epilog=_EXAMPLES)
@click.argument("address")
@click.option("--topic", default="", help="Name of the stream.  [default: the first stream that arrives]")
@key_options
@click.option(
    "--channels",
    help="Address where the raw channels are published.  [default: compute them from the sources]",
)
@click.option(
    "--channels-server-key",
    metavar="KEY",
    help="Public key of the publisher of --channels, if it encrypts; --key-file applies to both.",
)
@click.option(
    "--metrics", help="Address of the metrics of the daemon, such as http://127.0.0.1:9464/metrics."
)
@click.option(
    "--montage",
    metavar="NAME|FILE",
    help="Positions of the channels on the map, as for `batch`.  [default: of the stream, or by name]",
)
@click.option(
    "--control",
    metavar="URL",
    help="Address of the section control of the daemon, such as http://127.0.0.1:9465, to choose sources.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with the token of --control; everybody who can open the page can choose then.  "
    "[default: the page asks for the token]",
)
@click.option(
    "--port",
    default=5006,
    show_default=True,
    help="Port of the page on this machine; 0 selects a free port.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    metavar="NAME",
    multiple=True,
    help="Host name at which browsers may open the page, such as that of a reverse proxy; may be repeated.",
)
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@click.option("--parent", type=int, hidden=True, help="Exit when the process with this ID has ended.")
@report_errors
def view(
    address: str,
    topic: str,
    server_key: str | None,
    key_file: Path | None,
    channels: str | None,
    channels_server_key: str | None,
    metrics: str | None,
    montage: str | None,
    control: str | None,
    token_file: Path | None,
    port: int,
    allowed_hosts: tuple[str, ...],
    opened: bool,
    parent: int | None,
) -> None:
    """Show a published stream on a live page: sources, channels, spectrum, weights and scalp map.

    The page can be opened on this machine only. Press Ctrl-C to end it.
    """
    if not 0 <= port <= 65535:
        raise ParameterError(f"--port must be 0 to 65535. Got {port} instead.")
    if metrics is not None and not metrics.startswith(("http://", "https://")):
        raise ParameterError(
            f"--metrics must be an address such as http://127.0.0.1:9464/metrics. Got {metrics!r} instead."
        )
    if token_file is not None and control is None:
        raise ParameterError("--token-file requires --control; pass the address of the control server.")
    for name in allowed_hosts:
        if not is_host_name(name):
            raise ParameterError(
                f"--allowed-host must be a host name without a port, such as eeg.example.org. Got {name!r} "
                "instead."
            )
    if channels_server_key is not None and channels is None:
        raise ParameterError(
            "--channels-server-key requires --channels; pass the address of that publisher."
        )
    try:
        from igbss_stream.pages.view.serve import serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("bokeh", "tornado"):
            raise
        raise ParameterError(
            "the page needs Bokeh, which is not installed; pip install 'igbss-stream[view]'"
        ) from None
    from igbss_stream._util.scheduling import use_normal_priority
    from igbss_stream._util.signals import StopSignal
    from igbss_stream.cli.key_file import load_client_keys
    from igbss_stream.daemon.control_token import load_token
    from igbss_stream.feeds.control_client import ControlClient
    from igbss_stream.files.montage import load_montage
    from igbss_stream.pages.view.control_access import ControlAccess
    from igbss_stream.pages.view.feed import Feed

    if parent is not None:
        use_normal_priority()
        os.nice(_NICENESS)

    def show_url(url: str) -> None:
        say(f"The page is at {url}; Ctrl-C ends it.")
        if opened:
            click.launch(url)

    keys, channels_keys = load_client_keys(
        key_file, {"--server-key": server_key, "--channels-server-key": channels_server_key}
    )
    access = None
    if control is not None:
        access = ControlAccess(
            ControlClient(control), None if token_file is None else load_token(token_file)
        )
    feed = Feed(
        address,
        topic,
        keys=keys,
        channels=channels,
        channels_keys=channels_keys,
        metrics=metrics,
        montage=None if montage is None else load_montage(montage),
        control=access,
    )
    with StopSignal() as stop, feed:
        serve(
            feed,
            port,
            show_url,
            lambda: stop.requested or (parent is not None and os.getppid() != parent),
            allowed_hosts,
        )
    sys.exit(0 if parent is not None else stop.exit_code)
