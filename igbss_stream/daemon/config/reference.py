"""The reference of the configuration, in three forms, made from the structs and their docstrings.

A JSON Schema for editors, the page docs/configuration.md for people, and a commented file to start from.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec
import msgspec.inspect as mi

from igbss_stream.daemon.config.keys import Secret
from igbss_stream.daemon.config.schema import Config
from igbss_stream.daemon.config.type_text import annotated, is_list, options, structs, wanted

_WIDTH = 100


def descriptions(section: type) -> dict[str, str]:
    """Return what the docstring of a section says of each of its fields."""
    doc = inspect.getdoc(section) or ""
    listed = doc.partition("Parameters\n----------\n")[2]
    parts = re.findall(r"^(\w+) : .*\n((?:    .*\n?)+)", listed, re.M)
    return {name: " ".join(text.split()) for name, text in parts}


def purpose(section: type) -> str:
    """Return what the docstring of a section says before its fields."""
    return " ".join((inspect.getdoc(section) or "").partition("\n\nParameters\n")[0].split())


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration, with a description of each key."""
    (root,), components = msgspec.json.schema_components(
        [Config], schema_hook=_schema_of, ref_template="#/$defs/{name}"
    )
    sections = {section.cls.__name__: section.cls for section in _sections()}
    for name, part in components.items():
        part["description"] = purpose(sections[name])
        for field, text in descriptions(sections[name]).items():
            known = part["properties"][field]
            if "$ref" in known:  # a section whose keys are all commented out
                known["anyOf"] = [{"$ref": known.pop("$ref")}, {"type": "null"}]
            known["description"] = text
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of igbss-stream run",
        **root,
        "$defs": components,
    }


def _schema_of(kind: type) -> dict[str, Any]:
    return (
        {"type": "string", "format": "password"} if kind is Secret else {"type": "string", "minLength": 1}
    )


def _sections() -> list[mi.StructType]:
    """Return all sections, each before those within it."""
    found: dict[type, mi.StructType] = {}

    def visit(kind: mi.Type) -> None:
        for section in _within(kind):
            if section.cls not in found:
                found[section.cls] = section
                for field in section.fields:
                    visit(field.type)

    visit(mi.type_info(Config))
    return list(found.values())


def _within(kind: mi.Type) -> list[mi.StructType]:
    """Return the sections that a value, or an item of it, may be."""
    lists = [option for option in options(kind) if isinstance(option, mi.VarTupleType)]
    return structs(kind) + [section for option in lists for section in structs(option.item_type)]


_HEAD = """# Configuration

`igbss-stream run CONFIG.yaml` separates live streams as a YAML file tells. This page lists all keys; it is
made from the source by `igbss-stream schema --markdown`.

```console
$ igbss-stream init eeg.yaml           # a commented file with every key and its default
$ igbss-stream check eeg.yaml          # what is wrong with it, and where; else what would run
$ igbss-stream schema > schema.json    # JSON Schema, with which editors complete and check as you type
```

- A key that is left out has its default; `null` stands for "none". Only *required* keys must be there.
- Unknown keys, keys given twice and values out of bounds are refused, all with file, line and key.
- The YAML is that of version 1.2: `on` and `no` are text, `1e-6` is a number. Tags (`!x`) and merge keys
  (`<<`) are not taken, anchors and aliases are.
- Times are in seconds. Paths are relative to the folder of the file.
- `secret_key` may be `${NAME}`, which stands for the environment variable of that name, and is never shown.
  Public and secret keys are best written in quotes: they hold characters that mean something in YAML.
- The folder `configs/` has a commented file for each of several uses.
"""


def page() -> str:
    """Return docs/configuration.md."""
    places = _places()
    parts = (
        f"## {_title(section, places)}\n\n{purpose(section.cls)}\n\n{_table(section, places)}\n"
        for section in _sections()
    )
    return "\n".join((_HEAD, *parts))


