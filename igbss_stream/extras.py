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
        raise RecordingError(
            f"{what}, which cannot be imported ({error}); install it with: "
            f"pip install 'igbss-stream[{extra}]'"
        ) from error
