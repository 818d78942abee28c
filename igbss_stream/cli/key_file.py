"""Keys for a command that reads an encrypted stream: public ones as options, the secret one in a file."""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from igbss_stream.errors import ParameterError
from igbss_stream.feeds.keys import ClientKeys, is_key

_NAMED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=(?P<quote>['\"]?)(?P<key>.*)(?P=quote)")
_LARGEST = 1 << 16  # bytes of a file that may be one of keys
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def client_keys(
    key_file: Path | None, server_keys: Mapping[str, str | None]
) -> tuple[ClientKeys | None, ...]:
    """Return the keys for each publisher; None for one that does not encrypt.

    Parameters
    ----------
    key_file : path or None
        Holds the secret key of this end; without it, a new one is made for each publisher.
    server_keys : mapping of str to str or None
        Public key of each publisher, by the option that gives it; None where it was not given.

    Raises
    ------
    ParameterError
        If something is no key, or the file is of no use.
    """
    if key_file is not None and not any(server_keys.values()):
        raise ParameterError(
            f"--key-file needs the public key of the publisher as well: pass {' or '.join(server_keys)}."
        )
    secret_key = None if key_file is None else read_secret_key(key_file)
    return tuple(
        None if server_key is None else _keys(option, server_key, secret_key)
        for option, server_key in server_keys.items()
    )


def _keys(option: str, server_key: str, secret_key: str | None) -> ClientKeys:
    try:
        return ClientKeys(server_key, secret_key)
    except ParameterError:  # it shows what was given, which may be a secret in the wrong place
        raise ParameterError(
            f"{option} must be a public key of 40 characters (Z85), in single quotes, as $ and & mean "
            f"something to the shell. Got one of {len(server_key)} characters that is none instead."
        ) from None


def read_secret_key(path: Path) -> str:
    """Read a file as `igbss-stream make-keys` writes it: one secret key, alone or as ``NAME=KEY``.

    Parameters
    ----------
    path : path
        Of a file that its owner alone can read.

    Returns
    -------
    str

    Raises
    ------
    ParameterError
        If it cannot be read, others can read it, or it does not hold one key.
    """
    try:
        with path.open("rb") as file:
            mode, data = os.fstat(file.fileno()).st_mode, file.read(_LARGEST)
    except OSError as error:
        raise ParameterError(f"--key-file '{path}' cannot be read: {error.strerror}.") from None
    if mode & _OTHERS:
        raise ParameterError(f"--key-file '{path}' is open to others than its owner: chmod 600 '{path}'.")
    found = list(_keys_in(data.decode("ascii", "replace")))
    if len(found) != 1:
        raise ParameterError(
            f"--key-file '{path}' must hold one secret key of 40 characters (Z85), alone or as NAME=KEY. "
            f"It holds {len(found) or 'none'}."
        )
    return found[0]


def _keys_in(text: str) -> Iterator[str]:
    for line in map(str.strip, text.splitlines()):
        named = _NAMED.fullmatch(line)
        if is_key(line):
            yield line
        elif named and is_key(named["key"]):
            yield named["key"]
