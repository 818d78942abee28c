"""Load the keys of a command that reads an encrypted stream."""

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


def load_client_keys(
    key_file: Path | None, server_keys: Mapping[str, str | None]
) -> tuple[ClientKeys | None, ...]:
    """Return the keys for each publisher; None for a publisher without encryption.

    Parameters
    ----------
    key_file : path or None
        File with the secret key of this client; by default, a new key is generated for each publisher.
    server_keys : mapping of str to str or None
        Public key of each publisher, by the name of its option; None if it was not given.

    Raises
    ------
    ParameterError
        If a key is invalid, or the file cannot be used.
    """
    if key_file is not None and not any(server_keys.values()):
        raise ParameterError(
            f"--key-file needs the public key of the publisher as well: pass {' or '.join(server_keys)}."
        )
    secret_key = None if key_file is None else read_secret_key(key_file)
    return tuple(
        None if server_key is None else _make_keys(option, server_key, secret_key)
        for option, server_key in server_keys.items()
    )


def _make_keys(option: str, server_key: str, secret_key: str | None) -> ClientKeys:
    try:
        return ClientKeys(server_key, secret_key)
    except ParameterError:  # its message shows the value, which may be a secret in the wrong place
        raise ParameterError(
            f"{option} must be a public key of 40 characters (Z85), in single quotes because the "
            f"shell interprets $ and &. Got {len(server_key)} characters that are no key instead."
        ) from None


def read_secret_key(path: Path) -> str:
    """Read a file as `igbss-stream make-keys` writes it: one secret key, alone or as ``NAME=KEY``.

    Parameters
    ----------
    path : path
        Path of a file that only its owner can read.

    Returns
    -------
    str

    Raises
    ------
    ParameterError
        If the file cannot be read, is readable by others, or does not contain exactly one key.
    """
    try:
        with path.open("rb") as file:
            mode, data = os.fstat(file.fileno()).st_mode, file.read(_LARGEST)
    except OSError as error:
        raise ParameterError(f"--key-file '{path}' cannot be read: {error.strerror}.") from None
    if mode & _OTHERS:
        raise ParameterError(f"--key-file '{path}' is readable by other users; run chmod 600 '{path}'.")
    found = list(_find_keys(data.decode("ascii", "replace")))
    if len(found) != 1:
        raise ParameterError(
            f"--key-file '{path}' must contain one secret key of 40 characters (Z85), alone or as "
            "NAME=KEY. "
            f"It contains {len(found) or 'none'}."
        )
    return found[0]


def _find_keys(text: str) -> Iterator[str]:
    for line in map(str.strip, text.splitlines()):
        named = _NAMED.fullmatch(line)
        if is_key(line):
            yield line
        elif named and is_key(named["key"]):
            yield named["key"]
