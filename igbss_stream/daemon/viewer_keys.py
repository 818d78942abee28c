"""The page of a daemon as a reader of an encrypted sink: keys of its own, for one run."""

from dataclasses import dataclass, field
from typing import Self

from msgspec.structs import replace

from igbss_stream.daemon.config.schema import Config
from igbss_stream.daemon.config.sinks import ZmqOutput
from igbss_stream.feeds.keys import derive_public_key, generate_secret_key


@dataclass(frozen=True)
class Guest:
    """Let in at one sink of the daemon that made it, besides those that the configuration allows.

    The pair of keys is new in each run, and in no file that has a name: it is of use to nobody else, now or
    later.

    Parameters
    ----------
    sink : ZmqOutput
    server_key : str
        Public key of the sink.
    secret_key : str
        Of the page.
    """

    sink: ZmqOutput
    server_key: str
    secret_key: str = field(repr=False)

    @classmethod
    def of(cls, config: Config) -> Self | None:
        """Return the page of a configuration as a guest; None if it needs no keys, or there is none."""
        if config.view is None:
            return None
        _, sink = config.viewed()
        if sink.curve is None:
            return None
        return cls(sink, derive_public_key(sink.curve.secret_key.value), generate_secret_key())

    def let_in(self, sink: ZmqOutput) -> ZmqOutput:
        """Return a sink as it is, or with the guest among those who are allowed if it is the one."""
        curve = sink.curve
        if sink is not self.sink or curve is None or curve.allowed is None:
            return sink
        return replace(
            sink, curve=replace(curve, allowed=(*curve.allowed, derive_public_key(self.secret_key)))
        )
