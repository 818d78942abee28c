"""A page that shows a live stream: its sources, the channels beside them, and what one source is like.

Samples go from `feed`, which reads the stream, to `shown`, what can be shown of it (`traces`), and by
`page` to `live`, which the script of a page knows as well. `side` has the plots of the chosen source
(with `igbss_stream.drawing`), `status` the words and figures. `serve` serves it at a `port`; `command`
is `view`.
"""
