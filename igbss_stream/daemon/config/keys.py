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
    """A text that is never displayed; only `value` returns it.

    This is not a dataclass because msgspec would fill one from a mapping and skip the checks.

    Parameters
    ----------
    value : str
    variable : str or None
        The environment variable that the value was read from.
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
        """Return the secret key that a text contains, or the one in the environment variable that it names.

        Raises
        ------
        ParameterError
            If it is not a key, or the variable is not set.
        """
        match = _VARIABLE.fullmatch(text) if isinstance(text, str) else None
        name = match[1] if match else None
        if name is not None and name not in environ:
            raise ParameterError(f"needs the environment variable {name}, which is not set; set it")
        value = text if name is None else environ[name]
        if not isinstance(value, str) or not re.match(_Z85, value):
            fault = f"The variable {name} contains no such key" if name else "This is not a key"
            raise ParameterError(
                f"must be a secret key of 40 characters (Z85), or ${{NAME}} for the environment variable "
                f"that contains it. {fault}."
            )
        return cls(value, name)


def contains_variable(value: object) -> bool:
    """Return whether a text contains ``${NAME}``, which is replaced in secret keys only."""
    return isinstance(value, str) and _VARIABLE.search(value) is not None


class CurveClientSection(Section, frozen=True, kw_only=True, tag_field="role", tag="client"):
    """Keys of a client: the side that authenticates itself, usually the one that connects.

    Parameters
    ----------
    server_key : str
        Public key of the server.
    secret_key : Secret
        Secret key of this side. Preferably `${NAME}`, which reads it from the environment.
    """

    server_key: Annotated[PublicKey, Meta(examples=["rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"])]
    secret_key: Annotated[Secret, Meta(examples=["${IGBSS_KEY}"])]


class CurveServerSection(Section, frozen=True, kw_only=True, tag_field="role", tag="server"):
    """Keys of a server: the side to which clients authenticate themselves, usually the one that binds.

    Parameters
    ----------
    secret_key : Secret
        Secret key of this side. Preferably `${NAME}`, which reads it from the environment.
    allowed : tuple of str or None
        Public keys of the clients that are admitted. `null` admits every client that knows the public key
        of this side.
    """

    secret_key: Annotated[Secret, Meta(examples=["${IGBSS_KEY}"])]
    allowed: Annotated[
        tuple[PublicKey, ...] | None, Meta(examples=[["rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"]])
    ]
