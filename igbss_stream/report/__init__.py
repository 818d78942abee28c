"""One HTML page on an output of `batch`: what went in, how it was separated, and each source.

`contents` opens the output, `pieces` cuts its samples between gaps, `rebuilt` makes channels of sources
again. `look` is the one pass over all samples: `moments`, `overview` and `igbss_stream.drawing` take them
in; `stretch` reads a few seconds more. `ranking` puts the sources in order and says why. `plots`, made of
`svg` and `png`, draw; `origin`, `of_sources` and `before_after` write, with `markup`; `page` puts it
together, `write` makes a file of it, and `command` is `report`.
"""
