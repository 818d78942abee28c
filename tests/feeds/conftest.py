"""Skip the tests of LSL if its library cannot be loaded."""

from igbss_stream.errors import FeedError

try:
    import igbss_stream.feeds.liblsl  # noqa: F401 # only to see whether it can be imported
except FeedError:
    collect_ignore = ["test_lsl.py", "test_lsl_markers.py"]
