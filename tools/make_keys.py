#!/usr/bin/env python
"""Make a pair of keys for CURVE, the encryption of ZeroMQ.

    .venv/bin/python tools/make_keys.py server.env        for the daemon
    .venv/bin/python tools/make_keys.py client.env        for each client

The file gets the secret key as ``IGBSS_KEY=...``, readable by its owner alone; give it to the daemon as its
environment, and say ``secret_key: ${IGBSS_KEY}`` in the configuration. The public key is printed: clients
need that of the server, and the server's list of those allowed needs that of each client.
"""

import os
from pathlib import Path

import click
import zmq


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--variable", default="IGBSS_KEY", show_default=True, help="Name of the variable.")
def main(path: Path, variable: str) -> None:
    """Write a new secret key to PATH, and print the public key."""
    public, secret = (key.decode() for key in zmq.curve_keypair())
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise click.UsageError(f"{path} exists; keys are never overwritten. Choose another name.") from None
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}.") from None
    with os.fdopen(handle, "w") as file:
        file.write(f"{variable}={secret}\n")
    click.echo(f"secret key  {path} (as {variable}, for its owner alone)")
    click.echo(f"public key  {public}")


if __name__ == "__main__":
    main()
