"""Settings of `batch`: everything an output depends on, except the recording."""

import math
from dataclasses import dataclass, field

from igbss_stream._util.compression import check_compression
from igbss_stream.errors import ParameterError
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.cleaning import Cleaning
from igbss_stream.separation.settings import ModelSettings


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchSettings:
    """Settings of a separation.

    Parameters
    ----------
    model : ModelSettings
    preparation : Preparation
        Preparation of the samples; none by default.
    window : float, optional
        Approximate window length in seconds, for solvers that fit windows.
    drop_flat : bool
        Whether flat channels are left out; otherwise the recording is refused.
    bad_channels : {"off", "auto"} or tuple of str
        Channels to leave out beside those that the file marks: none, those that are bad by their samples,
        or the named ones.
    keep_bad : bool
        Whether channels that the file marks as bad are separated, and samples that it marks are learned
        from.
    interpolate_bads : bool
        Whether the bad channels are added to the cleaned channels, interpolated from the others.
    cleaning : Cleaning, optional
        Sources to remove; cleaned channels are written if it is given.
    compression : {"none", "gzip", "lz4"}
        Compression of the output.

    Raises
    ------
    ParameterError
        If a value is invalid.
    """

    model: ModelSettings
    preparation: Preparation = field(default_factory=Preparation)
    window: float | None = None
    drop_flat: bool = False
    bad_channels: str | tuple[str, ...] = "off"
    keep_bad: bool = False
    interpolate_bads: bool = False
    cleaning: Cleaning | None = None
    compression: str = "none"

    def __post_init__(self) -> None:
        check_compression(self.compression)
        if self.interpolate_bads and self.cleaning is None:
            raise ParameterError(
                "--interpolate-bads adds the bad channels to the cleaned channels, and none are written: "
                "pass --exclude, --exclude-like or --exclude-labelled as well, or omit it."
            )
        if self.window is not None and not (math.isfinite(self.window) and self.window > 0):
            raise ParameterError(
                f"--window must be a number of seconds above 0. Got {self.window} instead."
            )
