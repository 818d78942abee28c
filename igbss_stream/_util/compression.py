"""Names of the HDF5 compression filters, and the library that LZ4 needs."""

from importlib import import_module

from igbss_stream.errors import ParameterError

COMPRESSIONS = ("none", "gzip", "lz4")
BITSHUFFLE = 32008  # filter number registered with the HDF Group


def check_compression(name: str) -> None:
    """Check that a compression is known and available.

    Raises
    ------
    ParameterError
        If the name is unknown, or the filter is not installed.
    """
    if name not in COMPRESSIONS:
        raise ParameterError(f"--compression must be none, gzip or lz4. Got {name!r} instead.")
    if name == "lz4" and not register_plugins():
        raise ParameterError(
            "--compression lz4 needs hdf5plugin, which is not installed; run: "
            "pip install 'igbss-stream[compression]', or use gzip"
        )


def register_plugins() -> bool:
    """Register the filters of hdf5plugin with HDF5; return whether hdf5plugin is installed."""
    try:
        import_module("hdf5plugin")
    except ImportError:
        return False
    return True