def _places() -> dict[type, str]:
    """Return the key under which each section is found first."""
    places: dict[type, str] = {Config: ""}
    for section in _sections():
        for field in section.fields:
            suffix = "[]" if is_list(field.type) else ""
            for inner in _within(field.type):
                place = f"{places[section.cls]}.{field.name}{suffix}".lstrip(".")
                places.setdefault(inner.cls, place)
    return places


def _title(section: mi.StructType, places: dict[type, str]) -> str:
    place = places[section.cls]
    name = f"`{place}`" if place else "The file"
    return f"{name}, {section.tag_field} `{section.tag}`" if section.tag else name


def _table(section: mi.StructType, places: dict[type, str]) -> str:
    told = descriptions(section.cls)
    rows = ["| key | | default | |", "|---|---|---|---|"]
    for field in section.fields:
        default = "*required*" if field.required else _default(field)
        rows.append(f"| `{field.name}` | {_value(field, places)} | {default} | {told[field.name]} |")
    return "\n".join(rows)


def _default(field: mi.Field) -> str:
    return "see there" if isinstance(field.default, msgspec.Struct) else f"`{_yaml(field.default)}`"


def _value(field: mi.Field, places: dict[type, str]) -> str:
    """Return what a value may be, with links to the sections that it may be."""
    text = re.sub("^(one of|an|a) ", "", wanted(field.type))
    links = " or ".join(
        f"[{section.tag or 'section'}](#{_anchor(_title(section, places))})"
        for section in _within(field.type)
    )
    if not links:
        return text
    return f"list of {links}" if is_list(field.type) else re.sub("(a )?section", links, text, count=1)


def _anchor(title: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _yaml(value: Any) -> str:
    """Return a value as YAML has it, which JSON is."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z/][\w./:-]*", value):
        return value
    return msgspec.json.encode(value).decode()


def template(source: str = "zmq", sink: str = "zmq") -> str:
    """Return a commented configuration: what is required is set, all else is there with its default.

    Parameters
    ----------
    source, sink : str
        Kind of the source and of the sink.
    """
    head = textwrap.wrap(
        "Configuration of igbss-stream run. Keys that are commented out show their defaults. Try it with "
        "`igbss-stream check`; docs/configuration.md has the other kinds of sources and sinks.",
        _WIDTH,
    )
    lines = [f"# {line}" for line in head]
    lines += _keys(mi.type_info(Config), {"source": source, "sinks": sink})
    return "\n".join(lines) + "\n"


def _keys(kind: mi.Type, chosen: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a section, at no indent."""
    (section,) = structs(kind)
    told = descriptions(section.cls)
    if section.tag:
        yield f"{section.tag_field}: {section.tag}"
    for field in section.fields:
        yield from ("", *(f"# {line}" for line in textwrap.wrap(told[field.name], _WIDTH)))
        yield from _key(field, chosen)


def _key(field: mi.Field, chosen: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a key; commented out if it can be left out."""
    examples = annotated(field.type, "examples")
    is_plain = isinstance(field.default, str | bool | int | float)
    inner = [] if is_plain else _within(field.type)
    if inner:
        section = next((one for one in inner if one.tag == chosen.get(field.name)), inner[0])
        lines = [*_keys(section, chosen)]
        lines = [f"{field.name}:", *(_items(lines) if is_list(field.type) else _indented(lines, "  "))]
        # left out, there is no such section, or a list without one
        yield from (f"#{line}" for line in lines) if field.default in (None, ()) else lines
    elif examples:
        yield f"{field.name}: {_yaml(examples[0])}"
    else:
        yield f"#{field.name}: {_yaml(field.default)}"


def _indented(lines: list[str], indent: str) -> list[str]:
    return [f"{indent}{line}" if line else "" for line in lines]


def _items(lines: list[str]) -> list[str]:
    """Return the lines of a section as the one item of a list."""
    first = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    before, after = lines[:first], lines[first + 1 :]
    return [*_indented(before, "  "), f"  - {lines[first]}", *_indented(after, "    ")]
