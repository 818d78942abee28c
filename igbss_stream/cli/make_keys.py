"""The command `make-keys`: a pair of keys for CURVE, the encryption of ZeroMQ."""

import os
from pathlib import Path

import click

from igbss_stream.cli.console import reports_mistakes
from igbss_stream.errors import ParameterError, RecordingError

_EXAMPLES = """\b
Examples:
  igbss-stream make-keys server.env
  igbss-stream make-keys client.env --variable CLIENT_KEY"""


@click.command(epilog=_EXAMPLES)
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--variable", default="IGBSS_KEY", show_default=True, help="Name of the variable.")
@reports_mistakes
def make_keys(path: Path, variable: str) -> None:
    """Write a new secret key for encrypted streams, and print its public key.

    FILE gets the secret key as VARIABLE=KEY, readable by its owner alone: an environment for the daemon,
    or what --key-file of `listen` and `view` takes. Clients need the public key of the server, and the
    server those of the clients that it lets in.
    """
    from igbss_stream.feeds.keys import derive_public_key, generate_secret_key

    if not (variable.isidentifier() and variable.isascii()):
        raise ParameterError(f"--variable must be a name such as IGBSS_KEY. Got {variable!r} instead.")
    secret_key = generate_secret_key()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise RecordingError(f"'{path}' exists; keys are never overwritten: choose another name") from None
    except OSError as error:
        raise RecordingError(f"'{path}' cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "w") as file:
        file.write(f"{variable}={secret_key}\n")
    click.echo(f"secret key  {path} (as {variable}, for its owner alone)")
    click.echo(f"public key  {derive_public_key(secret_key)}")
