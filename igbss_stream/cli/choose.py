"""The command `choose`: take sources out of the channels of a running daemon."""

import json
import os
from pathlib import Path
from typing import Any

import click

from igbss_stream.cli.batch_options import parse_numbers
from igbss_stream.cli.console import report_errors, say
from igbss_stream.errors import ParameterError

TOKEN_VARIABLE = "IGBSS_STREAM_TOKEN"
_EXAMPLES = """\b
Examples:
  igbss-stream choose --token-file control.token
  igbss-stream choose --token-file control.token --exclude 0,3 --name 0=blink
  igbss-stream choose --token-file control.token --add 7
  igbss-stream choose --token-file control.token --undo"""


def load_control_token(path: Path | None) -> str | None:
    """Return the token in a file, or else in the environment; None if there is neither."""
    from igbss_stream.daemon.control_token import load_token

    return os.environ.get(TOKEN_VARIABLE) if path is None else load_token(path)


@click.command(epilog=_EXAMPLES)
@click.argument("url", default="http://127.0.0.1:9465")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help=f"File with the token of the daemon.  [default: the environment variable {TOKEN_VARIABLE}]",
)
@click.option("--stream", help="Name of the stream; may be left out if there is only one.")
@click.option(
    "--exclude",
    help="Numbers of the sources to take out, from 0, separated by commas; `none`; or `configured` for "
    "those that the configuration determines.",
)
@click.option("--add", help="Numbers of sources to take out besides those of now.")
@click.option("--remove", help="Numbers of sources to put back.")
@click.option("--undo", is_flag=True, help="Return to the choice before the last one.")
@click.option(
    "--name",
    "names",
    metavar="N=NAME",
    multiple=True,
    help="Name source N; an empty name removes it; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@report_errors
def choose(
    url: str,
    token_file: Path | None,
    stream: str | None,
    exclude: str | None,
    add: str | None,
    remove: str | None,
    undo: bool,
    names: tuple[str, ...],
    as_json: bool,
) -> None:
    """Take sources out of the channels that a running daemon publishes, and name sources.

    URL is the address of the section `control` of the daemon. Without an option, show what is taken out.
    """
    from igbss_stream.feeds.control_client import ControlClient

    client, token = ControlClient(url), load_control_token(token_file)
    if token is None:
        raise ParameterError(f"pass --token-file, or set {TOKEN_VARIABLE} to the token of the daemon")
    request: dict[str, Any] = {} if stream is None else {"stream": stream}
    if exclude is not None:
        request["exclude"] = _parse_excluded(exclude)
    for key, text in (("add", add), ("remove", remove)):
        if text is not None:
            request[key] = parse_numbers(text, f"--{key}")
    request |= {"undo": True} if undo else {}
    request |= {"names": list(map(_parse_name, names))} if names else {}
    found = client.send(request, token)
    say(json.dumps(found) if as_json else _describe(found))


def _parse_excluded(text: str) -> tuple[int, ...] | None:
    if text in ("none", "configured"):
        return () if text == "none" else None
    return parse_numbers(text, "--exclude")


def _parse_name(text: str) -> tuple[int, str]:
    number, equals, name = text.partition("=")
    if not (equals and number.isascii() and number.isdigit()):
        raise ParameterError(f"--name must be a number and a name, such as 3=blink. Got {text!r} instead.")
    return int(number), name


def _describe(found: dict[str, Any]) -> str:
    """Return the answer of the daemon in a sentence."""
    names = dict(found["names"])

    def describe(source: int) -> str:
        return f"source-{source}" + (f" ({names[source]})" if source in names else "")

    if found["excluded"] is None:
        listed = "; ".join(map(describe, names)) or "no names"
        return f"stream {found['stream']} has no cleaned channels; named: {listed}"
    listed = ", ".join(map(describe, found["excluded"])) or "no source"
    how = "chosen" if found["chosen"] else "as configured"
    rest = ", ".join(describe(source) for source in names if source not in found["excluded"])
    return (
        f"stream {found['stream']}: without {listed} from sample {found['start']}, {how}; "
        f"{found['undo']} to undo" + (f"; also named: {rest}" if rest else "")
    )
