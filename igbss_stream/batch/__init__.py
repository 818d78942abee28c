"""Recordings in, their sources out: what `igbss-stream batch` does.

One recording, from top to bottom::

    settings    how it is separated
    method      of options, or of a model that exists; the modules *_options are the options
       |
    job         one recording to do, as plain data; what came of it
       |
    separate    block by block:  channels   what is read
       |                         starting   the separator, before the first sample
       |                         windows    where samples do not stand alone
       |                         contents   what is written
       |
    models      a model that exists, made ready for other recordings

Many of them: `inputs` finds them, `outputs` says where each goes, `fingerprint` and `kept` tell what an
earlier run has done. `groups` learns one model from several, `settled` says which are learned already.
`many` runs all, `summary` tells what came of each. `command` is the command.

By many: `workers` do jobs on Dask, in processes or on machines that `clusters` finds; `in_worker` runs
there. `segments` makes one large recording into many jobs, which share what its `first_pass` found.
"""
