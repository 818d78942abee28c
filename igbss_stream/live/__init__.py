"""What runs while samples come.

The configuration of `igbss-stream run`, from a YAML file to frozen structs::

    yaml_file     text becomes plain values, each with its line
    load          plain values become a `Config`, or a list of mistakes, each with its place
    config        the structs: what there is to set, within which bounds, and what it is when left out
    feeds, sinks  the ends of a stream, where samples come from and where sources go
    model         how to separate, and the `ModelSettings` that it stands for
    keys          secrets, and the keys of CURVE
    section       what all structs share; kinds says in words what a value may be
    cautions      what a configuration allows, but its author may not want
    reference     the schema, docs/configuration.md and the file that `init` writes, from the structs
    commands      `check`, `init` and `schema`

What feeds a daemon, and what watches one::

    stop          the wish of a user or a system that a command stops
    pacing        feeds: items let go when their samples would have been taken
    publishing    a paced feed on a socket
    replay        a recording as a feed
    simulate      an EEG with known sources, from scalp (the mixing) and waveforms (the sources)
    monitor       what a stream looks like from outside: rate, gaps, delay, size of the sources
    listen        a subscription that is watched, and recorded
    screen        what `monitor` found, as a table, a line or JSON
    feed_commands `replay`, `simulate` and `listen`
"""
