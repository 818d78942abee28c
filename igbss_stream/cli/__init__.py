"""The command `igbss-stream`: every command, its options, and what it prints on the terminal."""

from igbss_stream.cli.entry import main

__all__ = ["main"]
