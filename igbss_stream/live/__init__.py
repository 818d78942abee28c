"""The configuration of `igbss-stream run`, from a YAML file to frozen structs.

::

    yaml_file     text becomes plain values, each with its line
    load          plain values become a `Config`, or a list of mistakes, each with its place
    config        the structs: what there is to set, within which bounds, and what it is when left out
    feeds, sinks  the ends of a stream, where samples come from and where sources go
    model         how to separate, and the `ModelSettings` that it stands for
    keys          secrets, and the keys of CURVE
    section       what all structs share; kinds says in words what a value may be
    addresses     of sockets
    cautions      what a configuration allows, but its author may not want
    reference     the schema, docs/configuration.md and the file that `init` writes, from the structs
    commands      `check`, `init` and `schema`
"""
