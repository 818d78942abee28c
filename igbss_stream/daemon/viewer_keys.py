"""Create CURVE keys for the live page of a daemon, so that it can read an encrypted sink."""

from dataclasses import dataclass, field
from typing import Self

from msgspec.structs import replace

from igbss_stream.daemon.config.schema import Config
from igbss_stream.daemon.config.sinks import ZmqOutput
from igbss_stream.feeds.keys import derive_public_key, generate_secret_key


@dataclass(frozen=True)
class ViewerKeys:
    """Keys with which the live page is admitted at one sink, besides the clients in the configuration.

    The key pair is new in each run and is never written to a file with a name, so it is of no use to anyone
    else.

    Parameters
    ----------
    sink : ZmqOutput
    server_key : str
        Public key of the sink.
    secret_key : str
        Secret key of the page.
    """

    sink: ZmqOutput
    server_key: str
    secret_key: str = field(repr=False)

    @classmethod
    def create(cls, config: Config) -> Self | None:
        """Create keys for the page of a configuration; return None if there is no page or it needs none."""
        if config.view is None:
            return None
        _, sink = config.find_viewed()
        if sink.curve is None:
            return None
        return cls(sink, derive_public_key(sink.curve.secret_key.value), generate_secret_key())

    def add_to(self, sink: ZmqOutput) -> ZmqOutput:
        """Return a sink with the page among the allowed clients, if it is the sink of the page."""
        curve = sink.curve
        if sink is not self.sink or curve is None or curve.allowed is None:
            return sink
        return replace(
            sink, curve=replace(curve, allowed=(*curve.allowed, derive_public_key(self.secret_key)))
        )
