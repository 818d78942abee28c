"""Build a `Config` from a YAML file, or report every mistake in it with its place."""

import difflib
import functools
import os
import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import msgspec.inspect as mi

from igbss_stream.daemon.config.keys import Secret, contains_variable
from igbss_stream.daemon.config.schema import Config
from igbss_stream.daemon.config.sources import FileInput
from igbss_stream.daemon.config.type_text import (
    describe_type,
    format_value,
    get_item_hint,
    get_sections,
    is_list,
    iter_alternatives,
)
from igbss_stream.daemon.config.yaml_file import KeyPath, read_yaml
from igbss_stream.errors import ConfigError, ParameterError

_RENAMED_KEYS = {
    "existing": "if_exists",
    "least": "min_correlation",
    "patience": "reorder_window",
}
_RENAMED_KINDS = {"hdf5": "file"}  # of sources; a sink of this kind keeps its name

Mistake = tuple[KeyPath, str]
"""Keys of a value, and what is wrong with it; together they read as one sentence."""

_inspect_type = functools.cache(mi.type_info)  # inspects nested sections as well, which takes time


def load(path: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> Config:
    """Read a configuration.

    Parameters
    ----------
    path : str or path
        A YAML file. Paths in it are relative to its folder.
    environ : mapping, optional
        Environment in which secrets given as ``${NAME}`` are looked up. By default that of the process.

    Returns
    -------
    Config

    Raises
    ------
    ConfigError
        If the file cannot be read or has mistakes. The message lists all of them.
    """
    document = read_yaml(Path(path))
    reader = _Reader(Path(path).parent, os.environ if environ is None else environ)
    mistakes = list(reader.find_mistakes(document.tree, Config, ()))
    if not mistakes:
        config: Config = reader.convert(document.tree, Config)
        mistakes = [*_check_models(config), *_check_references(config), *_check_rates(config)]
        if not mistakes:
            return config
    lines = [f"{document.locate(keys)}: {format_keys(keys)} {text}" for keys, text in mistakes]
    raise ConfigError(*lines)


def format_keys(keys: KeyPath) -> str:
    """Return keys and indices in the form of messages, such as ``streams[0].source.address``."""
    written = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return written.lstrip(".") or "the file"


def _check_models(config: Config) -> Iterator[Mistake]:
    """Yield settings of models that the library refuses."""
    for i, stream in enumerate(config.streams):
        try:
            stream.model.as_settings()
        except ParameterError as error:
            yield _locate(error, ("streams", i, "model"))


def _check_references(config: Config) -> Iterator[Mistake]:
    """Yield references that are not among the channels, where the channels are named."""
    for i, stream in enumerate(config.streams):
        source, reference = stream.source, stream.prepare.reference
        if isinstance(source, FileInput) or source.channels is None or reference is None:
            continue  # the channels of a file are known only once it is open
        from igbss_stream.preparation.referencing import Reference

        try:
            Reference(reference, source.channels)
        except ParameterError as error:
            yield _locate(error, ("streams", i, "prepare"))


def _check_rates(config: Config) -> Iterator[Mistake]:
    """Yield frequencies and times that the rate of the source rules out, where a rate is given."""
    for i, stream in enumerate(config.streams):
        rate, keys = stream.source.rate, ("streams", i)
        if rate is None:
            continue
        from igbss_stream.chunk import Stream
        from igbss_stream.preparation.repair.stage import RepairStage

        try:
            RepairStage(Stream(stream.name, rate, ("any",)), stream.repair.as_settings())
        except ParameterError as error:
            yield _locate(error, (*keys, "repair"))
        preparation = stream.prepare.as_settings()
        try:
            preparation.check(rate)
        except ParameterError as error:
            yield _locate(error, (*keys, "prepare"))
            continue
        if stream.is_model_learned:
            try:
                stream.learning.as_schedule(preparation.compute_rate(rate))
            except ParameterError as error:
                yield _locate(error, (*keys, "learning"))


def _locate(error: Exception, keys: KeyPath) -> Mistake:
    """Return the key that an error is about, within a section, and the message without its name."""
    parameter = error.parameter if isinstance(error, ParameterError) else None
    if parameter is None:
        return keys, str(error)
    parts = (int(part) if part.isdigit() else part for part in re.findall(r"\w+", parameter))
    return (*keys, *parts), str(error).removeprefix(f"{parameter} ")


class _Reader:
    """Convert plain values to sections, and find all mistakes; `msgspec.convert` stops at the first."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ

    def convert(self, value: Any, hint: Any) -> Any:
        """Convert plain values to an annotated type."""
        return msgspec.convert(value, hint, dec_hook=self._convert_custom)

    def _convert_custom(self, kind: type, value: Any) -> Any:
        if kind is Secret:
            return Secret.from_text(value, self._environ)
        if not isinstance(value, str) or not value or "\0" in value:
            raise ParameterError(f"must be a path. Got {format_value(value)} instead.")
        if contains_variable(value):
            raise ParameterError(
                f"is {format_value(value)}, but ${{NAME}} is replaced in secret keys only; write the path."
            )
        return Path(os.path.normpath(self._folder / os.path.expanduser(value)))

    def find_mistakes(self, value: Any, hint: Any, keys: KeyPath) -> Iterator[Mistake]:
        """Yield the mistakes in a value and in all values within it."""
        kind = _inspect_type(hint)
        sections = get_sections(kind)
        if sections and isinstance(value, dict):
            yield from self._check_section(value, sections, keys)
        elif isinstance(value, list) and is_list(kind):
            yield from self._check_list(value, hint, keys)
        else:
            yield from self._check_value(value, hint, keys)

    def _check_section(
        self, value: dict[str, Any], sections: list[mi.StructType], keys: KeyPath
    ) -> Iterator[Mistake]:
        section, mistakes = _choose_section(value, sections, keys)
        if section is None:
            yield from mistakes
            return
        hints = typing.get_type_hints(section.cls, include_extras=True)
        names = [field.name for field in section.fields]
        found = [*_check_keys(value, [section.tag_field, *names] if section.tag_field else names, keys)]
        for field in section.fields:
            if field.name not in value:
                found += _check_missing(field, keys)
                continue
            if value[field.name] is None and isinstance(field.type, mi.StructType):
                value[field.name] = {}  # all keys of the section are commented out
            found += self.find_mistakes(value[field.name], hints[field.name], (*keys, field.name))
        yield from found or self._check_fields_together(value, section.cls, keys)

    def _check_fields_together(self, value: Any, section: type, keys: KeyPath) -> Iterator[Mistake]:
        """Yield contradictions between fields that are valid by themselves."""
        try:
            self.convert(value, section)
        except msgspec.ValidationError as error:
            cause = error.__cause__
            yield _locate(cause if isinstance(cause, ParameterError) else error, keys)

    def _check_list(self, value: list[Any], hint: Any, keys: KeyPath) -> Iterator[Mistake]:
        found: list[Mistake] = []
        for i, item in enumerate(value):
            found += self.find_mistakes(item, get_item_hint(hint), (*keys, i))
        yield from found or self._check_value(value, hint, keys)

    def _check_value(self, value: Any, hint: Any, keys: KeyPath) -> Iterator[Mistake]:
        try:
            self.convert(value, hint)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, ParameterError):
                yield keys, str(error.__cause__)
            else:
                yield keys, _describe_misfit(value, _inspect_type(hint))


def _choose_section(
    value: dict[str, Any], sections: list[mi.StructType], keys: KeyPath
) -> tuple[mi.StructType | None, list[Mistake]]:
    """Return the section that a mapping represents, or why it cannot be determined."""
    tag_field = sections[0].tag_field
    if tag_field is None or (len(sections) == 1 and tag_field not in value):
        return sections[0], []
    tags = {section.tag: section for section in sections}
    names = ", ".join(f"`{tag}`" for tag in tags)
    if tag_field not in value:
        return None, [(keys, f"needs the key {tag_field}, which is one of {names}.")]
    tag = value[tag_field]
    if isinstance(tag, str) and tag in tags:
        return tags[tag], []
    new_tag = _RENAMED_KINDS.get(tag) if isinstance(tag, str) else None
    if new_tag in tags:
        text = f"{format_value(tag)} was renamed; write {new_tag} instead."
    else:
        text = f"must be one of {names}. Got {format_value(tag)} instead{_suggest(tag, tags)}"
    return None, [((*keys, tag_field), text)]


def _check_keys(value: dict[str, Any], names: list[str], keys: KeyPath) -> Iterator[Mistake]:
    """Yield keys that a section does not have."""
    for key in value:
        if key in names:
            continue
        new_key = _RENAMED_KEYS.get(key)
        if new_key in names:
            yield (*keys, key), f"was renamed; write {new_key} instead."
        else:
            yield (*keys, key), f"is not a key here{_suggest(key, names)}"


def _check_missing(field: mi.Field, keys: KeyPath) -> Iterator[Mistake]:
    if field.required:
        kinds = " or ".join(f"`{section.tag}`" for section in get_sections(field.type) if section.tag)
        what = f"a section with kind {kinds}" if kinds else describe_type(field.type)
        yield (*keys, field.name), f"is missing; it must be {what}."


def _describe_misfit(value: Any, kind: mi.Type) -> str:
    """Return which values a type allows and what was given, with a hint where there is one."""
    alternatives = list(iter_alternatives(kind))
    literals = [option for option in alternatives if isinstance(option, mi.LiteralType)]
    choices = [choice for literal in literals for choice in literal.values]
    hint = _suggest(value, choices)
    if isinstance(value, bool | int | float) and any(isinstance(o, mi.StrType) for o in alternatives):
        hint = "; write it in quotes."
    elif contains_variable(value):
        hint = "; ${NAME} is replaced in secret keys only."
    return f"must be {describe_type(kind)}. Got {format_value(value)} instead{hint}"


def _suggest(given: Any, choices: typing.Iterable[Any]) -> str:
    """Return the end of a sentence that suggests the correct spelling of a word, if one is similar."""
    words = [str(choice) for choice in choices]
    close = difflib.get_close_matches(given.lower(), words, 1) if isinstance(given, str) else []
    return f"; did you mean {close[0]}?" if close else "."
