"""Libraries that are no dependency of the package: each belongs to an extra."""

from importlib import import_module
from typing import Any

from igbss_stream.errors import RecordingError


def needed(library: str, extra: str, what: str) -> Any:
    """Import a library, or say how it is installed.

    Parameters
    ----------
    library : str
        Name of the module.
    extra : str
        Of this package, which brings it.
    what : str
        What is done by it, up to its name.

    Returns
    -------
    module

    Raises
    ------
    RecordingError
        If it cannot be imported.
    """
    try:
        return import_module(library)
    except ImportError as error:
        raise RecordingError(not_there(extra, what, error)) from error


def not_there(extra: str, what: str, error: ImportError) -> str:
    """Return what is said of a library that cannot be imported.

    Parameters
    ----------
    extra : str
        Of this package, which brings it.
    what : str
        What is done by it, up to its name.
    error : ImportError

    Returns
    -------
    str
    """
    return (
        f"{what}, which cannot be imported ({error}); install it with: pip install 'igbss-stream[{extra}]'"
    )
