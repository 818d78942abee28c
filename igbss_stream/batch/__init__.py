"""Recordings in, their sources out: what `igbss-stream batch` does.

`settings` says how a recording is separated, `separate` does it block by block, `job` is one recording to
do as plain data. `inputs` finds many and `outputs` says where each goes; `fingerprint` and `kept` tell what
an earlier run has done; `models` applies a model that exists, `groups` learns one from many, and `settled`
says which are learned; `many` runs all, `summary` tells what came of each, `command` is the command.
"""
