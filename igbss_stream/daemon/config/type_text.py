"""Describe the types of values in words, for messages and for the reference."""

import typing
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union

import msgspec.inspect as mi

from igbss_stream.daemon.config.keys import Secret

_CUSTOM = {Path: "a path", Secret: "a secret key"}
_HUGE = 1e18  # larger bounds only exclude infinity
_MAX_TEXT = 32  # characters of a text that a message shows; keys are longer


def iter_alternatives(kind: mi.Type) -> Iterator[mi.Type]:
    """Yield the alternatives of a type, without annotations."""
    if isinstance(kind, mi.Metadata):
        yield from iter_alternatives(kind.type)
    elif isinstance(kind, mi.UnionType):
        for option in kind.types:
            yield from iter_alternatives(option)
    else:
        yield kind


def get_sections(kind: mi.Type) -> list[mi.StructType]:
    """Return the sections among the alternatives of a type."""
    return [option for option in iter_alternatives(kind) if isinstance(option, mi.StructType)]


def is_list(kind: mi.Type) -> bool:
    """Return whether a value may be a list."""
    return any(isinstance(option, mi.VarTupleType) for option in iter_alternatives(kind))


def get_item_hint(hint: Any) -> Any:
    """Return the annotation of the items of a list, given that of the list."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return args[0]
    inner = args[:1] if origin is Annotated else args if origin in (Union, UnionType) else ()
    return next((found for part in inner if (found := get_item_hint(part)) is not None), None)


def get_annotation(kind: mi.Type, key: str) -> Any:
    """Return the annotation of a type under a name of JSON Schema, or None."""
    extra = (kind.extra_json_schema or {}) if isinstance(kind, mi.Metadata) else {}
    return extra.get(key)


def describe_type(kind: mi.Type) -> str:
    """Return in words which values a type allows."""
    description = get_annotation(kind, "description")
    if description is not None:
        return str(description)
    if isinstance(kind, mi.Metadata):
        return describe_type(kind.type)
    if isinstance(kind, mi.UnionType):
        names = [describe_type(option) for option in kind.types if not isinstance(option, mi.NoneType)]
        names += ["null"] if any(isinstance(option, mi.NoneType) for option in kind.types) else []
        return " or ".join(dict.fromkeys(names))
    if isinstance(kind, mi.LiteralType):
        return "one of " + ", ".join(f"`{value}`" for value in kind.values)
    if isinstance(kind, mi.FloatType | mi.IntType):
        return _describe_number(kind)
    if isinstance(kind, mi.VarTupleType):
        return f"a list of at least {kind.min_length}" if kind.min_length else "a list"
    if isinstance(kind, mi.CustomType):
        return _CUSTOM[kind.cls]
    return _PLAIN[type(kind)]


_PLAIN = {
    mi.BoolType: "`true` or `false`",
    mi.StrType: "text",
    mi.NoneType: "null",
    mi.StructType: "a section",
}


def _describe_number(kind: mi.FloatType | mi.IntType) -> str:
    name = "a number" if isinstance(kind, mi.FloatType) else "a whole number"
    bounds = {"above": kind.gt, "from": kind.ge, "below": kind.lt, "up to": kind.le}
    limits = " ".join(
        f"{word} {bound:.12g}" for word, bound in bounds.items() if bound is not None and abs(bound) < _HUGE
    )
    return f"{name} {limits}".strip()


def format_value(value: Any) -> str:
    """Return a wrong value for a message: short, and without revealing a key."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return f"a text of {len(value)} characters"
    return str(value).lower() if isinstance(value, bool) else repr(value)
