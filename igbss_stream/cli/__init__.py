"""The command `igbss-stream`: every command, its options, and the terminal.

::

    entry               the group of all commands; `inspect` and `demo`
    batch               `batch`; its options are in the modules *_options and method
    batch_single        run one recording and report
    batch_many          run many recordings and report
    report, export, view
    daemon_commands     `run`, `check`, `init`, `schema`
    feed_commands       `replay`, `simulate`, `listen`
    make_keys           `make-keys`; key_file reads what it writes
    console             errors, progress bars and tables
    demo                a mixture with known sources
"""

from igbss_stream.cli.entry import main

__all__ = ["main"]
