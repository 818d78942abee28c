"""Recordings in, their sources out: what `igbss-stream batch` does.

`settings` says how a recording is separated, `separate` does it block by block, `command` is the command.
"""
