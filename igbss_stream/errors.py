"""What can go wrong, as a tree.

::

    IgbssError                 every error this package raises on purpose
    ├── ParameterError         an option has a value that cannot be used   (a ValueError)
    ├── InputError             the samples cannot be separated as they are (a ValueError)
    └── RecordingError         a file cannot be read or written            (an OSError)

    IgbssWarning               the result is usable, but not what one may expect

A message names the thing, the value it has and the remedy, in that order. The command line prints it
and exits with code 2.
"""


class IgbssError(Exception):
    """Base of every error that this package raises on purpose."""


class ParameterError(IgbssError, ValueError):
    """An option has a value that cannot be used."""


class InputError(IgbssError, ValueError):
    """The samples handed over cannot be separated as they are."""


class RecordingError(IgbssError, OSError):
    """A file cannot be read or written."""


class IgbssWarning(UserWarning):
    """The result is usable, but perhaps not what the caller expects."""


def printable(name: str) -> str:
    """Return a name with what would break a line or steer a terminal escaped; files may hold anything."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
