"""Recordings in, their sources out: what `igbss-stream batch` does.

`settings` says how a recording is separated, `separate` does it block by block, `job` is one
recording to do as plain data, `command` is the command.
"""
