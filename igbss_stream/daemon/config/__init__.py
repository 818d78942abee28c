"""The YAML configuration of the daemon, from the file to checked structs.

::

    yaml_file         read YAML with the line of each value
    load              build a `Config`, or report every mistake with its place
    schema            the root `Config` and the sections of a stream: keys, bounds, defaults
    sources, sinks    sections of sources and sinks
    model_section     how to separate
    bad_channels_section
                      channels that are left out while they are bad
    prepare_section   re-reference, filter, resample
    clean_section     remove sources from the channels
    web_sections      metrics, health, the live page and control over HTTP
    keys              secrets and CURVE keys
    base              the base class of sections and common types of values
    type_text         describe types of values in words
    lint              warn of settings that are valid but probably unintended
    summary           summarise what a configuration runs
    reload            apply a changed configuration to a running daemon
    reference         generate the schema, docs/configuration.md and the file of `init`
"""
