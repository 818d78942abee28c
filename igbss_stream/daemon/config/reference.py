"""Generate the reference of the configuration from its sections and their docstrings.

The reference has three forms: a JSON Schema for editors, the page docs/configuration.md, and a commented
configuration to start from.
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
from igbss_stream.daemon.config.type_text import (
    describe_type,
    get_annotation,
    get_sections,
    is_list,
    iter_alternatives,
)

_WIDTH = 100


def get_descriptions(section: type) -> dict[str, str]:
    """Return the descriptions of the fields of a section, from its docstring."""
    doc = inspect.getdoc(section) or ""
    fields = doc.partition("Parameters\n----------\n")[2]
    parts = re.findall(r"^(\w+) : .*\n((?:    .*\n?)+)", fields, re.M)
    return {name: " ".join(text.split()) for name, text in parts}


def get_purpose(section: type) -> str:
    """Return the docstring of a section up to its fields."""
    return " ".join((inspect.getdoc(section) or "").partition("\n\nParameters\n")[0].split())


def build_schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration, with a description of each key."""
    (root,), components = msgspec.json.schema_components(
        [Config], schema_hook=_build_custom_schema, ref_template="#/$defs/{name}"
    )
    sections = {section.cls.__name__: section.cls for section in _list_sections()}
    for name, part in components.items():
        part["description"] = get_purpose(sections[name])
        for field, text in get_descriptions(sections[name]).items():
            entry = part["properties"][field]
            if "$ref" in entry:  # a section whose keys are all commented out is null
                entry["anyOf"] = [{"$ref": entry.pop("$ref")}, {"type": "null"}]
            entry["description"] = text
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of igbss-stream run",
        **root,
        "$defs": components,
    }


def _build_custom_schema(kind: type) -> dict[str, Any]:
    return (
        {"type": "string", "format": "password"} if kind is Secret else {"type": "string", "minLength": 1}
    )


def _list_sections() -> list[mi.StructType]:
    """Return all sections, each before the sections within it."""
    found: dict[type, mi.StructType] = {}

    def visit(kind: mi.Type) -> None:
        for section in _get_inner_sections(kind):
            if section.cls not in found:
                found[section.cls] = section
                for field in section.fields:
                    visit(field.type)

    visit(mi.type_info(Config))
    return list(found.values())


def _get_inner_sections(kind: mi.Type) -> list[mi.StructType]:
    """Return the sections that a value, or an item of a list, may be."""
    lists = [option for option in iter_alternatives(kind) if isinstance(option, mi.VarTupleType)]
    items = [section for option in lists for section in get_sections(option.item_type)]
    return get_sections(kind) + items


_HEAD = """# Configuration

`igbss-stream run CONFIG.yaml` separates live streams according to a YAML file. This page lists all keys. It
is generated from the source by `igbss-stream schema --markdown`.

```console
$ igbss-stream init eeg.yaml           # write a commented file with every key and its default
$ igbss-stream check eeg.yaml          # report mistakes and their places, or else what would run
$ igbss-stream schema > schema.json    # JSON Schema, for completion and checks in an editor
```

- A key that is left out has its default; `null` means "none". Only *required* keys must be set.
- Unknown keys, duplicate keys and values out of bounds are refused, with file, line and key.
- The files are YAML 1.2: `on` and `no` are text, `1e-6` is a number. Anchors and aliases are allowed, tags
  (`!x`) and merge keys (`<<`) are not.
- Times are in seconds. Paths are relative to the folder of the file.
- `secret_key` may be `${NAME}`, the value of that environment variable; secret keys are never displayed.
  Write public and secret keys in quotes, because they contain characters with a meaning in YAML.
- The folder `configs/` contains commented examples for several uses.
"""


def build_page() -> str:
    """Return docs/configuration.md."""
    places = _find_places()
    parts = (
        f"## {_build_title(section, places)}\n\n{get_purpose(section.cls)}\n\n"
        f"{_build_table(section, places)}\n"
        for section in _list_sections()
    )
    return "\n".join((_HEAD, *parts))


