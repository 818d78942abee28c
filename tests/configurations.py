"""Configurations for tests, as plain values."""

import re
from collections.abc import Callable
from typing import Any

from igbss_stream.daemon.config.schema import Config

LoadConfig = Callable[[Any], Config]
FindMistakes = Callable[[Any], list[str]]

SECRET = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"  # an example in the manual of ZeroMQ
PUBLIC = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"

LEAST: dict[str, Any] = {
    "streams": [
        {
            "name": "eeg",
            "source": {"kind": "zmq", "address": "5555"},
            "sinks": [{"kind": "zmq", "address": "5560"}],
        }
    ]
}
CLIENT = {"role": "client", "server_key": PUBLIC, "secret_key": "${KEY}"}
SERVER = {"role": "server", "secret_key": "${KEY}", "allowed": [PUBLIC]}


def stream(**keys: Any) -> dict[str, Any]:
    return {"streams": [LEAST["streams"][0] | keys]}


def uncommented(text: str) -> str:
    """Return a configuration with all optional keys uncommented; prose starts with a space and a capital."""
    for _ in range(3):
        text = re.sub(r"^( *)#( *)((?:- )?[a-z_]+:.*)$", r"\1\2\3", text, flags=re.M)
    return text
