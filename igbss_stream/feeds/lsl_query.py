"""Describe LSL streams by their properties."""

from dataclasses import dataclass

from igbss_stream.errors import ParameterError


@dataclass(frozen=True, slots=True)
class LslQuery:
    """Properties by which streams are found; None leaves one open.

    Parameters
    ----------
    name, type, source_id : str or None
        At least one of them is needed.

    Raises
    ------
    ParameterError
        If none is given, or one has both kinds of quotes.
    """

    name: str | None = None
    type: str | None = None
    source_id: str | None = None

    def __post_init__(self) -> None:
        if not self._properties:
            raise ParameterError("an LSL stream needs a name, a type or a source_id.")
        for value in self._properties.values():
            _quote(value)

    @property
    def predicate(self) -> str:
        """The query as a predicate of LSL, which is XPath."""
        return " and ".join(f"{key}={_quote(value)}" for key, value in self._properties.items())

    def __str__(self) -> str:
        return ", ".join(f"{key} {value!r}" for key, value in self._properties.items())

    @property
    def _properties(self) -> dict[str, str]:
        given = {"name": self.name, "type": self.type, "source_id": self.source_id}
        return {key: value for key, value in given.items() if value is not None}


def _quote(value: str) -> str:
    """Return a value as a literal of XPath, which has no escapes."""
    for quote in "'\"":
        if quote not in value:
            return f"{quote}{value}{quote}"
    raise ParameterError(
        f"a property of an LSL stream must not have both kinds of quotes. Got {value!r}; use another one."
    )