def _find_places() -> dict[type, str]:
    """Return the first key under which each section occurs."""
    places: dict[type, str] = {Config: ""}
    for section in _list_sections():
        for field in section.fields:
            suffix = "[]" if is_list(field.type) else ""
            for inner in _get_inner_sections(field.type):
                place = f"{places[section.cls]}.{field.name}{suffix}".lstrip(".")
                places.setdefault(inner.cls, place)
    return places


def _build_title(section: mi.StructType, places: dict[type, str]) -> str:
    place = places[section.cls]
    name = f"`{place}`" if place else "The file"
    return f"{name}, {section.tag_field} `{section.tag}`" if section.tag else name


def _build_table(section: mi.StructType, places: dict[type, str]) -> str:
    descriptions = get_descriptions(section.cls)
    rows = ["| key | | default | |", "|---|---|---|---|"]
    for field in section.fields:
        default = "*required*" if field.required else _format_default(field)
        value = _describe_value(field, places)
        rows.append(f"| `{field.name}` | {value} | {default} | {descriptions[field.name]} |")
    return "\n".join(rows)


def _format_default(field: mi.Field) -> str:
    return (
        "its defaults" if isinstance(field.default, msgspec.Struct) else f"`{_format_yaml(field.default)}`"
    )


def _describe_value(field: mi.Field, places: dict[type, str]) -> str:
    """Return which values a field allows, with links to sections."""
    text = re.sub("^(one of|an|a) ", "", describe_type(field.type))
    links = " or ".join(
        f"[{section.tag or 'section'}](#{_build_anchor(_build_title(section, places))})"
        for section in _get_inner_sections(field.type)
    )
    if not links:
        return text
    return f"list of {links}" if is_list(field.type) else re.sub("(a )?section", links, text, count=1)


def _build_anchor(title: str) -> str:
    """Return the anchor of a heading on GitHub."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _format_yaml(value: Any) -> str:
    """Return a value as YAML, of which JSON is a subset."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z/][\w./:-]*", value):
        return value
    return msgspec.json.encode(value).decode()


def build_template(source: str = "zmq", sink: str = "zmq") -> str:
    """Return a commented configuration in which required keys are set, and defaults are commented out.

    Parameters
    ----------
    source, sink : str
        Kind of the source and of the sink.
    """
    head = textwrap.wrap(
        "Configuration of igbss-stream run. Keys that are commented out show their defaults. Check it with "
        "`igbss-stream check`. docs/configuration.md describes the other kinds of sources and sinks.",
        _WIDTH,
    )
    lines = [f"# {line}" for line in head]
    lines += _iter_section_lines(mi.type_info(Config), {"source": source, "sinks": sink})
    return "\n".join(lines) + "\n"


def _iter_section_lines(kind: mi.Type, chosen: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a section without indentation."""
    (section,) = get_sections(kind)
    descriptions = get_descriptions(section.cls)
    if section.tag:
        yield f"{section.tag_field}: {section.tag}"
    for field in section.fields:
        yield from ("", *(f"# {line}" for line in textwrap.wrap(descriptions[field.name], _WIDTH)))
        yield from _iter_key_lines(field, chosen)


def _iter_key_lines(field: mi.Field, chosen: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a key, commented out if it is optional."""
    examples = get_annotation(field.type, "examples")
    is_plain = isinstance(field.default, str | bool | int | float)
    inner = [] if is_plain else _get_inner_sections(field.type)
    if inner:
        section = next((each for each in inner if each.tag == chosen.get(field.name)), inner[0])
        lines = [*_iter_section_lines(section, chosen)]
        lines = [f"{field.name}:", *(_as_list_item(lines) if is_list(field.type) else _indent(lines, "  "))]
        # an optional section, or an empty list by default, is commented out
        yield from (f"#{line}" for line in lines) if field.default in (None, ()) else lines
    elif examples:
        yield f"{field.name}: {_format_yaml(examples[0])}"
    else:
        yield f"#{field.name}: {_format_yaml(field.default)}"


def _indent(lines: list[str], indent: str) -> list[str]:
    return [f"{indent}{line}" if line else "" for line in lines]


def _as_list_item(lines: list[str]) -> list[str]:
    """Return the lines of a section as the only item of a list."""
    first = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    before, after = lines[:first], lines[first + 1 :]
    return [*_indent(before, "  "), f"  - {lines[first]}", *_indent(after, "    ")]
