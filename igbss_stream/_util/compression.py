"""How samples may be compressed in HDF5: the names of it, and the library that one of them needs."""

from importlib import import_module

from igbss_stream.errors import ParameterError

COMPRESSIONS = ("none", "gzip", "lz4")
BITSHUFFLE = 32008  # number of the filter that the HDF Group gave it


def check_compression(name: str) -> None:
    """Refuse a compression that is not known or cannot be done here.

    Raises
    ------
    ParameterError
        Which.
    """
    if name not in COMPRESSIONS:
        raise ParameterError(f"--compression must be none, gzip or lz4. Got {name!r} instead.")
    if name == "lz4" and not has_plugins():
        raise ParameterError(
            "--compression lz4 needs hdf5plugin, which is not installed; run: "
            "pip install 'igbss-stream[compression]', or use gzip"
        )


def has_plugins() -> bool:
    """Make the filters of hdf5plugin known to HDF5, if it is installed."""
    try:
        import_module("hdf5plugin")
    except ImportError:
        return False
    return True
