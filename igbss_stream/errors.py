"""Exceptions and warnings of the package.

::

    IgbssError                     base class of all errors raised by this package
    ├── ParameterError             a parameter has an invalid value         (a ValueError)
    │   └── ConfigError            a configuration file has mistakes
    ├── InputError                 the samples cannot be separated          (a ValueError)
    ├── RecordingError             a file cannot be read or written         (an OSError)
    ├── StateError                 a state file cannot be read or written   (an OSError)
    ├── FeedError                  a socket cannot be opened or is silent   (an OSError)
    │   └── StreamNotFoundError    no stream on the network matches a search
    └── WireError                  a message from the network is invalid    (a ValueError)

    IgbssWarning                   the result is usable, but may be unexpected

A message states what is wrong, the value, and the remedy, in this order. The command line prints it and
exits with code 2.
"""


class IgbssError(Exception):
    """Base class of all errors raised by this package."""


class ParameterError(IgbssError, ValueError):
    """A parameter has an invalid value.

    Parameters
    ----------
    text : str
        Error message.
    parameter : str, optional
        Name of the parameter, with which the message begins. Configuration errors are reported at this key.
    """

    def __init__(self, text: str, *, parameter: str | None = None) -> None:
        super().__init__(text)
        self.parameter = parameter


class ConfigError(ParameterError):
    """A configuration file cannot be read or has mistakes; the message has one line per mistake.

    Parameters
    ----------
    *mistakes : str
        Lines of the message; unprintable characters are escaped.
    """

    def __init__(self, *mistakes: str) -> None:
        super().__init__("\n".join(map(printable, mistakes)))


class InputError(IgbssError, ValueError):
    """The samples cannot be separated."""


class RecordingError(IgbssError, OSError):
    """A file cannot be read or written."""


class StateError(IgbssError, OSError):
    """The state of an earlier run cannot be read, or the current state cannot be saved."""


class FeedError(IgbssError, OSError):
    """A socket cannot be opened, or receives nothing."""


class StreamNotFoundError(FeedError):
    """No stream on the network matches a search."""


class WireError(IgbssError, ValueError):
    """A message from the network is invalid; the daemon counts and drops it.

    Parameters
    ----------
    reason : str
        One word, used as the label of a counter.
    text : str
        What is wrong.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason


class IgbssWarning(UserWarning):
    """The result is usable, but may be unexpected."""


def printable(name: str) -> str:
    """Escape unprintable characters of a name, which could break a line or control a terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def printable_lines(text: str) -> str:
    """Escape unprintable characters of a text of several lines, except the line breaks."""
    return "\n".join(map(printable, text.split("\n")))
