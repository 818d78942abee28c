"""The token of the control server: made anew at each start, or kept in a file."""

import os
import re
import secrets
import stat
from pathlib import Path

from igbss_stream.errors import ConfigError, ParameterError

_TOKEN = re.compile(r"[\x21-\x7e]{16,256}")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LARGEST = 1024  # bytes of a file that may contain a token
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def make_token() -> str:
    """Return a new token: 43 characters, 256 random bits."""
    return secrets.token_urlsafe(32)


def load_token(path: Path) -> str:
    """Read the token in a file, alone on its line.

    Parameters
    ----------
    path : Path

    Raises
    ------
    ParameterError
        If the file cannot be read, is readable by others, or does not contain a token.
    """
    try:
        with path.open("rb") as file:
            mode, data = os.fstat(file.fileno()).st_mode, file.read(_LARGEST)
    except OSError as error:
        raise ParameterError(f"the token file '{path}' cannot be read: {error.strerror}") from None
    if mode & _OTHERS:
        raise ParameterError(
            f"the token file '{path}' is accessible to other users; run chmod 600 '{path}'"
        )
    token = data.decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(token):
        raise ParameterError(
            f"the token file '{path}' must contain a token of 16 to 256 printable ASCII characters without "
            "spaces; remove it, and the daemon writes one"
        )
    return token


def open_token(path: Path) -> str:
    """Return the token in a file; create the file with a new one if it does not exist.

    Raises
    ------
    ConfigError
        If the file cannot be used or created.
    """
    try:
        descriptor = os.open(path, _NEW_FILE, 0o600)
    except FileExistsError:
        try:
            return load_token(path)
        except ParameterError as error:
            raise ConfigError(f"control.token_file: {error}") from None
    except OSError as error:
        raise ConfigError(
            f"control.token_file: '{path}' cannot be created: {error.strerror}; check its folder"
        ) from None
    token = make_token()
    with open(descriptor, "w") as file:
        file.write(f"{token}\n")
    return token
