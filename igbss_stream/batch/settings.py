"""How `batch` separates a recording: all that its output depends on, but for the recording itself."""

import math
from dataclasses import dataclass, field

from igbss_stream._util.compression import check_compression
from igbss_stream.errors import ParameterError
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.cleaning import Cleaning
from igbss_stream.separation.settings import ModelSettings


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchSettings:
    """How a recording is separated.

    Parameters
    ----------
    model : ModelSettings
    preparation : Preparation
        What is done to the samples first; nothing by default.
    window : float, optional
        Seconds that are fitted together, about, where samples do not stand alone.
    drop_flat : bool
        Whether flat channels are left out; else the recording is refused.
    cleaning : Cleaning, optional
        Which sources are taken out of the channels; cleaned channels are written if it is there.
    compression : {"none", "gzip", "lz4"}
        How sources are stored.

    Raises
    ------
    ParameterError
        If a value cannot be used.
    """

    model: ModelSettings
    preparation: Preparation = field(default_factory=Preparation)
    window: float | None = None
    drop_flat: bool = False
    cleaning: Cleaning | None = None
    compression: str = "none"

    def __post_init__(self) -> None:
        check_compression(self.compression)
        if self.window is not None and not (math.isfinite(self.window) and self.window > 0):
            raise ParameterError(
                f"--window must be a number of seconds above 0. Got {self.window} instead."
            )
