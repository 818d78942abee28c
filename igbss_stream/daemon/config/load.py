"""From a YAML file to a `Config`, or to a list of all mistakes in it, each with its place."""

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

from igbss_stream.daemon.config.keys import Secret, names_variable
from igbss_stream.daemon.config.schema import Config
from igbss_stream.daemon.config.sources import FileInput
from igbss_stream.daemon.config.type_text import is_list, item_hint, options, shown, structs, wanted
from igbss_stream.daemon.config.yaml_file import KeyPath, read_yaml
from igbss_stream.errors import ConfigError, ParameterError

_RENAMED_KEYS = {
    "existing": "if_exists",
    "least": "min_correlation",
    "patience": "reorder_window",
}
_RENAMED_KINDS = {"hdf5": "file"}  # of sources; a sink of this kind keeps its name

Mistake = tuple[KeyPath, str]
"""Where, and what is wrong there; the two read as one sentence."""

_kind_of = functools.cache(mi.type_info)  # walks all that is within, and sections are within sections


def load(path: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> Config:
    """Read a configuration.

    Parameters
    ----------
    path : str or path
        A YAML file. Paths in it are relative to the folder that it is in.
    environ : mapping, optional
        Where secrets are looked up that are given as ``${NAME}``; the environment of the process when left
        out.

    Returns
    -------
    Config

    Raises
    ------
    ConfigError
        If the file cannot be read, or something in it is wrong. The message tells all that is.
    """
    document = read_yaml(Path(path))
    reader = _Reader(Path(path).parent, os.environ if environ is None else environ)
    mistakes = list(reader.mistakes(document.tree, Config, ()))
    if not mistakes:
        config: Config = reader.convert(document.tree, Config)
        mistakes = [*_unusable_models(config), *_unusable_references(config), *_unusable_rates(config)]
        if not mistakes:
            return config
    lines = [f"{document.place(keys)}: {key_path(keys)} {text}" for keys, text in mistakes]
    raise ConfigError("\n".join(lines))


def key_path(keys: KeyPath) -> str:
    """Return keys and indices as they are written in messages, such as ``streams[0].source.address``."""
    written = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return written.lstrip(".") or "the file"


def _unusable_models(config: Config) -> Iterator[Mistake]:
    for i, stream in enumerate(config.streams):
        try:
            stream.model.settings()
        except ParameterError as error:
            yield _locate(error, ("streams", i, "model"))


def _unusable_references(config: Config) -> Iterator[Mistake]:
    """Yield references that are none of the channels, where these are named."""
    for i, stream in enumerate(config.streams):
        source, reference = stream.source, stream.prepare.reference
        if isinstance(source, FileInput) or source.channels is None or reference is None:
            continue  # of a file they are known once it is open
        from igbss_stream.preparation.referencing import Reference

        try:
            Reference(reference, source.channels)
        except ParameterError as error:
            yield _locate(error, ("streams", i, "prepare"))


def _unusable_rates(config: Config) -> Iterator[Mistake]:
    """Yield what comes to no sample, or too few, at the rate that a source is said to have."""
    for i, stream in enumerate(config.streams):
        rate, keys = stream.source.rate, ("streams", i)
        if rate is None:
            continue
        from igbss_stream.chunk import Stream
        from igbss_stream.preparation.repair.stage import RepairStage

        try:
            RepairStage(Stream(stream.name, rate, ("any",)), stream.repair.settings())
        except ParameterError as error:
            yield _locate(error, (*keys, "repair"))
        try:
            stream.prepare.settings().check(rate)
        except ParameterError as error:
            yield _locate(error, (*keys, "prepare"))
            continue
        if stream.needs_samples:
            try:
                stream.learning.schedule(stream.prepare.settings().compute_rate(rate))
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
    """Finds all mistakes in plain values, where `msgspec.convert` stops at the first."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ

    def convert(self, value: Any, hint: Any) -> Any:
        """Make what the annotation says of plain values."""
        return msgspec.convert(value, hint, dec_hook=self._custom)

    def _custom(self, kind: type, value: Any) -> Any:
        if kind is Secret:
            return Secret.from_text(value, self._environ)
        if not isinstance(value, str) or not value or "\0" in value:
            raise ParameterError(f"must be a path. Got {shown(value)} instead.")
        if names_variable(value):
            raise ParameterError(f"is {shown(value)}, but ${{NAME}} is replaced in secret keys alone.")
        return Path(os.path.normpath(self._folder / os.path.expanduser(value)))

    def mistakes(self, value: Any, hint: Any, keys: KeyPath) -> Iterator[Mistake]:
        """Yield what is wrong with a value and all within."""
        kind = _kind_of(hint)
        sections = structs(kind)
        if sections and isinstance(value, dict):
            yield from self._of_section(value, sections, keys)
        elif isinstance(value, list) and is_list(kind):
            yield from self._of_list(value, hint, keys)
        else:
            yield from self._of_value(value, hint, keys)

    def _of_section(
        self, value: dict[str, Any], sections: list[mi.StructType], keys: KeyPath
    ) -> Iterator[Mistake]:
        section, mistakes = _chosen(value, sections, keys)
        if section is None:
            yield from mistakes
            return
        hints = typing.get_type_hints(section.cls, include_extras=True)
        names = [field.name for field in section.fields]
        found = [*_unknown(value, [section.tag_field, *names] if section.tag_field else names, keys)]
        for field in section.fields:
            if field.name not in value:
                found += _missing(field, keys)
                continue
            if value[field.name] is None and isinstance(field.type, mi.StructType):
                value[field.name] = {}  # all keys of the section are commented out
            found += self.mistakes(value[field.name], hints[field.name], (*keys, field.name))
        yield from found or self._of_whole(value, section.cls, keys)

    def _of_whole(self, value: Any, section: type, keys: KeyPath) -> Iterator[Mistake]:
        """Yield how values that are right by themselves do not go together."""
        try:
            self.convert(value, section)
        except msgspec.ValidationError as error:
            cause = error.__cause__
            yield _locate(cause if isinstance(cause, ParameterError) else error, keys)

    def _of_list(self, value: list[Any], hint: Any, keys: KeyPath) -> Iterator[Mistake]:
        found: list[Mistake] = []
        for i, item in enumerate(value):
            found += self.mistakes(item, item_hint(hint), (*keys, i))
        yield from found or self._of_value(value, hint, keys)

    def _of_value(self, value: Any, hint: Any, keys: KeyPath) -> Iterator[Mistake]:
        try:
            self.convert(value, hint)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, ParameterError):
                yield keys, str(error.__cause__)
            else:
                yield keys, _unfit(value, _kind_of(hint))


def _chosen(
    value: dict[str, Any], sections: list[mi.StructType], keys: KeyPath
) -> tuple[mi.StructType | None, list[Mistake]]:
    """Return the section that a mapping is meant to be, or why that cannot be told."""
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
        text = f"{shown(tag)} was renamed; write {new_tag} instead."
    else:
        text = f"must be one of {names}. Got {shown(tag)} instead{_meant(tag, tags)}"
    return None, [((*keys, tag_field), text)]


def _unknown(value: dict[str, Any], names: list[str], keys: KeyPath) -> Iterator[Mistake]:
    for key in value:
        if key in names:
            continue
        new_key = _RENAMED_KEYS.get(key)
        if new_key in names:
            yield (*keys, key), f"was renamed; write {new_key} instead."
        else:
            yield (*keys, key), f"is not a key here{_meant(key, names)}"


def _missing(field: mi.Field, keys: KeyPath) -> Iterator[Mistake]:
    if field.required:
        kinds = " or ".join(f"`{section.tag}`" for section in structs(field.type) if section.tag)
        what = f"a section with kind {kinds}" if kinds else wanted(field.type)
        yield (*keys, field.name), f"is missing; it is {what}."


def _unfit(value: Any, kind: mi.Type) -> str:
    choices = [o for option in options(kind) if isinstance(option, mi.LiteralType) for o in option.values]
    takes_text = any(isinstance(option, mi.StrType) for option in options(kind))
    remedy = _meant(value, choices)
    if isinstance(value, bool | int | float) and takes_text:
        remedy = "; write it in quotes."
    elif names_variable(value):
        remedy = "; ${NAME} is replaced in secret keys alone."
    return f"must be {wanted(kind)}. Got {shown(value)} instead{remedy}"


def _meant(given: Any, choices: typing.Iterable[Any]) -> str:
    """Return what a misspelt word was probably meant to be, as the end of a sentence."""
    words = [str(choice) for choice in choices]
    close = difflib.get_close_matches(given.lower(), words, 1) if isinstance(given, str) else []
    return f"; did you mean {close[0]}?" if close else "."
