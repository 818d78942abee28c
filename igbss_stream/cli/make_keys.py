"""The command `make-keys`: generate a key pair for CURVE, the encryption of ZeroMQ."""

import os
from pathlib import Path

import click

from igbss_stream.cli.console import report_errors, say
from igbss_stream.errors import ParameterError, RecordingError

_EXAMPLES = """\b
Examples:
  igbss-stream make-keys server.env
  igbss-stream make-keys client.env --variable CLIENT_KEY"""


@click.command(epilog=_EXAMPLES)
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--variable", default="IGBSS_KEY", show_default=True, help="Name of the variable.")
@report_errors
def make_keys(path: Path, variable: str) -> None:
    """Write a new secret key for encrypted streams, and print its public key.

    The secret key is written to FILE as VARIABLE=KEY, readable only by its owner. The daemon reads FILE as
    an environment file; `listen` and `view` take it as --key-file. Clients need the public key of the
    server, and the server needs the public keys of the clients that it accepts.
    """
    from igbss_stream.feeds.keys import derive_public_key, generate_secret_key

    if not (variable.isidentifier() and variable.isascii()):
        raise ParameterError(f"--variable must be a name such as IGBSS_KEY. Got {variable!r} instead.")
    secret_key = generate_secret_key()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise RecordingError(
            f"'{path}' exists, and keys are never overwritten; choose another name"
        ) from None
    except OSError as error:
        raise RecordingError(f"'{path}' cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "w") as file:
        file.write(f"{variable}={secret_key}\n")
    say(f"secret key  {path} (as {variable}, readable only by its owner)")
    say(f"public key  {derive_public_key(secret_key)}")
