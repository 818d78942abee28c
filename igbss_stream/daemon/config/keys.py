"""Secrets, and the keys of CURVE, the encryption of ZeroMQ."""

import re
from collections.abc import Mapping
from typing import Annotated, Self

from msgspec import Meta

from igbss_stream.daemon.config.base import Section
from igbss_stream.errors import ParameterError

_Z85 = r"^[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{40}(?!\n)$"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

PublicKey = Annotated[str, Meta(pattern=_Z85, description="a public key of 40 characters (Z85)")]


class Secret:
    """A text that is never shown, unless asked for by `value`.

    No dataclass: msgspec would fill it from a mapping, past the checks.

    Parameters
    ----------
    value : str
    variable : str or None
        The environment variable that held it.
    """

    __slots__ = ("value", "variable")

    def __init__(self, value: str, variable: str | None = None) -> None:
        self.value = value
        self.variable = variable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Secret(${{{self.variable}}})" if self.variable else "Secret(***)"

    @classmethod
    def from_text(cls, text: object, environ: Mapping[str, str]) -> Self:
        """Return the secret key that a text is, or that the variable holds which it names.

        Raises
        ------
        ParameterError
            If it is no key, or there is no such variable.
        """
        match = _VARIABLE.fullmatch(text) if isinstance(text, str) else None
        name = match[1] if match else None
        if name is not None and name not in environ:
            raise ParameterError(f"needs the environment variable {name}, which is not set")
        value = text if name is None else environ[name]
        if not isinstance(value, str) or not re.match(_Z85, value):
            held = f"The variable {name} does not hold one" if name else "It is none"
            raise ParameterError(
                f"must be a secret key of 40 characters (Z85), or ${{NAME}} for the environment variable "
                f"that holds it. {held}."
            )
        return cls(value, name)


def names_variable(value: object) -> bool:
    """Return whether a text holds ``${NAME}``, which is replaced in secrets alone."""
    return isinstance(value, str) and _VARIABLE.search(value) is not None


class CurveClient(Section, frozen=True, kw_only=True, tag_field="role", tag="client"):
    """Keys of the end that proves itself, usually the one that connects.

    Parameters
    ----------
    server_key : str
        Public key of the server.
    secret_key : Secret
        The secret key of this end, best as `${NAME}`: it is taken from the environment then.
    """

    server_key: Annotated[PublicKey, Meta(examples=["rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"])]
    secret_key: Annotated[Secret, Meta(examples=["${IGBSS_KEY}"])]


class CurveServer(Section, frozen=True, kw_only=True, tag_field="role", tag="server"):
    """Keys of the end that others prove themselves to, usually the one that binds.

    Parameters
    ----------
    secret_key : Secret
        The secret key of this end, best as `${NAME}`: it is taken from the environment then.
    allowed : tuple of str or None
        Public keys that are let in. `null` lets in everybody who knows the public key of this end.
    """

    secret_key: Annotated[Secret, Meta(examples=["${IGBSS_KEY}"])]
    allowed: Annotated[
        tuple[PublicKey, ...] | None, Meta(examples=[["rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"]])
    ]
