"""The YAML configuration of the daemon, from the file to checked structs.

::

    yaml_file         read YAML with the line of each value
    load              build a `Config`, or report every mistake with its place
    schema            the structs: keys, bounds, defaults
    sources, sinks    sources and sinks of a stream
    model_section     how to separate
    prepare_section   re-reference, filter, resample
    clean_section     remove sources from the channels
    keys              secrets and CURVE keys
    base              what all sections share
    type_text         describe types of values in words
    lint              warn of settings that are valid but probably unintended
    reload            apply a changed configuration to a running daemon
    reference         generate the schema, docs/configuration.md and the file of `init`
"""
