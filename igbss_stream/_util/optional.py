"""Import libraries that belong to an extra of the package."""

from importlib import import_module
from typing import Any

from igbss_stream.errors import RecordingError


def require(library: str, extra: str, what: str) -> Any:
    """Import an optional library.

    Parameters
    ----------
    library : str
        Name of the module.
    extra : str
        Extra of this package that installs the library.
    what : str
        Start of the error message: what needs the library, ending with its name.

    Returns
    -------
    module

    Raises
    ------
    RecordingError
        If the library cannot be imported; the message says how to install it.
    """
    try:
        return import_module(library)
    except ImportError as error:
        raise RecordingError(describe_missing(extra, what, error)) from error


def describe_missing(extra: str, what: str, error: ImportError) -> str:
    """Return the error message for a library that cannot be imported.

    Parameters
    ----------
    extra : str
        Extra of this package that installs the library.
    what : str
        Start of the message: what needs the library, ending with its name.
    error : ImportError

    Returns
    -------
    str
    """
    return (
        f"{what}, which cannot be imported ({error}); install it with: pip install 'igbss-stream[{extra}]'"
    )
