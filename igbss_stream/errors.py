"""What can go wrong, as a tree.

::

    IgbssError                 every error this package raises on purpose
    ├── ParameterError         an option has a value that cannot be used   (a ValueError)
    │   └── ConfigError        a file of options has mistakes
    ├── InputError             the samples cannot be separated as they are (a ValueError)
    ├── RecordingError         a file cannot be read or written            (an OSError)
    ├── StateError             the state of a run cannot be read or saved   (an OSError)
    ├── FeedError              a socket cannot be opened, or falls silent  (an OSError)
    │   └── StreamNotFoundError    no stream on the network matches
    └── WireError              a message from the network is refused       (a ValueError)

    IgbssWarning               the result is usable, but not what one may expect

A message names the thing, the value it has and the remedy, in that order. The command line prints it
and exits with code 2.
"""


class IgbssError(Exception):
    """Base of every error that this package raises on purpose."""


class ParameterError(IgbssError, ValueError):
    """An option has a value that cannot be used.

    Parameters
    ----------
    text : str
        The message.
    parameter : str, optional
        Name of the option, with which the message begins; a configuration reports the error at this key.
    """

    def __init__(self, text: str, *, parameter: str | None = None) -> None:
        super().__init__(text)
        self.parameter = parameter


class ConfigError(ParameterError):
    """A configuration file cannot be read, or has mistakes; the message has a line for each."""


class InputError(IgbssError, ValueError):
    """The samples handed over cannot be separated as they are."""


class RecordingError(IgbssError, OSError):
    """A file cannot be read or written."""


class StateError(IgbssError, OSError):
    """The state of an earlier run cannot be read, or that of this one not be saved."""


class FeedError(IgbssError, OSError):
    """A socket cannot be opened, or nothing comes from it."""


class StreamNotFoundError(FeedError):
    """No stream on the network matches what is searched for."""


class WireError(IgbssError, ValueError):
    """A message from the network is refused; the daemon counts these and goes on.

    Parameters
    ----------
    reason : str
        One word, good as the label of a counter.
    text : str
        What is wrong.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason


class IgbssWarning(UserWarning):
    """The result is usable, but perhaps not what the caller expects."""


def printable(name: str) -> str:
    """Return a name with what would break a line or steer a terminal escaped; files may hold anything."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
